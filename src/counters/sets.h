/* SPDX-License-Identifier: Apache-2.0
 *
 * Which counters are read when nobody names any.
 */
#ifndef COUNTERS_SETS_H
#define COUNTERS_SETS_H

#include "counters/chip.h"
#include "device/sheets/metric_names.h"

/* A reading over time. */
struct timed_counter {
	const char *name;   /* ours, with its unit */
	const char *metric; /* of the chip */
	double scale;	    /* from its unit to ours; 0: 1 */
	bool sum;	    /* of a sample: ours is per second */
	bool rate;	    /* of what the SMs asked for: of nothing while they do nothing */
	const char *chip;   /* the one on which it was compared with Nsight Compute; NULL: any */
};
#define TIMED_COUNTERS_MOST 24

/* What this chip can count over time in one pass, most important first; what does not fit is left out.
 * *ret_n of at most TIMED_COUNTERS_MOST. 0, or -errno with a sentence when nothing is left. */
int timed_counters_choose(const struct chip *chip, struct timed_counter *counters, size_t *ret_n,
			  struct err *err);

/* Whether they can be counted in one pass. */
bool counters_fit(const struct chip *chip, const char **metrics, size_t n);
/* In how many; 0: not together. */
size_t counters_passes(const struct chip *chip, const char **metrics, size_t n);

/* In every set: how long a kernel took. */
#define EXACT_TIME TIME_METRIC
#define EXACT_CLOCK "gpc__cycles_elapsed.avg.per_second"
/* The section of metrics that were counted in several passes (%zu), each of which was a run of the kernel. */
#define EXACT_REPLAYED "replayed in %zu passes"
/* In place of sets and metrics: PC sampling. */
#define EXACT_PC "pc"

/* Puts the metrics into groups that one pass can count, in their order: group[i] of metric i; EXACT_NO_GROUP: it needs
 * several passes alone, so that kernels would have to run again, or the chip lacks it. The number of groups, or
 * -errno with a sentence. */
#define EXACT_NO_GROUP (-1)
#define EXACT_REPLAY_GROUP (-2) /* it has one of those in which kernels run again */
#define EXACT_PASSES_MOST 64	/* for which they do */
#define EXACT_METRICS_MOST 128
int exact_groups(const struct chip *chip, const char *const *metrics, size_t n, int *group,
		 struct err *err);

/* All operations of the chip's tensor cores, by type, in metrics that one pass each can count; of a type for which there are
 * none, the metric that needs several. At most EXACT_METRICS_MOST; the names stay until the next chip's are asked for. */
size_t tensor_set(const struct chip *chip, const char **metrics);

/* Sets of exact metrics: basic, memory, compute, tensor, stalls, full. */
bool exact_is_set(const char *name);
/* The metrics of one, at most EXACT_METRICS_MOST, and how many; 0: no such set. The chip may lack some of them. */
size_t exact_set(const struct chip *chip, const char *name, const char **metrics);
/* Whether it is counted within the SMs, which takes a millisecond a launch; others are counted while kernels run. */
bool exact_is_within_sm(const char *metric);
/* The name of set number i; NULL after the last. */
const char *exact_set_name(size_t i);

#endif
