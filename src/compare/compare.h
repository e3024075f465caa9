/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs, or groups of repeated runs, against the first of them. Pure, any thread.
 *
 * What is compared
 *   runs   where both groups have COMPARE_RUNS_MIN runs or more: each run is one figure, and what
 *          differs from run to run is in the interval
 *   steps  else: the steps of the runs of a group one after the other, with their autocorrelation
 *          (compare_stats.h). Differences from run to run are not known then.
 *   whole  runs without steps: each is one figure, of which a single one has no interval. The calls of
 *          a kernel are many, so that the time of one call has a test.
 *
 * A difference is called better or worse when its 95% interval leaves out 0, p is at most 0.05 and it
 * is more than COMPARE_RESOLUTION_PCT; else it is noise. Where one figure has many rows (layers,
 * kernels, operations) p is that of Benjamini and Hochberg over them.
 */
#ifndef COMPARE_COMPARE_H
#define COMPARE_COMPARE_H

#include "compare/digest.h"

#define COMPARE_RESOLUTION_PCT 0.5
#define COMPARE_FEW "fewer than 5 figures on a side"
#define COMPARE_WHOLE_UNTESTED "a run has one value; three runs of each side make a test"

/* Repeated runs of one configuration. */
struct compare_group {
	const char *name;
	struct run_digest *runs;
	size_t n;
};

enum compare_verdict {
	COMPARE_SAME, /* no difference, and nothing varies */
	COMPARE_NOISE,
	COMPARE_BETTER,
	COMPARE_WORSE,
	COMPARE_UNTESTED, /* the figures are there, and too few for a test */
	COMPARE_ABSENT,	  /* one side has no figure */
};

/* b against a. */
struct difference {
	struct value a, b, diff, pct;	   /* diff: b - a; pct: of a */
	struct value low, high;		   /* 95% interval of diff */
	struct value low_pct, high_pct;	   /* of pct */
	struct value b_low, b_high;	   /* of b */
	struct value p, p_adjusted;	   /* adjusted: among the rows of the same figure */
	struct value visible, visible_pct; /* the smallest difference that would have been seen */
	bool by_runs;
	size_t n_a, n_b; /* runs or steps */
	enum compare_verdict verdict;
};

struct compare_figure {
	enum compare_metric_id metric;
	const char *of; /* lives in a digest */
	struct difference d;
};

struct compare_row {
	const char *name, *short_name; /* live in a digest */
	bool is_op, is_new, is_gone;
	struct value count_a, count_b; /* a step */
	struct difference d;	       /* of the time a step, or of the whole run */
	struct difference call;	       /* of the mean time of one of them, over all of them */
	/* diff over the difference of the mean step time; of whole runs of their kernel time */
	struct value explains_pct;
};

struct compare_rows {
	struct compare_row *rows; /* by size of the difference, largest first */
	size_t n;
	const char *reason; /* why there are none; NULL: compared */
};

struct compare_pair {
	const struct compare_group *base, *other;
	struct compare_figure *figures; /* in the order of the metrics */
	size_t n;
	bool whole; /* runs without steps: each is one figure */
	struct compare_rows tables[COMPARE_TABLES];
};

/* Something that is not the same in all groups. values: one a group; all owned. */
struct compare_fact {
	const char *key;
	bool doubtful;
	char **values;
};

struct comparison {
	const struct compare_group *groups; /* the caller's */
	size_t n_groups;
	struct compare_pair *pairs; /* n_groups - 1 */
	struct compare_fact *facts;
	size_t n_facts;
};

/* A run without steps can only be compared as a whole, and so must the others: those that were taken by their
 * steps are taken again. take: run i of group g as a whole, 0 or what ends this. */
int compare_level(struct compare_group *groups, size_t n,
		  int (*take)(void *context, size_t g, size_t i, struct run_digest *ret_whole),
		  void *context);

/* At least two groups of at least one run, all of them whole or none; they must outlive the
 * comparison. */
int compare_groups(const struct compare_group *groups, size_t n, struct comparison *ret_comparison);
void comparison_release(struct comparison *comparison);

/* "same" "noise" "better" "worse" "untested" "absent" */
const char *compare_verdict_name(enum compare_verdict verdict);

/* Used by compare_rows.c and compare_facts.c, which fill their part. */
int compare_fill_rows(struct compare_pair *pair);
int compare_fill_facts(struct comparison *comparison);
void difference_of_contrast(struct difference *d, const struct contrast *contrast);
/* Without a test; reason: why not. */
void difference_untested(struct difference *d, double a, double b, const char *reason);
struct difference difference_absent(const char *reason);
/* Adjusts p over all of them and gives each its verdict. */
int differences_judge(struct difference **differences, size_t n, bool higher_is_better);

#endif
