/* SPDX-License-Identifier: Apache-2.0
 *
 * What a comparison keeps of a run: each figure step by step, kernels and operations by name, and
 * the facts that say whether runs can be compared at all. The run itself can be freed. Pure, any
 * thread.
 *
 * A step is one figure whatever the number of ranks: times, counts and bytes are the mean over the
 * ranks, tokens their sum. Left out are steps that not every rank has finished and, when no steps
 * were chosen, the first ones as warm-up (steps.h). Figures from device records are those of steps
 * that were recorded and covered wholly (coverage.h) on every rank.
 *
 * Whole: a run without steps is taken as one figure, everything that was recorded, per rank. That is
 * for runs of which one at least has no steps; a step and a run cannot be compared.
 */
#ifndef COMPARE_DIGEST_H
#define COMPARE_DIGEST_H

#include "compare/compare_metrics.h"
#include "compare/compare_stats.h"
#include "subjects/numbers/value.h"
#include "subjects/shared/selection.h"

#define DIGEST_OF 40

struct digest_figure {
	enum compare_metric_id metric;
	char of[DIGEST_OF]; /* "forward", "gpu 0", "layer 3 decode"; "": the run */
	int order;	    /* among those of the metric */
	double *x;	    /* step after step */
	size_t n;
	struct value value; /* the run's statistic of them */
};

/* What the rows of a comparison are by. */
enum compare_table {
	COMPARE_KERNELS,     /* by name */
	COMPARE_CLASSES,     /* kernels by class */
	COMPARE_RANGES,	     /* kernels by the ranges around their launch */
	COMPARE_COLLECTIVES, /* by the name of the collective, or of the kernel where no record is */
	COMPARE_HOST,	     /* self time of operations and ranges by name */
	COMPARE_TABLES
};

/* A kernel, an operation or the like, by name: time a step. */
struct digest_row {
	char *name, *short_name;
	bool is_op; /* of a host row: an operation and not a range */
	struct moments time;
	double count;	     /* a step */
	struct moments call; /* the time of one, over all of them; n 0: not kept */
};

struct digest_rows {
	struct digest_row *rows; /* by name, then operations before ranges */
	size_t n;
	size_t steps;	    /* that the means are over */
	const char *reason; /* why there are none; NULL: they are known */
};

struct digest_fact {
	char *key, *value;
	bool doubtful; /* a difference here makes the figures themselves differ: level, budget … */
};

struct run_digest {
	char *name, *path;
	struct digest_figure *figures; /* by metric, then order */
	size_t n;
	const char *missing[COMPARE_METRICS]; /* why a metric has no figures; NULL: it has some */
	struct digest_rows tables[COMPARE_TABLES];
	struct digest_fact *facts; /* in the order to show */
	size_t n_facts;
	bool whole;			  /* the run as one figure, as if it were one step */
	bool has_steps;			  /* that could have been used */
	size_t steps, warmup, unfinished; /* used; left out */
	size_t partial;			  /* left out: not on every rank */
	size_t covered;			  /* of the used ones, by device records */
	bool sampled;
	uint64_t lost;
};

/* The records that a digest is made of, for struct run_want. */
#define DIGEST_KINDS                                                                               \
	(WANT(STEP) | WANT(RANGE) | WANT(OP) | WANT(KERNEL) | WANT(COPY) | WANT(SET) | WANT(API) | \
	 WANT(SYNC) | WANT(GRAPH_NODE) | WANT(GEAR) | WANT(ROUTING) | WANT(MOE_LAYER) |            \
	 WANT(MEMORY) | WANT(DEVICE_MEMORY) | WANT(SAMPLE) | WANT(POOL) | WANT(TOKEN) |            \
	 WANT(FACT) | WANT(DEVICE) | WANT(COUNTER) | WANT(COLLECTIVE))

/* By steps where the run has some that can be used, else whole. */
int digest_take(const struct run *run, const struct selection *sel, struct run_digest *ret_digest);
/* Whole in any case. */
int digest_take_whole(const struct run *run, struct run_digest *ret_digest);
void digest_release(struct run_digest *digest);

#endif
