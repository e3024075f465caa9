/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps by the names of ranges, as PyTorch, vLLM, SGLang and ATOM give them, and marks inside marks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "ingest/shared/phase_name.h"
#include "ingest/shared/step_rows.h"
#include "moescope.h"

#define N_TOKENS UINT64_MAX /* not told */

static void test_names(void **state)
{
	static const struct {
		const char *name;
		int64_t step;
		uint8_t stage;
		uint16_t batch;
		uint64_t tokens;
	} names[] = {
		{ "ProfilerStep#12", 12, STEP_STAGE_UNKNOWN, 0, N_TOKENS },
		/* vLLM: gpu_worker.py of 0.10 to 0.11, then 0.12 on, then with detailed_trace_annotation. */
		{ "execute_new_2_cached_30", -1, STEP_STAGE_UNKNOWN, 32, N_TOKENS },
		{ "execute_new_2_cached_0", -1, STEP_PREFILL, 2, N_TOKENS },
		{ "execute_context_3(1024)_generation_5(5)", -1, STEP_MIXED, 8, 1029 },
		{ "execute_context_0(0)_generation_64(64)", -1, STEP_DECODE, 64, 64 },
		{ "execute_context_1(888_788544)_generation_0(0)", -1, STEP_PREFILL, 1, 888 },
		{ "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37"
		  "(sq37sk34489sqsq37sqsk34489)",
		  -1, STEP_MIXED, 46, 8192 },
		{ "execute_diffusion_1_256x256", -1, STEP_STAGE_UNKNOWN, 1, N_TOKENS },
		/* SGLang: step_span_utils.py. */
		{ "step[EXTEND bs=2 toks=4096]", -1, STEP_PREFILL, 2, 4096 },
		{ "step[EXTEND bs=2 toks=12 c_sqsq=80 c_sqsk=120 c_sk=20]", -1, STEP_PREFILL, 2,
		  12 },
		{ "step[DECODE bs=16]", -1, STEP_DECODE, 16, 16 },
		{ "step[DECODE bs=2 g_sqsq=2 g_sqsk=30 g_sk=30]", -1, STEP_DECODE, 2, 2 },
		{ "step[MIXED bs=2 c=1 g=1 c_sq=5 c_sk=8 c_sqsq=25 c_sqsk=40 g_sq=1 g_sk=12 "
		  "g_sqsq=1 g_sqsk=12]",
		  -1, STEP_MIXED, 2, 6 },
		{ "step[MIXED bs=2]", -1, STEP_MIXED, 2, N_TOKENS },
		{ "step[TARGET_VERIFY bs=4]", -1, STEP_DECODE, 4, N_TOKENS },
		{ "step[IDLE bs=0]", -1, STEP_STAGE_UNKNOWN, 0, 0 },
		/* ATOM: model_runner.py. */
		{ "prefill[bs=2 tok=16384 ctx=[8192, 8192]]", -1, STEP_PREFILL, 2, 16384 },
		{ "decode[bs=128 tok=128 d=128]", -1, STEP_DECODE, 128, 128 },
		{ "decode[bs=128 tok=128 p=2 d=126 spec=3]", -1, STEP_MIXED, 128, 128 },
		{ "eager_decode[bs=3 tok=3 ctx=7]", -1, STEP_DECODE, 3, 3 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct row_step row = { .start_ns = 7 };

		if (!step_of_name(names[i].name, strlen(names[i].name), &row))
			fail_msg("%s is not a step", names[i].name);
		assert_int_equal(row.step, names[i].step);
		assert_int_equal(row.stage, names[i].stage);
		assert_int_equal(row.batch, names[i].batch);
		assert_int_equal(row.tokens_known, names[i].tokens != N_TOKENS);
		if (row.tokens_known)
			assert_int_equal(row.tokens, names[i].tokens);
		assert_int_equal(row.source, names[i].step < 0 ? STEP_BY_NAME : STEP_TOLD);
		assert_int_equal(row.start_ns, 7);
	}
}

static void test_other_names(void **state)
{
	static const char *const names[] = {
		"",
		"P",
		"ProfilerStep#",
		"ProfilerStep#12x",
		"ProfilerStep#1234567890123456789",
		"execute_",
		"execute_model",
		"execute_context_3",
		"execute_context_3(1024)_generation_5(",
		"execute_context_3(x)_generation_5(5)",
		"execute_new_2_cached_",
		"execute_new_2_cached_3_more",
		"step[0]",
		"step[EXTEND]",
		"step[DECODE bs=]",
		"step[DECODE bs=16",
		"step[LOAD bs=16]",
		"steps",
		"decode",
		"decode[bs=128",
		"decode[tok=3]",
		"prefill",
		"preprocess",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct row_step row = { 0 };

		if (step_of_name(names[i], strlen(names[i]), &row))
			fail_msg("%s is a step", names[i]);
	}
	/* The end of the text counts, not what is behind it. */
	assert_false(step_of_name("step[DECODE bs=16]", 17, &(struct row_step){ 0 }));
}

static void test_phases_of_ranges(void **state)
{
	(void)state;
	assert_int_equal(phase_of_name("execute_context_0(0)_generation_5(5)"), MOESCOPE_DECODE);
	assert_int_equal(phase_of_name("step[EXTEND bs=2 toks=4096]"), MOESCOPE_PREFILL);
	assert_int_equal(phase_of_name("execute_context_1(9)_generation_5(5)"),
			 MOESCOPE_PHASE_NONE);
	assert_int_equal(phase_of_name("## forward ##"), MOESCOPE_FORWARD);
}

static struct row_step mark(const char *name, int64_t start_ns, int64_t end_ns)
{
	struct row_step row = { .start_ns = start_ns,
				.duration_ns = end_ns - start_ns,
				.recorded = 1 };

	assert_true(step_of_name(name, strlen(name), &row));
	return row;
}

#define DECODE_16 "execute_16_context_0(sq0sk0sqsq0sqsk0)_generation_16(sq16sk8193sqsq16sqsk8193)"

static void test_marks_in_marks(void **state)
{
	/* SGLang with its roofline: execute_ around step[]; the second iteration comes first. */
	struct row_step sglang[] = {
		mark("step[DECODE bs=16]", 210, 290),
		mark(DECODE_16, 200, 300),
		mark(DECODE_16, 0, 100),
		mark("step[DECODE bs=16]", 10, 90),
	};
	/* vLLM with the profiler's steps, one iteration each. */
	struct row_step numbered[] = {
		mark("ProfilerStep#4", 0, 100),
		mark("execute_context_0(0)_generation_5(5)", 5, 95),
		mark("ProfilerStep#5", 100, 200),
		mark("execute_context_1(9)_generation_5(5)", 105, 195),
	};
	/* One step of the profiler around them all is its window. */
	struct row_step window[] = {
		mark("ProfilerStep#1", 0, 400),
		mark("step[EXTEND bs=1 toks=9]", 10, 100),
		mark("step[DECODE bs=1]", 110, 200),
		mark("step[DECODE bs=1]", 210, 300),
	};
	size_t again;

	(void)state;
	assert_int_equal(steps_settle(sglang, 4, &again), 2);
	assert_int_equal(again, 0);
	assert_int_equal(sglang[0].step, 0);
	assert_int_equal(sglang[0].start_ns, 0);
	assert_int_equal(sglang[0].duration_ns, 100);
	assert_int_equal(sglang[1].step, 1);
	assert_int_equal(sglang[1].tokens, 16);

	assert_int_equal(steps_settle(numbered, 4, &again), 2);
	assert_int_equal(numbered[0].step, 4);
	assert_int_equal(numbered[0].source, STEP_TOLD);
	assert_int_equal(numbered[0].stage, STEP_DECODE);
	assert_int_equal(numbered[0].tokens, 5);
	assert_int_equal(numbered[1].step, 5);
	assert_int_equal(numbered[1].duration_ns, 100);
	assert_int_equal(numbered[1].stage, STEP_MIXED);
	assert_int_equal(numbered[1].batch, 6);

	assert_int_equal(steps_settle(window, 4, &again), 3);
	assert_int_equal(window[0].step, 0);
	assert_int_equal(window[0].stage, STEP_PREFILL);
	assert_int_equal(window[2].start_ns, 210);
}

static void test_threads_and_devices(void **state)
{
	/* Two threads tell step 7, each with its own begin and end. */
	struct row_step threads[] = { mark("ProfilerStep#7", 0, 100),
				      mark("ProfilerStep#7", 5, 130),
				      mark("ProfilerStep#8", 130, 200) };
	/* The device's side alone, on two streams. */
	struct row_step device[] = { mark("step[DECODE bs=2]", 20, 80),
				     mark("step[DECODE bs=2]", 0, 30),
				     mark("step[DECODE bs=2]", 100, 180) };
	/* Beside the host's side it does not count. */
	struct row_step both[] = { mark("ProfilerStep#1", 50, 90), mark("ProfilerStep#1", 0, 20) };
	size_t again;

	(void)state;
	assert_int_equal(steps_settle(threads, 3, &again), 2);
	assert_int_equal(again, 1);
	assert_int_equal(threads[0].duration_ns, 125);
	for (size_t i = 0; i < 3; i++)
		device[i].source = STEP_ON_DEVICE;
	assert_int_equal(steps_settle(device, 3, &again), 2);
	assert_int_equal(device[0].start_ns, 0);
	assert_int_equal(device[0].duration_ns, 80);
	assert_int_equal(device[1].step, 1);
	both[0].source = STEP_ON_DEVICE;
	assert_int_equal(steps_settle(both, 2, &again), 1);
	assert_int_equal(both[0].start_ns, 0);
	assert_int_equal(steps_settle(NULL, 0, &again), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_other_names),
		cmocka_unit_test(test_phases_of_ranges),
		cmocka_unit_test(test_marks_in_marks),
		cmocka_unit_test(test_threads_and_devices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
