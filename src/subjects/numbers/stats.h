/* SPDX-License-Identifier: Apache-2.0
 *
 * Statistics on plain arrays. Standard deviations are population (divide by n); percentiles
 * interpolate linearly between order statistics. Pure functions, any thread.
 */
#ifndef SUBJECTS_STATS_H
#define SUBJECTS_STATS_H

#include <stddef.h>
#include <stdint.h>

struct stats_summary {
	size_t n; /* 0: nothing else is defined */
	double mean, std, cv, min, max, p50, p95, p99, sum;
};

double stats_mean(const double *x, size_t n);
double stats_std(const double *x, size_t n);

void stats_sort(double *x, size_t n);
/* p in 0..100, x ascending, n > 0. */
double stats_percentile_sorted(const double *x, size_t n, double p);
/* p in 0..100, n > 0; changes the order of x, which need not be sorted. */
double stats_percentile(double *x, size_t n, double p);
/* Sorts x. */
double stats_median(double *x, size_t n);
/* Sorts x. cv is 0 when the mean is. */
struct stats_summary stats_summarize(double *x, size_t n);
/* The same of whole numbers below 2^32, in half of the memory. room: n more. */
struct stats_summary stats_summarize_words(uint32_t *x, size_t n, uint32_t *room);

/* A small generator (xorshift64*) for resampling: the same seed gives the same interval. */
uint64_t stats_random(uint64_t *state);

#endif
