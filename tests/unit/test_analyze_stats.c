/* SPDX-License-Identifier: Apache-2.0
 *
 * Statistics against values worked out by hand (percentiles: those of numpy).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "subjects/numbers/stats.h"

#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-9)

static void test_summary(void **state)
{
	double x[] = { 4, 1, 3, 2 };
	struct stats_summary s = stats_summarize(x, 4);

	(void)state;
	NEAR(s.mean, 2.5);
	NEAR(s.std, sqrt(1.25));
	NEAR(s.cv, sqrt(1.25) / 2.5);
	NEAR(s.min, 1);
	NEAR(s.max, 4);
	NEAR(s.p50, 2.5);
	NEAR(s.p95, 3.85);
	NEAR(s.p99, 3.97);
	NEAR(s.sum, 10);
	assert_int_equal(stats_summarize(x, 0).n, 0);
}

static void test_percentiles(void **state)
{
	double one[] = { 7 }, odd[] = { 15, 20, 35, 40, 50 };

	(void)state;
	NEAR(stats_percentile_sorted(one, 1, 99), 7);
	NEAR(stats_percentile_sorted(odd, 5, 40), 29);
	NEAR(stats_percentile_sorted(odd, 5, 0), 15);
	NEAR(stats_percentile_sorted(odd, 5, 100), 50);
}

static void test_std(void **state)
{
	double x[] = { 2, 4, 4, 4, 5, 5, 7, 9 };

	(void)state;
	NEAR(stats_std(x, 8), 2);
}

static void test_random_is_repeatable(void **state)
{
	uint64_t a = 42, b = 42;

	(void)state;
	for (int i = 0; i < 100; i++)
		assert_true(stats_random(&a) == stats_random(&b));
	assert_true(a != 42);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_summary),
		cmocka_unit_test(test_percentiles),
		cmocka_unit_test(test_std),
		cmocka_unit_test(test_random_is_repeatable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
