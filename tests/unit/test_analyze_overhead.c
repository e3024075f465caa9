/* SPDX-License-Identifier: Apache-2.0
 *
 * Overhead, inference and counters, by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "fake_run.h"
#include "subjects/counters/counters.h"
#include "subjects/inference/inference.h"
#include "subjects/overhead/overhead.h"

#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-6)

/* Steps in blocks on, off, off, on; every step `drift` longer than the one before. */
static struct run *probed(int pairs, int64_t on_ns, int64_t off_ns, int64_t drift_ns)
{
	struct run *run = fake_run_new();
	int64_t at = 0;

	for (int i = 0; i < 2 * pairs; i++) {
		bool on = i % 4 == 0 || i % 4 == 3;
		int64_t duration = (on ? on_ns : off_ns) + i * drift_ns;

		fake_add_step(run, 0,
			      &(struct row_step){ .step = i,
						  .start_ns = at,
						  .duration_ns = duration,
						  .recorded = on,
						  .probe = on ? 1 : 2 });
		at += duration;
	}
	fake_span(run, 0, at);
	return run;
}

static struct overhead analyzed(const struct run *run)
{
	struct overhead o;

	assert_int_equal(overhead_analyze(run, &o), 0);
	return o;
}

static void test_on_against_off(void **state)
{
	struct run *run = probed(24, 1010000, 1000000, 0);
	struct overhead o = analyzed(run), again = analyzed(run);

	(void)state;
	assert_int_equal(o.pairs, 24);
	NEAR(o.measured_pct.v, 1);
	NEAR(o.low_pct.v, 1);
	NEAR(o.high_pct.v, 1);
	NEAR(o.off_median_ns.v, 1000000);
	NEAR(o.on_median_ns.v, 1010000);
	assert_true(again.low_pct.v == o.low_pct.v);
	assert_false(o.own_cpu_pct.known);
	fake_run_free(run);
}

static void test_drift_cancels(void **state)
{
	/* Steps grow by 0.1% each; pairs alternate (on, off), (off, on): half the differences are
	 * too small by the drift, half too large. */
	struct run *run = probed(24, 1000000, 1000000, 1000);
	struct overhead o = analyzed(run);

	(void)state;
	NEAR(o.measured_pct.v, 0);
	assert_true(o.low_pct.v < 0 && o.high_pct.v > 0);
	fake_run_free(run);
}

static void test_a_step_is_in_one_pair(void **state)
{
	struct run *run = fake_run_new();

	(void)state;
	for (int i = 0; i < 20; i++)
		fake_add_step(run, 0,
			      &(struct row_step){ .step = i,
						  .start_ns = i * 100,
						  .duration_ns = 100,
						  .probe = i % 2 ? 2 : 1 });
	/* A gap without a check, then another pair. */
	fake_step(run, 20, 2000, 2100, 0);
	fake_add_step(run, 0,
		      &(struct row_step){ .start_ns = 2100, .duration_ns = 100, .probe = 2 });
	fake_add_step(run, 0,
		      &(struct row_step){ .start_ns = 2200, .duration_ns = 100, .probe = 1 });
	assert_int_equal(analyzed(run).pairs, 11);
	fake_run_free(run);
}

static void test_too_few_pairs(void **state)
{
	struct run *run = probed(7, 110, 100, 0);
	struct overhead o = analyzed(run);

	(void)state;
	assert_int_equal(o.pairs, 7);
	assert_false(o.measured_pct.known);
	assert_non_null(o.measured_pct.reason);
	fake_run_free(run);
}

static void test_own_cost(void **state)
{
	struct run *run = fake_run_new();
	struct overhead o;

	(void)state;
	fake_span(run, 0, 1000);
	fake_add_cost(run, 0, &(struct row_cost){ .drain_cpu_ns = 3, .records = 5, .bytes = 7 });
	fake_add_cost(run, 0, &(struct row_cost){ .drain_cpu_ns = 2, .records = 1, .bytes = 1 });
	o = analyzed(run);
	NEAR(o.own_cpu_pct.v, 0.5);
	assert_int_equal(o.records, 6);
	assert_int_equal(o.bytes, 8);
	assert_false(o.measured_pct.known);
	fake_run_free(run);
}

static void token(struct run *run, uint64_t request, int64_t time_ns, uint8_t event, uint64_t count)
{
	fake_add_token(
		run, 0,
		&(struct row_token){
			.time_ns = time_ns, .request = request, .event = event, .count = count });
}

static void test_inference(void **state)
{
	struct run *run = fake_run_new();
	struct inference f;

	(void)state;
	token(run, 1, 0, 0, 10);
	token(run, 2, 50, 0, 20);
	token(run, 1, 100, 1, 0);
	token(run, 1, 120, 1, 0);
	token(run, 2, 130, 1, 0);
	token(run, 1, 160, 1, 0);
	token(run, 1, 170, 2, 0);
	token(run, 3, 170, 1, 0); /* its begin is missing */
	token(run, 1, 200, 0, 5); /* the id again, no token */
	assert_int_equal(inference_analyze(run, &f), 0);
	assert_int_equal(f.requests, 3);
	assert_int_equal(f.finished, 1);
	assert_int_equal(f.without_begin, 1);
	assert_int_equal(f.prompt_tokens, 35);
	assert_int_equal(f.tokens, 4);
	NEAR(f.ttft_ns.mean, 90);
	assert_int_equal(f.tpot_ns.n, 1);
	NEAR(f.tpot_ns.mean, 30);
	assert_int_equal(f.itl_ns.n, 2);
	NEAR(f.itl_ns.max, 40);
	NEAR(f.tokens_per_s.v, 4 * 1e9 / 160);
	NEAR(f.request_tokens_per_s.max, 3 * 1e9 / 160);
	inference_release(&f);
	fake_run_free(run);
	run = fake_run_new();
	assert_int_equal(inference_analyze(run, &f), 0);
	assert_false(f.tokens_per_s.known);
	inference_release(&f);
	fake_run_free(run);
}

static void test_counters(void **state)
{
	struct run *run = fake_run_new();
	uint32_t loss = fake_string(run, "loss"), rate = fake_string(run, "rate");
	struct counter_series s;

	(void)state;
	for (int i = 0; i < 10; i++) {
		fake_add_counter(run, 0, &(struct row_counter){ .name = loss, .value = 10 - i });
		fake_add_counter(run, 0, &(struct row_counter){ .name = rate, .value = 99 });
	}
	fake_add_counter(run, 0, &(struct row_counter){ .name = loss, .value = NAN });
	counter_series_read(run, "loss", 5, &s);
	assert_int_equal(s.n, 10);
	assert_int_equal(s.n_points, 5);
	NEAR(s.first, 10);
	NEAR(s.last, 1);
	NEAR(s.min, 1);
	NEAR(s.points[0], 9.5);
	NEAR(s.points[4], 1.5);
	counter_series_read(run, "absent", 5, &s);
	assert_int_equal(s.n, 0);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_on_against_off), cmocka_unit_test(test_drift_cancels),
		cmocka_unit_test(test_too_few_pairs),  cmocka_unit_test(test_a_step_is_in_one_pair),
		cmocka_unit_test(test_own_cost),       cmocka_unit_test(test_inference),
		cmocka_unit_test(test_counters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
