/* SPDX-License-Identifier: Apache-2.0
 *
 * API calls, transfers and the timeline of the run of fake_gpu_run, by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "fake_run.h"
#include "subjects/api/api_calls.h"
#include "subjects/device/timeline.h"
#include "subjects/memory/device_memory.h"
#include "subjects/transfers/transfers.h"

#define US INT64_C(1000)
#define MS INT64_C(1000000)

static const struct api_row *call_row(const struct run *run, const struct api_calls *calls,
				      const char *name)
{
	for (size_t i = 0; i < calls->n; i++)
		if (!strcmp(run_string(run, calls->rows[i].name), name))
			return &calls->rows[i];
	fail_msg("no row %s", name);
	return NULL;
}

static void test_calls(void **state)
{
	struct run *run = fake_gpu_run();
	struct selection sel = SELECT_ALL;
	const struct api_row *row;
	struct api_calls calls;

	(void)state;
	assert_int_equal(api_calls_analyze(run, &sel, &calls), 0);
	assert_int_equal(calls.n, 4);
	assert_int_equal(calls.count, 25);
	assert_int_equal(calls.time_ns, 700 * US);
	assert_int_equal(calls.errors, 1);
	assert_int_equal(calls.launches, 24);
	assert_true(calls.latency_ns.v == 20000);
	row = call_row(run, &calls, "cudaLaunchKernel");
	assert_int_equal(row->count, 18);
	assert_int_equal(row->time_ns, 90 * US);
	assert_true(row->summary.p50 == 5000 && row->latency_ns.v == 20000);
	row = &calls.rows[0];
	assert_ptr_equal(row, call_row(run, &calls, "cudaMemcpy"));
	assert_true(fabs(row->share_pct - 100.0 * 540 / 700) < 1e-9);
	assert_true(row->latency_ns.v == 25000);
	row = call_row(run, &calls, "cuMemAlloc");
	assert_true(row->driver && row->errors == 1);
	assert_false(row->latency_ns.known);
	api_calls_release(&calls);
	sel.phase = 2;
	assert_int_equal(api_calls_analyze(run, &sel, &calls), 0);
	assert_int_equal(calls.count, 3); /* one launch a step in the backward range */
	api_calls_release(&calls);
	fake_run_free(run);
}

static void test_graph_launch_counts_its_first_kernel(void **state)
{
	struct run *run = fake_run_new();
	struct selection sel = SELECT_ALL;
	struct api_calls calls;

	(void)state;
	fake_call(run, "cudaGraphLaunch", 1000, 1100, 9);
	fake_kernel(run, "b", 1900, 2000, 9);
	fake_kernel(run, "a", 1500, 1800, 9);
	fake_kernel(run, "c", 1010, -1, 9); /* untimed: its start is no start */
	assert_int_equal(api_calls_analyze(run, &sel, &calls), 0);
	assert_int_equal(calls.launches, 1);
	assert_true(calls.latency_ns.v == 500);
	api_calls_release(&calls);
	fake_run_free(run);
}

static void test_transfers(void **state)
{
	struct run *run = fake_gpu_run();
	struct selection sel = SELECT_ALL;
	struct transfers t;

	(void)state;
	assert_int_equal(transfers_analyze(run, &sel, &t), 0);
	assert_int_equal(t.n, 3);
	assert_int_equal(t.count, 6);
	assert_int_equal(t.bytes, 3012000);
	assert_int_equal(t.time_ns, 300 * US);
	assert_int_equal(t.small, 3);
	assert_int_equal(t.sets, 1);
	assert_int_equal(t.set_bytes, 65536);
	/* Both take 150 us: by kind. */
	assert_string_equal(t.rows[0].kind, "DtoH");
	assert_string_equal(t.rows[0].memory, "pageable");
	assert_string_equal(t.rows[0].src_name, "gpu 0");
	assert_string_equal(t.rows[0].dst_name, "host");
	assert_true(t.rows[0].overlap_pct.v == 50);
	assert_true(t.rows[0].bandwidth_bytes_per_s.v == 12000 / 150e-6);
	assert_int_equal(t.rows[0].small, 3);
	assert_string_equal(t.rows[1].kind, "HtoD");
	assert_string_equal(t.rows[1].memory, "pinned");
	assert_int_equal(t.rows[1].asynchronous, 3);
	assert_true(t.rows[1].overlap_pct.v == 0);
	assert_true(fabs(t.rows[1].bandwidth_bytes_per_s.v - 2e10) < 1);
	assert_string_equal(t.rows[2].kind, "memset");
	assert_int_equal(t.rows[2].small, 0);
	transfers_release(&t);
	sel.phase = 1; /* the copies to the device are in the forward range, the set has no call */
	assert_int_equal(transfers_analyze(run, &sel, &t), 0);
	assert_int_equal(t.n, 1);
	assert_int_equal(t.count, 3);
	assert_int_equal(t.without_call, 1);
	transfers_release(&t);
	fake_run_free(run);
}

static void test_peers_and_untimed(void **state)
{
	struct run *run = fake_run_new();
	struct selection sel = SELECT_ALL;
	struct row_copy peer = { .start_ns = 100,
				 .duration_ns = 50,
				 .bytes = 1000,
				 .kind = 10,
				 .source_memory = 3,
				 .target_memory = 3,
				 .device = 1,
				 .source_device = 1,
				 .target_device = 0 };
	struct transfers t;

	(void)state;
	fake_add_copy(run, 0, &peer);
	peer.target_device = 3;
	peer.untimed = 1;
	peer.duration_ns = 0;
	fake_add_copy(run, 0, &peer);
	/* Kernels of another device do not overlap. */
	fake_kernel(run, "k", 0, 1000, 1);
	assert_int_equal(transfers_analyze(run, &sel, &t), 0);
	assert_int_equal(t.n, 2);
	assert_string_equal(t.rows[0].dst_name, "gpu 0");
	assert_true(t.rows[0].overlap_pct.v == 0);
	assert_string_equal(t.rows[1].src_name, "gpu 1");
	assert_string_equal(t.rows[1].dst_name, "gpu 3");
	assert_int_equal(t.rows[1].untimed, 1);
	assert_false(t.rows[1].bandwidth_bytes_per_s.known);
	assert_false(t.rows[1].overlap_pct.known);
	transfers_release(&t);
	fake_run_free(run);
}

static void test_timeline(void **state)
{
	struct run *run = fake_gpu_run();
	struct selection sel = SELECT_ALL;
	const struct timeline_device *d;
	struct timeline t;

	(void)state;
	assert_int_equal(timeline_analyze(run, &sel, &t), 0);
	assert_int_equal(t.n, 1);
	assert_int_equal(t.untimed, 1);
	d = &t.devices[0];
	assert_int_equal(d->start_ns, 120 * US);
	assert_int_equal(d->end_ns, 29020 * US);
	assert_int_equal(d->kernel_ns, 3460 * US);
	assert_int_equal(d->copy_ns, 300 * US);
	assert_int_equal(d->set_ns, 2 * US);
	assert_int_equal(d->overlap_ns, 75 * US);
	assert_true(d->overlap_pct.v == 25);
	assert_int_equal(d->busy_ns, 3687 * US);
	assert_int_equal(d->idle_ns, 25213 * US);
	timeline_release(&t);
	sel.step_first = sel.step_last = 1;
	assert_int_equal(timeline_analyze(run, &sel, &t), 0);
	d = &t.devices[0];
	assert_int_equal(d->end_ns - d->start_ns, 9 * MS);
	assert_int_equal(d->busy_ns, 1225 * US);
	assert_int_equal(d->idle_ns, 7775 * US);
	timeline_release(&t);
	sel.step_first = sel.step_last = 50;
	assert_int_equal(timeline_analyze(run, &sel, &t), 0);
	assert_int_equal(t.n, 0);
	timeline_release(&t);
	fake_run_free(run);
}

static void test_two_processes(void **state)
{
	struct run *run = fake_run_new();
	uint16_t other = fake_shard(run, 1, 9);
	struct selection sel = SELECT_ALL;
	struct row_kernel row = { .start_ns = 10, .duration_ns = 20 };
	struct timeline t;

	(void)state;
	fake_add_kernel(run, 0, &row);
	fake_add_kernel(run, other, &row);
	row.device = 1;
	row.start_ns = 100;
	fake_add_kernel(run, other, &row);
	assert_int_equal(timeline_analyze(run, &sel, &t), 0);
	assert_int_equal(t.n, 3);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(t.devices[i].busy_ns, 20);
		assert_int_equal(t.devices[i].idle_ns, 0);
		assert_false(t.devices[i].overlap_pct.known);
	}
	assert_int_equal(t.devices[2].rank, 1);
	assert_int_equal(t.devices[2].device, 1);
	timeline_release(&t);
	fake_run_free(run);
}

static void test_device_memory(void **state)
{
	struct run *run = fake_gpu_run();
	uint16_t other = fake_shard(run, 3, 9);
	struct device_memory m;

	(void)state;
	/* The same address in another process is another block. */
	fake_add_device_memory(run, other,
			       &(struct row_device_memory){
				       .time_ns = 1, .address = 0x1000, .bytes = 5, .memory = 3 });
	/* Allocated again without a free: the old block is gone. */
	fake_add_device_memory(run, other,
			       &(struct row_device_memory){
				       .time_ns = 2, .address = 0x1000, .bytes = 7, .memory = 3 });
	assert_int_equal(device_memory_analyze(run, &m), 0);
	assert_int_equal(m.n_driver, 3);
	assert_string_equal(m.driver[0].memory, "device");
	assert_int_equal(m.driver[0].allocations, 2);
	assert_int_equal(m.driver[0].frees, 1);
	assert_int_equal(m.driver[0].unmatched_frees, 1);
	assert_int_equal(m.driver[0].live_bytes, 6000000);
	assert_int_equal(m.driver[0].peak_bytes, 8000000);
	assert_int_equal(m.driver[0].peak_ns, 2 * MS);
	assert_string_equal(m.driver[1].memory, "pinned");
	assert_int_equal(m.driver[1].live_bytes, 1000000);
	assert_int_equal(m.driver[2].rank, 3);
	assert_int_equal(m.driver[2].live_bytes, 7);
	assert_int_equal(m.driver[2].peak_bytes, 7);
	assert_int_equal(m.n_used, 1);
	assert_int_equal(m.used[0].samples, 2);
	assert_true(m.used[0].peak_bytes == 9e9 && m.used[0].last_bytes == 7e9);
	device_memory_release(&m);
	fake_run_free(run);
}

static void test_nothing(void **state)
{
	struct run *run = fake_run_new();
	struct selection sel = SELECT_ALL;
	struct api_calls calls;
	struct transfers transfers;
	struct timeline timeline;

	(void)state;
	assert_int_equal(api_calls_analyze(run, &sel, &calls), 0);
	assert_int_equal(transfers_analyze(run, &sel, &transfers), 0);
	assert_int_equal(timeline_analyze(run, &sel, &timeline), 0);
	assert_true(!calls.n && !transfers.n && !timeline.n);
	assert_false(calls.latency_ns.known);
	api_calls_release(&calls);
	transfers_release(&transfers);
	timeline_release(&timeline);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_graph_launch_counts_its_first_kernel),
		cmocka_unit_test(test_transfers),
		cmocka_unit_test(test_peers_and_untimed),
		cmocka_unit_test(test_timeline),
		cmocka_unit_test(test_two_processes),
		cmocka_unit_test(test_device_memory),
		cmocka_unit_test(test_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
