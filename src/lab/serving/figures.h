/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast a point was: time and tokens over its repeats. Warm-up and model loading do not count.
 * Pure.
 */
#ifndef LAB_FIGURES_H
#define LAB_FIGURES_H

#include "lab/serving/requests.h"
#include "lab/shared/experiment.h"

struct repeat_figures {
	double time_s;	/* from the first request sent to the last answer */
	int64_t tokens; /* generated, or trained on; -1: unknown */
	size_t requests, ok;
};

struct figures {
	struct repeat_figures all;	      /* time_s is the sum over the repeats */
	int64_t prompt_tokens, output_tokens; /* -1: unknown */
	struct repeat_figures *repeats;	      /* NULL: the requests do not divide into them */
	size_t n;
	double time_s, tokens_per_s; /* of one repeat on average, and overall; NaN: unknown */
	const char *reason;	     /* why not */
};

/* 0 or -ENOMEM. */
int figures_compute(const struct experiment *experiment, const struct requests *requests,
		    struct figures *ret_figures);
void figures_release(struct figures *figures);
/* The requests of one repeat; free() its `v`, the rest belongs to `requests`. 0 or -ENOMEM. */
int figures_requests(const struct figures *figures, const struct requests *requests, size_t repeat,
		     struct requests *ret_requests);

#endif
