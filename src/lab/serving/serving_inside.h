/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of serving.h share: the rules of a dialect, and its view of a request.
 */
#ifndef LAB_SERVING_INSIDE_H
#define LAB_SERVING_INSIDE_H

#include "lab/serving/serving.h"

/* How a value follows from one request. */
enum value {
	VALUE_NONE,
	VALUE_FIRST,	   /* first chunk - sent */
	VALUE_LAST,	   /* last chunk - sent */
	VALUE_END,	   /* end - sent */
	VALUE_AFTER_FIRST, /* (last chunk - first chunk) / (tokens - 1) */
	VALUE_PER_TOKEN,   /* (last chunk - sent) / tokens */
	VALUE_GAPS,	   /* every gap between chunks: many values per request */
};

/* The weight of a value. */
enum weight { WEIGHT_ONE, WEIGHT_TOKENS, WEIGHT_TOKENS_BUT_ONE };

struct figure {
	enum value value;
	enum weight weight;
	const char *formula;
};

struct rules {
	const char *owner;
	bool empty_chunks; /* chunks without text count */
	bool zero_tokens;  /* the server's 0 means unknown */
	bool steps;	   /* percentiles are values that occurred, by weight; else interpolated */
	bool all_requests; /* rates cover all requests in the window; else only successful ones */
	bool spans_chunks; /* the duration is from the first request to the last chunk */
	bool peak_by_second;		/* of the requests in flight */
	int64_t merge_ns;		/* events this close are one moment */
	enum serving_metric tpot_limit; /* what a limit on tpot is compared with */
	bool absent_is_zero;		/* in goodput: one token has a tpot of 0 */
	struct figure metrics[SERVING_METRICS];
	const char *rates[SERVING_RATES]; /* formulas; NULL: the dialect has no such figure */
};

/* A request as a dialect sees it. */
struct view {
	const struct request *request;
	bool ok;
	bool streamed;	       /* first_ns is known */
	const int64_t *chunks; /* times, ascending */
	size_t n_chunks;
	int64_t first_ns, last_ns;
	int64_t tokens; /* of the output; -1: unknown */
};

/* Room for the chunks of one view. */
struct chunk_room {
	int64_t *v;
	size_t capacity;
};

/* 0 or -ENOMEM. The view is valid until the room is reused. */
int view_request(const struct requests *requests, const struct request *request,
		 const struct rules *rules, struct chunk_room *room, struct view *ret_view);
bool view_is_good(const struct view *view, const struct rules *rules,
		  const struct goodput_limit *limit, bool *ret_judged);

/* Fills the rates; the counts and tokens are already there. limit: NULL or all 0 for none. */
int serving_compute_rates(const struct requests *requests, const struct rules *rules,
			  const struct goodput_limit *limit, struct serving *serving);

#endif
