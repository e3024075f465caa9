/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters of single kernels by CUPTI's range profiler: between ranges_start and ranges_stop each kernel of a context is
 * a range, counted in one pass. No kernel runs twice. The caller's lock is held around every call.
 */
#ifndef EXACT_RANGES_H
#define EXACT_RANGES_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define RANGES_GROUPS_MOST 32
/* Kernels between a start and a stop, at most. */
#define RANGES_MOST 64

/* text: "A,B;C,D", what one pass counts each. 0, or -errno with a sentence. */
int ranges_plan(const char *text, struct err *err);
size_t ranges_groups(void);
const char **ranges_metrics(size_t group, size_t *ret_n);

/* The next kernels of that context. -EBUSY: it cannot be counted here, others may. */
int ranges_start(CUcontext context, size_t group, struct err *err);
/* How many kernels have been counted since, and the values of one of them, in the order of the metrics; NaN: not
 * counted. */
int ranges_stop(size_t *ret_n, struct err *err);
int ranges_values(size_t i, double *values, struct err *err);
/* A context that is about to end. */
void ranges_forget(CUcontext context);

#endif
