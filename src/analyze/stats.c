/* SPDX-License-Identifier: Apache-2.0
 *
 * Statistics on plain arrays; see stats.h.
 */
#include "analyze/stats.h"

#include <math.h>
#include <stdlib.h>

static double sum(const double *x, size_t n)
{
	double total = 0, carry = 0;

	/* Kahan: step times of a long run are many and of very different size. */
	for (size_t i = 0; i < n; i++) {
		double y = x[i] - carry, t = total + y;

		carry = (t - total) - y;
		total = t;
	}
	return total;
}

double stats_mean(const double *x, size_t n)
{
	return n ? sum(x, n) / (double)n : 0;
}

double stats_std(const double *x, size_t n)
{
	double mean = stats_mean(x, n), total = 0;

	for (size_t i = 0; i < n; i++)
		total += (x[i] - mean) * (x[i] - mean);
	return n ? sqrt(total / (double)n) : 0;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

void stats_sort(double *x, size_t n)
{
	if (n > 1)
		qsort(x, n, sizeof(*x), ascending);
}

double stats_percentile_sorted(const double *x, size_t n, double p)
{
	double at = p / 100 * (double)(n - 1), below = floor(at);
	size_t i = (size_t)below;

	if (i + 1 >= n)
		return x[n - 1];
	return x[i] + (x[i + 1] - x[i]) * (at - below);
}

double stats_median(double *x, size_t n)
{
	stats_sort(x, n);
	return stats_percentile_sorted(x, n, 50);
}

struct stats_summary stats_summarize(double *x, size_t n)
{
	struct stats_summary s = { .n = n };

	if (!n)
		return s;
	stats_sort(x, n);
	s.sum = sum(x, n);
	s.mean = s.sum / (double)n;
	s.std = stats_std(x, n);
	s.cv = s.mean != 0 ? s.std / s.mean : 0;
	s.min = x[0];
	s.max = x[n - 1];
	s.p50 = stats_percentile_sorted(x, n, 50);
	s.p95 = stats_percentile_sorted(x, n, 95);
	s.p99 = stats_percentile_sorted(x, n, 99);
	return s;
}

uint64_t stats_random(uint64_t *state)
{
	uint64_t x = *state ? *state : 1;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	*state = x;
	return x * UINT64_C(2685821657736338717);
}

void stats_mean_interval(const double *x, size_t n, double *ret_low, double *ret_high)
{
	double mean = stats_mean(x, n);
	double sample_std = stats_std(x, n) * sqrt((double)n / (double)(n - 1));
	double half = 1.96 * sample_std / sqrt((double)n);

	*ret_low = mean - half;
	*ret_high = mean + half;
}
