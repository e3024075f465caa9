/* SPDX-License-Identifier: Apache-2.0
 *
 * Step statistics and phases, by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "fake_run.h"
#include "moescope.h"
#include "subjects/steps/steps.h"

#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-9)

static struct steps analyzed(const struct run *run, struct selection sel)
{
	struct steps steps;

	assert_int_equal(steps_analyze(run, &sel, &steps), 0);
	return steps;
}

static void test_statistics(void **state)
{
	struct run *run = fake_run_new();
	struct steps s;

	(void)state;
	fake_step(run, 0, 0, 100, 10);
	fake_step(run, 1, 100, 300, 10);
	fake_step(run, 2, 300, 600, 0); /* tokens not given */
	fake_add_step(run, 0,
		      &(struct row_step){ .step = 3,
					  .start_ns = 600,
					  .duration_ns = 9000,
					  .unfinished = 1,
					  .recorded = 1 });
	fake_add_step(run, 0,
		      &(struct row_step){ .step = 4, .start_ns = 9600, .duration_ns = 400 });
	s = analyzed(run, SELECT_ALL);
	assert_int_equal(s.n, 5);
	assert_int_equal(s.all.n, 4);
	assert_int_equal(s.recorded.n, 3);
	NEAR(s.all.mean, 250);
	NEAR(s.recorded.mean, 200);
	NEAR(s.all.p50, 250);
	assert_int_equal(s.n_unfinished, 1);
	assert_int_equal(s.n_not_recorded, 1);
	/* Only the steps that gave tokens: 20 tokens in 300 ns. */
	NEAR(s.tokens.v, 20);
	NEAR(s.tokens_per_s.v, 20 * 1e9 / 300);
	assert_false(s.rows[2].tokens.known);
	assert_false(s.phase_pct[MOESCOPE_FORWARD].known);
	assert_false(s.warmup_ratio.known);
	assert_false(s.outlier_limit_ns.known);
	steps_release(&s);
	s = analyzed(run, (struct selection){ 1, 2, -1, -1 });
	assert_int_equal(s.n, 2);
	NEAR(s.all.mean, 250);
	steps_release(&s);
	fake_run_free(run);
}

static void test_no_steps(void **state)
{
	struct run *run = fake_run_new();
	struct steps s = analyzed(run, SELECT_ALL);

	(void)state;
	assert_int_equal(s.n, 0);
	assert_false(s.tokens_per_s.known);
	assert_non_null(s.tokens_per_s.reason);
	steps_release(&s);
	fake_run_free(run);
}

static void test_phases_lead_and_fill(void **state)
{
	struct run *run = fake_run_new();
	uint32_t data = fake_site(run, "d", -1, -1, MOESCOPE_DATA);
	uint32_t forward = fake_site(run, "f", -1, -1, MOESCOPE_FORWARD);
	uint32_t backward = fake_site(run, "b", -1, -1, MOESCOPE_BACKWARD);
	uint32_t recompute = fake_site(run, "r", -1, -1, MOESCOPE_RECOMPUTE);
	uint32_t none = fake_site(run, "n", -1, -1, 0);
	struct steps s;

	(void)state;
	fake_step(run, 0, 1000, 1100, 1);
	/* The leader: forward with a nested forward, backward with a recompute inside. */
	fake_range(run, forward, 1012, 1018, 1, 1);
	fake_range(run, forward, 1010, 1040, 1, 0);
	fake_range(run, recompute, 1050, 1060, 1, 1);
	fake_range(run, backward, 1050, 1080, 1, 0);
	fake_range(run, none, 1080, 1099, 1, 0);
	/* A loader thread busy all the time counts only where the leader has no phase; a worker
	 * inside forward adds nothing. It began before the step. */
	fake_range(run, data, 900, 1020, 2, 0);
	fake_range(run, forward, 1015, 1030, 3, 0);
	fake_range(run, backward, 1075, 1085, 3, 0);
	s = analyzed(run, SELECT_ALL);
	assert_true(s.rows[0].phases_known);
	assert_int_equal(s.rows[0].phase_ns[MOESCOPE_DATA], 10);
	assert_int_equal(s.rows[0].phase_ns[MOESCOPE_FORWARD], 30);
	assert_int_equal(s.rows[0].phase_ns[MOESCOPE_BACKWARD], 25);
	assert_int_equal(s.rows[0].phase_ns[MOESCOPE_RECOMPUTE], 10);
	assert_int_equal(s.rows[0].phase_ns[0], 25);
	NEAR(s.phase_pct[MOESCOPE_BACKWARD].v, 25);
	assert_false(s.phase_pct[MOESCOPE_OPTIMIZER].known);
	NEAR(s.phase_pct[0].v, 25);
	steps_release(&s);
	fake_run_free(run);
}

/* An optimizer that calls a closure: forward and backward lie in it, and a phase of the same name
 * in a phase of another. Rows are in the order of their end, those of two threads mixed. */
static void test_innermost_phase(void **state)
{
	struct run *run = fake_run_new();
	uint32_t optimizer = fake_site(run, "o", -1, -1, MOESCOPE_OPTIMIZER);
	uint32_t forward = fake_site(run, "f", -1, -1, MOESCOPE_FORWARD);
	uint32_t backward = fake_site(run, "b", -1, -1, MOESCOPE_BACKWARD);
	uint32_t recompute = fake_site(run, "r", -1, -1, MOESCOPE_RECOMPUTE);
	struct steps s;

	(void)state;
	fake_step(run, 0, 1000, 1100, 1);
	fake_range(run, forward, 1012, 1018, 1, 2);
	fake_range(run, backward, 1010, 1019, 65, 0); /* of a worker */
	fake_range(run, forward, 1010, 1040, 1, 1);
	fake_range(run, recompute, 1045, 1050, 1, 3);
	fake_range(run, backward, 1043, 1052, 1, 2);
	fake_range(run, recompute, 1055, 1060, 1, 2);
	fake_range(run, backward, 1040, 1070, 1, 1);
	fake_range(run, optimizer, 1080, 1090, 1, 1); /* as long as the one around it */
	fake_range(run, forward, 1080, 1090, 1, 1);
	fake_range(run, optimizer, 1005, 1090, 1, 0);
	s = analyzed(run, SELECT_ALL);
	assert_int_equal(s.rows[0].phase_ns[MOESCOPE_FORWARD], 30);
	assert_int_equal(s.rows[0].phase_ns[MOESCOPE_BACKWARD], 20);
	assert_int_equal(s.rows[0].phase_ns[MOESCOPE_RECOMPUTE], 10);
	assert_int_equal(s.rows[0].phase_ns[MOESCOPE_OPTIMIZER], 25);
	assert_int_equal(s.rows[0].phase_ns[0], 15);
	steps_release(&s);
	fake_run_free(run);
}

/* Step 0 began when the library was loaded: it is a step with its tokens, but nobody knows how long
 * it took without the set-up. */
static void test_set_up_is_in_no_time(void **state)
{
	struct run *run = fake_run_new();
	struct steps s;

	(void)state;
	fake_step(run, 0, 0, 9000, 1);
	run->step.first[0] = STEP_FIRST_LOADED;
	fake_step(run, 1, 9000, 9100, 1);
	fake_step(run, 2, 9100, 9300, 1);
	for (size_t i = 0; i < 3; i++) {
		run->step.tokens[i] = 30;
		run->step.tokens_known[i] = 1;
	}
	s = analyzed(run, SELECT_ALL);
	assert_int_equal(s.n, 3);
	assert_int_equal(s.n_set_up, 1);
	NEAR(s.all.mean, 150);
	NEAR(s.tokens.v, 90);
	NEAR(s.tokens_per_s.v, 60e9 / 300);
	assert_false(s.rows[0].tokens_per_s.known);
	steps_release(&s);
	run->step.first[0] = STEP_FIRST_STARTED;
	s = analyzed(run, SELECT_ALL);
	assert_int_equal(s.n_set_up, 0);
	NEAR(s.all.mean, 3100);
	steps_release(&s);
	fake_run_free(run);
}

static void test_phase_over_two_steps(void **state)
{
	struct run *run = fake_run_new();
	uint32_t forward = fake_site(run, "f", -1, -1, MOESCOPE_FORWARD);
	struct steps s;

	(void)state;
	fake_step(run, 0, 0, 100, 1);
	fake_step(run, 1, 100, 200, 1);
	fake_step(run, 2, 200, 300, 1);
	fake_range(run, forward, 90, 130, 1, 0);
	s = analyzed(run, SELECT_ALL);
	assert_int_equal(s.rows[0].phase_ns[MOESCOPE_FORWARD], 10);
	assert_int_equal(s.rows[1].phase_ns[MOESCOPE_FORWARD], 30);
	assert_false(s.rows[2].phases_known);
	assert_int_equal(s.n_phased, 2);
	steps_release(&s);
	fake_run_free(run);
}

static void test_outliers_and_warmup(void **state)
{
	struct run *run = fake_run_new();
	int64_t at = 0;
	struct steps s;

	(void)state;
	for (int i = 0; i < 30; i++) {
		int64_t duration = i < 5 ? 200 : i == 20 ? 500 : 100 + i % 2;

		fake_step(run, i, at, at + duration, 1);
		at += duration;
	}
	s = analyzed(run, SELECT_ALL);
	assert_int_equal(s.n_outliers, 6);
	assert_true(s.rows[20].outlier);
	assert_false(s.rows[21].outlier);
	NEAR(s.warmup_mean_ns.v, 200);
	NEAR(s.warmup_ratio.v, 200.0 / 101);
	/* Nothing was left out. */
	assert_int_equal(s.all.n, 30);
	steps_release(&s);
	fake_run_free(run);
}

static void test_two_ranks_side_by_side(void **state)
{
	struct run *run = fake_run_new();
	uint16_t second = fake_shard(run, 1, 4243);
	struct steps s;

	(void)state;
	fake_step(run, 0, 0, 100, 50);
	fake_add_step(run, second,
		      &(struct row_step){ .step = 0,
					  .start_ns = 0,
					  .duration_ns = 100,
					  .tokens = 50,
					  .tokens_known = 1,
					  .recorded = 1 });
	s = analyzed(run, SELECT_ALL);
	assert_int_equal(s.rows[1].rank, 1);
	NEAR(s.tokens_per_s.v, 100 * 1e9 / 100);
	steps_release(&s);
	fake_run_free(run);
}

/* The second rank alone is slow at first; the third has too few steps to say what a beginning is. */
static void test_warmup_of_every_rank(void **state)
{
	struct run *run = fake_run_new();
	uint16_t second = fake_shard(run, 1, 4243), third = fake_shard(run, 2, 4244);
	struct steps s;

	(void)state;
	for (int i = 0; i < 20; i++) {
		struct row_step row = {
			.step = i, .start_ns = i * 1000, .duration_ns = 100, .recorded = 1
		};

		fake_add_step(run, 0, &row);
		row.duration_ns = i < 5 ? 500 : 100;
		fake_add_step(run, second, &row);
		row.duration_ns = 9000;
		if (i < 14)
			fake_add_step(run, third, &row);
	}
	s = analyzed(run, SELECT_ALL);
	assert_int_equal(s.n_warmup, 5);
	NEAR(s.warmup_mean_ns.v, 300);
	NEAR(s.warmup_ratio.v, 3);
	steps_release(&s);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_statistics),
		cmocka_unit_test(test_no_steps),
		cmocka_unit_test(test_phases_lead_and_fill),
		cmocka_unit_test(test_innermost_phase),
		cmocka_unit_test(test_set_up_is_in_no_time),
		cmocka_unit_test(test_phase_over_two_steps),
		cmocka_unit_test(test_outliers_and_warmup),
		cmocka_unit_test(test_two_ranks_side_by_side),
		cmocka_unit_test(test_warmup_of_every_rank),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
