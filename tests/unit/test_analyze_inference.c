/* SPDX-License-Identifier: Apache-2.0
 *
 * Prefill against decode and the list of requests, by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "fake_run.h"
#include "moescope.h"
#include "subjects/inference/inference.h"

static void token(struct run *run, uint16_t shard, uint64_t request, int64_t time_ns, uint8_t event,
		  uint64_t count)
{
	fake_add_token(
		run, shard,
		&(struct row_token){
			.time_ns = time_ns, .request = request, .event = event, .count = count });
}

static void near(struct value value, double expected)
{
	if (!value.known)
		fail_msg("absent: %s", value.reason);
	assert_true(fabs(value.v - expected) < 1e-9 * (1 + fabs(expected)));
}

static struct inference analyzed(const struct run *run)
{
	struct inference f;

	assert_int_equal(inference_analyze(run, &f), 0);
	return f;
}

/* Two requests that overlap, one of another process, one without a token. */
static struct run *make_run(void)
{
	struct run *run = fake_run_new();
	uint16_t other = fake_shard(run, 1, 7);

	token(run, 0, 1, 0, 0, 10);
	token(run, 0, 1, 100, 1, 0);
	token(run, 0, 1, 120, 1, 0);
	token(run, 0, 1, 160, 1, 0);
	token(run, 0, 1, 170, 2, 0);
	token(run, other, 1, 50, 0, 20);
	token(run, other, 1, 130, 1, 0);
	token(run, 0, 3, 200, 0, 1000000); /* asked for, never answered */
	return run;
}

static void test_stages(void **state)
{
	struct run *run = make_run();
	struct inference f = analyzed(run);
	const struct inference_stage *prefill = &f.stages[STAGE_PREFILL];
	const struct inference_stage *decode = &f.stages[STAGE_DECODE];

	(void)state;
	/* 0..100 and 50..130: 130 ns, 10 + 20 prompt tokens. */
	near(prefill->time_ns, 130);
	near(prefill->tokens, 30);
	near(prefill->tokens_per_s, 30 * 1e9 / 130);
	/* 100..160; the first token is the prefill's. */
	near(decode->time_ns, 60);
	near(decode->tokens, 2);
	near(decode->tokens_per_s, 2 * 1e9 / 60);
	assert_false(prefill->range_ns.known || decode->range_ns.known);
	assert_non_null(strstr(prefill->device_ns.reason, "no device records"));
	inference_release(&f);
	fake_run_free(run);
}

static void test_requests(void **state)
{
	struct run *run = make_run();
	struct inference f = analyzed(run);

	(void)state;
	assert_int_equal(f.n_rows, 3);
	assert_int_equal(f.rows[0].request, 1);
	assert_int_equal(f.rows[0].rank, 0);
	assert_int_equal(f.rows[0].tokens, 3);
	assert_true(f.rows[0].finished);
	near(f.rows[0].ttft_ns, 100);
	near(f.rows[0].tpot_ns, 30);
	near(f.rows[0].time_ns, 160);
	near(f.rows[0].tokens_per_s, 3 * 1e9 / 160);
	assert_int_equal(f.rows[1].rank, 1);
	assert_false(f.rows[1].finished);
	near(f.rows[1].ttft_ns, 80);
	assert_false(f.rows[1].tpot_ns.known);
	assert_int_equal(f.rows[2].tokens, 0);
	assert_false(f.rows[2].ttft_ns.known || f.rows[2].tokens_per_s.known);
	inference_release(&f);
	fake_run_free(run);
}

static void test_ranges_and_devices(void **state)
{
	struct run *run = make_run();
	uint32_t prefill = fake_site(run, "prefill", -1, -1, MOESCOPE_PREFILL);
	uint32_t inner = fake_site(run, "attention", 0, -1, 0);
	struct inference f;

	(void)state;
	fake_range(run, inner, 20, 40, 1, 1);
	fake_range(run, prefill, 10, 60, 1, 0);
	fake_op(run, prefill, 50, 80, 2, 0, 0); /* another thread: 10..80 in all */
	fake_call(run, "cudaLaunchKernel", 30, 31, 5);
	fake_kernel(run, "k", 35, 47, 5);
	fake_call(run, "cudaLaunchKernel", 90, 91, 6); /* outside */
	fake_kernel(run, "k", 95, 99, 6);
	f = analyzed(run);
	near(f.stages[STAGE_PREFILL].range_ns, 70);
	near(f.stages[STAGE_PREFILL].device_ns, 12);
	assert_false(f.stages[STAGE_DECODE].range_ns.known);
	assert_false(f.stages[STAGE_DECODE].device_ns.known);
	inference_release(&f);
	run->api.n = 0;
	f = analyzed(run);
	assert_non_null(strstr(f.stages[STAGE_PREFILL].device_ns.reason, "calls"));
	inference_release(&f);
	fake_run_free(run);
}

static void test_nothing(void **state)
{
	struct run *run = fake_run_new();
	struct inference f = analyzed(run);

	(void)state;
	assert_int_equal(f.n_rows, 0);
	for (int i = 0; i < STAGES; i++)
		assert_false(f.stages[i].time_ns.known || f.stages[i].tokens_per_s.known);
	inference_release(&f);
	/* A prompt whose length was not told, answered at once. */
	token(run, 0, 1, 5, 0, 0);
	token(run, 0, 1, 5, 1, 0);
	f = analyzed(run);
	near(f.stages[STAGE_PREFILL].time_ns, 0);
	assert_false(f.stages[STAGE_PREFILL].tokens_per_s.known);
	assert_false(f.rows[0].tokens_per_s.known);
	inference_release(&f);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stages),
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_ranges_and_devices),
		cmocka_unit_test(test_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
