/* SPDX-License-Identifier: Apache-2.0
 *
 * Amounts that launches moved or computed, beside the time that the same launches took. A kernel is launched with
 * several sizes, and a launch has a part of the metrics: the mean amount of some launches over the mean time of others
 * would be the rate of none. Pure, any thread.
 */
#ifndef SUBJECTS_PAIRED_SUMS_H
#define SUBJECTS_PAIRED_SUMS_H

#include <stdbool.h>

#include "device/sheets/metric_names.h"
#include "device/sheets/peaks.h"
#include "tables/tables.h"

/* Over the launches of a kernel that have both a metric and its time. */
struct paired_sum {
	uint32_t kernel, metric; /* strings */
	double amount, time_ns;
};

struct paired_sums {
	struct paired_sum *all; /* by kernel and metric; those of DRAM and of the tensor cores */
	size_t n;
};

/* The number of a row of run->metric in a unit; false: it has none. */
bool metric_number(const struct run *run, size_t row, const char *unit, double *ret_value);

/* The type of the sources of a metric of the tensor cores, enum peak_dtype; PEAK_DTYPES: one without a peak, or not told. */
enum peak_dtype tensor_metric_dtype(const char *name);

int paired_sums_make(const struct run *run, struct paired_sums *ret_sums);
void paired_sums_release(struct paired_sums *sums);
/* NULL: no launch has both. */
const struct paired_sum *paired_sums_find(const struct paired_sums *sums, uint32_t kernel,
					  uint32_t metric);

#endif
