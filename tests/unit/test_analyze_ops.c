/* SPDX-License-Identifier: Apache-2.0
 *
 * Self and total times: by hand, and against a slow search of all pairs on random trees.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "fake_run.h"
#include "subjects/numbers/stats.h"
#include "subjects/ops/ops.h"

static const struct op_row *find(const struct run *run, const struct ops *ops, const char *name)
{
	for (size_t i = 0; i < ops->n; i++)
		if (!strcmp(run_string(run, ops->rows[i].name), name))
			return &ops->rows[i];
	fail_msg("no row %s", name);
	return NULL;
}

static struct ops analyzed(const struct run *run, struct selection sel, struct ops_options options)
{
	struct ops ops;

	assert_int_equal(ops_analyze(run, &sel, &options, &ops), 0);
	return ops;
}

static void test_by_hand(void **state)
{
	struct run *run = fake_run_new();
	uint32_t outer = fake_site(run, "outer", 0, -1, 1), mm = fake_site(run, "mm", 0, 2, 1);
	struct ops ops;

	(void)state;
	fake_op(run, mm, 10, 30, 1, 1, 200);
	fake_op(run, mm, 40, 50, 1, 1, 100);
	fake_range(run, outer, 0, 100, 1, 0);
	fake_op(run, mm, 5, 25, 2, 0, 400); /* another thread: nobody's child */
	ops = analyzed(run, SELECT_ALL, (struct ops_options){ 0 });
	assert_int_equal(ops.n, 2);
	assert_int_equal(find(run, &ops, "outer")->self_cpu_ns, 70);
	assert_int_equal(find(run, &ops, "outer")->cpu_ns, 100);
	assert_false(find(run, &ops, "outer")->flops_per_s.known);
	assert_int_equal(find(run, &ops, "mm")->self_cpu_ns, 50);
	assert_int_equal(find(run, &ops, "mm")->count, 3);
	assert_int_equal(find(run, &ops, "mm")->flops, 700);
	assert_true(find(run, &ops, "mm")->flops_per_s.v == 700 * 1e9 / 50);
	assert_int_equal(ops.self_cpu_ns, 120);
	assert_true(ops.rows[0].self_cpu_ns >= ops.rows[1].self_cpu_ns);
	ops_release(&ops);
	ops = analyzed(run, SELECT_ALL, (struct ops_options){ .without_ranges = true });
	assert_int_equal(ops.n, 1);
	assert_int_equal(ops.rows[0].self_cpu_ns, 50);
	ops_release(&ops);
	fake_run_free(run);
}

static void test_recursion_counts_once(void **state)
{
	struct run *run = fake_run_new();
	uint32_t f = fake_site(run, "f", -1, -1, 0), g = fake_site(run, "g", -1, -1, 0);
	struct ops ops;

	(void)state;
	fake_range(run, f, 20, 40, 1, 2);
	fake_range(run, g, 10, 50, 1, 1);
	fake_range(run, f, 0, 100, 1, 0);
	ops = analyzed(run, SELECT_ALL, (struct ops_options){ 0 });
	assert_int_equal(find(run, &ops, "f")->cpu_ns, 100);
	assert_int_equal(find(run, &ops, "f")->self_cpu_ns, 60 + 20);
	assert_int_equal(find(run, &ops, "g")->self_cpu_ns, 20);
	ops_release(&ops);
	fake_run_free(run);
}

static void test_lost_parent_adopts_no_stranger(void **state)
{
	struct run *run = fake_run_new();
	uint32_t a = fake_site(run, "a", -1, -1, 0), b = fake_site(run, "b", -1, -1, 0);
	struct ops ops;

	(void)state;
	/* The parent of the first one (depth 0) was dropped; the later depth-0 range began after.
	 */
	fake_range(run, b, 0, 10, 1, 1);
	fake_range(run, a, 20, 30, 1, 0);
	ops = analyzed(run, SELECT_ALL, (struct ops_options){ 0 });
	assert_int_equal(find(run, &ops, "a")->self_cpu_ns, 10);
	assert_int_equal(find(run, &ops, "b")->self_cpu_ns, 10);
	ops_release(&ops);
	fake_run_free(run);
}

/* Records that do not tell their FLOPs are counted, so that no sum of the others passes for all. */
static void test_untold_is_not_zero(void **state)
{
	struct run *run = fake_run_new();
	uint32_t op = fake_site(run, "op", -1, -1, 0);
	struct ops ops;

	(void)state;
	fake_op(run, op, 0, 10, 1, 0, 40);
	fake_add_op(run, 0,
		    &(struct row_op){ .site = op,
				      .start_ns = 20,
				      .duration_ns = 5,
				      .thread = 1,
				      .unknown = OP_FLOPS_UNKNOWN });
	ops = analyzed(run, SELECT_ALL, (struct ops_options){ 0 });
	assert_int_equal(find(run, &ops, "op")->flops, 40);
	assert_int_equal(find(run, &ops, "op")->no_flops, 1);
	assert_int_equal(find(run, &ops, "op")->no_bytes, 0);
	assert_int_equal(ops.no_flops, 1);
	assert_false(find(run, &ops, "op")->flops_per_s.known);
	ops_release(&ops);
	fake_run_free(run);
}

/* Operations of another collector have no depth: ranges inside them and around them are placed by
 * time, and one that overlaps by the clocks' error is nobody's parent. */
static void test_operations_placed_by_time(void **state)
{
	struct run *run = fake_run_new();
	uint32_t step = fake_site(run, "step", -1, -1, 0), fn = fake_site(run, "fn", -1, -1, 0);
	uint32_t op = fake_site(run, "op", -1, -1, 0), late = fake_site(run, "late", -1, -1, 0);
	struct ops ops;

	(void)state;
	fake_range(run, fn, 20, 40, 1, 1); /* inside the operation, though its own depth is 1 */
	fake_range(run, step, 0, 100, 1, 0);
	fake_op(run, op, 25, 30, 1, 64, 0);
	fake_op(run, op, 10, 50, 1, 64, 0);
	fake_op(run, late, 95, 105, 1, 64, 0);
	fake_range(run, fn, 0, 100, 2, 1); /* a thread without any keeps its depths */
	fake_range(run, step, 50, 60, 2, 0);
	ops = analyzed(run, SELECT_ALL, (struct ops_options){ 0 });
	assert_int_equal(find(run, &ops, "op")->self_cpu_ns, (40 - 20) + 5);
	assert_int_equal(find(run, &ops, "op")->cpu_ns, 40);
	assert_int_equal(find(run, &ops, "fn")->self_cpu_ns, (20 - 5) + 100);
	assert_int_equal(find(run, &ops, "step")->self_cpu_ns, (100 - 40) + 10);
	assert_int_equal(find(run, &ops, "late")->self_cpu_ns, 10);
	ops_release(&ops);
	fake_run_free(run);
}

static void test_window_and_grouping(void **state)
{
	struct run *run = fake_training_run();
	struct selection sel = SELECT_ALL;
	struct ops ops = analyzed(run, sel, (struct ops_options){ 0 });
	uint64_t all = find(run, &ops, "adamw")->count;

	(void)state;
	assert_int_equal(all, 12);
	ops_release(&ops);
	sel.step_first = 3;
	sel.step_last = 4;
	ops = analyzed(run, sel, (struct ops_options){ .by_layer = true, .by_shape = true });
	assert_int_equal(find(run, &ops, "adamw")->count, 2);
	/* Two layers: two rows of attention. */
	assert_int_equal(find(run, &ops, "attention")->count, 2);
	assert_int_equal(ops.n, 9 + 3);
	ops_release(&ops);
	sel.layer = 1;
	ops = analyzed(run, sel, (struct ops_options){ 0 });
	assert_int_equal(ops.n, 3);
	ops_release(&ops);
	fake_run_free(run);
}

/* The same operation from two places of the program, and once from nowhere. */
static void test_stacks(void **state)
{
	struct run *run = fake_run_new();
	uint32_t site = fake_site(run, "mm", -1, -1, 0);
	uint32_t a = fake_string(run, "train;forward;a.py(3)");
	uint32_t b = fake_string(run, "train;forward;b.py(9)");
	const uint32_t stacks[] = { a, b, a, 0 };
	struct ops ops;

	(void)state;
	for (int i = 0; i < 4; i++)
		fake_add_op(run, 0,
			    &(struct row_op){ .site = site,
					      .start_ns = i * 100,
					      .duration_ns = 10 + i,
					      .thread = 1,
					      .stack = stacks[i] });
	ops = analyzed(run, SELECT_ALL, (struct ops_options){ 0 });
	assert_int_equal(ops.n, 1);
	assert_int_equal(ops.rows[0].stack, 0);
	ops_release(&ops);
	ops = analyzed(run, SELECT_ALL, (struct ops_options){ .by_stack = true });
	assert_int_equal(ops.n, 3);
	/* 10 + 12, 13, 11 */
	assert_true(ops.rows[0].stack == a && ops.rows[0].self_cpu_ns == 22);
	assert_true(ops.rows[1].stack == 0 && ops.rows[1].self_cpu_ns == 13);
	assert_true(ops.rows[2].stack == b && ops.rows[2].count == 1);
	ops_release(&ops);
	fake_run_free(run);
}

struct item {
	int64_t start, end;
	uint32_t thread, name;
	uint8_t depth;
};

#define ITEMS 400

/* Splits [start, end) into random children, depth first, and records them in end order. */
static void grow_tree(struct run *run, const uint32_t *sites, struct item *items, size_t *n,
		      uint64_t *random, int64_t start, int64_t end, uint32_t thread, uint8_t depth)
{
	int64_t at = start;

	while (at < end && *n < ITEMS) {
		int64_t from = at + (int64_t)(stats_random(random) % 40);
		int64_t to = from + (int64_t)(stats_random(random) % 400);
		uint32_t name = (uint32_t)(stats_random(random) % 6);

		if (to > end)
			break;
		if (depth < 6 && stats_random(random) % 2)
			grow_tree(run, sites, items, n, random, from, to, thread,
				  (uint8_t)(depth + 1));
		if (*n >= ITEMS)
			break;
		items[(*n)++] = (struct item){ from, to, thread, name, depth };
		if (name % 2)
			fake_op(run, sites[name], from, to, thread, depth, 1);
		else
			fake_range(run, sites[name], from, to, thread, depth);
		at = to;
	}
}

static bool inside(const struct item *a, const struct item *b)
{
	return a->thread == b->thread && a->depth > b->depth && a->start >= b->start &&
	       a->end <= b->end;
}

static void check_tree(const struct run *run, const struct item *items, size_t n)
{
	struct ops ops = analyzed(run, SELECT_ALL, (struct ops_options){ 0 });
	int64_t self[6] = { 0 }, total[6] = { 0 };

	for (size_t i = 0; i < n; i++) {
		bool in_same = false;

		self[items[i].name] += items[i].end - items[i].start;
		for (size_t j = 0; j < n; j++) {
			if (inside(&items[j], &items[i]) && items[j].depth == items[i].depth + 1)
				self[items[i].name] -= items[j].end - items[j].start;
			in_same |= inside(&items[i], &items[j]) && items[i].name == items[j].name;
		}
		total[items[i].name] += in_same ? 0 : items[i].end - items[i].start;
	}
	for (size_t i = 0; i < ops.n; i++) {
		int name = run_string(run, ops.rows[i].name)[0] - 'a';

		assert_int_equal(ops.rows[i].self_cpu_ns, self[name]);
		assert_int_equal(ops.rows[i].cpu_ns, total[name]);
	}
	ops_release(&ops);
}

static void test_random_trees(void **state)
{
	static const char *const names[] = { "a", "b", "c", "d", "e", "f" };
	uint64_t random = 7;

	(void)state;
	for (int round = 0; round < 60; round++) {
		struct run *run = fake_run_new();
		struct item items[ITEMS];
		uint32_t sites[6];
		size_t n = 0;

		for (int i = 0; i < 6; i++)
			sites[i] = fake_site(run, names[i], -1, -1, 0);
		for (uint32_t thread = 1; thread < 4; thread++)
			grow_tree(run, sites, items, &n, &random, 1000 * thread,
				  1000 * thread + 4000, thread, 0);
		assert_true(n > 10);
		check_tree(run, items, n);
		fake_run_free(run);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_hand),
		cmocka_unit_test(test_recursion_counts_once),
		cmocka_unit_test(test_lost_parent_adopts_no_stranger),
		cmocka_unit_test(test_untold_is_not_zero),
		cmocka_unit_test(test_operations_placed_by_time),
		cmocka_unit_test(test_window_and_grouping),
		cmocka_unit_test(test_stacks),
		cmocka_unit_test(test_random_trees),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
