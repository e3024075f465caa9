/* SPDX-License-Identifier: Apache-2.0
 *
 * How often to look, by made-up costs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "host/stacks/pace.h"

#define US INT64_C(1000)
#define MS (1000 * US)
#define SECOND (1000 * MS)

struct spent {
	int64_t passed_ns, cpu_ns;
	int looks;
};

/* Looks of one cost for so long. */
static struct spent look_for(struct pace *pace, int64_t for_ns, int64_t cost_ns)
{
	struct spent spent = { 0 };
	int64_t next_ns = pace->wanted_ns;

	while (spent.passed_ns < for_ns) {
		spent.passed_ns += next_ns;
		spent.cpu_ns += cost_ns;
		spent.looks++;
		next_ns = pace_next(pace, cost_ns, next_ns);
	}
	return spent;
}

static void cheap_looks(void **state)
{
	struct pace pace;

	(void)state;
	pace_init(&pace, 100);
	assert_int_equal(look_for(&pace, SECOND, 20 * US).looks, 100);
	assert_int_equal(look_for(&pace, SECOND, 99 * US).looks, 100);
}

static void dear_looks(void **state)
{
	struct pace pace;
	struct spent spent;

	(void)state;
	pace_init(&pace, 100);
	look_for(&pace, SECOND, 400 * US); /* until it knows */
	spent = look_for(&pace, 60 * SECOND, 400 * US);
	assert_in_range(spent.looks, 60 * 22, 60 * 26);
	assert_true(spent.cpu_ns * 100 <= spent.passed_ns * 102 / 100);
	/* Cheap again: as often as wanted, and never seldomer than once a second. */
	look_for(&pace, 10 * SECOND, 50 * US);
	assert_int_equal(look_for(&pace, SECOND, 50 * US).looks, 100);
	assert_in_range(look_for(&pace, 60 * SECOND, SECOND).looks, 60, 180);
}

/* It is saved later, with the rate almost as before. */
static void what_comes_once(void **state)
{
	struct pace pace;
	struct spent spent;

	(void)state;
	pace_init(&pace, 100);
	look_for(&pace, SECOND, 100 * US);
	pace_next(&pace, 50 * MS, 10 * MS);
	spent = look_for(&pace, 10 * SECOND, 100 * US);
	assert_in_range(spent.looks, 880, 910);
	spent = look_for(&pace, 60 * SECOND, 100 * US);
	assert_int_equal(pace.debt_ns, 0);
	assert_int_equal(look_for(&pace, SECOND, 99 * US).looks, 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cheap_looks),
		cmocka_unit_test(dear_looks),
		cmocka_unit_test(what_comes_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
