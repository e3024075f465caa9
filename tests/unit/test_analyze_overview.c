/* SPDX-License-Identifier: Apache-2.0
 *
 * The one-screen figures of a run, its memory over time, and its kernels one by one and by expert,
 * by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "asking.h"
#include "fake_run.h"
#include "moescope.h"
#include "subjects/memory/memory_history.h"
#include "subjects/overview/overview.h"
#include "subjects/shared/kernel_stream.h"

#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-9 * (1 + fabs((double)(b))))

static const struct selection all = { INT64_MIN, INT64_MAX, -1, -1 };

struct made {
	struct answers a;
	struct kernels by_class, by_expert;
	struct overview o;
};

static void make(const struct run *run, struct made *m)
{
	struct overview_parts parts;
	struct kernels_options by = { .by = KERNELS_BY_CLASS };

	m->a = answers_of(run, subjects_all, &(struct question){ .sel = SELECT_ALL });
	assert_int_equal(kernels_analyze(run, &all, &by, &m->by_class), 0);
	by.by = KERNELS_BY_EXPERT;
	assert_int_equal(kernels_analyze(run, &all, &by, &m->by_expert), 0);
	parts = (struct overview_parts){
		.memory = answer_memory(&m->a),
		.device_memory = answer_device_memory(&m->a),
		.device_states = answer_device_states(&m->a),
		.timeline = answer_timeline(&m->a),
		.routing = answer_routing(&m->a),
		.by_class = &m->by_class,
		.by_expert = &m->by_expert,
	};
	assert_int_equal(overview_make(run, &parts, &m->o), 0);
}

static void unmake(struct made *m, struct run *run)
{
	overview_release(&m->o);
	kernels_release(&m->by_class);
	kernels_release(&m->by_expert);
	answers_release(&m->a);
	fake_run_free(run);
}

static void allocate(struct run *run, int32_t device, int64_t time_ns, uint64_t bytes)
{
	fake_add_memory(run, 0,
			&(struct row_memory){ .time_ns = time_ns,
					      .address = (uint64_t)time_ns,
					      .bytes = bytes,
					      .device = device,
					      .site = fake_string(run, "s") });
}

static void test_nothing(void **state)
{
	struct run *run = fake_run_new();
	struct made m;

	(void)state;
	make(run, &m);
	assert_null(m.o.memory);
	assert_false(m.o.peak_bytes.known || m.o.total_bytes.known || m.o.load.known);
	assert_false(m.o.attention_ns.known || m.o.expert_ns.known || m.o.busy_pct.known);
	assert_false(m.o.dram_pct.known || m.o.pcie_pct.known || m.o.cv_excess.known);
	assert_non_null(m.o.peak_bytes.reason);
	unmake(&m, run);
}

static void test_memory(void **state)
{
	struct run *run = fake_run_new();
	struct made m;

	(void)state;
	/* The host has more, the device is meant. */
	allocate(run, -1, 1, 9000);
	allocate(run, 0, 2, 300);
	allocate(run, 1, 3, 500);
	fake_add_device(run, 0, &(struct row_device){ .device = 1, .memory_bytes = 2000 });
	make(run, &m);
	assert_int_equal(m.o.memory->device, 1);
	NEAR(m.o.peak_bytes.v, 500);
	NEAR(m.o.total_bytes.v, 2000);
	assert_false(m.o.peak_by_driver);
	unmake(&m, run);
	/* Without the program's own: the driver's, and a sample of the size. */
	run = fake_run_new();
	fake_add_device_memory(run, 0,
			       &(struct row_device_memory){
				       .time_ns = 1, .address = 1, .bytes = 700, .memory = 3 });
	fake_add_sample(run, 0,
			&(struct row_sample){ .time_ns = 1,
					      .metric = fake_string(run, "memory_total_bytes"),
					      .value = 7000 });
	make(run, &m);
	assert_true(m.o.peak_by_driver);
	NEAR(m.o.peak_bytes.v, 700);
	NEAR(m.o.total_bytes.v, 7000);
	unmake(&m, run);
}

static void test_experts(void **state)
{
	static const uint32_t zero[] = { 6, 2 }, one[] = { 1, 3, 4 };
	struct run *run = fake_run_new();
	struct made m;

	(void)state;
	fake_routing(run, 0, 1, 0, 1, 2, zero);
	fake_routing(run, 0, 1, 1, 1, 3, one);
	/* Told twice: the last counts. Layer 1 does not tell. */
	for (uint64_t i = 1; i <= 2; i++)
		fake_add_moe_layer(
			run, 0,
			&(struct row_moe_layer){ .experts = 2, .k = 1, .expert_bytes = 10 * i });
	make(run, &m);
	assert_int_equal(m.o.experts, 3);
	assert_int_equal(m.o.n[0], 7);
	assert_int_equal(m.o.n[1], 5);
	assert_int_equal(m.o.n[2], 4);
	assert_int_equal(m.o.tokens, 16);
	/* 7 5 4 with the mean 16/3: distances 5/3, 1/3 and 4/3. */
	NEAR(m.o.load.cv, sqrt((25 + 1 + 16) / 9.0 / 3) / (16 / 3.0));
	NEAR(m.o.cv_excess.v, routing_cv_excess(m.o.load.cv, sqrt((3 - 1) / 16.0)));
	NEAR(m.o.expert_bytes[0].v, 20);
	assert_false(m.o.expert_bytes[2].known);
	unmake(&m, run);
}

static void sample(struct run *run, uint32_t device, const char *metric, double value)
{
	fake_add_sample(run, 0,
			&(struct row_sample){ .time_ns = 1,
					      .device = device,
					      .metric = fake_string(run, metric),
					      .value = value });
}

static void test_bandwidths(void **state)
{
	struct run *run = fake_run_new();
	struct made m;

	(void)state;
	/* The published rates of one direction, in 10^9 bytes a second. */
	NEAR(pcie_bytes_per_s(3, 16).v, 16 * 8e9 * 128 / 130 / 8);
	assert_true(fabs(pcie_bytes_per_s(5, 16).v - 63.0e9) < 0.1e9);
	assert_true(fabs(pcie_bytes_per_s(1, 1).v - 0.25e9) < 1);
	assert_false(pcie_bytes_per_s(0, 16).known || pcie_bytes_per_s(9, 16).known);
	assert_false(pcie_bytes_per_s(5, 0).known);
	sample(run, 0, "dram_bandwidth_pct", 20);
	sample(run, 0, "dram_bandwidth_pct", 40);
	sample(run, 0, "dram_bandwidth_pct", NAN);
	sample(run, 1, "dram_bandwidth_pct", 10);
	sample(run, 0, "pcie_tx_mib_per_s", 250);
	sample(run, 0, "pcie_rx_mib_per_s", 750);
	make(run, &m);
	NEAR(m.o.dram_pct.v, 30);
	assert_false(m.o.dram_bytes_per_s.known); /* the peak is not known */
	assert_false(m.o.pcie_pct.known);	  /* nor the link */
	unmake(&m, run);
	run = fake_run_new();
	sample(run, 0, "pcie_tx_mib_per_s", 250);
	sample(run, 0, "pcie_rx_mib_per_s", 750);
	sample(run, 0, "pcie_link_generation", 1);
	sample(run, 0, "pcie_link_width", 16);
	sample(run, 0, "dram_bandwidth_pct", 25);
	fake_add_device(run, 0, &(struct row_device){ .memory_bytes_per_s = 4000 });
	make(run, &m);
	NEAR(m.o.dram_bytes_per_s.v, 1000);
	/* 16 lanes of 0.25e9. */
	NEAR(m.o.pcie_pct.v, 100 * 750 * 1048576.0 / 4e9);
	unmake(&m, run);
}

/* Two launches for expert 1 of layer 3, one for expert 0 of layer 4, one without a place. */
static struct run *expert_run(void)
{
	struct run *run = fake_run_new();
	uint32_t one = fake_site(run, "expert", 3, 1, 0), zero = fake_site(run, "expert", 4, 0, 0);

	run->shards[0].realtime_offset_ns = 1000000000;
	fake_range(run, one, 0, 1000, 1, 0);
	fake_range(run, zero, 1000, 2000, 1, 0);
	for (uint64_t i = 0; i < 3; i++)
		fake_call(run, "cudaLaunchKernel", (int64_t)i * 400 + 300, (int64_t)i * 400 + 310,
			  i + 1);
	fake_kernel(run, "gemm_a", 5000, 5100, 1);
	fake_kernel(run, "gemm_a", 5200, 5500, 2);
	fake_kernel(run, "flash_fwd", 5600, 5650, 3);
	fake_kernel(run, "lost", 6000, -1, 9);
	return run;
}

static void test_kernels_by_expert(void **state)
{
	struct kernels_options by = { .by = KERNELS_BY_EXPERT };
	struct run *run = expert_run();
	struct selection layer = all;
	struct made m;
	struct kernels k;

	(void)state;
	make(run, &m);
	assert_int_equal(m.by_expert.n, 3);
	assert_int_equal(m.by_expert.rows[0].layer, 3);
	assert_int_equal(m.by_expert.rows[0].expert, 1);
	assert_int_equal(m.by_expert.rows[0].count, 2);
	assert_int_equal(m.by_expert.rows[0].time_ns, 400);
	assert_int_equal(m.by_expert.rows[1].expert, 0);
	assert_int_equal(m.by_expert.rows[1].layer, 4);
	assert_non_null(m.by_expert.rows[2].no_place);
	NEAR(m.o.expert_ns.v, 450.0 / 3);
	assert_false(m.o.expert_by_class);
	NEAR(m.o.attention_ns.v, 50);
	layer.layer = 4;
	assert_int_equal(kernels_analyze(run, &layer, &by, &k), 0);
	assert_int_equal(k.n, 1);
	assert_int_equal(k.rows[0].expert, 0);
	kernels_release(&k);
	unmake(&m, run);
	/* No range names an expert: the class stands in. */
	run = fake_run_new();
	fake_kernel(run, "fused_moe_kernel", 0, 70, 1);
	make(run, &m);
	assert_true(m.o.expert_by_class);
	NEAR(m.o.expert_ns.v, 70);
	unmake(&m, run);
}

static void test_kernel_stream(void **state)
{
	struct run *run = expert_run();
	struct selection layer = all;
	struct kernel_stream s;
	struct kernel_event e;

	(void)state;
	assert_int_equal(kernel_stream_init(&s, run, &all), 0);
	assert_int_equal(kernel_stream_next(&s, &e), 1);
	assert_string_equal(e.name, "gemm_a");
	assert_string_equal(e.class, "gemm");
	assert_int_equal(e.realtime_ns, 1000005000);
	assert_int_equal(e.duration_ns, 100);
	assert_int_equal(e.layer, 3);
	assert_int_equal(e.expert, 1);
	assert_int_equal(kernel_stream_next(&s, &e), 1);
	assert_int_equal(kernel_stream_next(&s, &e), 1);
	assert_string_equal(e.class, "attention");
	assert_int_equal(e.expert, 0);
	assert_int_equal(kernel_stream_next(&s, &e), 1);
	assert_true(e.untimed && e.expert == -1 && e.layer == -1);
	assert_int_equal(kernel_stream_next(&s, &e), 0);
	kernel_stream_release(&s);
	layer.layer = 4;
	assert_int_equal(kernel_stream_init(&s, run, &layer), 0);
	assert_int_equal(kernel_stream_next(&s, &e), 1);
	assert_string_equal(e.name, "flash_fwd");
	assert_int_equal(kernel_stream_next(&s, &e), 0);
	kernel_stream_release(&s);
	fake_run_free(run);
}

static void counter(struct run *run, uint16_t shard, int64_t time_ns, const char *name,
		    double value)
{
	fake_add_counter(run, shard,
			 &(struct row_counter){ .time_ns = time_ns,
						.name = fake_string(run, name),
						.value = value });
}

static void test_memory_history(void **state)
{
	struct run *run = fake_run_new();
	uint16_t other = fake_shard(run, 1, 99);
	struct memory_history h;
	struct memory m;

	(void)state;
	run->shards[0].realtime_offset_ns = 1000;
	fake_span(run, 0, 100);
	allocate(run, 0, 10, 100);
	allocate(run, 0, 30, 50);
	counter(run, 0, 20, "torch reserved_bytes", 400);
	/* The second process reports no allocations: its allocator's own readings. */
	counter(run, other, 10, "torch allocated_bytes", 70);
	counter(run, other, 11, "torch reserved_bytes", 80);
	counter(run, other, 20, "torch allocated_bytes", 30);
	assert_int_equal(memory_analyze(run, 0, &m), 0);
	assert_int_equal(memory_history_make(run, &m, &h), 0);
	assert_true(h.n >= 4);
	assert_int_equal(h.rows[0].realtime_ns - 1000, m.devices[0].points[0].time_ns);
	NEAR(h.rows[0].allocated_bytes, 100);
	assert_false(h.rows[0].reserved_bytes.known);
	NEAR(h.rows[h.n - 3].allocated_bytes, 150);
	NEAR(h.rows[h.n - 3].reserved_bytes.v, 400);
	NEAR(h.rows[h.n - 3].device.v, 0);
	NEAR(h.rows[h.n - 2].allocated_bytes, 70);
	NEAR(h.rows[h.n - 2].reserved_bytes.v, 80);
	assert_int_equal(h.rows[h.n - 2].rank, 1);
	assert_false(h.rows[h.n - 2].device.known);
	NEAR(h.rows[h.n - 1].allocated_bytes, 30);
	NEAR(h.rows[h.n - 1].peak_bytes, 70);
	assert_false(h.rows[h.n - 1].reserved_bytes.known);
	memory_history_release(&h);
	memory_release(&m);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing),		  cmocka_unit_test(test_memory),
		cmocka_unit_test(test_experts),		  cmocka_unit_test(test_bandwidths),
		cmocka_unit_test(test_kernels_by_expert), cmocka_unit_test(test_kernel_stream),
		cmocka_unit_test(test_memory_history),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
