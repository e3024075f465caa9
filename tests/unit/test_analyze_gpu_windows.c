/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs collected in windows, CUDA graphs, causes of idle time, staged moves, pools, states of
 * devices, spans: values by hand, see fake_windows.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "device/sheets/clock_reasons.h"
#include "fake_windows.h"
#include "subjects/device/device_state.h"
#include "subjects/device/timeline.h"
#include "subjects/kernels/kernels.h"
#include "subjects/memory/device_memory.h"
#include "subjects/ops/ops.h"
#include "subjects/overhead/overhead.h"
#include "subjects/shared/coverage.h"
#include "subjects/spans/named_spans.h"
#include "subjects/transfers/transfers.h"

#define US INT64_C(1000)
#define MS INT64_C(1000000)

static bool near(double a, double b)
{
	return fabs(a - b) < 1e-9;
}

static void test_coverage(void **state)
{
	struct run *run = fake_windows_run();
	struct coverage c;

	(void)state;
	assert_int_equal(coverage_analyze(run, &c), 0);
	assert_true(c.sampled);
	assert_int_equal(c.n_windows, 3);
	assert_int_equal(c.windows[0].start_ns, 5 * MS);
	assert_int_equal(c.windows[0].end_ns, 20 * MS);
	assert_int_equal(c.windows[2].start_ns, 80 * MS);
	assert_int_equal(c.windows[2].end_ns, 90 * MS);
	/* The process had no device to watch before 5 ms. */
	assert_int_equal(c.watched_ns, 95 * MS);
	assert_int_equal(c.covered_ns, 45 * MS);
	assert_true(near(c.coverage_pct.v, 100.0 * 45 / 95));
	/* 1, 4, 5 and 8; step 0 began before the first window. */
	assert_int_equal(c.steps_covered, 4);
	assert_int_equal(c.steps, 10);
	assert_int_equal(c.n_changes, 7);
	assert_true(c.changes[0].gear_changed && c.changes[1].gear_changed);
	assert_false(c.changes[2].gear_changed);
	assert_false(c.changes[0].cost_pct.known);
	assert_true(c.changes[1].cost_pct.v == 8);
	assert_int_equal(c.n_yields, 1);
	assert_int_equal(c.yields[0].start_ns, 70 * MS);
	assert_int_equal(c.yields[0].end_ns, 80 * MS);
	assert_string_equal(run_string(run, c.yields[0].why), "torch.profiler collects");
	/* The first window's cost was known when it ended: 8% of 15, 8% of 20, 6% of 10 ms. */
	assert_true(near(c.governed_pct.v, (8.0 * 15 + 8.0 * 20 + 6.0 * 10) / 95));
	assert_true(c.device_bytes.v == 37000000);
	coverage_release(&c);
	fake_run_free(run);
}

static void test_coverage_without_a_governor(void **state)
{
	struct run *run = fake_gpu_run();
	struct coverage c;

	(void)state;
	assert_int_equal(coverage_analyze(run, &c), 0);
	assert_false(c.sampled);
	assert_true(c.coverage_pct.v == 100);
	assert_int_equal(c.n_windows, 1);
	assert_int_equal(c.steps_covered, 3);
	assert_false(c.governed_pct.known || c.device_bytes.known);
	coverage_release(&c);
	fake_run_free(run);
	run = fake_training_run();
	assert_int_equal(coverage_analyze(run, &c), 0);
	assert_false(c.sampled || c.coverage_pct.known);
	assert_int_equal(c.steps, 0);
	/* No device was there to be missed. */
	assert_true(coverage_has_step(&c, run, 0));
	coverage_release(&c);
	fake_run_free(run);
}

/* Always on until the end, and the end said: all of the time counts as covered. A second process
 * that only counts halves the coverage. */
static void test_coverage_of_processes(void **state)
{
	struct run *run = fake_run_new();
	uint16_t second;
	struct coverage c;

	(void)state;
	fake_span(run, 0, 1000);
	fake_add_gear(run, 0, &(struct row_gear){ .time_ns = 50 });
	fake_add_gear(run, 0, &(struct row_gear){ .time_ns = 100, .gear = 3, .attached = 1 });
	fake_add_gear(run, 0, &(struct row_gear){ .time_ns = 900 });
	assert_int_equal(coverage_analyze(run, &c), 0);
	assert_false(c.sampled);
	assert_int_equal(c.watched_ns, 800);
	assert_true(c.coverage_pct.v == 100);
	assert_false(c.governed_pct.known); /* attached, and no cost was ever known */
	coverage_release(&c);
	second = fake_shard(run, 1, 4243);
	run->shards[second].end_ns = 1000;
	fake_add_gear(run, second, &(struct row_gear){ .time_ns = 200, .gear = 1 });
	assert_int_equal(coverage_analyze(run, &c), 0);
	assert_true(c.sampled);
	assert_int_equal(c.watched_ns, 1600);
	assert_true(c.coverage_pct.v == 50);
	assert_null(coverage_window(&c, second, 300, 400));
	assert_non_null(coverage_window(&c, 0, 100, 900));
	assert_null(coverage_window(&c, 0, 100, 901));
	assert_null(coverage_window(&c, 0, 99, 200));
	coverage_release(&c);
	fake_run_free(run);
}

static void test_timeline(void **state)
{
	struct run *run = fake_windows_run();
	struct selection sel = SELECT_ALL;
	const struct timeline_device *d;
	struct timeline t;
	int64_t sum = 0;

	(void)state;
	assert_int_equal(timeline_analyze(run, &sel, &t), 0);
	assert_int_equal(t.n, 1);
	d = &t.devices[0];
	/* 7.02..20, 40..60, 80..89.02 ms: the windows, from the first kernel to the last. */
	assert_int_equal(d->window_ns, 12980 * US + 20 * MS + 9020 * US);
	assert_int_equal(d->busy_ns, 20 * MS);
	assert_true(near(d->busy_pct, 100.0 * 20 / 42));
	assert_int_equal(d->idle_ns, 22 * MS);
	/* 18.02..20, 40..41, 59.02..60 and 80..81 ms */
	assert_int_equal(d->idle_by_cause[IDLE_PROFILER], 4960 * US);
	assert_int_equal(d->idle_by_cause[IDLE_LAUNCH], 7 * 20 * US);
	/* After each replay, from its end to the next launch. */
	assert_int_equal(d->idle_by_cause[IDLE_SYNC], 3 * 1980 * US);
	/* 8.02..17 and 49.02..51 ms */
	assert_int_equal(d->idle_by_cause[IDLE_HOST], 8980 * US + 1980 * US);
	assert_int_equal(d->idle_by_cause[IDLE_UNKNOWN], 0);
	for (int c = 0; c < IDLE_CAUSES; c++)
		sum += d->idle_by_cause[c];
	assert_int_equal(sum, d->idle_ns);
	timeline_release(&t);
	sel.step_first = 2;
	sel.step_last = 4; /* 20..50 ms: covered 40..50 */
	assert_int_equal(timeline_analyze(run, &sel, &t), 0);
	d = &t.devices[0];
	assert_int_equal(d->window_ns, 10 * MS);
	assert_int_equal(d->busy_ns, 6 * MS);
	timeline_release(&t);
	fake_run_free(run);
}

/* One gap of 100 us between two kernels, launched and waited for in different ways. */
static struct timeline_device gap(struct run *run)
{
	struct selection sel = SELECT_ALL;
	struct timeline t;
	struct timeline_device d;

	fake_kernel(run, "first", 1000 * US, 1100 * US, 1);
	fake_kernel(run, "second", 1200 * US, 1300 * US, 2);
	assert_int_equal(timeline_analyze(run, &sel, &t), 0);
	assert_int_equal(t.devices[0].idle_ns, 100 * US);
	d = t.devices[0];
	timeline_release(&t);
	fake_run_free(run);
	return d;
}

static void test_idle_causes(void **state)
{
	struct timeline_device d;
	struct run *run;

	(void)state;
	d = gap(fake_run_new());
	assert_int_equal(d.idle_by_cause[IDLE_UNKNOWN], 100 * US);

	run = fake_run_new(); /* launched 30 us before it began */
	fake_call(run, "cudaLaunchKernel", 1170 * US, 1175 * US, 2);
	d = gap(run);
	assert_int_equal(d.idle_by_cause[IDLE_HOST], 70 * US);
	assert_int_equal(d.idle_by_cause[IDLE_LAUNCH], 30 * US);

	run = fake_run_new(); /* just before the gap */
	fake_call(run, "cudaLaunchKernel", 1090 * US, 1095 * US, 2);
	d = gap(run);
	assert_int_equal(d.idle_by_cause[IDLE_LAUNCH], 100 * US);

	run = fake_run_new(); /* long before it */
	fake_call(run, "cudaLaunchKernel", 1090 * US - 1, 1095 * US, 2);
	d = gap(run);
	assert_int_equal(d.idle_by_cause[IDLE_QUEUED], 100 * US);

	run = fake_run_new(); /* the launch was not recorded, but others were */
	fake_call(run, "cudaLaunchKernel", 900 * US, 905 * US, 1);
	d = gap(run);
	assert_int_equal(d.idle_by_cause[IDLE_UNKNOWN], 100 * US);

	run = fake_run_new(); /* a wait that a sync record shows, without a call */
	fake_add_sync(
		run, 0,
		&(struct row_sync){ .start_ns = 1050 * US, .duration_ns = 60 * US, .type = 3 });
	fake_call(run, "cudaLaunchKernel", 1190 * US, 1195 * US, 2);
	d = gap(run);
	assert_int_equal(d.idle_by_cause[IDLE_SYNC], 90 * US);
	assert_int_equal(d.idle_by_cause[IDLE_LAUNCH], 10 * US);

	run = fake_run_new(); /* a stream that waits for an event is not the host */
	fake_add_sync(
		run, 0,
		&(struct row_sync){ .start_ns = 1050 * US, .duration_ns = 60 * US, .type = 2 });
	fake_call(run, "cudaLaunchKernel", 1190 * US, 1195 * US, 2);
	d = gap(run);
	assert_int_equal(d.idle_by_cause[IDLE_SYNC], 0);

	run = fake_run_new(); /* 40 us in a blocking copy, 20 of them beside a peer copy of 30 us */
	fake_call(run, "cudaMemcpy", 1080 * US, 1140 * US, 7);
	fake_add_copy(run, 0,
		      &(struct row_copy){ .start_ns = 1120 * US,
					  .duration_ns = 30 * US,
					  .kind = 10,
					  .device = 1,
					  .source_device = 1,
					  .target_device = 0 });
	fake_call(run, "cudaLaunchKernel", 1190 * US, 1195 * US, 2);
	d = gap(run);
	assert_int_equal(d.idle_by_cause[IDLE_COPY], 50 * US);
	assert_int_equal(d.idle_by_cause[IDLE_HOST], 40 * US);
	assert_int_equal(d.idle_by_cause[IDLE_LAUNCH], 10 * US);
}

static const struct kernel_row *layer_row(const struct kernels *k, int layer)
{
	for (size_t i = 0; i < k->n; i++)
		if (!k->rows[i].no_place && k->rows[i].layer == layer)
			return &k->rows[i];
	fail_msg("no layer %d", layer);
	return NULL;
}

static void test_graph_kernels(void **state)
{
	struct run *run = fake_windows_run();
	struct kernels_options options = { .by = KERNELS_BY_LAYER };
	struct selection sel = SELECT_ALL;
	struct kernels k;

	(void)state;
	assert_int_equal(kernels_analyze(run, &sel, &options, &k), 0);
	assert_int_equal(k.n, 3);
	assert_int_equal(layer_row(&k, 0)->time_ns, 6 * MS);
	assert_int_equal(layer_row(&k, 1)->time_ns, 9 * MS);
	assert_true(k.outside_ranges.v == 5 && k.without_call.v == 0);
	kernels_release(&k);

	options.by = KERNELS_BY_RANGE;
	sel.step_first = sel.step_last = 5; /* by the launch, although it was captured in step 1 */
	assert_int_equal(kernels_analyze(run, &sel, &options, &k), 0);
	assert_int_equal(k.n, 2);
	assert_string_equal(k.rows[0].range, "capture/block");
	assert_int_equal(k.rows[0].time_ns, 5 * MS);
	kernels_release(&k);

	options.by = KERNELS_BY_STEP;
	sel = SELECT_ALL;
	assert_int_equal(kernels_analyze(run, &sel, &options, &k), 0);
	assert_int_equal(k.n, 5);
	assert_int_equal(k.whole_steps, 4);
	assert_true(near(k.step_time_mean_ns.v, (1 + 3 * 6) * 1e6 / 4));
	assert_true(near(k.step_count_mean.v, (1 + 3 * 3) / 4.0));
	for (size_t i = 0; i < k.n; i++)
		assert_int_equal(k.rows[i].whole_step, k.rows[i].step != 0);
	kernels_release(&k);

	options.by = KERNELS_BY_GRAPH;
	assert_int_equal(kernels_analyze(run, &sel, &options, &k), 0);
	assert_int_equal(k.n, 2);
	assert_int_equal(k.rows[0].graph, 3);
	assert_int_equal(k.rows[0].time_ns, 15 * MS);
	assert_non_null(k.rows[1].no_place);
	kernels_release(&k);
	fake_run_free(run);
}

static void add_node(struct run *run, int64_t time_ns, uint64_t node, uint64_t source)
{
	fake_add_graph_node(
		run, 0,
		&(struct row_graph_node){
			.time_ns = time_ns, .thread = 1, .node = node, .source = source });
}

static int layer_of(const struct attribution *at, uint64_t node, int64_t start_ns)
{
	struct place place;

	if (!attribution_find(at, &(struct device_work){ 99, node, start_ns, 0 }, &place))
		return -2;
	return place.layer;
}

static void test_nodes(void **state)
{
	struct run *run = fake_run_new();
	struct attribution at;
	struct place place;

	(void)state;
	for (int l = 0; l < 4; l++)
		fake_range(run, fake_site(run, "block", l, -1, 0), 100 * l, 100 * l + 50, 1, 0);
	add_node(run, 10, 5, 0);    /* layer 0 */
	add_node(run, 110, 5, 0);   /* the id again, layer 1 */
	add_node(run, 220, 6, 5);   /* a copy in layer 2 of one in layer 1 */
	add_node(run, 270, 7, 6);   /* a copy of the copy, outside all ranges */
	add_node(run, 280, 8, 444); /* of something that was not recorded, outside */
	add_node(run, 310, 9, 445); /* likewise, in layer 3 */
	add_node(run, 320, 20, 21); /* copies of each other */
	add_node(run, 320, 21, 20);
	add_node(run, 340, 22, 22); /* and of itself */
	fake_step(run, 0, 0, 600, 0);
	fake_step(run, 1, 600, 1000, 0);
	fake_call(run, "cudaGraphLaunch", 120, 125, 98); /* in layer 1 */
	assert_int_equal(attribution_init(&at, run), 0);
	assert_int_equal(layer_of(&at, 5, 105), 0);
	assert_int_equal(layer_of(&at, 5, 110), 1);
	assert_int_equal(layer_of(&at, 5, 9), -2); /* made later */
	assert_int_equal(layer_of(&at, 6, 700), 1);
	assert_int_equal(layer_of(&at, 7, 700), 1);
	assert_int_equal(layer_of(&at, 8, 700), -1);
	assert_int_equal(layer_of(&at, 9, 700), 3);
	assert_int_equal(layer_of(&at, 20, 700), 3);
	assert_int_equal(layer_of(&at, 21, 700), 3);
	assert_int_equal(layer_of(&at, 22, 700), 3);
	assert_int_equal(layer_of(&at, 77, 700), -2); /* never seen, and no call */
	/* Without its call the step is that of its start; with it that of the call. */
	assert_true(attribution_find(&at, &(struct device_work){ 99, 6, 700, 0 }, &place));
	assert_int_equal(place.step, 1);
	assert_true(attribution_find(&at, &(struct device_work){ 98, 9, 700, 0 }, &place));
	assert_int_equal(place.step, 0);
	assert_int_equal(place.layer, 3);
	/* A node made outside all ranges, or not seen: the launch of the graph. */
	assert_true(attribution_find(&at, &(struct device_work){ 98, 8, 700, 0 }, &place));
	assert_int_equal(place.layer, 1);
	assert_true(attribution_find(&at, &(struct device_work){ 98, 77, 700, 0 }, &place));
	assert_int_equal(place.layer, 1);
	attribution_release(&at);
	fake_run_free(run);
}

static const struct op_row *op_row(const struct run *run, const struct ops *ops, const char *name)
{
	for (size_t i = 0; i < ops->n; i++)
		if (!strcmp(run_string(run, ops->rows[i].name), name))
			return &ops->rows[i];
	fail_msg("no %s", name);
	return NULL;
}

static void test_ops(void **state)
{
	struct run *run = fake_windows_run();
	struct ops_options options = { 0 };
	struct selection sel = SELECT_ALL;
	struct ops ops;

	(void)state;
	assert_int_equal(ops_analyze(run, &sel, &options, &ops), 0);
	assert_int_equal(op_row(run, &ops, "block")->self_gpu_ns, 15 * MS);
	assert_int_equal(op_row(run, &ops, "capture")->self_gpu_ns, 0);
	assert_int_equal(op_row(run, &ops, "capture")->gpu_ns, 15 * MS);
	assert_int_equal(op_row(run, &ops, "decode")->gpu_ns, 0);
	assert_true(ops.gpu_ns.v == 15e6 && ops.gpu_outside_ns.v == 5e6);
	assert_true(ops.gpu_unplaced_ns.v == 0);
	ops_release(&ops);
	/* Replays of one step, of nodes made in another: device time and no record. */
	sel.step_first = sel.step_last = 5;
	assert_int_equal(ops_analyze(run, &sel, &options, &ops), 0);
	assert_int_equal(op_row(run, &ops, "block")->count, 0);
	assert_int_equal(op_row(run, &ops, "block")->cpu_ns, 0);
	assert_int_equal(op_row(run, &ops, "block")->self_gpu_ns, 5 * MS);
	assert_int_equal(op_row(run, &ops, "capture")->self_cpu_ns, 0);
	assert_int_equal(op_row(run, &ops, "decode")->count, 1);
	assert_true(ops.gpu_outside_ns.v == 1e6);
	ops_release(&ops);
	fake_run_free(run);
}

/* a(b(a(), b()), c()): the launch in each takes 1, 2, 4, 8, 16 us. */
static void test_ops_recursion(void **state)
{
	struct run *run = fake_run_new();
	uint32_t a = fake_site(run, "a", -1, -1, 0), b = fake_site(run, "b", -1, -1, 0);
	uint32_t c = fake_site(run, "c", -1, -1, 0);
	struct ops_options options = { 0 };
	struct selection sel = SELECT_ALL;
	static const int64_t at[] = { 5, 15, 25, 45, 75 };
	struct ops ops;

	(void)state;
	fake_range(run, a, 20, 30, 1, 2);
	fake_op(run, b, 40, 50, 1, 2, 0);
	fake_op(run, b, 10, 60, 1, 1, 0);
	fake_range(run, c, 70, 80, 1, 1);
	fake_range(run, a, 0, 100, 1, 0);
	for (int i = 0; i < 5; i++) {
		fake_call(run, "cudaLaunchKernel", at[i], at[i] + 1, (uint64_t)i + 1);
		fake_kernel(run, "k", 1000 + 100 * i, 1000 + 100 * i + (1 << i), (uint64_t)i + 1);
	}
	fake_kernel(run, "k", 5000, 5032, 77);
	assert_int_equal(ops_analyze(run, &sel, &options, &ops), 0);
	assert_int_equal(op_row(run, &ops, "a")->self_gpu_ns, 1 + 4);
	assert_int_equal(op_row(run, &ops, "a")->gpu_ns, 31);
	assert_int_equal(op_row(run, &ops, "b")->self_gpu_ns, 2 + 8);
	assert_int_equal(op_row(run, &ops, "b")->gpu_ns, 2 + 4 + 8);
	assert_int_equal(op_row(run, &ops, "c")->gpu_ns, 16);
	assert_true(ops.gpu_unplaced_ns.v == 32);
	ops_release(&ops);
	/* Without any call nothing can be said, and that is not zero. */
	run->api.n = 0;
	assert_int_equal(ops_analyze(run, &sel, &options, &ops), 0);
	assert_false(ops.gpu_ns.known);
	ops_release(&ops);
	fake_run_free(run);
}

static void copy(struct run *run, uint8_t kind, uint32_t device, uint64_t bytes, int64_t start_us)
{
	fake_add_copy(run, 0,
		      &(struct row_copy){ .start_ns = start_us * US,
					  .duration_ns = 10 * US,
					  .bytes = bytes,
					  .kind = kind,
					  .device = device,
					  .source_device = device,
					  .target_device = device });
}

static void test_staged(void **state)
{
	struct run *run = fake_run_new();
	struct selection sel = SELECT_ALL;
	struct transfers t;

	(void)state;
	copy(run, 2, 0, 8192, 0);
	copy(run, 1, 1, 8192, 20); /* staged, 0 to 1: 30 us */
	copy(run, 1, 2, 8192, 40); /* its other half is taken */
	copy(run, 2, 0, 8192, 100);
	copy(run, 1, 1, 8192, 1110); /* exactly as late as it may be: 1020 us */
	copy(run, 2, 1, 9000, 2000);
	copy(run, 1, 0, 9000, 3011); /* too late */
	copy(run, 2, 0, 10000, 4000);
	copy(run, 1, 0, 10000, 4020); /* the same device */
	copy(run, 2, 0, 4000, 5000);
	copy(run, 1, 1, 4000, 5020); /* too small */
	copy(run, 2, 0, 12000, 6000);
	copy(run, 1, 1, 12000, 6005); /* begins before the other ends */
	copy(run, 2, 1, 16384, 7000);
	copy(run, 1, 0, 16384, 7010); /* staged, 1 to 0: 20 us */
	assert_int_equal(transfers_analyze(run, &sel, &t), 0);
	assert_int_equal(t.n_staged, 2);
	assert_int_equal(t.staged_count, 3);
	assert_int_equal(t.staged_bytes, 2 * 8192 + 16384);
	assert_int_equal(t.staged[0].src, 0);
	assert_int_equal(t.staged[0].dst, 1);
	assert_int_equal(t.staged[0].count, 2);
	assert_int_equal(t.staged[0].bytes, 2 * 8192);
	assert_int_equal(t.staged[0].time_ns, (30 + 1020) * US);
	assert_int_equal(t.staged[1].src, 1);
	assert_int_equal(t.staged[1].time_ns, 20 * US);
	transfers_release(&t);
	fake_run_free(run);
}

static void test_pools(void **state)
{
	struct run *run = fake_windows_run();
	struct device_memory m;

	(void)state;
	/* Gone, and another one at the same address. */
	fake_add_pool(run, 0,
		      &(struct row_pool){ .time_ns = 70 * MS, .event = 1, .address = 0x10 });
	fake_add_pool(run, 0,
		      &(struct row_pool){ .time_ns = 71 * MS, .address = 0x10, .bytes = 1000 });
	assert_int_equal(device_memory_analyze(run, &m), 0);
	assert_int_equal(m.n_pools, 2);
	assert_int_equal(m.pools[0].peak_bytes, 64000000);
	assert_int_equal(m.pools[0].bytes, 32000000);
	assert_int_equal(m.pools[0].peak_used_bytes, 48000000);
	assert_int_equal(m.pools[0].used_bytes, 30000000);
	assert_int_equal(m.pools[0].trims, 2);
	assert_true(m.pools[0].destroyed && !m.pools[1].destroyed);
	assert_int_equal(m.pools[1].bytes, 1000);
	device_memory_release(&m);
	fake_run_free(run);
}

static void test_states(void **state)
{
	struct run *run = fake_windows_run();
	struct device_states s;
	const struct device_state *d;

	(void)state;
	fake_add_sample(run, 0,
			&(struct row_sample){ .metric = fake_string(run, "clock_limit_reasons"),
					      .value = NAN });
	assert_int_equal(device_states_analyze(run, &s), 0);
	assert_int_equal(s.n, 1);
	d = &s.devices[0];
	assert_true(d->metrics[METRIC_POWER].mean == 600 && d->metrics[METRIC_POWER].max == 700);
	assert_true(d->metrics[METRIC_CLOCK_SM].mean == 1720);
	assert_true(d->metrics[METRIC_CLOCK_SM].min == 1200);
	assert_true(d->metrics[METRIC_TEMPERATURE].max == 70);
	assert_int_equal(d->metrics[METRIC_CLOCK_MEMORY].samples, 0);
	assert_int_equal(d->reason_samples, 3);
	assert_int_equal(d->reasons[2], 2);
	assert_int_equal(d->reasons[5], 1);
	/* The run's own process, 4242, is none of the others. */
	assert_int_equal(s.n_others, 2);
	assert_int_equal(s.others[0].pid, 777);
	assert_int_equal(s.others[0].peak_bytes, UINT64_C(2) << 30);
	assert_int_equal(s.others[0].last_bytes, UINT64_C(1) << 30);
	assert_int_equal(s.others[1].pid, 888);
	assert_true(s.others[1].graphics && !s.others[1].bytes_known);
	device_states_release(&s);
	fake_run_free(run);
}

static void test_clock_reasons(void **state)
{
	(void)state;
	assert_string_equal(clock_reason_words(0), "idle");
	assert_string_equal(clock_reason_words(2), "power limit");
	assert_string_equal(clock_reason_words(8), "display clock setting");
	assert_null(clock_reason_words(9));
	assert_null(clock_reason_words(63));
}

static void test_spans(void **state)
{
	struct run *run = fake_windows_run();
	struct named_spans s;

	(void)state;
	assert_int_equal(named_spans_analyze(run, &s), 0);
	assert_int_equal(s.n, 2);
	assert_string_equal(run_string(run, s.rows[0].name), "request");
	assert_string_equal(run_string(run, s.rows[0].domain), "server");
	assert_int_equal(s.rows[0].count, 2);
	assert_int_equal(s.rows[0].moved, 2);
	assert_int_equal(s.rows[0].time_ns, 12 * MS);
	assert_int_equal(s.rows[0].max_ns, 7 * MS);
	assert_int_equal(s.rows[1].domain, 0);
	assert_int_equal(s.rows[1].moved, 0);
	named_spans_release(&s);
	fake_run_free(run);
}

static void test_device_cost(void **state)
{
	struct run *run = fake_windows_run();
	struct overhead o;

	(void)state;
	assert_int_equal(overhead_analyze(run, &o), 0);
	assert_int_equal(o.cupti_ns, 400000);
	assert_int_equal(o.translate_ns, 200000);
	assert_int_equal(o.held_ns, 100000);
	assert_int_equal(o.switch_ns, 300000);
	assert_true(near(o.device_account_pct.v, 1.0)); /* 1 of 100 ms */
	assert_int_equal(o.device_kernels, 10);
	assert_false(o.measured_pct.known);
	run->device_cost.n = 0;
	assert_int_equal(overhead_analyze(run, &o), 0);
	assert_false(o.device_account_pct.known);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_coverage),
		cmocka_unit_test(test_coverage_without_a_governor),
		cmocka_unit_test(test_coverage_of_processes),
		cmocka_unit_test(test_timeline),
		cmocka_unit_test(test_idle_causes),
		cmocka_unit_test(test_graph_kernels),
		cmocka_unit_test(test_nodes),
		cmocka_unit_test(test_ops),
		cmocka_unit_test(test_ops_recursion),
		cmocka_unit_test(test_staged),
		cmocka_unit_test(test_pools),
		cmocka_unit_test(test_states),
		cmocka_unit_test(test_clock_reasons),
		cmocka_unit_test(test_spans),
		cmocka_unit_test(test_device_cost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
