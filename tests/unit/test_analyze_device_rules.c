/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs with one planted problem each, on one GPU: 20 steps of 10 ms. The first verdict is the
 * planted one, its gain the one computed by hand; runs without the problem say nothing of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "judge.h"
#include "moescope.h"

#define US INT64_C(1000)
#define MS INT64_C(1000000)
#define STEPS 20
#define STEP (10 * MS)

static uint64_t next_id;

/* A kernel whose launch call of 5 us begins at `call`. */
static void work(struct run *run, int64_t call, int64_t start, int64_t end)
{
	fake_call(run, "cudaLaunchKernel", call, call + 5 * US, ++next_id);
	fake_kernel(run, "gemm", start, end, next_id);
}

static struct run *new_run(void)
{
	struct run *run = fake_run_new();

	next_id = 0;
	fake_span(run, 0, STEPS * STEP);
	return run;
}

static void add_steps(struct run *run)
{
	for (int i = 0; i < STEPS; i++)
		fake_step(run, i, i * STEP, (i + 1) * STEP, 64);
}

/* Always busy: every kernel is queued long before the one before it ends. */
static struct run *busy_run(void)
{
	struct run *run = new_run();

	for (int i = 0; i < STEPS; i++)
		work(run, i * STEP - 2 * MS, i * STEP, (i + 1) * STEP);
	add_steps(run);
	return run;
}

/* In each step 4 ms pass until the kernel of 6 ms; the launch begins 10 us before it. */
static struct run *late_run(void)
{
	struct run *run = new_run();

	for (int i = 0; i < STEPS; i++)
		work(run, i * STEP + 3990 * US, i * STEP + 4 * MS, (i + 1) * STEP);
	add_steps(run);
	return run;
}

/* From the first kernel on: 19 gaps of 3.99 ms before the launch, in 196 ms. */
#define LATE_PCT (100 * 19 * 3.99 / 196)

static const char *const idle_ids[] = { "gpu-starved-data", "gpu-starved-host", "gpu-starved-sync",
					"gpu-starved-launch", "transfer-bound" };

static void only(const struct run *run, const char *id)
{
	for (size_t i = 0; i < sizeof(idle_ids) / sizeof(idle_ids[0]); i++)
		if (strcmp(idle_ids[i], id) != 0)
			SILENT(run, idle_ids[i]);
}

static void test_busy_device_needs_nothing(void **state)
{
	struct run *run = busy_run();

	(void)state;
	SAYS(run, "gpu-busy", SEVERITY_OK);
	only(run, "gpu-busy");
	SILENT(run, "clock-throttled");
	SILENT(run, "bandwidth-bound");
	fake_run_free(run);
}

static void test_host_is_late(void **state)
{
	struct run *run = late_run();

	(void)state;
	FIRST(run, "gpu-starved-host", LATE_PCT);
	SAYS(run, "gpu-starved-host", SEVERITY_CRITICAL);
	only(run, "gpu-starved-host");
	SILENT(run, "gpu-busy"); /* the verdict above has the figure */
	fake_run_free(run);
}

static void test_loader_is_late(void **state)
{
	struct run *run = late_run();
	uint32_t data = fake_site(run, "next batch", -1, -1, MOESCOPE_DATA);

	(void)state;
	/* On a thread that launches nothing it is what it should be: beside the work. */
	for (int i = 0; i < STEPS; i++)
		fake_range(run, data, i * STEP, i * STEP + 3990 * US, 9, 0);
	FIRST(run, "gpu-starved-host", LATE_PCT);
	for (int i = 0; i < STEPS; i++)
		fake_range(run, data, i * STEP, i * STEP + 3990 * US, 1, 0);
	FIRST(run, "gpu-starved-data", LATE_PCT);
	only(run, "gpu-starved-data");
	SILENT(run, "data-loading"); /* one verdict for one time */
	fake_run_free(run);
}

static void test_data_and_host_share_the_time(void **state)
{
	struct run *run = late_run();
	uint32_t data = fake_site(run, "next batch", -1, -1, MOESCOPE_DATA);
	int found;

	(void)state;
	for (int i = 0; i < STEPS; i++)
		fake_range(run, data, i * STEP, i * STEP + 3 * MS, 1, 0);
	FIRST(run, "gpu-starved-data", 100 * 19 * 3.0 / 196);
	assert_float_equal(verdict_of(run, "gpu-starved-host", &found).gain_pct.v,
			   100 * 19 * 0.99 / 196, 0.01);
	fake_run_free(run);
}

static void test_host_waits_and_is_late(void **state)
{
	struct run *run = late_run();

	(void)state;
	/* Until 10 us after the kernel: the gap begins inside the synchronisation. */
	for (int i = 1; i < STEPS; i++)
		fake_call(run, "cudaStreamSynchronize", i * STEP - MS, i * STEP + 10 * US,
			  ++next_id);
	FIRST(run, "gpu-starved-sync", LATE_PCT);
	only(run, "gpu-starved-sync");
	fake_run_free(run);
}

static void test_tiny_kernels(void **state)
{
	struct run *run = new_run();

	(void)state;
	/* 500 a step: 5 us of work, then 10 us of host code and 5 us of launch. */
	for (int64_t i = 0; i < (int64_t)STEPS * 500; i++)
		work(run, i * 20 * US + 10 * US, i * 20 * US + 15 * US, (i + 1) * 20 * US);
	add_steps(run);
	/* 9,999 gaps of 15 us between the first kernel's start, 15 us, and 200 ms. */
	FIRST(run, "gpu-starved-launch", 100 * 9999 * 15.0 / (200000 - 15));
	only(run, "gpu-starved-launch");
	fake_run_free(run);
}

/* copy_ms of copies, then kernels until the end of the step, all queued ahead. */
static struct run *copying_run(int64_t copy_ms, uint8_t memory, uint64_t bytes)
{
	struct run *run = new_run();

	for (int64_t i = 0; i < STEPS; i++) {
		int64_t at = i * STEP;

		fake_call(run, "cudaMemcpyAsync", at - 3 * MS, at - 2999 * US, ++next_id);
		fake_copy(run, 1, memory, bytes, at, at + copy_ms * MS, next_id);
		work(run, at - 2 * MS, at + copy_ms * MS, at + STEP);
	}
	add_steps(run);
	return run;
}

static const char *advice_of(const struct run *run, const char *id, struct verdict *v)
{
	int found;

	*v = verdict_of(run, id, &found);
	assert_true(found);
	return v->advice;
}

static void test_pageable_copies(void **state)
{
	struct run *run = copying_run(4, 1, 50000000);
	struct verdict v;

	(void)state;
	FIRST(run, "transfer-bound", 40);
	assert_non_null(strstr(advice_of(run, "transfer-bound", &v), "pin_memory"));
	only(run, "transfer-bound");
	fake_run_free(run);
}

static void test_pinned_copies_hide_behind_kernels_only(void **state)
{
	/* 7 ms of copies beside 3 ms of kernels: only 3 ms can be hidden. */
	struct run *run = copying_run(7, 2, 50000000);
	struct verdict v;

	(void)state;
	FIRST(run, "transfer-bound", 30);
	assert_non_null(strstr(advice_of(run, "transfer-bound", &v), "separate stream"));
	fake_run_free(run);
	run = copying_run(4, 2, 1000);
	assert_non_null(strstr(advice_of(run, "transfer-bound", &v), "64 KiB"));
	fake_run_free(run);
}

static void test_copies_by_way_of_the_host(void **state)
{
	struct run *run = new_run();
	struct verdict v;

	(void)state;
	/* 2 ms out of device 0, 2 ms into device 1, then both compute until the step ends. */
	for (int64_t i = 0; i < STEPS; i++) {
		struct row_copy copy = { .start_ns = i * STEP,
					 .duration_ns = 2 * MS,
					 .bytes = 50000000,
					 .kind = 2,
					 .source_memory = 3,
					 .target_memory = 2 };
		struct row_kernel kernel = { .launch = fake_launch(run, "gemm"),
					     .start_ns = i * STEP + 2 * MS,
					     .duration_ns = 8 * MS };

		fake_add_copy(run, 0, &copy);
		fake_add_kernel(run, 0, &kernel);
		copy.start_ns += 2 * MS;
		copy.kind = 1;
		copy.source_memory = 2;
		copy.target_memory = 3;
		kernel.start_ns += 2 * MS;
		kernel.duration_ns -= 2 * MS;
		copy.device = copy.source_device = copy.target_device = kernel.device = 1;
		fake_add_copy(run, 0, &copy);
		fake_add_kernel(run, 0, &kernel);
	}
	add_steps(run);
	/* Of device 0's 200 ms and of device 1's 198 ms, 40 ms each. */
	FIRST(run, "transfer-bound", 100 * 80.0 / 398);
	assert_non_null(strstr(advice_of(run, "transfer-bound", &v), "peer access"));
	fake_run_free(run);
}

static void test_hidden_copies_are_fine(void **state)
{
	struct run *run = busy_run();

	(void)state;
	for (int i = 0; i < STEPS; i++)
		fake_copy(run, 1, 1, 1000000, i * STEP + MS, i * STEP + 6 * MS, 0);
	SILENT(run, "transfer-bound");
	fake_run_free(run);
}

static void sample(struct run *run, int64_t time_ns, const char *metric, double value)
{
	fake_add_sample(run, 0,
			&(struct row_sample){ .time_ns = time_ns,
					      .metric = fake_string(run, metric),
					      .value = value });
}

/* Busy at 1200 of 1600 MHz for this reason. */
static struct run *clock_run(double reasons)
{
	struct run *run = busy_run();

	fake_add_device(run, 0, &(struct row_device){ .clock_khz = 1600000 });
	for (int i = 0; i < 4; i++) {
		sample(run, i * 40 * MS + MS, "clock_sm_mhz", 1200);
		sample(run, i * 40 * MS + MS, "clock_limit_reasons", reasons);
	}
	return run;
}

static void test_clocks(void **state)
{
	enum { IDLE = 1, POWER = 4, HOT = 0x40 };
	struct run *run = clock_run(POWER);
	int found;

	(void)state;
	/* A quarter of the clock, and kernels run all the time. */
	FIRST(run, "clock-throttled", 25);
	SAYS(run, "clock-throttled", SEVERITY_CRITICAL);
	assert_non_null(strstr(verdict_of(run, "clock-throttled", &found).title, "power limit"));
	/* Samples of an idle device say nothing about how it works. */
	for (int i = 0; i < 4; i++) {
		sample(run, i * 40 * MS + 2 * MS, "clock_sm_mhz", 300);
		sample(run, i * 40 * MS + 2 * MS, "clock_limit_reasons", IDLE);
	}
	FIRST(run, "clock-throttled", 25);
	fake_run_free(run);
	run = clock_run(HOT);
	assert_non_null(strstr(verdict_of(run, "clock-throttled", &found).title, "temperature"));
	fake_run_free(run);
	run = clock_run(0); /* somebody chose that clock */
	FIRST(run, "clock-throttled", 25);
	assert_non_null(strstr(verdict_of(run, "clock-throttled", &found).advice, "-rgc"));
	fake_run_free(run);
}

static void test_bandwidth_only_by_counters(void **state)
{
	struct run *run = busy_run();

	(void)state;
	for (int i = 0; i < 4; i++)
		sample(run, i * 40 * MS + MS, "dram_bandwidth_pct", 50);
	SILENT(run, "bandwidth-bound");
	for (int i = 0; i < 4; i++)
		sample(run, i * 40 * MS + 2 * MS, "dram_bandwidth_pct", 90);
	SAYS(run, "bandwidth-bound", SEVERITY_NOTE); /* 70 on average */
	fake_run_free(run);
}

static void test_loading_a_model_is_not_starvation(void **state)
{
	struct run *run = busy_run();

	(void)state;
	/* 800 ms before the first step something small ran. */
	work(run, -800 * MS - 10 * US, -800 * MS, -799 * MS);
	SAYS(run, "gpu-busy", SEVERITY_OK);
	only(run, "gpu-busy");
	fake_run_free(run);
}

static void test_without_steps_the_window_counts(void **state)
{
	struct run *run = new_run();

	(void)state;
	for (int i = 0; i < STEPS; i++)
		work(run, i * STEP + 3990 * US, i * STEP + 4 * MS, (i + 1) * STEP);
	FIRST(run, "gpu-starved-host", LATE_PCT);
	fake_run_free(run);
}

static void test_shares_are_of_the_covered_time(void **state)
{
	struct run *run = late_run();

	(void)state;
	/* Records from 50 to 100 ms alone, the gap at 60 ms the first whole one of them. */
	fake_add_gear(run, 0, &(struct row_gear){ .time_ns = -1, .gear = 2 });
	fake_add_gear(run, 0, &(struct row_gear){ .time_ns = 54 * MS, .gear = 2, .attached = 1 });
	fake_add_gear(run, 0, &(struct row_gear){ .time_ns = 100 * MS, .gear = 2 });
	/* 54 to 100 ms: four gaps. */
	FIRST(run, "gpu-starved-host", 100 * 4 * 3.99 / 46);
	fake_run_free(run);
}

static void test_steps_of_another_process(void **state)
{
	struct run *run = new_run();
	uint16_t other = fake_shard(run, 1, 4243);

	(void)state;
	for (int i = 0; i < STEPS; i++)
		work(run, i * STEP + 3990 * US, i * STEP + 4 * MS, (i + 1) * STEP);
	/* One step of a process without a device, in the middle of it all. */
	fake_add_step(run, other,
		      &(struct row_step){ .start_ns = 50 * MS, .duration_ns = MS, .recorded = 1 });
	FIRST(run, "gpu-starved-host", LATE_PCT);
	fake_run_free(run);
}

static void test_two_devices_are_a_mean(void **state)
{
	struct run *run = late_run();
	uint16_t other = fake_shard(run, 1, 4243);

	(void)state;
	/* The other rank is busy from 4 to 200 ms, too. */
	fake_span(run, 0, STEPS * STEP);
	fake_add_kernel(run, other,
			&(struct row_kernel){ .launch = fake_launch(run, "gemm"),
					      .start_ns = 4 * MS,
					      .duration_ns = 196 * MS,
					      .correlation = 1 });
	FIRST(run, "gpu-starved-host", LATE_PCT / 2);
	fake_run_free(run);
}

static void test_tiles(void **state)
{
	uint32_t few[] = { 16, 16, 16, 16 }, full[] = { 64, 64, 64, 64 };
	struct run *run = busy_run();
	uint32_t layer = fake_site(run, "moe", 0, -1, MOESCOPE_DECODE);
	int found;

	(void)state;
	for (int i = 0; i < STEPS; i++)
		fake_routing(run, i, i * STEP, 0, 1, 4, full);
	SILENT(run, "tile-waste");
	run->routing.n = 0; /* again, with batches a quarter as large */
	for (int i = 0; i < STEPS; i++)
		fake_routing(run, i, i * STEP, 0, 1, 4, few);
	SAYS(run, "tile-waste", SEVERITY_NOTE);
	assert_false(verdict_of(run, "tile-waste", &found).gain_pct.known);
	/* A grouped GEMM of 4 ms in each step: three quarters of it are padding. */
	for (int i = 0; i < STEPS; i++) {
		fake_range(run, layer, i * STEP, i * STEP + MS, 1, 0);
		fake_call(run, "cudaLaunchKernel", i * STEP + 10 * US, i * STEP + 15 * US,
			  ++next_id);
		fake_kernel(run, "grouped_gemm", i * STEP + 5 * MS, i * STEP + 9 * MS, next_id);
	}
	assert_float_equal(verdict_of(run, "tile-waste", &found).gain_pct.v, 30, 1e-6);
	SAYS(run, "tile-waste", SEVERITY_NOTE);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_busy_device_needs_nothing),
		cmocka_unit_test(test_host_is_late),
		cmocka_unit_test(test_loader_is_late),
		cmocka_unit_test(test_data_and_host_share_the_time),
		cmocka_unit_test(test_host_waits_and_is_late),
		cmocka_unit_test(test_tiny_kernels),
		cmocka_unit_test(test_pageable_copies),
		cmocka_unit_test(test_pinned_copies_hide_behind_kernels_only),
		cmocka_unit_test(test_copies_by_way_of_the_host),
		cmocka_unit_test(test_hidden_copies_are_fine),
		cmocka_unit_test(test_clocks),
		cmocka_unit_test(test_bandwidth_only_by_counters),
		cmocka_unit_test(test_loading_a_model_is_not_starvation),
		cmocka_unit_test(test_without_steps_the_window_counts),
		cmocka_unit_test(test_shares_are_of_the_covered_time),
		cmocka_unit_test(test_steps_of_another_process),
		cmocka_unit_test(test_two_devices_are_a_mean),
		cmocka_unit_test(test_tiles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
