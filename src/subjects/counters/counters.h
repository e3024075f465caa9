/* SPDX-License-Identifier: Apache-2.0
 *
 * One numeric series of the program, such as its loss, made short enough to draw.
 */
#ifndef SUBJECTS_COUNTERS_H
#define SUBJECTS_COUNTERS_H

#include "tables/tables.h"

#define COUNTER_POINTS_MAX 128

struct counter_series {
	size_t n; /* samples; 0: nothing else is defined */
	double first, last, min, max;
	/* Means of equal parts of the samples, oldest first. */
	double points[COUNTER_POINTS_MAX];
	size_t n_points;
};

/* The finite samples of the counter of that name, of the first shard that has it. max_points is
 * at most COUNTER_POINTS_MAX. */
void counter_series_read(const struct run *run, const char *name, size_t max_points,
			 struct counter_series *ret_series);

#endif
