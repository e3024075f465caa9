/* SPDX-License-Identifier: Apache-2.0
 *
 * What was measured of each request: when it was due, sent and answered, piece by piece. Every
 * engine fills this, and every figure comes from it (serving.h). Times are nanoseconds of one
 * monotonic clock; a time that never came is -1.
 *
 * As a file (requests.jsonl, one object a line; a driver in another process writes it) the first
 * line is {"schema": "moescope/requests/1", ...}; docs/experiments.md has the keys.
 */
#ifndef LAB_REQUESTS_H
#define LAB_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum request_end {
	REQUEST_OK,
	REQUEST_FAILED,
	REQUEST_CANCELLED,
	REQUEST_TIMEOUT,
	REQUEST_UNFINISHED
};

struct request {
	int64_t due_ns;	 /* by the arrival process; -1: when a place was free */
	int64_t sent_ns; /* before the connection is made, or the first byte written on a kept one */
	int64_t end_ns;	 /* the last byte, or the failure */
	enum request_end end;
	bool warmup;
	bool server_counts;    /* the token counts are the server's own (usage) */
	int64_t prompt_tokens; /* -1: not known */
	int64_t output_tokens; /* -1: not known; then each piece counts as one */
	size_t first_piece;    /* in pieces_ns */
	size_t pieces; /* pieces with text, in order of arrival; the first is the first token */
	/* Chunks of the answer that had a choice and no text, as the one with the role and the one
	 * with the reason of the end. vLLM's dialect counts them, the others do not. */
	size_t first_empty; /* in empties_ns */
	size_t empties;
	char *error; /* one sentence; NULL: none */
};

struct requests {
	struct request *v;
	size_t n, capacity;
	int64_t *pieces_ns;
	size_t n_pieces, pieces_capacity;
	int64_t *empties_ns;
	size_t n_empties, empties_capacity;
	int64_t start_ns, end_ns; /* of the measured part: warm-up excluded */
	int64_t load_ns;	  /* the model was loaded in; -1: not known */
	bool over_saturated;	  /* stopped for that */
	bool cut_off;		  /* the file ended within a line, which was dropped */
	char *text;		  /* generated, of the first requests; NULL: none */
};

void requests_release(struct requests *requests);
struct request *requests_add(struct requests *requests); /* NULL: no memory */
/* Appends to the last request added. 0 or -ENOMEM. Clients with many streams at once collect
 * pieces themselves and add requests when they end. */
int requests_piece(struct requests *requests, int64_t at_ns);
int requests_empty(struct requests *requests, int64_t at_ns);
/* Those of one request; NULL when it has none. */
const int64_t *request_pieces(const struct requests *requests, const struct request *request);
const int64_t *request_empties(const struct requests *requests, const struct request *request);

/* The file is untrusted: an error names the line. What a killed driver left of its last line is
 * dropped (cut_off). A start or end that the file does not have is that of the requests. */
int requests_read(const char *path, struct requests *ret_requests, struct err *err);
int requests_write(const struct requests *requests, const char *path, struct err *err);

#endif
