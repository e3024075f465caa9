/* SPDX-License-Identifier: Apache-2.0
 *
 * Medians of two series against each other: a test on ranks and a bootstrap. See compare_stats.h.
 */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/compare_stats.h"
#include "analyze/stats.h"

#define SEED UINT64_C(0x6D6F6573636F7065)
#define RESAMPLES_MAX 2000
#define RESAMPLES_MIN 200
#define FIGURES_MAX 40000000.0 /* drawn in all: long series need fewer resamples */

struct ranked {
	double x;
	size_t at;
};

static int by_x(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	return x->x < y->x ? -1 : x->x > y->x;
}

/* ranks: of a's figures, then b's, among all; ties share their mean rank. */
static int rank_all(const double *a, size_t n_a, const double *b, size_t n_b, double *ranks)
{
	size_t n = n_a + n_b;
	struct ranked *order = calloc(n, sizeof(*order));

	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		order[i] = (struct ranked){ i < n_a ? a[i] : b[i - n_a], i };
	qsort(order, n, sizeof(*order), by_x);
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i; end < n && order[end].x == order[i].x;)
			end++;
		for (size_t j = i; j < end; j++)
			ranks[order[j].at] = (double)(i + end + 1) / 2;
	}
	free(order);
	return 0;
}

/* The k-th smallest of x, counted from 0; smaller ones then lie before it. */
static double pick(double *x, size_t n, size_t k)
{
	size_t low = 0, high = n - 1;

	while (low < high) {
		double pivot = x[low + (high - low) / 2];
		size_t i = low, j = high;

		for (;; i++, j--) {
			double other;

			while (x[i] < pivot)
				i++;
			while (x[j] > pivot)
				j--;
			if (i >= j)
				break;
			other = x[i];
			x[i] = x[j];
			x[j] = other;
		}
		if (k <= j)
			high = j;
		else
			low = j + 1;
	}
	return x[k];
}

/* Reorders x. */
static double median_of(double *x, size_t n)
{
	double upper = pick(x, n, n / 2), lower;

	if (n % 2)
		return upper;
	lower = x[0];
	for (size_t i = 1; i < n / 2; i++)
		lower = x[i] > lower ? x[i] : lower;
	return (lower + upper) / 2;
}

/* Medians of `times` resamples of x, with their deviations from the median made larger by
 * `wider`; scratch: n figures. */
static void resample(const double *x, size_t n, double median, double wider, uint64_t *state,
		     double *scratch, double *medians, size_t times)
{
	for (size_t t = 0; t < times; t++) {
		for (size_t i = 0; i < n; i++)
			scratch[i] = x[(size_t)(stats_random(state) % n)];
		medians[t] = median + wider * (median_of(scratch, n) - median);
	}
}

/* The share of resamples to leave out at each end. */
static double tail(double df, double n_eff)
{
	double wider = n_eff > 1 ? sqrt(n_eff / (n_eff - 1)) : 1;

	return stats_normal_cdf(-wider * stats_t_quantile(1 - COMPARE_ALPHA / 2, df));
}

static void interval(double *x, size_t n, double share, double *ret_low, double *ret_high)
{
	stats_sort(x, n);
	*ret_low = stats_percentile_sorted(x, n, 100 * share);
	*ret_high = stats_percentile_sorted(x, n, 100 * (1 - share));
}

struct side {
	const double *x;
	size_t n;
	struct moments ranks;  /* of its figures among all: a few slow steps weigh little there */
	double median, error2; /* of the median, squared, by the resamples */
	double *medians;
};

static double df_of(const struct side *a, const struct side *b)
{
	double top = a->error2 + b->error2;
	double bottom = a->error2 * a->error2 / fmax(1, a->ranks.n_eff - 1) +
			b->error2 * b->error2 / fmax(1, b->ranks.n_eff - 1);

	return bottom > 0 ? fmax(1, top * top / bottom) : 1;
}

static void judge(struct side *a, struct side *b, double *work, size_t times, struct contrast *c)
{
	double df = df_of(a, b), error = sqrt(a->error2 + b->error2);
	double n_eff = fmin(a->ranks.n_eff, b->ranks.n_eff);
	double share = tail(df, n_eff), wider = sqrt(n_eff / fmax(1, n_eff - 1));
	bool positive = a->median > 0;

	*c = (struct contrast){ .a = a->median, .b = b->median, .diff = b->median - a->median };
	c->p = contrast_means(&a->ranks, &b->ranks).p;
	for (size_t i = 0; i < times; i++) {
		work[i] = b->medians[i] - a->medians[i];
		positive = positive && a->medians[i] > 0;
	}
	interval(work, times, share, &c->low, &c->high);
	c->visible =
		wider * error *
		(stats_t_quantile(1 - COMPARE_ALPHA / 2, df) + stats_t_quantile(COMPARE_POWER, df));
	c->pct = c->low_pct = c->high_pct = value_absent("the baseline is 0");
	if (positive) {
		double low, high;

		for (size_t i = 0; i < times; i++)
			work[i] = 100 * (b->medians[i] / a->medians[i] - 1);
		interval(work, times, share, &low, &high);
		c->pct = value_of(100 * c->diff / c->a);
		c->low_pct = value_of(low);
		c->high_pct = value_of(high);
	}
	interval(b->medians, times, tail(fmax(1, b->ranks.n_eff - 1), b->ranks.n_eff), &c->b_low,
		 &c->b_high);
}

int contrast_medians(const double *a, size_t n_a, const double *b, size_t n_b,
		     struct contrast *ret_contrast)
{
	struct side sides[2] = { { .x = a, .n = n_a }, { .x = b, .n = n_b } };
	size_t n = n_a + n_b;
	size_t times = (size_t)fmax(RESAMPLES_MIN, fmin(RESAMPLES_MAX, FIGURES_MAX / (double)n));
	/* ranks or scratch, the medians of both, and what is made of them */
	double *numbers = calloc(n + 3 * times, sizeof(*numbers));
	uint64_t state = SEED;
	int r = numbers ? rank_all(a, n_a, b, n_b, numbers) : -ENOMEM;

	if (r < 0) {
		free(numbers);
		return r;
	}
	sides[0].ranks = moments_of(numbers, n_a);
	sides[1].ranks = moments_of(numbers + n_a, n_b);
	for (size_t i = 0; i < 2; i++) {
		struct side *s = &sides[i];
		double std;

		memcpy(numbers, s->x, s->n * sizeof(*numbers));
		s->median = median_of(numbers, s->n);
		s->medians = numbers + n + i * times;
		resample(s->x, s->n, s->median, sqrt((double)s->n / s->ranks.n_eff), &state,
			 numbers, s->medians, times);
		std = stats_std(s->medians, times);
		s->error2 = std * std;
	}
	judge(&sides[0], &sides[1], numbers + n + 2 * times, times, ret_contrast);
	free(numbers);
	return 0;
}
