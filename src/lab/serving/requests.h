/* SPDX-License-Identifier: Apache-2.0
 *
 * The measurements of each request: when it was due, sent and answered, piece by piece. Every
 * engine fills this, and every figure comes from it (serving.h). Times are nanoseconds of one
 * monotonic clock; a time that never came is -1.
 *
 * In the file (requests.jsonl, one object per line, written by a driver in another process) the
 * first line is {"schema": "moescope/requests/1", ...}; docs/experiments.md lists the keys.
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
	int64_t due_ns;	 /* by the arrival process; -1: when a slot was free */
	int64_t sent_ns; /* before connecting, or before the first byte on a kept connection */
	int64_t end_ns;	 /* the last byte, or the failure */
	enum request_end end;
	bool warmup;
	bool server_counts;    /* the token counts are the server's own (usage) */
	int64_t prompt_tokens; /* -1: unknown */
	int64_t output_tokens; /* -1: unknown; then each piece counts as one */
	size_t first_piece;    /* in pieces_ns */
	size_t pieces; /* pieces with text, in order of arrival; the first is the first token */
	/* Chunks of the answer with a choice but no text, such as those with the role and the
	 * finish reason. vLLM's dialect counts them, the others do not. */
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
	int64_t start_ns, end_ns; /* of the measured part: without warm-up */
	int64_t load_ns;	  /* time to load the model; -1: unknown */
	bool over_saturated;	  /* stopped because of that */
	bool cut_off;		  /* the file ended within a line, which was dropped */
	char *text;		  /* generated, of the first requests; NULL: none */
};

void requests_release(struct requests *requests);
struct request *requests_add(struct requests *requests); /* NULL: no memory */
/* Appends to the last request added. 0 or -ENOMEM. Clients with many concurrent streams collect
 * pieces themselves and add requests when they end. */
int requests_piece(struct requests *requests, int64_t at_ns);
int requests_empty(struct requests *requests, int64_t at_ns);
/* Those of one request; NULL if it has none. */
const int64_t *request_pieces(const struct requests *requests, const struct request *request);
const int64_t *request_empties(const struct requests *requests, const struct request *request);

/* The file is untrusted: an error names the line. A last line cut by a kill is dropped (cut_off). A
 * missing start or end is that of the requests. */
int requests_read(const char *path, struct requests *ret_requests, struct err *err);
int requests_write(const struct requests *requests, const char *path, struct err *err);

#endif
