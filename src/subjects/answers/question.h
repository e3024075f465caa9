/* SPDX-License-Identifier: Apache-2.0
 *
 * What is asked of a run. A subject takes from it what concerns it; asked twice with different
 * questions it answers twice.
 */
#ifndef SUBJECTS_QUESTION_H
#define SUBJECTS_QUESTION_H

#include "base/text/format.h"
#include "subjects/shared/selection.h"

#define QUESTION_FACTORS_MAX 8

struct kernel_classes;
struct peaks_file;

struct question {
	struct selection sel;
	bool by_shape, by_stack; /* operations; by_shape: calls, by_stack: sampled stacks, too */
	bool by_thread, by_wait; /* sampled stacks */
	bool by_step;		 /* hardware counters */
	bool by_function;	 /* host memory */
	const char *range; /* sampled stacks, host memory: in ranges of this name; NULL: anywhere */
	double capacity_factors[QUESTION_FACTORS_MAX]; /* routing, what-ifs */
	unsigned int n_capacity_factors;	       /* 0: 1.25 alone */
	unsigned int tile_rows;			       /* 0: 64 */
	bool routed_tokens;			       /* routing: what single tokens did */
	bool router_time;			       /* routing: time of routers, by step */
	struct given_moment at;			       /* memory: since the start of the run */
	int kernels_by;				       /* enum kernels_by */
	bool no_launches;		      /* launches: leave them absent, they are dear */
	const char *classes_file;	      /* more classes of kernels; who asks reads it into: */
	const struct kernel_classes *classes; /* NULL: the built-in ones */
	const struct peaks_file *peaks;	      /* NULL: none were measured */
};

/* All of a run, as subjects show it by themselves. */
#define QUESTION_ALL                                                                               \
	{                                                                                          \
		.sel = { INT64_MIN, INT64_MAX, -1, -1 }                                            \
	}

#endif
