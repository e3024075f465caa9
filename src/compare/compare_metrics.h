/* SPDX-License-Identifier: Apache-2.0
 *
 * The figures that runs are compared by: one table for the digest of a run, the comparison, its
 * output and the conditions of --fail-if.
 */
#ifndef COMPARE_COMPARE_METRICS_H
#define COMPARE_COMPARE_METRICS_H

#include <stdbool.h>
#include <stddef.h>

enum figure_unit { FIGURE_NS, FIGURE_COUNT, FIGURE_BYTES, FIGURE_PCT, FIGURE_RATIO, FIGURE_RATE };

/* What a run shows of the figures of its steps (or requests). ONE: it has only one. */
enum figure_statistic { FIGURE_MEDIAN, FIGURE_MEAN, FIGURE_ONE };

enum compare_metric_id {
	COMPARE_RUN_TIME, /* without steps; with them the next ones */
	COMPARE_STEP_TIME,
	COMPARE_STEP_TIME_MEAN,
	COMPARE_TOKENS_PER_S,
	COMPARE_PHASE_TIME, /* of each phase */
	COMPARE_TTFT,
	COMPARE_TPOT,
	COMPARE_ITL,
	COMPARE_GPU_BUSY_PCT,
	COMPARE_IDLE_TIME, /* of each cause */
	COMPARE_KERNEL_TIME,
	COMPARE_KERNEL_COUNT,
	COMPARE_API_TIME,
	COMPARE_COPY_TIME,
	COMPARE_COPY_BYTES,
	COMPARE_PEAK_ALLOCATED, /* of each device; the next two likewise */
	COMPARE_PEAK_RESERVED,
	COMPARE_PEAK_DEVICE_USED,
	COMPARE_CV_EXCESS, /* of each layer and phase */
	COMPARE_IMBALANCE, /* likewise */
	COMPARE_METRICS
};

struct compare_metric {
	const char *name;
	enum figure_unit unit;
	enum figure_statistic statistic;
	bool higher_is_better;
	bool speed;  /* better is faster */
	bool device; /* only steps that device records cover wholly count */
};

extern const struct compare_metric compare_metrics[COMPARE_METRICS];

/* By the `length` characters of its name; -1: there is no such metric. */
int compare_metric_find(const char *name, size_t length);
const char *figure_unit_name(enum figure_unit unit); /* "ns" "bytes" "%" … */

#endif
