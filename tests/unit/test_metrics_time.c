/* SPDX-License-Identifier: Apache-2.0
 *
 * The definitions of kernel, timeline, step, inference and memory metrics from top to bottom, each
 * with values computed by hand on a run as small as its row allows.
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
#include "subjects/api/api_calls.h"
#include "subjects/device/timeline.h"
#include "subjects/inference/inference.h"
#include "subjects/kernels/kernels.h"
#include "subjects/kernels/launches.h"
#include "subjects/memory/memory.h"
#include "subjects/ops/ops.h"
#include "subjects/steps/steps.h"
#include "subjects/transfers/transfers.h"

#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-9 * (1 + fabs((double)(b))))

static const struct selection all = { INT64_MIN, INT64_MAX, -1, -1 };

/* Kernel time: end - start; an untimed one counts and has no duration. */
static void test_kernel_time(void **state)
{
	struct kernels_options options = { .by = KERNELS_BY_NAME };
	struct run *run = fake_run_new();
	struct kernels k;

	(void)state;
	fake_kernel(run, "a", 100, 400, 1);
	fake_kernel(run, "a", 500, 600, 2);
	fake_kernel(run, "a", 700, -1, 3);
	fake_kernel(run, "b", 700, -1, 4);
	assert_int_equal(kernels_analyze(run, &all, &options, &k), 0);
	assert_int_equal(k.count, 4);
	assert_int_equal(k.untimed, 2);
	assert_int_equal(k.time_ns, 400);
	assert_int_equal(k.rows[0].count, 3);
	NEAR(k.rows[0].summary.mean, 200);
	NEAR(k.rows[0].summary.p50, 200);
	/* Between 100 and 300, 95 hundredths of the way. */
	NEAR(k.rows[0].summary.p95, 290);
	NEAR(k.rows[0].share_pct, 100);
	assert_int_equal(k.rows[1].summary.n, 0);
	kernels_release(&k);
	fake_run_free(run);
}

/* Busy: the union. Idle: each moment with one cause. */
static void test_busy_and_idle(void **state)
{
	struct run *run = fake_run_new();
	const struct timeline_device *d;
	struct timeline t;

	(void)state;
	/* Two kernels that overlap, 0..30 us; then nothing is queued until the launch call at 60,
	 * which reaches the device at 65; then the host waits in a synchronisation from 70 on and
	 * launches at 100, on the device at 110. */
	fake_call(run, "cudaLaunchKernel", -5000, -4000, 1);
	fake_call(run, "cudaLaunchKernel", -3000, -2000, 2);
	fake_kernel(run, "a", 0, 20000, 1);
	fake_kernel(run, "b", 10000, 30000, 2);
	fake_call(run, "cudaLaunchKernel", 60000, 61000, 3);
	fake_kernel(run, "c", 65000, 80000, 3);
	fake_call(run, "cudaDeviceSynchronize", 70000, 82000, 4);
	fake_call(run, "cudaLaunchKernel", 100000, 101000, 5);
	fake_kernel(run, "d", 110000, 120000, 5);
	assert_int_equal(timeline_analyze(run, &all, &t), 0);
	assert_int_equal(t.n, 1);
	d = &t.devices[0];
	assert_int_equal(d->window_ns, 120000);
	assert_int_equal(d->busy_ns, 30000 + 15000 + 10000);
	assert_int_equal(d->idle_ns, 65000);
	NEAR(d->busy_pct, 100.0 * 55 / 120);
	assert_int_equal(d->idle_by_cause[IDLE_HOST], 30000);
	assert_int_equal(d->idle_by_cause[IDLE_SYNC], 20000);
	assert_int_equal(d->idle_by_cause[IDLE_LAUNCH], 5000 + 10000);
	assert_int_equal(d->kernel_ns, 55000);
	timeline_release(&t);
	fake_run_free(run);
}

/* Idle while a blocking copy ran on the host. One of a few bytes only waits for the work before. */
static void test_idle_on_a_copy(void **state)
{
	(void)state;
	for (int small = 0; small < 2; small++) {
		struct run *run = fake_run_new();
		struct timeline t;

		fake_call(run, "cudaLaunchKernel", -2000, -1000, 1);
		fake_kernel(run, "a", 0, 10000, 1);
		fake_call(run, "cudaMemcpy", 9000, 52000, 2);
		fake_copy(run, 1, 1, small ? 65535 : 65536, 20000, 50000, 2);
		/* Launched 40 us after the copy: the host's, or what the wait has led to. */
		fake_call(run, "cudaLaunchKernel", 90000, 95000, 3);
		fake_kernel(run, "a", 100000, 110000, 3);
		assert_int_equal(timeline_analyze(run, &all, &t), 0);
		assert_int_equal(t.devices[0].idle_ns, 60000);
		assert_int_equal(t.devices[0].idle_by_cause[IDLE_COPY], small ? 0 : 12000);
		assert_int_equal(t.devices[0].idle_by_cause[IDLE_HOST], small ? 0 : 38000);
		assert_int_equal(t.devices[0].idle_by_cause[IDLE_SYNC], small ? 40000 : 0);
		assert_int_equal(t.devices[0].idle_by_cause[IDLE_LAUNCH], small ? 20000 : 10000);
		timeline_release(&t);
		fake_run_free(run);
	}
}

static void test_launches(void **state)
{
	struct run *run = fake_run_new();
	const struct launch_row *row;
	struct launches l;
	struct api_calls calls;

	(void)state;
	/* Latency 3000 - 1000 and 9000 - 5000; calls of 1000 and 2000 ns. */
	fake_call(run, "cudaLaunchKernel", 1000, 2000, 1);
	fake_kernel(run, "long", 3000, 5000, 1);
	fake_call(run, "cudaLaunchKernel", 5000, 7000, 2);
	fake_kernel(run, "short", 9000, 10000, 2);
	/* Equal is not longer. */
	fake_call(run, "cudaLaunchKernel", 20000, 20500, 3);
	fake_kernel(run, "even", 20600, 21100, 3);
	/* A graph: one call of 900 ns for three kernels of 400, 300 and 100. */
	fake_call(run, "cudaGraphLaunch", 30000, 30900, 4);
	fake_kernel(run, "g2", 32000, 32300, 4);
	fake_kernel(run, "g1", 31000, 31400, 4);
	fake_kernel(run, "g3", 33000, 33100, 4);
	/* Neither is a launch that can be judged. */
	fake_kernel(run, "long", 40000, -1, 1);
	fake_kernel(run, "lost", 50000, 50001, 77);
	assert_int_equal(launches_analyze(run, &all, &l), 0);
	assert_int_equal(l.count, 6);
	assert_int_equal(l.calls, 4);
	assert_int_equal(l.without_call, 1);
	assert_int_equal(l.bound, 2); /* short and g3; g2 takes as long as its third of the call */
	NEAR(l.bound_pct.v, 100.0 * 2 / 6);
	/* 1000 2000 500 300 300 300; 2000 4000 600 1000. */
	NEAR(l.overhead_ns.v, 400);
	NEAR(l.latency_ns.v, 1500);
	NEAR(l.call_ns, 1000 + 2000 + 500 + 900);
	assert_int_equal(l.time_ns, 2000 + 1000 + 500 + 800);
	row = launches_find(&l, fake_string(run, "g3"));
	assert_int_equal(row->bound, 1);
	NEAR(row->overhead_ns.v, 300);
	assert_false(row->latency_ns.known); /* the first of the graph is g1 */
	row = launches_find(&l, fake_string(run, "g1"));
	NEAR(row->latency_ns.v, 1000);
	assert_null(launches_find(&l, fake_string(run, "lost")));
	launches_release(&l);
	/* The same by call. */
	assert_int_equal(api_calls_analyze(run, &all, &calls), 0);
	NEAR(calls.latency_ns.v, 1500);
	assert_int_equal(calls.launches, 4);
	api_calls_release(&calls);
	fake_run_free(run);
	run = fake_run_new();
	assert_int_equal(launches_analyze(run, &all, &l), 0);
	assert_false(l.latency_ns.known || l.overhead_ns.known || l.bound_pct.known);
	launches_release(&l);
	fake_run_free(run);
}

static void test_launches_of_a_part(void **state)
{
	struct selection second = { 1, 1, -1, -1 };
	struct run *run = fake_run_new();
	struct launches l;

	(void)state;
	for (int64_t s = 0; s < 2; s++) {
		fake_step(run, s, s * 1000, s * 1000 + 1000, 1);
		fake_call(run, "cudaLaunchKernel", s * 1000 + 10, s * 1000 + 110 + s * 100,
			  (uint64_t)s + 1);
		fake_kernel(run, "a", s * 1000 + 400, s * 1000 + 550, (uint64_t)s + 1);
	}
	assert_int_equal(launches_analyze(run, &second, &l), 0);
	assert_int_equal(l.count, 1);
	assert_int_equal(l.bound, 1); /* a call of 200 ns for a kernel of 150 */
	NEAR(l.overhead_ns.v, 200);
	launches_release(&l);
	fake_run_free(run);
}

/* Overlap: length of (compute and copy) / length of copy. Bandwidth: bytes / device time. */
static void test_copies(void **state)
{
	struct run *run = fake_run_new();
	struct transfers t;
	struct timeline l;

	(void)state;
	fake_kernel(run, "a", 0, 1000, 1);
	fake_copy(run, 1, 2, 8000, 600, 1400, 2);  /* pinned, half of it beside the kernel */
	fake_copy(run, 1, 1, 1000, 2000, 3000, 3); /* pageable */
	fake_copy(run, 1, 1, 9000, 4000, -1, 4);   /* untimed: its bytes are in no bandwidth */
	fake_copy(run, 2, 1, 500, 5000, 5250, 5);
	assert_int_equal(transfers_analyze(run, &all, &t), 0);
	assert_int_equal(t.n, 3);
	for (size_t i = 0; i < t.n; i++) {
		const struct transfer_row *row = &t.rows[i];

		if (!strcmp(row->kind, "DtoH")) {
			NEAR(row->bandwidth_bytes_per_s.v, 500 / 250e-9);
		} else if (!strcmp(row->memory, "pinned")) {
			NEAR(row->bandwidth_bytes_per_s.v, 8000 / 800e-9);
			NEAR(row->overlap_pct.v, 50);
		} else {
			assert_int_equal(row->count, 2);
			assert_int_equal(row->untimed, 1);
			NEAR(row->bandwidth_bytes_per_s.v, 1000 / 1000e-9);
			NEAR(row->overlap_pct.v, 0);
		}
	}
	transfers_release(&t);
	assert_int_equal(timeline_analyze(run, &all, &l), 0);
	assert_int_equal(l.devices[0].copy_ns, 800 + 1000 + 250);
	assert_int_equal(l.devices[0].overlap_ns, 400);
	NEAR(l.devices[0].overlap_pct.v, 100.0 * 400 / 2050);
	timeline_release(&l);
	fake_run_free(run);
}

/* A move between devices by way of the host, and peers by pair of devices. */
static void test_copies_between_devices(void **state)
{
	struct run *run = fake_run_new();
	struct transfers t;

	(void)state;
	fake_add_copy(run, 0,
		      &(struct row_copy){ .start_ns = 0,
					  .duration_ns = 1000,
					  .bytes = 65536,
					  .kind = 2,
					  .source_memory = 3,
					  .target_memory = 2,
					  .correlation = 1 });
	fake_add_copy(run, 0,
		      &(struct row_copy){ .start_ns = 1500,
					  .duration_ns = 500,
					  .bytes = 65536,
					  .kind = 1,
					  .source_memory = 2,
					  .target_memory = 3,
					  .device = 1,
					  .source_device = 1,
					  .target_device = 1,
					  .correlation = 2 });
	fake_add_copy(run, 0,
		      &(struct row_copy){ .start_ns = 5000,
					  .duration_ns = 100,
					  .bytes = 1000,
					  .kind = 10,
					  .source_memory = 3,
					  .target_memory = 3,
					  .source_device = 0,
					  .target_device = 1,
					  .correlation = 3 });
	assert_int_equal(transfers_analyze(run, &all, &t), 0);
	assert_int_equal(t.staged_count, 1);
	assert_int_equal(t.staged[0].src, 0);
	assert_int_equal(t.staged[0].dst, 1);
	assert_int_equal(t.staged[0].bytes, 65536);
	assert_int_equal(t.staged[0].time_ns, 2000);
	for (size_t i = 0; i < t.n; i++)
		if (!strcmp(t.rows[i].kind, "PtoP")) {
			assert_int_equal(t.rows[i].src, 0);
			assert_int_equal(t.rows[i].dst, 1);
			NEAR(t.rows[i].bandwidth_bytes_per_s.v, 1e10);
		}
	transfers_release(&t);
	fake_run_free(run);
}

/* Self: without children; total: with them. */
static void test_self_and_total(void **state)
{
	struct run *run = fake_run_new();
	struct ops_options options = { 0 };
	struct ops o;

	(void)state;
	fake_range(run, fake_site(run, "inner", -1, -1, 0), 200, 500, 1, 1);
	fake_op(run, fake_site(run, "op", -1, -1, 0), 600, 700, 1, 1, 50);
	fake_range(run, fake_site(run, "outer", -1, -1, 0), 0, 1000, 1, 0);
	assert_int_equal(ops_analyze(run, &all, &options, &o), 0);
	assert_int_equal(o.n, 3);
	assert_int_equal(o.self_cpu_ns, 1000);
	for (size_t i = 0; i < o.n; i++) {
		const char *name = run_string(run, o.rows[i].name);
		bool outer = !strcmp(name, "outer"), inner = !strcmp(name, "inner");

		assert_int_equal(o.rows[i].cpu_ns, outer ? 1000 : inner ? 300 : 100);
		assert_int_equal(o.rows[i].self_cpu_ns, outer ? 600 : inner ? 300 : 100);
	}
	ops_release(&o);
	fake_run_free(run);
}

static void test_steps(void **state)
{
	static const int64_t times[] = { 100, 200, 300, 400 };
	struct run *run = fake_run_new();
	int64_t at = 0;
	struct steps s;

	(void)state;
	for (int i = 0; i < 4; i++) {
		uint32_t forward = fake_site(run, "f", -1, -1, MOESCOPE_FORWARD);
		uint32_t backward = fake_site(run, "b", -1, -1, MOESCOPE_BACKWARD);

		fake_range(run, forward, at, at + times[i] / 2, 1, 0);
		fake_range(run, backward, at + times[i] / 2, at + times[i] * 3 / 4, 1, 0);
		fake_step(run, i, at, at + times[i], 10);
		at += times[i];
	}
	assert_int_equal(steps_analyze(run, &all, &s), 0);
	NEAR(s.all.mean, 250);
	NEAR(s.all.p50, 250);
	/* Order statistics 0..3: 95% is at 2.85, 99% at 2.97. */
	NEAR(s.all.p95, 385);
	NEAR(s.all.p99, 397);
	/* Squares of 150 50 50 150: 50000 / 4. */
	NEAR(s.all.cv, sqrt(12500) / 250);
	NEAR(s.phase_pct[MOESCOPE_FORWARD].v, 50);
	NEAR(s.phase_pct[MOESCOPE_BACKWARD].v, 25);
	NEAR(s.phase_pct[0].v, 25);
	NEAR(s.tokens_per_s.v, 40 * 1e9 / 1000);
	steps_release(&s);
	fake_run_free(run);
}

/* From per-token times; the load of the model before the first request is in none of them. */
static void test_inference(void **state)
{
	static const struct row_token rows[] = {
		{ .time_ns = 5000, .request = 1, .event = 0, .count = 7 },
		{ .time_ns = 5300, .request = 1, .event = 1 },
		{ .time_ns = 5400, .request = 1, .event = 1 },
		{ .time_ns = 5700, .request = 1, .event = 1 },
		{ .time_ns = 5700, .request = 1, .event = 2 },
	};
	struct run *run = fake_run_new();
	struct inference f;

	(void)state;
	fake_span(run, 0, 6000);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		fake_add_token(run, 0, &rows[i]);
	assert_int_equal(inference_analyze(run, &f), 0);
	NEAR(f.ttft_ns.mean, 300);
	NEAR(f.tpot_ns.mean, 400.0 / 2);
	assert_int_equal(f.itl_ns.n, 2);
	NEAR(f.itl_ns.min, 100);
	NEAR(f.itl_ns.max, 300);
	NEAR(f.tokens_per_s.v, 3e9 / 700);
	inference_release(&f);
	fake_run_free(run);
}

static void allocate(struct run *run, int64_t time_ns, uint64_t address, uint64_t bytes,
		     const char *site)
{
	fake_add_memory(run, 0,
			&(struct row_memory){ .time_ns = time_ns,
					      .event = bytes == 0,
					      .address = address,
					      .bytes = bytes,
					      .site = fake_string(run, site) });
}

static void test_live_and_peak(void **state)
{
	struct run *run = fake_run_new();
	struct memory m;

	(void)state;
	allocate(run, 1, 0xA, 100, "a");
	allocate(run, 2, 0xB, 50, "b");
	allocate(run, 3, 0xA, 0, "");
	allocate(run, 4, 0xC, 70, "c");
	assert_int_equal(memory_analyze(run, 0, &m), 0);
	assert_int_equal(m.devices[0].live_bytes, 120);
	assert_int_equal(m.devices[0].peak_bytes, 150);
	assert_int_equal(m.devices[0].peak_ns, 2);
	assert_int_equal(m.devices[0].allocated_bytes, 220);
	memory_release(&m);
	fake_run_free(run);
}

/* Eleven steps, so ten growths: `grows` of them by `bytes` on top of `base`. */
static size_t leaks_with(unsigned int grows, uint64_t base, uint64_t bytes)
{
	struct run *run = fake_run_new();
	struct memory m;
	size_t n;

	allocate(run, 1, 0x1, base, "site");
	for (int64_t s = 0; s < 11; s++) {
		fake_step(run, s, 100 + s * 100, 200 + s * 100, 1);
		if (s > 0 && s <= grows)
			allocate(run, 150 + s * 100, 0x100 + (uint64_t)s, bytes, "site");
	}
	assert_int_equal(memory_analyze(run, 0, &m), 0);
	assert_true(m.devices[0].leaks_known.known);
	n = m.devices[0].n_leaks;
	if (n) {
		assert_int_equal(m.devices[0].leaks[0].grew_steps, grows);
		NEAR(m.devices[0].leaks[0].bytes_per_step, (double)(grows * bytes) / 10);
	}
	memory_release(&m);
	fake_run_free(run);
	return n;
}

/* Growth in at least 8 of the last 10 steps and by more than 1% in all. */
static void test_leak_suspects(void **state)
{
	(void)state;
	assert_int_equal(leaks_with(10, 1000, 100), 1);
	assert_int_equal(leaks_with(8, 1000, 100), 1);
	assert_int_equal(leaks_with(7, 1000, 100), 0);
	assert_int_equal(leaks_with(10, 100000, 100), 0); /* 1% is not more than 1% */
	assert_int_equal(leaks_with(10, 99000, 100), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kernel_time),
		cmocka_unit_test(test_busy_and_idle),
		cmocka_unit_test(test_idle_on_a_copy),
		cmocka_unit_test(test_launches),
		cmocka_unit_test(test_launches_of_a_part),
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_copies_between_devices),
		cmocka_unit_test(test_self_and_total),
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_inference),
		cmocka_unit_test(test_live_and_peak),
		cmocka_unit_test(test_leak_suspects),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
