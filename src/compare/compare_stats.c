/* SPDX-License-Identifier: Apache-2.0
 *
 * Distributions, moments and tests of means; see compare_stats.h. Medians are in
 * compare_medians.c.
 */
#include "compare/compare_stats.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "subjects/numbers/stats.h"

#define PHI_MAX 0.95 /* beyond it a short series says nothing about its own memory */
#define PHI_STEPS 10 /* fewer figures give no phi of their own */

/* The continued fraction of the incomplete beta function, by Lentz's method. */
static double beta_fraction(double a, double b, double x)
{
	const double tiny = 1e-300;
	double c = 1, d = 1 - (a + b) * x / (a + 1), result;

	d = 1 / (fabs(d) < tiny ? tiny : d);
	result = d;
	for (int m = 1; m <= 500; m++) {
		double numerators[] = { m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
					-(a + m) * (a + b + m) * x /
						((a + 2 * m) * (a + 2 * m + 1)) };
		double change = 1;

		for (int i = 0; i < 2; i++) {
			d = 1 + numerators[i] * d;
			d = 1 / (fabs(d) < tiny ? tiny : d);
			c = 1 + numerators[i] / c;
			c = fabs(c) < tiny ? tiny : c;
			change = c * d;
			result *= change;
		}
		if (fabs(change - 1) < 1e-15)
			break;
	}
	return result;
}

/* lgamma() itself writes a global. */
static double log_gamma(double x)
{
	int sign;

	return lgamma_r(x, &sign);
}

/* The regularised incomplete beta function. */
static double beta_share(double a, double b, double x)
{
	double front;

	if (x <= 0)
		return 0;
	if (x >= 1)
		return 1;
	front = exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * log(x) + b * log1p(-x));
	/* The fraction converges fast on this side of the mean only. */
	if (x < (a + 1) / (a + b + 2))
		return front * beta_fraction(a, b, x) / a;
	return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double stats_t_two_sided(double t, double df)
{
	return beta_share(df / 2, 0.5, df / (df + t * t));
}

double stats_t_quantile(double p, double df)
{
	double tail = p < 0.5 ? p : 1 - p, low = 0, high = 1;

	if (tail <= 0)
		return p < 0.5 ? -INFINITY : INFINITY;
	while (stats_t_two_sided(high, df) / 2 > tail && high < 1e12)
		high *= 2;
	for (int i = 0; i < 200 && high - low > 1e-14 * high; i++) {
		double middle = (low + high) / 2;

		if (stats_t_two_sided(middle, df) / 2 > tail)
			low = middle;
		else
			high = middle;
	}
	return p < 0.5 ? -high : high;
}

double stats_normal_cdf(double z)
{
	return 0.5 * erfc(-z / sqrt(2));
}

/* Autocorrelation at lag 1 or 2; squares: sum of (x - mean)^2. */
static double autocorrelation(const struct moment_sums *s, double mean, double squares, int lag)
{
	double n = (double)s->n, ends = s->head[0] + s->tail[0];

	if (lag == 2)
		ends += s->head[1] + s->tail[1];
	return ((lag == 1 ? s->lag1 : s->lag2) - mean * (2 * s->x - ends) +
		(n - lag) * mean * mean) /
	       squares;
}

/* How many figures of the series are worth one independent one. */
static double redundancy(const struct moment_sums *s, double mean, double squares, double *ret_rho)
{
	double n = (double)s->n, r1, r2, phi;

	if (s->n < 4)
		return 1;
	r1 = (n * autocorrelation(s, mean, squares, 1) + 1) / (n - 3);
	r1 = fmin(PHI_MAX, fmax(0, r1));
	*ret_rho = phi = r1;
	if (s->n >= PHI_STEPS && r1 > 2 / sqrt(n)) {
		r2 = autocorrelation(s, mean, squares, 2) + ((1 + r1) * (1 + r1) + 4 * r1 * r1) / n;
		phi = fmin(PHI_MAX, fmax(r1, r2 / r1));
	}
	return 1 + 2 * r1 / (1 - phi);
}

struct moments moments_from_sums(const struct moment_sums *s)
{
	struct moments m = { .n = s->n, .n_eff = (double)s->n };
	double n = (double)s->n, squares;

	if (!s->n)
		return m;
	m.mean = s->x / n;
	squares = s->xx - n * m.mean * m.mean;
	if (s->n < 2 || s->constant || squares <= 0)
		return m;
	m.var = squares / (n - 1);
	m.n_eff = fmax(2, n / redundancy(s, m.mean, squares, &m.rho));
	/* A series with a memory wanders less around its own mean than around the true one. */
	m.var *= (n - 1) / fmax(n - n / m.n_eff, (n - 1) / 2);
	return m;
}

struct moments moments_of(const double *x, size_t n)
{
	struct moment_sums s = { .n = n, .constant = true };
	double shift = n ? x[0] : 0;
	struct moments m;

	/* Around the first figure: squares of large numbers would lose the small differences. */
	for (size_t i = 0; i < n; i++) {
		double v = x[i] - shift;

		s.x += v;
		s.xx += v * v;
		s.lag1 += i >= 1 ? v * (x[i - 1] - shift) : 0;
		s.lag2 += i >= 2 ? v * (x[i - 2] - shift) : 0;
		s.constant = s.constant && v == 0;
	}
	for (size_t i = 0; i < 2 && i < n; i++) {
		s.head[i] = x[i] - shift;
		s.tail[i] = x[n - 1 - i] - shift;
	}
	m = moments_from_sums(&s);
	m.mean += shift;
	return m;
}

struct moments moments_of_runs(const double *x, size_t n)
{
	struct moments m = { .n = n, .mean = stats_mean(x, n), .n_eff = (double)n };
	double std = stats_std(x, n);
	bool constant = true;

	for (size_t i = 1; i < n; i++)
		constant = constant && x[i] == x[0];
	if (n && constant) /* the mean is rounded, and that is no variance */
		m.mean = x[0];
	else if (n > 1)
		m.var = std * std * (double)n / (double)(n - 1);
	return m;
}

struct moments moments_pooled(const struct moments *a, const struct moments *b)
{
	double na = (double)a->n, nb = (double)b->n, n = na + nb, apart = b->mean - a->mean;
	struct moments m = { .n = a->n + b->n };

	if (!a->n || !b->n)
		return a->n ? *a : *b;
	m.mean = (na * a->mean + nb * b->mean) / n;
	m.var = ((na - 1) * a->var + (nb - 1) * b->var + apart * apart * na * nb / n) / (n - 1);
	m.rho = (na * a->rho + nb * b->rho) / n;
	m.n_eff = a->n_eff + b->n_eff;
	return m;
}

/* Squared standard error of the mean. */
static double error2(const struct moments *m)
{
	return m->n_eff > 0 ? m->var / m->n_eff : 0;
}

static double welch_df(double e2_a, double n_a, double e2_b, double n_b)
{
	double bottom = e2_a * e2_a / fmax(1, n_a - 1) + e2_b * e2_b / fmax(1, n_b - 1);

	return bottom > 0 ? fmax(1, (e2_a + e2_b) * (e2_a + e2_b) / bottom) : 1;
}

/* Fieller's: it leaves out 0 exactly where the interval of the difference does. */
static void interval_of_ratio(struct contrast *c, double t, double e2_a, double e2_b)
{
	double g = t * t * e2_a / (c->a * c->a), ratio = c->b / c->a, half;

	if (g >= 1) {
		c->low_pct = c->high_pct = value_absent(COMPARE_VAGUE);
		return;
	}
	half = t / c->a * sqrt(e2_b * (1 - g) + ratio * ratio * e2_a);
	c->low_pct = value_of(100 * ((ratio - half) / (1 - g) - 1));
	c->high_pct = value_of(100 * ((ratio + half) / (1 - g) - 1));
}

struct contrast contrast_means(const struct moments *a, const struct moments *b)
{
	double e2_a = error2(a), e2_b = error2(b), error = sqrt(e2_a + e2_b);
	double df = welch_df(e2_a, a->n_eff, e2_b, b->n_eff);
	double t = stats_t_quantile(1 - COMPARE_ALPHA / 2, df);
	double t_b = stats_t_quantile(1 - COMPARE_ALPHA / 2, fmax(1, b->n_eff - 1));
	struct contrast c = { .a = a->mean, .b = b->mean, .diff = b->mean - a->mean };

	c.low = c.diff - t * error;
	c.high = c.diff + t * error;
	c.b_low = c.b - t_b * sqrt(e2_b);
	c.b_high = c.b + t_b * sqrt(e2_b);
	c.p = error > 0 ? value_of(stats_t_two_sided(c.diff / error, df))
			: value_absent("neither side varies at all");
	c.visible = (t + stats_t_quantile(COMPARE_POWER, df)) * error;
	if (c.a > 0) {
		c.pct = value_of(100 * c.diff / c.a);
		interval_of_ratio(&c, t, e2_a, e2_b);
	} else {
		c.pct = c.low_pct = c.high_pct = value_absent("the baseline is 0");
	}
	return c;
}

struct ranked {
	double p;
	size_t at;
};

static int by_p(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	return x->p < y->p ? -1 : x->p > y->p;
}

int stats_adjust_p(double *p, size_t n)
{
	struct ranked *order;
	double smallest = 1;

	if (n < 2)
		return 0;
	order = calloc(n, sizeof(*order));
	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		order[i] = (struct ranked){ p[i], i };
	qsort(order, n, sizeof(*order), by_p);
	for (size_t i = n; i-- > 0;) {
		smallest = fmin(smallest, order[i].p * (double)n / (double)(i + 1));
		p[order[i].at] = smallest;
	}
	free(order);
	return 0;
}
