/* SPDX-License-Identifier: Apache-2.0
 *
 * Two series of figures against each other: is the difference more than chance? Pure, any thread;
 * the same input gives the same output.
 *
 * Neighbouring steps are not independent. Their autocorrelation is taken to fall off by a factor phi
 * a step, r_k = r_1 phi^(k-1): that holds for a series which remembers its last figure, and for a
 * slow drift under independent jitter, where phi = r_2 / r_1. n figures then count as
 * n_eff = n / (1 + 2 r_1 / (1 - phi)) independent ones. r_1 and r_2 are freed of their bias in short
 * series. r_1 below 0 counts as 0: order that makes a mean look better than chance is not relied
 * on. phi is r_1 where r_1 is within chance (2 / sqrt(n)).
 *
 * means    Welch's t test with n_eff; the interval of the ratio by Fieller's theorem
 * medians  the same test on the ranks of all figures together (Mann-Whitney's question, without its
 *          assumption of equal spread); the interval by bootstrap, with the deviations of the
 *          resampled medians (factors, where all figures are above 0) made larger by
 *          sqrt(n / n_eff), and its percentiles moved outwards for small n_eff (Hesterberg's expanded percentiles)
 */
#ifndef COMPARE_COMPARE_STATS_H
#define COMPARE_COMPARE_STATS_H

#include <stddef.h>

#include "subjects/numbers/value.h"

#define COMPARE_ALPHA 0.05
#define COMPARE_POWER 0.8 /* with which a visible difference would have been found */
#define COMPARE_STEPS_MIN 5
#define COMPARE_RUNS_MIN 3
#define COMPARE_VAGUE "the baseline itself cannot be told from 0: no percentage"

/* P(|T| >= |t|), and the t with P(T <= t) = p, of Student's distribution; df > 0. */
double stats_t_two_sided(double t, double df);
double stats_t_quantile(double p, double df);
double stats_normal_cdf(double z);

/* What a test of means needs of a series. */
struct moments {
	size_t n;
	double mean, var; /* var: of the sample, n - 1; made larger by what autocorrelation hides */
	double rho;	  /* r_1, without its bias */
	double n_eff;
};

struct moments moments_of(const double *x, size_t n);
/* Of figures taken as independent: one a run. */
struct moments moments_of_runs(const double *x, size_t n);
/* From sums over x: of x, x^2, x[i] x[i+1] and x[i] x[i+2], with the two figures at each end. */
struct moment_sums {
	size_t n;
	double x, xx, lag1, lag2;
	double head[2], tail[2]; /* x[0], x[1]; x[n-1], x[n-2] */
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
