/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel filter of the probe: what matches, what is remembered, what is counted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "probe/core/name_filter.h"
#include "probe_child.h"

static struct name_filter filter = KERNEL_FILTER;

static void filter_by(const char *expression)
{
	if (expression)
		setenv("MOESCOPE_KERNEL", expression, 1);
	else
		unsetenv("MOESCOPE_KERNEL");
	name_filter_start(&filter);
}

static void test_no_filter(void **state)
{
	(void)state;
	for (int empty = 0; empty < 2; empty++) {
		filter_by(empty ? "" : NULL);
		assert_true(name_filter_keeps(&filter, 1, "anything"));
		assert_true(name_filter_keeps(&filter, 0, ""));
		assert_int_equal(name_filter_skipped(&filter), 0);
	}
}

static void test_matching(void **state)
{
	static const struct {
		const char *expression, *name;
		bool kept;
	} cases[] = {
		{ "gemm", "_Z11expert_gemmPfS_i", true },
		{ "gemm", "ampere_bf16_s16816gemm_bf16_128x64", true },
		{ "gemm", "GEMM", false },
		{ "^gemm", "_Z11expert_gemmPfS_i", false },
		{ "^(gemm|softmax)_[0-9]+$", "softmax_12", true },
		{ "^(gemm|softmax)_[0-9]+$", "softmax_x", false },
		{ "a{2,3}b", "caaab", true },
		{ "a{2,3}b", "cab", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		filter_by(cases[i].expression);
		if (name_filter_keeps(&filter, 3, cases[i].name) != cases[i].kept ||
		    name_filter_keeps(&filter, 0, cases[i].name) != cases[i].kept)
			fail_msg("case %zu", i);
		assert_int_equal(name_filter_skipped(&filter), cases[i].kept ? 0 : 2);
	}
}

#define NAMES 100000u

/* The answer is that of the id: matched once, whatever text comes later. */
static void test_remembered(void **state)
{
	char name[32];

	(void)state;
	filter_by("^even");
	/* From above, so that the table grows over ids that it has no answer for yet. */
	for (uint32_t id = NAMES; id > 0; id -= id > 10 ? 7 : 1) {
		snprintf(name, sizeof(name), "%s %u", id % 2 ? "odd" : "even", id);
		assert_int_equal(name_filter_keeps(&filter, id, name), id % 2 == 0);
	}
	for (uint32_t id = 1; id <= NAMES; id++) {
		snprintf(name, sizeof(name), "%s %u", id % 2 ? "odd" : "even", id);
		assert_int_equal(name_filter_keeps(&filter, id, name), id % 2 == 0);
	}
	assert_true(name_filter_keeps(&filter, 2, "no more even"));
	assert_false(name_filter_keeps(&filter, 3, "even after all"));
	assert_false(name_filter_keeps(&filter, 0, "not interned: looked at each time"));
	assert_true(name_filter_keeps(&filter, 0, "even, looked at each time"));
	/* Another start forgets. */
	filter_by("^even");
	assert_int_equal(name_filter_skipped(&filter), 0);
	assert_true(name_filter_keeps(&filter, 3, "even after all"));
}

static void wrong_expression(void)
{
	start_at(MOESCOPE_TRACE);
	filter_by("a(b");
	CHECK(name_filter_keeps(&filter, 1, "anything"));
	CHECK(name_filter_skipped(&filter) == 0);
	moescope_stop();
}

static void test_wrong_expression(void **state)
{
	struct run *run = run_of(wrong_expression);

	(void)state;
	assert_int_equal(run->fact.n, 1);
	assert_string_equal(run_string(run, run->fact.key[0]), "kernel filter");
	assert_non_null(strstr(run_string(run, run->fact.value[0]), "all kernels are recorded"));
	run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_filter),
		cmocka_unit_test(test_matching),
		cmocka_unit_test(test_remembered),
		cmocka_unit_test_setup_teardown(test_wrong_expression, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
