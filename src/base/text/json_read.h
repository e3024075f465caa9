/* SPDX-License-Identifier: Apache-2.0
 *
 * A small JSON reader for small documents (run.json): strict, whole text in memory, a tree out.
 * Untrusted input. Not for traces.
 */
#ifndef BASE_JSON_READ_H
#define BASE_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum json_type {
	JSON_NULL,
	JSON_FALSE,
	JSON_TRUE,
	JSON_NUMBER,
	JSON_STRING,
	JSON_ARRAY,
	JSON_OBJECT
};

struct json_node {
	enum json_type type;
	char *text;		 /* of a string (UTF-8, NUL-terminated) or a number as written */
	char *key;		 /* inside an object */
	struct json_node *next;	 /* sibling */
	struct json_node *child; /* first element */
};

/* The message names the byte offset. `what` names the document in it. */
int json_parse(const char *what, const char *text, size_t length, struct json_node **ret_root,
	       struct err *err);
void json_node_free(struct json_node *node);

/* NULL for anything that is not there or not an object. */
const struct json_node *json_get(const struct json_node *node, const char *key);
/* The value of that key, or `otherwise` when absent, of another type or out of range. */
const char *json_get_string(const struct json_node *node, const char *key, const char *otherwise);
int64_t json_get_int(const struct json_node *node, const char *key, int64_t otherwise);

#endif
