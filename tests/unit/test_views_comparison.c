/* SPDX-License-Identifier: Apache-2.0
 *
 * Comparisons of runs built by hand against files in tests/golden, byte for byte.
 * MOESCOPE_UPDATE_GOLDEN=1 writes the files instead; look at the difference before keeping it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fake_run.h"
#include "golden.h"
#include "json_check.h"
#include "moescope.h"
#include "documents/comparison.h"
#include "surfaces/sheets/sheet_print.h"

#define US INT64_C(1000)
#define MS INT64_C(1000000)
#define STEPS 24

/* Steps of 1 ms and some jitter; one kernel grows from 200 us to `gemm_us`, one is renamed. */
static struct run *make_run(const char *name, int64_t gemm_us, const char *other_kernel, bool gpu)
{
	static const int64_t jitter_us[] = { 0, 7, 3, 9, 1, 4, 8, 2 };
	struct run *run = fake_run_new();
	uint32_t forward = fake_site(run, "forward", -1, -1, MOESCOPE_FORWARD);
	uint32_t matmul = fake_site(run, "matmul", 0, -1, 0);

	free(run->info.name);
	run->info.name = strdup(name);
	fake_span(run, 0, 300 * MS);
	for (int64_t i = 0; i < STEPS; i++) {
		int64_t at = i * 10 * MS, more = jitter_us[(i * 5 + gemm_us) % 8] * US;
		int64_t gemm = gemm_us * US + more;
		uint32_t load[4] = { 40, 24, 32, 32 };
		uint64_t id = (uint64_t)i * 10;

		if (gpu) {
			fake_call(run, "cudaLaunchKernel", at + 100 * US, at + 105 * US, id + 1);
			fake_kernel(run, "gemm_kernel", at + 110 * US, at + 110 * US + gemm,
				    id + 1);
			fake_call(run, "cudaLaunchKernel", at + 600 * US, at + 605 * US, id + 2);
			fake_kernel(run, other_kernel, at + 610 * US, at + 650 * US, id + 2);
		}
		load[0] += (uint32_t)(i % 3) * 4;
		load[3] -= (uint32_t)(i % 3) * 4;
		fake_routing(run, i, at + 20 * US, 0, 2, 4, load);
		fake_op(run, matmul, at + 200 * US, at + 400 * US + more, 1, 1, 1000);
		fake_range(run, forward, at + 50 * US, at + 800 * US + gemm, 1, 0);
		fake_step(run, i, at, at + 800 * US + gemm, 64);
	}
	fake_add_memory(run, 0,
			&(struct row_memory){ .time_ns = MS,
					      .address = 1,
					      .bytes = 1000000 + (uint64_t)gemm_us * 1000,
					      .device = 0 });
	return run;
}

enum form { TEXT, WIDE, MARKDOWN, JSON, CSV };

struct runs {
	struct run_digest digests[8];
	struct compare_group groups[4];
	size_t n_digests, n_groups;
};

static void add_run(struct runs *r, struct run *run)
{
	struct selection sel = SELECT_ALL;

	assert_int_equal(digest_take(run, &sel, &r->digests[r->n_digests++]), 0);
	fake_run_free(run);
}

static void add_group(struct runs *r, const char *name, size_t n)
{
	r->groups[r->n_groups++] = (struct compare_group){ name, &r->digests[r->n_digests - n], n };
}

static void release(struct runs *r)
{
	for (size_t i = 0; i < r->n_digests; i++)
		digest_release(&r->digests[i]);
}

static char *rendered(const struct runs *r, enum form form, const char *const *conditions,
		      size_t n_conditions)
{
	struct view_options options = { .width = form == WIDE ? 120 : 80,
					.utf8 = true,
					.json = form == JSON,
					.csv = form == CSV,
					.markdown = form == MARKDOWN };
	struct compared_choice choice = { .limit = form < JSON ? 10 : 0 };
	struct condition parsed[4];
	struct compare_check checks[4];
	struct comparison c;
	struct compared compared;
	struct err err = { "" };
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_int_equal(compare_groups(r->groups, r->n_groups, &c), 0);
	for (size_t i = 0; i < n_conditions; i++) {
		assert_int_equal(condition_parse(conditions[i], &parsed[i], &err), 0);
		checks[i] = (struct compare_check){ &parsed[i], &c.pairs[0],
						    condition_judge(&parsed[i], &c.pairs[0]) };
	}
	assert_int_equal(compared_make(&c, checks, n_conditions, &choice, &compared, &err), 0);
	assert_int_equal(sheet_print(&comparison_sheet, &compared, &options, out, &err), 0);
	assert_string_equal(err.message, "");
	fclose(out);
	compared_release(&compared);
	comparison_release(&c);
	return text;
}

static void check(const char *name, char *text)
{
	print_message("%s\n", name);
	golden_compare(name, text);
	free(text);
}

static void test_two_runs(void **state)
{
	static const char *const conditions[] = { "step_time > 1%", "tokens_per_s > 50%",
						  "ttft > 1%", "peak_allocated > 1%" };
	struct runs r = { 0 };
	char *json;

	(void)state;
	add_run(&r, make_run("before", 200, "old_kernel", true));
	add_group(&r, "before", 1);
	add_run(&r, make_run("after", 260, "new_kernel", true));
	add_group(&r, "after", 1);
	check("compare.txt", rendered(&r, TEXT, conditions, 4));
	check("compare-120.txt", rendered(&r, WIDE, NULL, 0));
	check("compare.md", rendered(&r, MARKDOWN, conditions, 4));
	json = rendered(&r, JSON, conditions, 4);
	assert_true(json_check(json));
	check("compare.json", json);
	check("compare.csv", rendered(&r, CSV, NULL, 0));
	release(&r);
}

static void test_groups_and_what_is_missing(void **state)
{
	struct runs r = { 0 };
	struct run *odd = make_run("odd", 200, "old_kernel", false);

	(void)state;
	for (int i = 0; i < 3; i++)
		add_run(&r, make_run("old", 200 + i, "old_kernel", true));
	add_group(&r, "old", 3);
	for (int i = 0; i < 3; i++)
		add_run(&r, make_run("new", 230 + i, "old_kernel", true));
	add_group(&r, "new", 3);
	strcpy(odd->info.level, "step");
	odd->loss.dropped_ring_full = 12;
	add_run(&r, odd);
	add_group(&r, "odd", 1);
	add_run(&r, fake_run_new());
	add_group(&r, "empty", 1);
	check("compare-groups.txt", rendered(&r, TEXT, NULL, 0));
	release(&r);
}

/* Twelve layers of which one differs: the others are counted. */
static void test_many_layers(void **state)
{
	struct runs r = { 0 };
	char *text;

	(void)state;
	for (int side = 0; side < 2; side++) {
		struct run *run = make_run(side ? "b" : "a", 200, "old_kernel", false);

		for (int64_t i = 0; i < STEPS; i++)
			for (int32_t layer = 1; layer < 12; layer++) {
				uint32_t more = side && layer == 7 ? 20 : 0;
				uint32_t load[4] = { 40 + more + (uint32_t)(i % 2), 24, 32,
						     32 - more - (uint32_t)(i % 2) };

				fake_routing(run, i, i * 10 * MS + 20 * US, layer, 2, 4, load);
			}
		add_run(&r, run);
		add_group(&r, side ? "b" : "a", 1);
	}
	text = rendered(&r, TEXT, NULL, 0);
	assert_non_null(strstr(text, "imbalance[layer 7] "));
	assert_null(strstr(text, "imbalance[layer 8] "));
	assert_non_null(strstr(text, "imbalance: 11 rows of noise are not shown"));
	free(text);
	release(&r);
}

static void test_wrong_sort(void **state)
{
	struct compared_choice choice = { .sort = "colour" };
	struct runs r = { 0 };
	struct comparison c;
	struct compared compared;
	struct err err = { "" };

	(void)state;
	for (int i = 0; i < 2; i++) {
		add_run(&r, fake_run_new());
		add_group(&r, i ? "b" : "a", 1);
	}
	assert_int_equal(compare_groups(r.groups, 2, &c), 0);
	assert_int_equal(compared_make(&c, NULL, 0, &choice, &compared, &err), -EINVAL);
	assert_non_null(strstr(err.message, "difference_pct"));
	comparison_release(&c);
	release(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two_runs),
		cmocka_unit_test(test_groups_and_what_is_missing),
		cmocka_unit_test(test_many_layers),
		cmocka_unit_test(test_wrong_sort),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
