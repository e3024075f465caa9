/* SPDX-License-Identifier: Apache-2.0
 *
 * Conditions on a comparison, for CI: "step_time > 5%", "idle_time[host] > 10%", "step_time > 12ms",
 * "gpu_busy_pct < 50". Pure, any thread.
 *
 * With % it is the difference to the baseline, counted so that worse is positive whatever the metric;
 * else it is the value itself, with its unit. The near edge of the 95% interval is what is compared,
 * so that noise never holds a condition; a figure of which a run has only one (memory) has no interval
 * and is compared as it is. Without [NAME] a condition holds when it does for any row of the metric.
 */
#ifndef COMPARE_COMPARE_CONDITIONS_H
#define COMPARE_COMPARE_CONDITIONS_H

#include "base/err.h"
#include "compare/compare.h"

enum condition_op { CONDITION_GT, CONDITION_GE, CONDITION_LT, CONDITION_LE };

struct condition {
	const char *text; /* as given; the caller's */
	enum compare_metric_id metric;
	char of[DIGEST_OF]; /* "": any */
	enum condition_op op;
	double value;
	bool relative; /* percent of the baseline, worse is positive */
};

enum condition_result {
	CONDITION_HOLDS,
	CONDITION_NOT,
	CONDITION_UNKNOWN, /* cannot be said; see reason */
};

struct judgement {
	enum condition_result result;
	const struct compare_figure
		*figure;	/* that holds it, or could not be judged; may be NULL */
	struct value near_edge; /* what was compared */
	const char *reason;
};

/* -EINVAL with one sentence; an unknown metric's lists the metrics. */
int condition_parse(const char *text, struct condition *ret_condition, struct err *err);
struct judgement condition_judge(const struct condition *condition,
				 const struct compare_pair *pair);

#endif
