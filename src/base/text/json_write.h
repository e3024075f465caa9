/* SPDX-License-Identifier: Apache-2.0
 *
 * A streaming JSON writer, to a FILE or into memory. The output is valid JSON whatever the
 * strings hold: broken UTF-8 becomes U+FFFD, NaN and infinities become null. Failures (disk full,
 * no memory) stick and come out of json_finish, so callers check once. One thread at a time.
 */
#ifndef BASE_JSON_WRITE_H
#define BASE_JSON_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define JSON_DEPTH_MAX 64
#define JSON_PENDING 4096

struct json {
	FILE *file; /* NULL: into buffer */
	char *buffer;
	size_t length, capacity;
	int indent; /* spaces per level; 0: no white space at all */
	unsigned int depth;
	unsigned int compact; /* depth at which one-line output began; 0: not */
	uint64_t filled;      /* bit d: the container at depth d has an element */
	bool after_key;
	int failed; /* first -errno, sticky */
	/* To a file: bytes not given to it yet, so that small pieces cost no call each. */
	size_t n_pending;
	char pending[JSON_PENDING];
};

void json_init_file(struct json *json, FILE *file, int indent);
void json_init_buffer(struct json *json, int indent);

/* Containers. The _line ones put everything inside on one line even with indentation. */
void json_object(struct json *json);
void json_object_line(struct json *json);
void json_object_end(struct json *json);
void json_array(struct json *json);
void json_array_line(struct json *json);
void json_array_end(struct json *json);

/* A key; the value or container that follows belongs to it. */
void json_key(struct json *json, const char *key);

void json_string(struct json *json, const char *text); /* NULL: null */
void json_string_n(struct json *json, const char *text, size_t length);
void json_int(struct json *json, int64_t value);
void json_uint(struct json *json, uint64_t value);
void json_double(struct json *json, double value); /* shortest text that reads back the same */
void json_bool(struct json *json, bool value);
void json_null(struct json *json);
/* Text that is a JSON value already, such as a number printed by the caller. */
void json_raw(struct json *json, const char *text);

/* Ends the document with a newline (when indenting), flushes, and returns 0 or the first failure.
 * For buffers, ret_text (may be NULL) takes the NUL-terminated text, which the caller frees;
 * on failure the buffer is freed. */
int json_finish(struct json *json, char **ret_text);

/* The shortest decimal text that strtod reads back as `value`, which must be finite. */
void json_format_double(char *out, size_t size, double value);
/* value / 10^places with all its digits, at most 18 places; in `room`, not at its begin. */
#define JSON_DECIMAL_SIZE 24
const char *json_format_decimal(char room[JSON_DECIMAL_SIZE], int64_t value, unsigned int places);

#endif
