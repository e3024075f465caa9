/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters of single kernels by CUPTI's range profiler: between ranges_start and ranges_stop each kernel of a context is
 * a range. Most groups of metrics are counted in one pass, and no kernel runs twice. Those that need several passes are
 * counted by CUPTI's own replay: it runs a kernel once for each, on the memory that it found at first, and the launch
 * returns after the last. The caller's lock is held around every call.
 */
#ifndef EXACT_RANGES_H
#define EXACT_RANGES_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define RANGES_GROUPS_MOST 32
/* Kernels between a start and a stop, at most: 33 KB of the program's memory each (set basic, H200). */
#define RANGES_MOST 4096
/* How many of them are cheapest where so many kernels are to be counted. */
size_t ranges_for(uint64_t kernels);

/* text: "A,B;19 C,D", groups of metrics; those that need several passes, how many. The first needs one. 0, or -errno
 * with a sentence. */
int ranges_plan(const char *text, struct err *err);
size_t ranges_groups(void);
/* More than 1: kernels are replayed. */
size_t ranges_passes(size_t group);
const char **ranges_metrics(size_t group, size_t *ret_n);

/* The next kernels of that context, at most so many; one if it is replayed. Room for them is made at the first start with
 * that group, 0.9 ms each. -EBUSY: it cannot be counted here, others may. */
int ranges_start(CUcontext context, size_t group, size_t most, struct err *err);
/* How many kernels have been counted since, and the values of one of them, in the order of the metrics; NaN: not
 * counted. -EAGAIN: not in all passes. */
int ranges_stop(size_t *ret_n, struct err *err);
int ranges_values(size_t i, double *values, struct err *err);

/* How long the program's launches were held up by these so far. */
struct ranges_time {
	size_t starts;
	int64_t start_ns, stop_ns, values_ns, end_ns;
};
struct ranges_time ranges_time(void);

/* A context that is about to end. */
void ranges_forget(CUcontext context);
/* Gives the counters of the GPUs back. */
void ranges_end(void);

#endif
