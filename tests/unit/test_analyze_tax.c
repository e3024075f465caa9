/* SPDX-License-Identifier: Apache-2.0
 *
 * What uneven routing costs, by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "asking.h"
#include "fake_run.h"
#include "moescope.h"
#include "subjects/routing/imbalance_tax.h"

#define US INT64_C(1000)
#define MS INT64_C(1000000)

static const uint32_t uneven[] = { 400, 200, 100, 100, 50, 50, 50, 50 };

static const struct subject *const reads[] = { &subject_imbalance_tax, &subject_routing, NULL };

static struct answers look(const struct run *run, int layer)
{
	struct question question = { .sel = SELECT_ALL };

	question.sel.layer = layer;
	return answers_of(run, reads, &question);
}

static void test_absent_with_a_reason(void **state)
{
	struct run *run = fake_run_new();
	struct answers a = look(run, -1);

	(void)state;
	assert_false(answer_imbalance_tax(&a)->tax_ns.known);
	assert_string_equal(answer_imbalance_tax(&a)->tax_ns.reason, "no routing was recorded");
	answers_release(&a);
	fake_routing(run, 0, 0, 0, 1, 8, uneven);
	a = look(run, -1);
	assert_string_equal(answer_imbalance_tax(&a)->tax_ns.reason, "no finished step");
	answers_release(&a);
	fake_step(run, 0, 0, 10 * MS, 1000);
	a = look(run, -1);
	assert_int_equal(answer_imbalance_tax(&a)->n, 0);
	assert_false(answer_imbalance_tax(&a)->expert_ns.known);
	assert_non_null(strstr(answer_imbalance_tax(&a)->tax_ns.reason, "no time of experts"));
	answers_release(&a);
	fake_run_free(run);
}

/* Two threads. Layer 0: forward 3 ms beside 1 ms, backward 1 beside 3; layer 1: 2 beside 2. An
 * operation inside an expert's range is not counted twice. */
static struct run *threads_run(void)
{
	struct run *run = fake_run_new();

	for (int i = 0; i < 4; i++) {
		int64_t at = i * 10 * MS;
		uint32_t f0 = fake_site(run, "expert", 0, 0, MOESCOPE_FORWARD);
		uint32_t b0 = fake_site(run, "expert", 0, 0, MOESCOPE_BACKWARD);
		uint32_t f1 = fake_site(run, "expert", 1, 0, MOESCOPE_FORWARD);

		fake_op(run, f0, at + US, at + 2 * MS, 1, 1, 100);
		fake_range(run, f0, at, at + 3 * MS, 1, 0);
		fake_range(run, f0, at, at + 1 * MS, 2, 0);
		fake_range(run, b0, at + 6 * MS, at + 7 * MS, 1, 0);
		fake_range(run, b0, at + 6 * MS, at + 9 * MS, 2, 0);
		fake_range(run, f1, at + 3 * MS, at + 5 * MS, 1, 0);
		fake_range(run, f1, at + 3 * MS, at + 5 * MS, 2, 0);
		fake_routing(run, i, at, 0, 1, 8, uneven);
		fake_routing(run, i, at, 1, 1, 8, uneven);
		fake_step(run, i, at, at + 10 * MS, 1000);
	}
	return run;
}

static void test_threads(void **state)
{
	struct run *run = threads_run();
	struct answers a = look(run, -1);

	(void)state;
	assert_false(answer_imbalance_tax(&a)->on_device);
	assert_int_equal(answer_imbalance_tax(&a)->workers, 2);
	assert_int_equal(answer_imbalance_tax(&a)->steps, 4);
	assert_int_equal(answer_imbalance_tax(&a)->n, 2);
	/* (3 - 2) forward and (3 - 2) backward: phases do not make up for one another. */
	assert_float_equal(answer_imbalance_tax(&a)->layers[0].expert_ns.v, 8 * MS, 1e-6);
	assert_float_equal(answer_imbalance_tax(&a)->layers[0].tax_ns.v, 2 * MS, 1e-6);
	assert_float_equal(answer_imbalance_tax(&a)->layers[1].expert_ns.v, 4 * MS, 1e-6);
	assert_float_equal(answer_imbalance_tax(&a)->layers[1].tax_ns.v, 0, 1e-6);
	assert_false(answer_imbalance_tax(&a)->layers[0].tile_ns.known);
	assert_false(answer_imbalance_tax(&a)->layers[0].what_if_ns.known);
	assert_float_equal(answer_imbalance_tax(&a)->tax_ns.v, 2 * MS, 1e-6);
	assert_float_equal(answer_imbalance_tax(&a)->tax_pct.v, 20, 1e-9);
	/* 100,000 tokens/s at 10 ms; at 8 ms 125,000. */
	assert_float_equal(answer_imbalance_tax(&a)->tax_tokens_per_s.v, 25000, 1e-6);
	answers_release(&a);
	a = look(run, 1);
	assert_int_equal(answer_imbalance_tax(&a)->n, 1);
	assert_int_equal(answer_imbalance_tax(&a)->layers[0].layer, 1);
	answers_release(&a);
	fake_run_free(run);
}

/* A step of 10 ms of a rank: an expert kernel of layer 0, and one that is not the experts'. */
static void add_rank_step(struct run *run, uint16_t shard, int step, const char *kernel,
			  int32_t expert, int64_t time_ns)
{
	int64_t at = step * 10 * MS;
	uint64_t id = (uint64_t)step * 10 + 1;
	struct row_api call = { .name = fake_string(run, "cudaLaunchKernel"),
				.start_ns = at + MS,
				.duration_ns = 5 * US,
				.thread = 1,
				.correlation = id };
	struct row_kernel work = { .launch = fake_launch(run, kernel),
				   .start_ns = at + 2 * MS,
				   .duration_ns = time_ns,
				   .correlation = id };

	fake_add_range(run, shard,
		       &(struct row_range){ .site = fake_site(run, "moe", 0, expert, 1),
					    .start_ns = at,
					    .duration_ns = 9 * MS,
					    .thread = 1 });
	fake_add_api(run, shard, &call);
	fake_add_kernel(run, shard, &work);
	call.correlation = work.correlation = id + 1;
	call.start_ns = at + 9500 * US; /* outside the range */
	work.start_ns = at + 9600 * US;
	work.duration_ns = 100 * US;
	fake_add_api(run, shard, &call);
	fake_add_kernel(run, shard, &work);
	fake_add_step(run, shard,
		      &(struct row_step){ .step = step,
					  .start_ns = at,
					  .duration_ns = 10 * MS,
					  .tokens = 1000,
					  .tokens_known = 1,
					  .recorded = 1 });
}

static void test_ranks(void **state)
{
	struct run *run = fake_run_new();
	uint16_t other = fake_shard(run, 1, 4243);
	struct answers a;

	(void)state;
	fake_span(run, 0, 40 * MS);
	for (int i = 0; i < 3; i++) {
		add_rank_step(run, 0, i, "grouped_gemm", -1, 6 * MS);
		fake_routing(run, i, i * 10 * MS, 0, 1, 8, uneven);
	}
	for (int i = 0; i < 3; i++)
		add_rank_step(run, other, i, "anything", 4, 2 * MS);
	a = look(run, -1);
	assert_true(answer_imbalance_tax(&a)->on_device);
	assert_int_equal(answer_imbalance_tax(&a)->workers, 2);
	assert_int_equal(answer_imbalance_tax(&a)->n, 1);
	assert_float_equal(answer_imbalance_tax(&a)->expert_ns.v, 8 * MS, 1e-6);
	assert_float_equal(answer_imbalance_tax(&a)->tax_ns.v, 2 * MS, 1e-6); /* 6 - (6 + 2) / 2 */
	assert_float_equal(answer_imbalance_tax(&a)->tax_pct.v, 20, 1e-9);
	answers_release(&a);
	fake_run_free(run);
}

static void test_one_device(void **state)
{
	struct run *run = fake_run_new();
	struct answers a;

	(void)state;
	fake_span(run, 0, 40 * MS);
	for (int i = 0; i < 3; i++) {
		add_rank_step(run, 0, i, "grouped_gemm", -1, 6 * MS);
		fake_routing(run, i, i * 10 * MS, 0, 1, 8, uneven);
	}
	a = look(run, -1);
	assert_int_equal(answer_imbalance_tax(&a)->workers, 1);
	assert_false(answer_imbalance_tax(&a)->tax_ns.known);
	assert_false(answer_imbalance_tax(&a)->tax_pct.known);
	assert_float_equal(answer_imbalance_tax(&a)->expert_ns.v, 6 * MS, 1e-6);
	/* Tiles of 64 rows: 448, 256, 128, 128 and four times 64 for 1000 rows. */
	assert_float_equal(answer_imbalance_tax(&a)->layers[0].tile_ns.v, 6e6 * (1 - 1000.0 / 1216),
			   1e-3);
	/* One expert a device: the busiest has 400 of 1000, 3.2 times an eighth. */
	assert_int_equal(answer_imbalance_tax(&a)->layers[0].what_if_devices, 8);
	assert_float_equal(answer_imbalance_tax(&a)->layers[0].what_if_ns.v, 2.2 * 6e6 / 8, 1e-3);
	answers_release(&a);
	fake_run_free(run);
}

static void test_long_runs_are_sampled(void **state)
{
	struct run *run = fake_run_new();
	uint32_t site = fake_site(run, "expert", 0, 0, MOESCOPE_FORWARD);
	struct answers a;

	(void)state;
	for (int i = 0; i < 200; i++) {
		fake_range(run, site, i * MS, i * MS + 400 * US, 1, 0);
		fake_range(run, site, i * MS, i * MS + 200 * US, 2, 0);
		fake_routing(run, i, i * MS, 0, 1, 8, uneven);
		fake_step(run, i, i * MS, (i + 1) * MS, 0);
	}
	a = look(run, -1);
	assert_int_equal(answer_imbalance_tax(&a)->steps, TAX_STEPS);
	assert_float_equal(answer_imbalance_tax(&a)->tax_ns.v, 100 * US, 1e-6);
	assert_false(answer_imbalance_tax(&a)->tax_tokens_per_s.known);
	answers_release(&a);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_absent_with_a_reason),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_ranks),
		cmocka_unit_test(test_one_device),
		cmocka_unit_test(test_long_runs_are_sampled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
