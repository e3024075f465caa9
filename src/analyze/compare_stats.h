/* SPDX-License-Identifier: Apache-2.0
 *
 * Two series of figures against each other: is the difference more than chance? Pure, any thread;
 * the same input gives the same output.
 *
 * Neighbouring steps are not independent. A series of n figures with lag-1 autocorrelation rho
 * counts as n_eff = n (1 - rho) / (1 + rho) independent ones, which is exact for a series whose
 * memory is that of its last figure (AR(1)). rho is freed of its bias in short series,
 * (n r + 1) / (n - 3), and never taken below 0: order that makes a series look better than chance
 * is not relied on.
 *
 * means    Welch's t test with n_eff; the interval of the ratio by the delta method
 * medians  the same test on the ranks of all figures together (Mann-Whitney's question, without its
 *          assumption of equal spread); the interval by a circular block bootstrap whose blocks are
 *          (2 rho / (1 - rho^2))^(2/3) (1.5 n)^(1/3) figures long, with its percentiles moved outwards
 *          for small n (Hesterberg's expanded percentiles)
 */
#ifndef ANALYZE_COMPARE_STATS_H
#define ANALYZE_COMPARE_STATS_H

#include <stddef.h>

#include "analyze/value.h"

#define COMPARE_ALPHA 0.05
#define COMPARE_POWER 0.8 /* with which a visible difference would have been found */
#define COMPARE_STEPS_MIN 5
#define COMPARE_RUNS_MIN 3

/* P(|T| >= |t|), and the t with P(T <= t) = p, of Student's distribution; df > 0. */
double stats_t_two_sided(double t, double df);
double stats_t_quantile(double p, double df);
double stats_normal_cdf(double z);

/* What a test of means needs of a series. */
struct moments {
	size_t n;
	double mean, var; /* var: of the sample, n - 1; made larger by what autocorrelation hides */
	double rho, n_eff;
};

struct moments moments_of(const double *x, size_t n);
/* Of figures taken as independent: one a run. */
struct moments moments_of_runs(const double *x, size_t n);
/* From sums over x: of x, x^2 and x[i] x[i+1], with the ends of the series. */
struct moment_sums {
	size_t n;
	double x, xx, lag, first, last;
	bool constant;
};
struct moments moments_from_sums(const struct moment_sums *sums);
/* Two series as one, end to end. */
struct moments moments_pooled(const struct moments *a, const struct moments *b);

/* b against a. Percent are of a's value, and absent when that is not above 0. */
struct contrast {
	double a, b, diff, low, high;	     /* 95% interval of the difference */
	double b_low, b_high;		     /* of b itself */
	struct value pct, low_pct, high_pct; /* of the difference */
	struct value p;			     /* absent: neither side varies at all */
	double visible;			     /* the smallest difference that would have been seen */
};

/* Both n at least 2. */
struct contrast contrast_means(const struct moments *a, const struct moments *b);
/* 0 or -ENOMEM. */
int contrast_medians(const double *a, size_t n_a, const double *b, size_t n_b,
		     struct contrast *ret_contrast);

/* Benjamini and Hochberg: p[i] becomes the smallest false discovery rate at which it would be
 * called. -ENOMEM. */
int stats_adjust_p(double *p, size_t n);

#endif
