/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs that invite a wrong verdict, rule by rule: what must not be said of them, and what must. Gains
 * are computed by hand. Causes that need samples of the device or routing are planted here, too, in
 * a table; those that a trace file can hold are in tests/cli/planted.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "judge.h"
#include "moescope.h"

#define US INT64_C(1000)
#define MS INT64_C(1000000)
#define STEPS 20
#define STEP (10 * MS)

static uint64_t next_id;

static struct run *new_run(void)
{
	next_id = 0;
	return fake_run_new();
}

/* A kernel whose launch call of 7 us begins at `call`. */
static void work(struct run *run, int64_t call, int64_t start, int64_t end)
{
	fake_call(run, "cudaLaunchKernel", call, call + 7 * US, ++next_id);
	fake_kernel(run, "gemm", start, end, next_id);
}

/* n steps from `at` on: `idle` of them pass before the launch, 10 us more until the kernel. */
static int64_t add_late_steps(struct run *run, int64_t at, int n, int64_t idle, int64_t step)
{
	static int64_t number;

	number = at ? number : 0;
	for (int i = 0; i < n; i++, at += step) {
		work(run, at + idle, at + idle + 10 * US, at + step);
		fake_step(run, number++, at, at + step, 1);
	}
	fake_span(run, 0, at);
	return at;
}

static struct verdict said(const struct run *run, const char *id)
{
	int found;
	struct verdict v = verdict_of(run, id, &found);

	assert_true(found);
	return v;
}

static double evidence(const struct verdict *v, const char *key)
{
	for (size_t i = 0; i < v->n_evidence; i++)
		if (!strcmp(v->evidence[i].key, key))
			return v->evidence[i].v;
	fail_msg("no evidence %s", key);
	return 0;
}

static void add_process(struct run *run, uint32_t device, uint32_t pid)
{
	fake_add_process(run, 0,
			 &(struct row_process){ .time_ns = MS, .device = device, .pid = pid });
}

static void test_cpu_bound_needs_most_of_the_time(void **state)
{
	struct run *run = new_run();
	struct verdict v;

	(void)state;
	/* Busy 89%. */
	add_late_steps(run, 0, STEPS, MS, STEP);
	v = said(run, "gpu-starved-host");
	assert_null(strstr(v.title, "CPU-bound"));
	SAYS(run, "gpu-busy", SEVERITY_OK);
	assert_null(strstr(said(run, "gpu-busy").advice, "Nothing"));
	fake_run_free(run);
	run = new_run();
	add_late_steps(run, 0, STEPS, 6 * MS, STEP);
	assert_non_null(strstr(said(run, "gpu-starved-host").title, "CPU-bound"));
	/* Another process on another device changes nothing, one on this device does. */
	add_process(run, 0, 4242);
	add_process(run, 1, 77);
	assert_non_null(strstr(said(run, "gpu-starved-host").title, "CPU-bound"));
	add_process(run, 0, 78);
	add_process(run, 0, 78);
	v = said(run, "gpu-starved-host");
	assert_null(strstr(v.title, "CPU-bound"));
	assert_float_equal(evidence(&v, "other_processes"), 1, 0);
	assert_non_null(strstr(v.advice, "alone"));
	fake_run_free(run);
}

/* 10,000 kernels of `kernel` us, each launched 3 us after the one before has ended. */
static struct run *one_by_one(int64_t kernel, int64_t call)
{
	struct run *run = new_run();
	int64_t at = 0;

	for (int i = 0; i < 10000; i++) {
		fake_call(run, "cudaLaunchKernel", at, at + call * US, ++next_id);
		fake_kernel(run, "gemm", at + 10 * US, at + (10 + kernel) * US, next_id);
		at += (13 + kernel) * US;
	}
	fake_span(run, 0, at);
	return run;
}

static void test_kernels_longer_than_their_calls(void **state)
{
	struct run *run = one_by_one(52, 7);
	struct verdict v = said(run, "gpu-starved-launch");

	(void)state;
	assert_null(strstr(v.advice, "shorter"));
	assert_float_equal(evidence(&v, "kernel_mean_ns"), 52 * US, 0.5);
	assert_float_equal(evidence(&v, "launch_call_p50_ns"), 7 * US, 0.5);
	fake_run_free(run);
	run = one_by_one(3, 7);
	assert_non_null(strstr(said(run, "gpu-starved-launch").advice, "shorter"));
	/* One call that loads the code takes half a second: the others are what they are. */
	fake_call(run, "cudaLaunchKernel", -600 * MS, -100 * MS, ++next_id);
	fake_kernel(run, "gemm", -100 * MS, -99 * MS, next_id);
	v = said(run, "gpu-starved-launch");
	assert_float_equal(evidence(&v, "launch_call_p50_ns"), 7 * US, 0.5);
	fake_run_free(run);
}

static void test_captured_launches_run_nothing(void **state)
{
	struct run *run = new_run();
	struct verdict v;
	int64_t at = 0;

	(void)state;
	for (int i = 0; i < 500; i++, at += 10 * US)
		fake_call(run, "cudaLaunchKernel", at, at + 9 * US, ++next_id);
	/* Graphs of three kernels of 4 us, 20 us of the host between them. */
	for (int i = 0; i < 2000; i++, at += 40 * US) {
		fake_call(run, "cudaGraphLaunch", at, at + 6 * US, ++next_id);
		for (int k = 0; k < 3; k++)
			fake_kernel(run, "node", at + (8 + 4 * k) * US, at + (12 + 4 * k) * US,
				    next_id);
	}
	fake_span(run, 0, at);
	v = said(run, "gpu-starved-launch");
	/* The graphs' calls, not those that were captured; and no advice to use graphs. */
	assert_float_equal(evidence(&v, "launch_call_p50_ns"), 6 * US, 0.5);
	assert_non_null(strstr(v.advice, "already launches graphs"));
	assert_null(strstr(v.advice, "CUDA graphs or"));
	fake_run_free(run);
}

/* In each step a kernel of 4 ms, a blocking copy that ends 50 us after it, 5 ms of host code. */
static struct run *blocking_run(uint64_t bytes, int64_t copy)
{
	struct run *run = new_run();

	for (int64_t i = 0; i < STEPS; i++) {
		int64_t at = i * STEP, end = at + 4010 * US + copy;

		work(run, at, at + 10 * US, at + 4010 * US);
		fake_call(run, "cudaMemcpy", at + 20 * US, end + 50 * US, ++next_id);
		fake_copy(run, 2, 1, bytes, end - copy, end, next_id);
		fake_step(run, i, at, at + STEP, 1);
	}
	fake_span(run, 0, STEPS * STEP);
	return run;
}

static void test_small_blocking_copies_are_synchronisations(void **state)
{
	struct run *run = blocking_run(380, 2 * US);
	struct verdict v = said(run, "gpu-starved-sync");

	(void)state;
	/* From 10 us to 194.012 ms: 19 gaps, of 5.988 ms before the launch. */
	FIRST(run, "gpu-starved-sync", 100 * 19 * 5.988 / 194.002);
	SILENT(run, "transfer-bound");
	assert_float_equal(evidence(&v, "blocking_copies"), STEPS, 0);
	fake_run_free(run);
	/* 200 MB in 4 ms: 4 ms alone, 50 us more in the call; the rest of the gap is the host's. */
	run = blocking_run(200000000, 4 * MS);
	v = said(run, "transfer-bound");
	assert_float_equal(evidence(&v, "copies_alone_pct"), 100 * (STEPS * 4.0 + 19 * 0.05) / 198,
			   0.01);
	SILENT(run, "gpu-starved-sync");
	fake_run_free(run);
}

static void test_busy_with_copies_is_not_busy(void **state)
{
	struct run *run = new_run();
	struct verdict v;

	(void)state;
	for (int64_t i = 0; i < STEPS; i++) {
		fake_call(run, "cudaMemcpyAsync", i * STEP - MS, i * STEP - 999 * US, ++next_id);
		fake_copy(run, 1, 2, 50000000, i * STEP, i * STEP + 9 * MS, next_id);
		work(run, i * STEP - MS + 5 * US, i * STEP + 9 * MS, (i + 1) * STEP);
	}
	fake_span(run, 0, STEPS * STEP);
	SILENT(run, "gpu-busy");
	v = said(run, "transfer-bound");
	/* 9 ms of pinned copies have 1 ms of kernels to hide behind. */
	assert_float_equal(v.gain_pct.v, 10, 0.01);
	assert_true(v.gain_pct.v <= evidence(&v, "copies_alone_pct"));
	fake_run_free(run);
}

/* 1 ms of kernels in each step of 10 ms, all launched before the first one runs, but for 0.6 ms. */
static void test_an_idle_device_has_a_verdict(void **state)
{
	struct run *run = new_run();
	struct verdict v;

	(void)state;
	for (int64_t i = 0; i < STEPS; i++) {
		fake_call(run, "cudaLaunchKernel", i * STEP - STEP, i * STEP - STEP + US,
			  ++next_id);
		fake_kernel(run, "gemm", i * STEP, i * STEP + MS, next_id);
		/* The host's part of the gap: the kernel after it is launched 0.6 ms late. */
		work(run, i * STEP + 1600 * US, i * STEP + 1605 * US, i * STEP + 1700 * US);
	}
	fake_span(run, 0, STEPS * STEP);
	SAYS(run, "gpu-starved-host", SEVERITY_WARNING);
	v = said(run, "gpu-idle");
	assert_int_equal(v.severity, SEVERITY_CRITICAL);
	assert_true(evidence(&v, "idle_queued_pct") > 80);
	assert_false(v.gain_pct.known);
	assert_non_null(strstr(v.advice, "queued"));
	SILENT(run, "gpu-busy");
	fake_run_free(run);
	/* Nobody recorded calls. */
	run = new_run();
	for (int64_t i = 0; i < STEPS; i++)
		fake_kernel(run, "gemm", i * STEP, i * STEP + 4 * MS, 0);
	fake_span(run, 0, STEPS * STEP);
	v = said(run, "gpu-idle");
	assert_non_null(strstr(v.advice, "not recorded"));
	fake_run_free(run);
}

/* 20 kernels of 9 ms, 1 ms of host code before each. */
static int64_t add_loop(struct run *run, int64_t at)
{
	for (int i = 0; i < STEPS; i++, at += STEP)
		work(run, at + MS, at + MS + 10 * US, at + STEP);
	return at;
}

static void test_start_up_is_not_judged(void **state)
{
	struct run *run = new_run();
	struct verdict v;
	int64_t end;

	(void)state;
	/* A kernel, 2 s of nothing, the loop, 1 s of nothing, a kernel. */
	work(run, 0, 10 * US, 20 * US);
	end = add_loop(run, 2000 * MS);
	work(run, end + 1000 * MS, end + 1001 * MS, end + 1001 * MS + 10 * US);
	fake_span(run, 0, end + 1002 * MS);
	/* From the first kernel of the loop on: 19 gaps of 1 ms in 198.99 ms. */
	v = said(run, "gpu-starved-host");
	assert_float_equal(v.gain_pct.v, 100 * 19 * 1.0 / 198.99, 0.01);
	v = said(run, "slow-start");
	assert_int_equal(v.severity, SEVERITY_NOTE);
	assert_float_equal(evidence(&v, "judged_ns"), 198.99 * MS, 1);
	assert_float_equal(evidence(&v, "aside_ns"), (3202 - 0.99 - 0.01 - 198.99) * MS, 1);
	fake_run_free(run);
	/* Gaps of the same length everywhere are the program's way. */
	run = new_run();
	for (int i = 0; i < 30; i++)
		work(run, i * 1000 * MS, i * 1000 * MS + 10 * US, i * 1000 * MS + 2 * MS);
	fake_span(run, 0, 30000 * MS);
	SILENT(run, "slow-start");
	SAYS(run, "gpu-starved-host", SEVERITY_CRITICAL);
	fake_run_free(run);
}

static void test_preparing_code_is_not_judged(void **state)
{
	struct run *run = new_run();
	struct verdict v;
	int64_t at = 0;

	(void)state;
	for (int i = 0; i < 3; i++) {
		fake_call(run, "cuModuleLoadData", at + 400 * MS, at + 410 * MS, ++next_id);
		at = add_loop(run, at + 500 * MS);
	}
	fake_span(run, 0, at);
	v = said(run, "slow-start");
	/* The first one lies before all records. */
	assert_float_equal(evidence(&v, "preparing_code_ns"), 2 * 501.01 * MS, 1);
	assert_true(said(run, "gpu-starved-host").gain_pct.v < 11);
	fake_run_free(run);
	/* More than a few times is what the program always does. */
	run = new_run();
	for (int i = 0, t = 0; i < 12; i++, t++) {
		at = add_loop(run, t * 700 * MS + 500 * MS);
		fake_call(run, "cuModuleLoadData", at + 100 * MS, at + 110 * MS, ++next_id);
	}
	fake_span(run, 0, at);
	SILENT(run, "slow-start");
	SAYS(run, "gpu-starved-host", SEVERITY_CRITICAL);
	fake_run_free(run);
}

/* Three times: 500 ms, a new kernel twice with 20 ms between (a try), 100 ms, then a loop of it. */
static struct run *compiling_run(void)
{
	static const char *const names[] = { "f", "g", "h" };
	struct run *run = new_run();
	int64_t at = 0;

	for (int i = 0; i < 3; i++) {
		at += 500 * MS;
		for (int k = 0; k < 2; k++, at += 20 * MS) {
			fake_call(run, "cudaLaunchKernel", at, at + 7 * US, ++next_id);
			fake_kernel(run, names[i], at + 10 * US, at + MS, next_id);
		}
		at += 100 * MS;
		for (int k = 0; k < 30; k++, at += 10 * MS) {
			fake_call(run, "cudaLaunchKernel", at - MS, at - 900 * US, ++next_id);
			fake_kernel(run, names[i], at, at + 10 * MS, next_id);
		}
		/* Something else comes with the loop, for the first time. */
		fake_kernel(run, i ? "with g or h" : "with f", at - 300 * MS + US, at - 299 * MS,
			    0);
	}
	fake_span(run, 0, at);
	return run;
}

static void test_code_that_never_ran_before(void **state)
{
	struct run *run = compiling_run();
	struct verdict v;

	(void)state;
	/* Two of the gaps of 500 ms, before g and h, are not at the begin; the one before f's loop
	 * is cut off with its try, which has 2 of 906 ms. */
	v = said(run, "slow-start");
	assert_true(evidence(&v, "preparing_code_ns") >= 1000 * MS);
	SAYS(run, "gpu-busy", SEVERITY_OK);
	/* A file of another profiler may begin anywhere: what is new there may be old. */
	free(run->info.source);
	run->info.source = strdup("trace.json");
	SAYS(run, "gpu-starved-host", SEVERITY_CRITICAL);
	fake_run_free(run);
}

static void test_first_steps_compile(void **state)
{
	struct run *run = new_run();
	struct verdict v;
	int64_t at;

	(void)state;
	/* Two steps of a second, then 20 of 10 ms of which 1 ms is idle. */
	at = add_late_steps(run, 0, 2, 990 * MS, 1000 * MS);
	add_late_steps(run, at, STEPS, MS, STEP);
	v = said(run, "gpu-starved-host");
	assert_float_equal(v.gain_pct.v, 100 * 1.0 / 10, 0.01);
	assert_float_equal(evidence(&v, "idle_per_step_ns"), MS, 1);
	v = said(run, "slow-start");
	assert_float_equal(evidence(&v, "warmup_mean_ns"), 1000 * MS, 1);
	assert_non_null(strstr(v.title, "(2 of 22)"));
	SAYS(run, "step-variation", SEVERITY_OK);
	fake_run_free(run);
}

static void test_quick_steps_are_no_trouble(void **state)
{
	struct run *run = new_run();
	struct verdict v;

	(void)state;
	/* The first steps only queue. */
	for (int i = 0; i < STEPS; i++)
		fake_step(run, i, i * STEP, i * STEP + (i ? STEP : MS), 1);
	SILENT(run, "step-variation");
	fake_run_free(run);
	/* What the device waits for in the slow steps has a gain already. */
	run = new_run();
	for (int i = 0, at = 0; i < STEPS; i++) {
		int64_t idle = i % 4 ? MS : 9 * MS, begin = at * MS;

		work(run, begin + idle, begin + idle + 10 * US, begin + idle + 5 * MS);
		fake_step(run, i, begin, begin + idle + 5 * MS, 1);
		at += (int)(idle / MS) + 5;
	}
	v = said(run, "step-variation");
	assert_false(v.gain_pct.known);
	SAYS(run, "gpu-starved-host", SEVERITY_CRITICAL);
	fake_run_free(run);
}

/* Blocks of 10 MB, one in two or so live, in segments of 100 MB. */
static struct run *pool_run(int segments, int live_of_10)
{
	struct run *run = new_run();
	const uint64_t mb = 1000000;
	int64_t time_ns = 0;

	for (int s = 0; s < segments; s++) {
		uint64_t base = (1000 + 200 * (uint64_t)s) * mb;

		fake_add_device_memory(run, 0,
				       &(struct row_device_memory){ .time_ns = ++time_ns,
								    .address = base,
								    .bytes = 100 * mb,
								    .memory = 3 });
		for (int b = 0; b < 10; b++)
			fake_add_memory(run, 0,
					&(struct row_memory){ .time_ns = ++time_ns,
							      .address = base + 10 * mb * b,
							      .bytes = 10 * mb });
	}
	/* The peak is behind; every other block and more goes. */
	for (int s = 0; s < segments; s++)
		for (int b = 0; b < 10; b++)
			if (b >= live_of_10)
				fake_add_memory(
					run, 0,
					&(struct row_memory){
						.time_ns = ++time_ns,
						.event = 1,
						.address = (1000 + 200 * (uint64_t)s + 10 * b) *
							   mb });
	fake_span(run, 0, time_ns + 1);
	return run;
}

static void test_pool_in_pieces(void **state)
{
	/* 62 segments of 100 MB, 90 MB of each free at the end: 5.58 GB, the largest hole 90 MB. */
	struct run *run = pool_run(62, 1);
	struct verdict v = said(run, "fragmentation");

	(void)state;
	assert_int_equal(v.severity, SEVERITY_NOTE); /* at the peak all of it was used */
	assert_float_equal(evidence(&v, "fragmentation_pct"), 100 * (1 - 1.0 / 62), 1e-6);
	assert_float_equal(evidence(&v, "wasted_bytes"), 61 * 90e6, 1);
	fake_run_free(run);
	run = pool_run(62, 9); /* a tenth of it is free */
	SILENT(run, "fragmentation");
	fake_run_free(run);
	run = pool_run(6, 1); /* 0.5 GB */
	SILENT(run, "fragmentation");
	fake_run_free(run);
}

static void test_optimizer_by_the_devices_time(void **state)
{
	struct run *run = new_run();
	uint32_t optimizer = fake_site(run, "opt", -1, -1, MOESCOPE_OPTIMIZER);
	uint32_t forward = fake_site(run, "fwd", -1, -1, MOESCOPE_FORWARD);

	(void)state;
	/* The host waits in the optimizer; its kernels take a tenth. */
	for (int64_t i = 0; i < STEPS; i++) {
		fake_range(run, forward, i * STEP, i * STEP + MS, 1, 0);
		fake_range(run, optimizer, i * STEP + MS, i * STEP + STEP, 1, 0);
		work(run, i * STEP, i * STEP + 10 * US, i * STEP + 9 * MS);
		work(run, i * STEP + 2 * MS, i * STEP + 9 * MS, i * STEP + STEP);
		fake_step(run, i, i * STEP, i * STEP + STEP, 1);
	}
	fake_span(run, 0, STEPS * STEP);
	SILENT(run, "optimizer-share");
	fake_run_free(run);
}

/* Planted: what a trace file cannot hold. */

static void busy(struct run *run)
{
	for (int64_t i = 0; i < STEPS; i++) {
		work(run, i * STEP - 2 * MS, i * STEP, (i + 1) * STEP);
		fake_step(run, i, i * STEP, (i + 1) * STEP, 64);
	}
	fake_span(run, 0, STEPS * STEP);
}

static void sample(struct run *run, const char *metric, double value)
{
	for (int i = 0; i < 10; i++)
		fake_add_sample(run, 0,
				&(struct row_sample){ .time_ns = i * 18 * MS + MS,
						      .metric = fake_string(run, metric),
						      .value = value });
}

static void clocks(struct run *run, double mhz, double reasons)
{
	busy(run);
	fake_add_device(run, 0, &(struct row_device){ .clock_khz = 1980000 });
	for (int i = 0; i < 10; i++) {
		int64_t at = i * 18 * MS + MS;

		fake_add_sample(run, 0,
				&(struct row_sample){ .time_ns = at,
						      .metric = fake_string(run, "clock_sm_mhz"),
						      .value = mhz + i });
		fake_add_sample(
			run, 0,
			&(struct row_sample){ .time_ns = at,
					      .metric = fake_string(run, "clock_limit_reasons"),
					      .value = reasons });
	}
}

static void route(struct run *run, const uint32_t *load, int layers)
{
	busy(run);
	for (int i = 0; i < STEPS; i++)
		for (int layer = 0; layer < layers; layer++)
			fake_routing(run, i, i * STEP + layer, layer, 1, 8, load);
}

static void plant_power(struct run *run)
{
	clocks(run, 1400, 4);
}
static void plant_heat(struct run *run)
{
	clocks(run, 1700, 0x40);
}
static void plant_locked(struct run *run)
{
	clocks(run, 1200, 0);
}
static void plant_boost(struct run *run)
{
	clocks(run, 1940, 0);
}
static void plant_bandwidth(struct run *run)
{
	busy(run);
	sample(run, "dram_bandwidth_pct", 78);
}
static void plant_bandwidth_near(struct run *run)
{
	busy(run);
	sample(run, "dram_bandwidth_pct", 58);
}

/* The counters of a launch of a kernel: DRAM, L2, SM, occupancy in percent, and waves. */
static void count(struct run *run, const char *kernel, const double values[5])
{
	static const char *const names[5] = {
		"dram__throughput.avg.pct_of_peak_sustained_elapsed",
		"lts__throughput.avg.pct_of_peak_sustained_elapsed",
		"sm__throughput.avg.pct_of_peak_sustained_elapsed",
		"sm__warps_active.avg.pct_of_peak_sustained_active",
		"launch__waves_per_multiprocessor",
	};

	for (size_t i = 0; i < 5; i++)
		fake_add_metric(run, 0,
				&(struct row_metric){ .launch = fake_launch(run, kernel),
						      .name = fake_string(run, names[i]),
						      .value = values[i] });
}

static void plant_latency(struct run *run)
{
	busy(run);
	count(run, "gemm", (double[]){ 12, 9, 20, 12.5, 2 });
}
static void plant_latency_with_warps(struct run *run)
{
	busy(run);
	count(run, "gemm", (double[]){ 55, 40, 30, 80, 9 });
}
static void plant_small_grid(struct run *run)
{
	busy(run);
	count(run, "gemm", (double[]){ 3, 2, 4, 12.5, 0.1 });
}
static void plant_small_grid_near(struct run *run)
{
	busy(run);
	count(run, "gemm", (double[]){ 3, 2, 4, 40, 0.95 });
}
static void plant_memory_kernel(struct run *run)
{
	busy(run);
	count(run, "gemm", (double[]){ 85, 40, 20, 60, 4 });
}
static void plant_memory_kernel_near(struct run *run)
{
	busy(run);
	count(run, "gemm", (double[]){ 60, 59, 59, 60, 4 });
}
/* Nothing is to be said of a kernel that a busy SM bounds. */
static void plant_good_kernel(struct run *run)
{
	busy(run);
	count(run, "gemm", (double[]){ 50, 40, 80, 60, 4 });
}
static void plant_collapsed(struct run *run)
{
	route(run, (uint32_t[]){ 1900, 40, 10, 10, 10, 10, 10, 10 }, 2);
}
static void plant_collapsed_onto_two(struct run *run)
{
	route(run, (uint32_t[]){ 1000, 980, 20, 0, 0, 0, 0, 0 }, 1);
}
static void plant_uneven(struct run *run)
{
	route(run, (uint32_t[]){ 600, 400, 250, 200, 170, 150, 130, 100 }, 3);
}
static void plant_dead(struct run *run)
{
	route(run, (uint32_t[]){ 290, 285, 287, 284, 286, 288, 280, 0 }, 2);
}
static void plant_even(struct run *run)
{
	route(run, (uint32_t[]){ 252, 248, 250, 249, 251, 250, 247, 253 }, 2);
}
static void plant_small_batch(struct run *run)
{
	route(run, (uint32_t[]){ 12, 12, 12, 12, 12, 12, 12, 12 }, 2);
}
static void plant_failed(struct run *run)
{
	busy(run);
	run->info.exit_status = 1;
}
static void plant_lost(struct run *run)
{
	busy(run);
	run->loss.dropped_ring_full = 9;
}

/* A slow kernel that takes little of the time is no verdict, and a cause is told once. */
static void test_counters_of_kernels(void **state)
{
	static const double waits[5] = { 12, 9, 20, 12.5, 2 }, memory[5] = { 85, 40, 20, 60, 4 };
	struct run *run = new_run();
	struct verdict v;

	(void)state;
	busy(run);
	count(run, "light", waits);
	/* 3 ms of 20 steps. */
	fake_kernel(run, "light", 0, 3 * MS, 9999);
	SILENT(run, "kernel-latency");
	count(run, "gemm", memory);
	v = said(run, "kernel-memory-bound");
	assert_int_equal(v.severity, SEVERITY_NOTE);
	assert_false(v.gain_pct.known);
	assert_non_null(strstr(v.title, ": gemm"));
	assert_non_null(strstr(v.evidence_text, "dram_pct=85"));
	sample(run, "dram_bandwidth_pct", 78);
	SAYS(run, "bandwidth-bound", SEVERITY_NOTE);
	SILENT(run, "kernel-memory-bound");
	fake_run_free(run);
	/* Counters without times in the run do not say how much a kernel matters. */
	run = new_run();
	count(run, "gemm", waits);
	SILENT(run, "kernel-latency");
	fake_run_free(run);
}

static void test_planted(void **state)
{
	static const struct {
		const char *name;
		void (*plant)(struct run *run);
		const char *first;
		bool ok; /* it is praise */
	} planted[] = {
		{ "power limit", plant_power, "clock-throttled" },
		{ "heat", plant_heat, "clock-throttled" },
		{ "locked clocks", plant_locked, "clock-throttled" },
		{ "clocks as they should be", plant_boost, "gpu-busy", true },
		{ "memory bandwidth", plant_bandwidth, "bandwidth-bound" },
		{ "memory bandwidth, not quite", plant_bandwidth_near, "gpu-busy", true },
		{ "a kernel with few warps", plant_latency, "kernel-latency" },
		{ "a kernel that waits with many", plant_latency_with_warps, "kernel-latency" },
		{ "a small grid", plant_small_grid, "kernel-small-grid" },
		{ "nearly one wave", plant_small_grid_near, "kernel-small-grid" },
		{ "a kernel of memory", plant_memory_kernel, "kernel-memory-bound" },
		{ "the same, just so", plant_memory_kernel_near, "kernel-memory-bound" },
		{ "a good kernel", plant_good_kernel, "gpu-busy", true },
		{ "collapsed router", plant_collapsed, "router-collapsed" },
		{ "collapsed onto two", plant_collapsed_onto_two, "router-collapsed" },
		{ "uneven router", plant_uneven, "routing-imbalance" },
		{ "dead experts", plant_dead, "dead-experts" },
		{ "even router", plant_even, "routing-imbalance", true },
		{ "batches that fill no tile", plant_small_batch, "tile-waste", false },
		{ "failed program", plant_failed, "program-failed" },
		{ "lost records", plant_lost, "records-lost" },
	};
	size_t n = sizeof(planted) / sizeof(planted[0]), right = 0;

	(void)state;
	for (size_t i = 0; i < n; i++) {
		struct run *run = new_run();
		struct judged j;

		planted[i].plant(run);
		j = judge(run);
		if (j.v.n && !strcmp(j.v.items[0].id, planted[i].first) &&
		    (j.v.items[0].severity == SEVERITY_OK) == planted[i].ok)
			right++;
		else
			print_message("%s: %s, not %s\n", planted[i].name,
				      j.v.n ? j.v.items[0].id : "nothing", planted[i].first);
		judged_release(&j);
		fake_run_free(run);
	}
	print_message("%zu of %zu planted causes come first\n", right, n);
	assert_int_equal(right, n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cpu_bound_needs_most_of_the_time),
		cmocka_unit_test(test_kernels_longer_than_their_calls),
		cmocka_unit_test(test_captured_launches_run_nothing),
		cmocka_unit_test(test_small_blocking_copies_are_synchronisations),
		cmocka_unit_test(test_busy_with_copies_is_not_busy),
		cmocka_unit_test(test_an_idle_device_has_a_verdict),
		cmocka_unit_test(test_start_up_is_not_judged),
		cmocka_unit_test(test_preparing_code_is_not_judged),
		cmocka_unit_test(test_code_that_never_ran_before),
		cmocka_unit_test(test_first_steps_compile),
		cmocka_unit_test(test_quick_steps_are_no_trouble),
		cmocka_unit_test(test_pool_in_pieces),
		cmocka_unit_test(test_optimizer_by_the_devices_time),
		cmocka_unit_test(test_counters_of_kernels),
		cmocka_unit_test(test_planted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
