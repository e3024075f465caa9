/* SPDX-License-Identifier: Apache-2.0
 *
 * Medians of two series against each other: a test on ranks and a bootstrap. See compare_stats.h.
 */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "compare/compare_stats.h"
#include "subjects/numbers/stats.h"

#define SEED UINT64_C(0x6D6F6573636F7065)
#define RESAMPLES 4000

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

static double draw_uniform(uint64_t *state)
{
	return ((double)(stats_random(state) >> 11) + 0.5) / 9007199254740992.0; /* 2^53 */
}

static double draw_normal(uint64_t *state)
{
	double u = draw_uniform(state), v = draw_uniform(state);

	return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

/* Marsaglia and Tsang's method; shape at least 1. */
static double draw_gamma(uint64_t *state, double shape)
{
	double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);

	for (;;) {
		double x = draw_normal(state), v = 1 + c * x;

		v = v * v * v;
		if (v > 0 && log(draw_uniform(state)) < x * x / 2 + d - d * v + d * log(v))
			return d * v;
	}
}

static double at_share(const double *sorted, size_t n, double share)
{
	size_t i = (size_t)(share * (double)n);

	return sorted[i < n ? i : n - 1];
}

/* The median of a resample of n figures, without drawing them: the k-th of n figures drawn from n
 * sorted ones lies where the k-th of n uniform numbers does, and that one has a beta distribution.
 * Of an even n the next one follows as the smallest of the rest. */
static double draw_median(const double *sorted, size_t n, uint64_t *state)
{
	size_t k = (n + 1) / 2;
	double a = draw_gamma(state, (double)k), b = draw_gamma(state, (double)(n - k + 1));
	double share = a / (a + b), next;

	if (n % 2)
		return at_share(sorted, n, share);
	next = share + (1 - share) * (1 - pow(draw_uniform(state), 1.0 / (double)(n - k)));
	return (at_share(sorted, n, share) + at_share(sorted, n, next)) / 2;
}

/* Medians of resamples, with their deviations from the median made larger by `wider`: of figures
 * above 0 as factors, since a time cannot be less than nothing. */
static void resample(const double *sorted, size_t n, double median, double wider, uint64_t *state,
		     double *medians)
{
	for (size_t t = 0; t < RESAMPLES; t++) {
		double drawn = draw_median(sorted, n, state);

		medians[t] = sorted[0] > 0 ? median * pow(drawn / median, wider)
					   : median + wider * (drawn - median);
	}
}

/* The share of resamples to leave out at each end. */
static double tail_share(double df, double n_eff)
{
	double wider = n_eff > 1 ? sqrt(n_eff / (n_eff - 1)) : 1;

	return stats_normal_cdf(-wider * stats_t_quantile(1 - COMPARE_ALPHA / 2, df));
}

static void central_interval(double *x, size_t n, double share, double *ret_low, double *ret_high)
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

static void judge_medians(struct side *a, struct side *b, double *work, struct contrast *c)
{
	double df = df_of(a, b), error = sqrt(a->error2 + b->error2);
	double n_eff = fmin(a->ranks.n_eff, b->ranks.n_eff);
	double share = tail_share(df, n_eff), wider = sqrt(n_eff / fmax(1, n_eff - 1));
	bool positive = a->median > 0;

	*c = (struct contrast){ .a = a->median, .b = b->median, .diff = b->median - a->median };
	c->p = contrast_means(&a->ranks, &b->ranks).p;
	for (size_t i = 0; i < RESAMPLES; i++) {
		work[i] = b->medians[i] - a->medians[i];
		positive = positive && a->medians[i] > 0;
	}
	central_interval(work, RESAMPLES, share, &c->low, &c->high);
	c->visible =
		wider * error *
		(stats_t_quantile(1 - COMPARE_ALPHA / 2, df) + stats_t_quantile(COMPARE_POWER, df));
	c->pct = c->low_pct = c->high_pct = value_absent("the baseline is 0");
	if (c->a > 0) {
		c->pct = value_of(100 * c->diff / c->a);
		c->low_pct = c->high_pct = value_absent(COMPARE_VAGUE);
	}
	if (positive) {
		double low, high;

		for (size_t i = 0; i < RESAMPLES; i++)
			work[i] = 100 * (b->medians[i] / a->medians[i] - 1);
		central_interval(work, RESAMPLES, share, &low, &high);
		c->low_pct = value_of(low);
		c->high_pct = value_of(high);
	}
	central_interval(b->medians, RESAMPLES,
			 tail_share(fmax(1, b->ranks.n_eff - 1), b->ranks.n_eff), &c->b_low,
			 &c->b_high);
}

int contrast_medians(const double *a, size_t n_a, const double *b, size_t n_b,
		     struct contrast *ret_contrast)
{
	struct side sides[2] = { { .x = a, .n = n_a }, { .x = b, .n = n_b } };
	size_t n = n_a + n_b;
	/* ranks, then sorted figures; the medians of both, and what is made of them */
	double *numbers = calloc(n + (size_t)3 * RESAMPLES, sizeof(*numbers));
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
		s->median = stats_median(numbers, s->n); /* sorts */
		s->medians = numbers + n + i * RESAMPLES;
		resample(numbers, s->n, s->median, sqrt((double)s->n / s->ranks.n_eff), &state,
			 s->medians);
		std = stats_std(s->medians, RESAMPLES);
		s->error2 = std * std;
	}
	judge_medians(&sides[0], &sides[1], numbers + n + (size_t)2 * RESAMPLES, ret_contrast);
	free(numbers);
	return 0;
}
