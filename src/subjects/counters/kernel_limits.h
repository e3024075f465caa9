/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a kernel is slow, from the metrics of its launches: how far each part of the chip was used, what its warps
 * waited for, and which of this bounds it. One row per kernel name.
 *
 * A launch may have a part of the metrics alone (few counters fit into one measurement), so each figure is the mean
 * over the launches that have its metric; rates are over the launches that have their time, too (paired_sums.h). What
 * was not counted is absent, and so is everything that would be made of it.
 */
#ifndef SUBJECTS_KERNEL_LIMITS_H
#define SUBJECTS_KERNEL_LIMITS_H

#include "subjects/counters/launch_metrics.h"
#include "subjects/efficiency/efficiency.h"

/* From here on, in percent of its peak, a part of the chip is what bounds a kernel. */
#define BOUND_PCT 60
/* Fewer active warps than this, in percent of those that fit, hide little latency. */
#define FEW_WARPS_PCT 25
/* Times that were measured at clocks further apart than this do not compare. */
#define CLOCK_SPREAD_PCT 5

/* BOUND(NAME, word) */
#define KERNEL_BOUNDS(BOUND)                                                                       \
	BOUND(UNKNOWN, NULL)                                                                       \
	BOUND(MEMORY, "memory")                                                                    \
	BOUND(L2, "L2")                                                                            \
	BOUND(TENSOR, "tensor")                                                                    \
	BOUND(SM, "SM")                                                                            \
	BOUND(SMALL, "small grid")                                                                 \
	BOUND(LATENCY, "latency")

enum kernel_bound {
#define BOUND(name, word) BOUND_##name,
	KERNEL_BOUNDS(BOUND)
#undef BOUND
};

#define STALL_NAME_MOST 31
#define BECAUSE_MOST 127

struct kernel_limit_row {
	char *name, *short_name; /* demangled; told apart as in the table of kernels */
	uint32_t kernel;	 /* string */
	uint64_t launches;	 /* that were measured */
	struct value mean_ns;
	/* (largest - smallest) / mean over its launches: of their time, and of the clock meanwhile. */
	struct value time_spread_pct, clock_spread_pct;
	struct value share_pct; /* of the device time of all kernels of the run */
	struct value sm_pct, sm_active_pct, tensor_pct, dram_pct, l2_pct;
	struct value l1_hit_pct, l2_hit_pct;
	struct value achieved_occupancy_pct, theoretical_occupancy_pct;
	const char *occupancy_limiter; /* NULL: not known, for the reason of the occupancy */
	struct value waves;
	struct value threads_per_warp, warp_efficiency_pct;
	struct value dram_read_bytes, dram_write_bytes, dram_bytes, dram_bytes_per_s;
	struct value tensor_ops, tensor_ops_per_s, ops_per_byte;
	enum peak_dtype tensor_type; /* of most of them; PEAK_DTYPES: none, or not told */
	/* What the device allows at this many operations for a byte, and how much of it that is. */
	struct value roof_ops_per_s, roof_pct;
	char stall[STALL_NAME_MOST + 1]; /* the largest reason; when stall_pct is known */
	struct value stall_pct;
	enum kernel_bound bound;
	const char *no_bound;		/* why it is BOUND_UNKNOWN */
	char because[BECAUSE_MOST + 1]; /* the figures that say so */
	int64_t time_ns;		/* of the kernel in the run */
	uint64_t count;			/* its timed executions there */
	unsigned int figures;		/* how many of them are known */
	size_t first;			/* as launch_metric_row's kernel_first */
};

struct kernel_limits {
	/* Those with the most time in the run first, else as they were measured. */
	struct kernel_limit_row *rows;
	size_t n;
	uint64_t launches;
	struct efficiency_device device; /* of the first launch, for the roofs */
};

/* peaks: NULL: none were measured. */
int kernel_limits_analyze(const struct run *run, const struct peaks_file *peaks,
			  const struct launch_metrics *metrics, struct kernel_limits *ret_limits);
void kernel_limits_release(struct kernel_limits *limits);

/* Of the kernel in the run; where it was not timed, of its measured launches. */
int64_t kernel_limit_time_ns(const struct kernel_limit_row *row);

/* Fills bound, no_bound and because from the figures of the row; see kernel_bound.c. */
void kernel_bound_decide(struct kernel_limit_row *row);
const char *kernel_bound_word(enum kernel_bound bound);
/* The parts of the GPU that have a peak, by number, and how close the kernel brought them to it. */
#define KERNEL_PARTS 4
const char *kernel_part_name(size_t part);
struct value kernel_part_pct(const struct kernel_limit_row *row, size_t part);
/* The one that is nearest to its peak: a multiprocessor only if its tensor cores are not; KERNEL_PARTS: none was counted. */
size_t kernel_part_nearest(const struct kernel_limit_row *row);
/* What warps wait for, in words, by the name of a stall reason; NULL: not known here. */
const char *stall_words(const char *stall);

struct field_set;
extern const struct field_set kernel_limits_fields, kernel_limits_total;

#endif
