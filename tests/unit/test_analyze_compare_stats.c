/* SPDX-License-Identifier: Apache-2.0
 *
 * The statistics of comparisons: against values computed apart (Student's density integrated by
 * Simpson's rule in Python, Welch's formulas by hand), and against simulated steps whose truth is
 * known.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "compare/compare.h"
#include "compare/compare_stats.h"
#include "subjects/numbers/stats.h"

#define COUNT(x) (sizeof(x) / sizeof((x)[0]))

static void assert_near(double got, double wanted, double tolerance)
{
	if (!(fabs(got - wanted) <= tolerance))
		fail_msg("got %.12g, wanted %.12g", got, wanted);
}

static void test_student(void **state)
{
	(void)state;
	assert_near(stats_t_two_sided(2, 10), 0.0733880347707, 1e-11);
	assert_near(stats_t_two_sided(-2, 10), 0.0733880347707, 1e-11);
	assert_near(stats_t_two_sided(0.5, 3.5), 0.6468504393226, 1e-11);
	assert_near(stats_t_two_sided(4, 25), 0.0004954436705, 1e-11);
	assert_near(stats_t_two_sided(0, 7), 1, 1e-12);
	/* One degree of freedom is Cauchy's distribution: 1 - 2 atan(t) / pi. */
	assert_near(stats_t_two_sided(3, 1), 1 - 2 * atan(3) / M_PI, 1e-12);
	assert_near(stats_t_quantile(0.975, 1), tan(M_PI * 0.475), 1e-9);
	assert_near(stats_t_quantile(0.975, 10), 2.2281388520, 1e-8);
	assert_near(stats_t_quantile(0.025, 10), -2.2281388520, 1e-8);
	assert_near(stats_t_quantile(0.8, 30), 0.8537672615, 1e-8);
	/* Many degrees: the normal distribution. */
	assert_near(stats_t_quantile(0.975, 1e7), 1.959964, 1e-5);
	assert_near(stats_normal_cdf(1.959963985), 0.975, 1e-9);
}

static void test_welch(void **state)
{
	static const double a[] = { 27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1,
				    21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4 };
	static const double b[] = { 27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0,
				    24.8, 20.2, 21.9, 22.1, 22.9, 30.5, 23.4 };
	struct moments m_a = moments_of_runs(a, COUNT(a)), m_b = moments_of_runs(b, COUNT(b));
	struct contrast c = contrast_means(&m_a, &m_b);

	(void)state;
	/* t 2.789600234613, 27.876894767 degrees of freedom */
	assert_near(c.a, 20.82, 1e-12);
	assert_near(c.b, 23.586666666667, 1e-11);
	assert_near(c.p.v, 0.009407680270, 1e-9);
	assert_near(c.low, 0.734695418433, 1e-7);
	assert_near(c.high, 4.798637914900, 1e-7);
	assert_near(c.pct.v, 100 * (23.586666666667 / 20.82 - 1), 1e-9);
	assert_true(c.low_pct.v < c.pct.v && c.pct.v < c.high_pct.v);
	/* The ratio R 1.132885, t 2.0488147, standard errors 0.724220 and 0.677591 of a and b:
	 * g = (t * 0.724220 / 20.82)^2 = 0.005079079, and
	 * (R -+ t / 20.82 * sqrt(0.677591^2 (1 - g) + R^2 * 0.724220^2)) / (1 - g) - 1. */
	assert_near(c.low_pct.v, 3.352968, 1e-4);
	assert_near(c.high_pct.v, 24.380718, 1e-4);
}

/* Both intervals say the same of 0, however little is known of the baseline. */
static void test_percent_of_a_vague_baseline(void **state)
{
	static const double a[] = { 8, 12, 10, 10 }, apart[] = { 12.7, 12.7, 12.7, 12.7 },
			    near[] = { 12.5, 12.5, 12.5, 12.5 }, vague[] = { 1, 3 };
	struct moments m_a = moments_of_runs(a, 4), m_b = moments_of_runs(apart, 4);
	struct contrast c = contrast_means(&m_a, &m_b);

	(void)state;
	/* Standard error sqrt(2/3), t 3.1824463 with 3 degrees of freedom: +-2.598457. */
	assert_near(c.low, 2.7 - 2.598457, 1e-5);
	assert_near(c.low_pct.v, 0.80610, 1e-3);
	m_b = moments_of_runs(near, 4);
	c = contrast_means(&m_a, &m_b);
	assert_true(c.low < 0 && c.low_pct.v < 0 && c.high_pct.v > 0);
	/* 2 with a standard error of 1 and one degree of freedom may be 0. */
	m_a = moments_of_runs(vague, 2);
	c = contrast_means(&m_a, &m_b);
	assert_true(c.pct.known && !c.low_pct.known && !c.high_pct.known);
}

static void test_moments(void **state)
{
	static const double rising[] = { 1, 2, 3, 4 };
	static const double turning[] = { 5, 9, 5, 9, 5, 9, 5, 9, 5, 9, 5, 9 };
	static const double same[] = { 7.5, 7.5, 7.5, 7.5, 7.5, 7.5 };
	struct moments m = moments_of(rising, 4);

	(void)state;
	/* Mean 2.5, squares 5, r_1 = 1.25 / 5; (4 * 0.25 + 1) / (4 - 3) is beyond 0.95.
	 * n_eff is 2 at least, and var = 5/3 * 3 / (4 - 4/2). */
	assert_near(m.mean, 2.5, 1e-15);
	assert_near(m.rho, 0.95, 1e-15);
	assert_near(m.n_eff, 2, 1e-15);
	assert_near(m.var, 2.5, 1e-12);
	/* What alternates would make the mean look better than it is. */
	m = moments_of(turning, COUNT(turning));
	assert_near(m.rho, 0, 0);
	assert_near(m.n_eff, 12, 0);
	assert_near(m.var, 48.0 / 11, 1e-12);
	m = moments_of(same, COUNT(same));
	assert_near(m.var, 0, 0);
	assert_near(m.mean, 7.5, 0);
	m = moments_of(NULL, 0);
	assert_int_equal(m.n, 0);
}

/* Sums of equal figures are rounded: 30.799999999999997 five times has another mean. */
static void test_equal_runs_do_not_vary(void **state)
{
	(void)state;
	for (size_t n = 1; n <= 12; n++) {
		double x[12];
		struct moments m;

		for (size_t i = 0; i < n; i++)
			x[i] = 30.799999999999997;
		m = moments_of_runs(x, n);
		assert_true(m.var == 0 && m.mean == x[0]);
		assert_false(contrast_means(&m, &m).p.known);
	}
}

/* r_1 = 0.5 and r_2 = 0.25 of a long series give phi 0.5: three figures are worth one. */
static void test_redundancy(void **state)
{
	/* Around 0: sums that make these correlations, for n = 1e6. */
	struct moment_sums s = { .n = 1000000, .xx = 1e6, .lag1 = 5e5, .lag2 = 2.5e5 };
	struct moments m = moments_from_sums(&s);

	(void)state;
	assert_near(m.rho, 0.5, 1e-5);
	assert_near(m.n_eff, 1e6 / 3, 20);
	/* A slow drift under jitter: r_1 = 0.4, r_2 = 0.36, so phi 0.9 and 1 + 0.8 / 0.1. */
	s.lag1 = 4e5;
	s.lag2 = 3.6e5;
	m = moments_from_sums(&s);
	assert_near(m.n_eff, 1e6 / 9, 200);
}

static void test_pooled(void **state)
{
	static const double x[] = { 3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8 };
	struct moments a = moments_of_runs(x, 5), b = moments_of_runs(x + 5, 7);
	struct moments both = moments_pooled(&a, &b), all = moments_of_runs(x, 12), none = { 0 };

	(void)state;
	assert_int_equal(both.n, 12);
	assert_near(both.mean, all.mean, 1e-12);
	assert_near(both.var, all.var, 1e-12);
	both = moments_pooled(&none, &a);
	assert_int_equal(both.n, 5);
	assert_near(both.var, a.var, 0);
}

static void test_adjusted(void **state)
{
	double p[] = { 0.01, 0.04, 0.03, 0.005 }, one[] = { 0.04 };

	(void)state;
	assert_int_equal(stats_adjust_p(p, COUNT(p)), 0);
	/* Ascending 0.005 0.01 0.03 0.04 times 4/1 4/2 4/3 4/4, and never above a later one. */
	assert_near(p[3], 0.02, 1e-15);
	assert_near(p[0], 0.02, 1e-15);
	assert_near(p[2], 0.04, 1e-15);
	assert_near(p[1], 0.04, 1e-15);
	assert_int_equal(stats_adjust_p(one, 1), 0);
	assert_near(one[0], 0.04, 0);
}

static void test_medians(void **state)
{
	static const double a[] = { 10, 30, 20, 40, 50 }, b[] = { 300, 100, 400, 200, 500, 600 };
	static const double same[] = { 4, 4, 4, 4, 4 }, other[] = { 5, 5, 5, 5, 5 };
	static const double low[] = { 1, 6, 2, 5, 3, 4 }, high[] = { 10, 80, 20, 70, 30, 60 };
	struct contrast c, again;

	(void)state;
	assert_int_equal(contrast_medians(a, 5, b, 6, &c), 0);
	assert_true(c.a == 30 && c.b == 350 && c.diff == 320);
	assert_true(c.low <= 320 && c.high >= 320 && c.b_low <= 350 && c.b_high >= 350);
	assert_int_equal(contrast_medians(a, 5, b, 6, &again), 0);
	assert_memory_equal(&c, &again, sizeof(c));
	/* Ranks 1 to 6 in an order without a memory, and 7 to 12: all of one below all of the
	 * other. Means 3.5 and 9.5, variance 3.5 of each, so that t is 6 / sqrt(2 * 3.5 / 6) with 10
	 * degrees of freedom. */
	assert_int_equal(contrast_medians(low, 6, high, 6, &c), 0);
	assert_near(c.p.v, stats_t_two_sided(6 / sqrt(7.0 / 6), 10), 1e-12);
	/* Nothing varies: the difference is what it is. */
	assert_int_equal(contrast_medians(same, 5, other, 5, &c), 0);
	assert_false(c.p.known);
	assert_true(c.low == 1 && c.high == 1 && c.visible == 0 && c.pct.v == 25);
	assert_int_equal(contrast_medians(same, 5, same, 5, &c), 0);
	assert_true(c.diff == 0 && c.low == 0 && c.high == 0);
}

/* 24 steps of which the latter half is 10 times as long are worth few independent ones. Their
 * median is somewhere between; that it is less than nothing is out of the question. */
static void test_medians_of_a_drift(void **state)
{
	double a[24], b[24], mixed[24];
	struct contrast c;

	(void)state;
	for (size_t i = 0; i < 24; i++) {
		a[i] = (i < 12 ? 100 : 1000) + (double)(i % 3);
		b[i] = 20 * a[i];
		mixed[i] = i < 8 ? 0 : a[i];
	}
	assert_int_equal(contrast_medians(a, 24, b, 24, &c), 0);
	assert_true(c.pct.known && c.low_pct.known && c.high_pct.known);
	assert_true(c.low_pct.v > -100 && c.b_low > 0);
	assert_near(c.pct.v, 1900, 1e-9);
	/* With zeros among them the baseline may be 0, and the percentage is that of the medians. */
	assert_int_equal(contrast_medians(mixed, 24, b, 24, &c), 0);
	assert_true(c.a > 0 && c.pct.known && !c.low_pct.known && !c.high_pct.known);
	assert_string_equal(c.low_pct.reason, COMPARE_VAGUE);
}

static void test_no_percent_of_nothing(void **state)
{
	static const double none[] = { 0, 0, 0, 0, 0 }, some[] = { 1, 2, 1, 2, 1 };
	struct moments a = moments_of(none, 5), b = moments_of(some, 5);
	struct contrast c = contrast_means(&a, &b);

	(void)state;
	assert_false(c.pct.known || c.low_pct.known);
	assert_true(isfinite(c.low) && isfinite(c.high) && c.p.known);
	assert_int_equal(contrast_medians(none, 5, some, 5, &c), 0);
	assert_false(c.pct.known || c.high_pct.known);
}

static double gauss(uint64_t *state)
{
	double u = ((double)(stats_random(state) >> 11) + 1) / 9007199254740994.0;
	double v = (double)(stats_random(state) >> 11) / 9007199254740992.0;

	return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

#define STEPS 40

/* Steps of 10 ms with 2% of noise that remembers: x_i = phi x_(i-1) + e_i. */
static void simulate(uint64_t *state, double phi, double mean, double *x)
{
	double e = gauss(state);

	for (size_t i = 0; i < STEPS; i++) {
		x[i] = mean * (1 + 0.02 * e);
		e = phi * e + sqrt(1 - phi * phi) * gauss(state);
	}
}

/* Share of pairs that are called different. */
static double called(double phi, double shift, bool medians, uint64_t pairs, double *ret_covered)
{
	size_t n = 0, covered = 0;

	for (uint64_t seed = 1; seed <= pairs; seed++) {
		uint64_t state = seed * UINT64_C(0x9E3779B97F4A7C15);
		struct difference d = { 0 }, *list[] = { &d };
		double a[STEPS], b[STEPS];
		struct contrast c;

		simulate(&state, phi, 1e7, a);
		simulate(&state, phi, 1e7 * (1 + shift), b);
		if (medians) {
			assert_int_equal(contrast_medians(a, STEPS, b, STEPS, &c), 0);
		} else {
			struct moments m_a = moments_of(a, STEPS), m_b = moments_of(b, STEPS);

			c = contrast_means(&m_a, &m_b);
		}
		difference_of_contrast(&d, &c);
		assert_int_equal(differences_judge(list, 1, false), 0);
		n += d.verdict == COMPARE_WORSE || d.verdict == COMPARE_BETTER;
		covered += c.low_pct.v <= 100 * shift && 100 * shift <= c.high_pct.v;
	}
	*ret_covered = (double)covered / (double)pairs;
	return (double)n / (double)pairs;
}

static void test_false_alarms_and_power(void **state)
{
	static const double memories[] = { 0, 0.5, 0.8 };
	/* 3% at 2% of noise: 40 steps are worth 40, 13 and 4 independent ones. */
	static const double power[] = { 0.95, 0.6, 0.12 };

	(void)state;
	for (size_t i = 0; i < COUNT(memories); i++)
		for (int medians = 0; medians < 2; medians++) {
			double covered, false_alarms, found;

			false_alarms = called(memories[i], 0, medians, 500, &covered);
			print_message("phi %.1f %s: false alarms %.3f, covered %.3f\n", memories[i],
				      medians ? "medians" : "means", false_alarms, covered);
			assert_true(false_alarms <= 0.07);
			assert_true(covered >= 0.92);
			found = called(memories[i], 0.03, medians, 200, &covered);
			print_message("  a shift of 3%% is found %.3f, covered %.3f\n", found,
				      covered);
			assert_true(found >= power[i]);
		}
}

/* What is compared with itself is noise, whatever it looks like. */
static void test_itself_is_noise(void **state)
{
	uint64_t random = 99;

	(void)state;
	for (int i = 0; i < 200; i++) {
		struct difference d = { 0 }, *list[] = { &d };
		size_t n = COMPARE_STEPS_MIN + stats_random(&random) % 60;
		struct contrast c;
		double x[80];

		for (size_t k = 0; k < n; k++)
			x[k] = exp(3 * gauss(&random)) * (i % 3 ? 1 : (double)(k + 1));
		if (i % 2) {
			struct moments m = moments_of(x, n);

			c = contrast_means(&m, &m);
		} else {
			assert_int_equal(contrast_medians(x, n, x, n, &c), 0);
		}
		difference_of_contrast(&d, &c);
		assert_int_equal(differences_judge(list, 1, i % 5 == 0), 0);
		assert_int_equal(d.verdict, COMPARE_NOISE);
		assert_true(isfinite(c.low) && isfinite(c.high) && isfinite(c.visible));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_student),
		cmocka_unit_test(test_welch),
		cmocka_unit_test(test_percent_of_a_vague_baseline),
		cmocka_unit_test(test_medians_of_a_drift),
		cmocka_unit_test(test_moments),
		cmocka_unit_test(test_equal_runs_do_not_vary),
		cmocka_unit_test(test_redundancy),
		cmocka_unit_test(test_pooled),
		cmocka_unit_test(test_adjusted),
		cmocka_unit_test(test_medians),
		cmocka_unit_test(test_no_percent_of_nothing),
		cmocka_unit_test(test_false_alarms_and_power),
		cmocka_unit_test(test_itself_is_noise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
