/* SPDX-License-Identifier: Apache-2.0
 *
 * Why kernels are slow, every value by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "fake_counters.h"
#include "figures.h"
#include "subjects/counters/kernel_limits.h"

static struct kernel_limits analyzed(const struct run *run)
{
	struct launch_metrics metrics;
	struct kernel_limits limits;

	assert_int_equal(launch_metrics_analyze(run, &metrics), 0);
	assert_int_equal(kernel_limits_analyze(run, NULL, &metrics, &limits), 0);
	launch_metrics_release(&metrics);
	return limits;
}

static const struct kernel_limit_row *named(const struct kernel_limits *limits, const char *name)
{
	for (size_t i = 0; i < limits->n; i++)
		if (!strcmp(limits->rows[i].name, name))
			return &limits->rows[i];
	fail_msg("no row of %s", name);
	return NULL;
}

static struct kernel_limits of_one_kernel(struct run *run, const char *const *names,
					  const double *values, size_t n)
{
	for (size_t i = 0; i < n; i++)
		fake_add_metric(run, 0,
				&(struct row_metric){ .launch = fake_launch(run, "k"),
						      .profile = (uint32_t)i,
						      .name = fake_string(run, names[i]),
						      .value = values[i] });
	return analyzed(run);
}

/* Clocks are left as they are, so they may change; one launch says nothing of it. */
static void test_spreads(void **state)
{
	static const char *const names[] = {
		"gpu__time_duration.sum",
		"gpu__time_duration.sum",
		"gpc__cycles_elapsed.avg.per_second",
		"gpc__cycles_elapsed.avg.per_second",
		"gpc__cycles_elapsed.avg.per_second",
	};
	static const double values[] = { 90, 110, 1.5e9, 1.7e9, 1.6e9 };
	struct run *run = fake_run_new();
	struct kernel_limits limits = of_one_kernel(run, names, values, 5);

	(void)state;
	is_about(limits.rows->time_spread_pct, 20);
	is_about(limits.rows->clock_spread_pct, 12.5);
	kernel_limits_release(&limits);
	fake_run_free(run);
	run = fake_run_new();
	limits = of_one_kernel(run, names, values, 1);
	is_absent(limits.rows->time_spread_pct, "one launch alone has it");
	is_absent(limits.rows->clock_spread_pct, "gpc__cycles_elapsed was not counted");
	kernel_limits_release(&limits);
	fake_run_free(run);
}

/* A softmax on an H200, of which Nsight Compute told 22.68%. */
static void test_occupancy_beside(void **state)
{
	static const char *const names[] = {
		"TPC.TriageCompute.tpc__warps_active_shader_cs_realtime.avg.pct_of_peak_sustained_active",
		"TPC.TriageCompute.sm__cycles_active.avg.pct_of_peak_sustained_elapsed",
	};
	static const double values[] = { 19.19, 84.25 };
	struct run *run = fake_run_new();
	struct kernel_limits limits = of_one_kernel(run, names, values, 2);

	(void)state;
	is_about(limits.rows->achieved_occupancy_pct, 100 * 19.19 / 84.25);
	kernel_limits_release(&limits);
	fake_run_free(run);
	run = fake_run_new();
	limits = of_one_kernel(run, names, values, 1);
	is_absent(limits.rows->achieved_occupancy_pct, "sm__warps_active was not counted");
	kernel_limits_release(&limits);
	fake_run_free(run);
}

/* What one pass counts, each of it at another launch. */
static void test_single_passes(void **state)
{
	static const char *const names[] = {
		"lts__t_sectors_lookup_hit.sum",
		"lts__t_sectors_lookup_miss.sum",
		"sm__inst_executed.avg.pct_of_peak_sustained_elapsed",
		"lts__t_sectors.avg.pct_of_peak_sustained_elapsed",
		"dram__throughput.avg.pct_of_peak_sustained_elapsed",
		"sm__ops_path_tensor_op_hgmma_src_fp16.sum",
		"sm__ops_path_tensor_op_hmma_src_fp16_dst_fp32.sum",
		"sm__ops_path_tensor_src_int8.sum",
		"sm__ops_path_tensor_op_igmma_src_int8.sum",
	};
	static const double values[] = { 30, 10, 20, 61, 5, 100, 10, 1000, 900 };
	struct run *run = fake_run_new();
	struct kernel_limits limits = of_one_kernel(run, names, values, 9);

	(void)state;
	is_about(limits.rows->l2_hit_pct, 75);
	is_about(limits.rows->sm_pct, 20);
	is_about(limits.rows->l2_pct, 61);
	is_about(limits.rows->tensor_ops, 1110); /* int8 has those of igmma */
	assert_int_equal(limits.rows->bound, BOUND_L2);
	kernel_limits_release(&limits);
	fake_run_free(run);
}

static void test_order_and_shares(void **state)
{
	static const char *const names[] = { "scan", "gemm", "attention", "rest", "tiny" };
	struct run *run = fake_limits_run();
	struct kernel_limits limits = analyzed(run);

	(void)state;
	assert_int_equal(limits.n, 5);
	assert_int_equal(limits.launches, 9);
	for (size_t i = 0; i < 5; i++)
		assert_string_equal(limits.rows[i].short_name, names[i]);
	is_about(limits.rows[0].share_pct, 60);
	is_about(limits.rows[3].share_pct, 1);
	is_about(limits.rows[4].share_pct, 0);
	assert_int_equal(limits.rows[0].launches, 3);
	kernel_limits_release(&limits);
	fake_run_free(run);
}

/* A launch has a part of the metrics alone: means over those that have each. */
static void test_put_together(void **state)
{
	struct run *run = fake_limits_run();
	struct kernel_limits limits = analyzed(run);
	const struct kernel_limit_row *row = named(&limits, "attention");

	(void)state;
	is_about(row->mean_ns, 110e3);
	is_about(row->dram_bytes, 25e6);
	is_about(row->dram_bytes_per_s, 25e6 / 100e-6); /* of the launch that was counted */
	is_about(row->warp_efficiency_pct, 75);
	is_absent(row->l2_pct, "lts__throughput was not counted");
	is_absent(row->tensor_ops, "sm__ops_path_tensor was not counted");
	is_absent(row->ops_per_byte, "sm__ops_path_tensor was not counted");
	is_absent(row->achieved_occupancy_pct, "sm__warps_active was not counted");
	/* 78 beats 65. */
	assert_int_equal(row->bound, BOUND_MEMORY);
	assert_string_equal(row->because, "DRAM at 78% of the peak");
	kernel_limits_release(&limits);
	fake_run_free(run);
}

/* A rate is of the launches that have both amount and time; if none has, of the means. */
static void test_rates(void **state)
{
	static const struct {
		uint32_t profile;
		const char *name;
		double value;
	} values[] = {
		{ 0, "gpu__time_duration.sum", 1000 },		 { 0, "dram__bytes.sum", 4000 },
		{ 1, "gpu__time_duration.sum", 3000 },		 { 1, "dram__bytes.sum", 2000 },
		{ 2, "gpu__time_duration.sum", 8000 },		 { 3, "dram__bytes.sum", 9000 },
		{ 4, "sm__ops_path_tensor_src_int8.sum", 6000 },
	};
	struct run *run = fake_run_new();
	struct kernel_limits limits;

	(void)state;
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		fake_add_metric(run, 0,
				&(struct row_metric){ .launch = fake_launch(run, "k"),
						      .profile = values[i].profile,
						      .name = fake_string(run, values[i].name),
						      .value = values[i].value });
	limits = analyzed(run);
	is_about(limits.rows->mean_ns, 4000);
	is_about(limits.rows->dram_bytes, 5000);
	is_about(limits.rows->dram_bytes_per_s, 1.5e9); /* 6000 bytes in 4000 ns */
	is_about(limits.rows->tensor_ops_per_s, 1.5e9); /* 6000 in 4000 ns */
	is_about(limits.rows->ops_per_byte, 1);
	kernel_limits_release(&limits);
	fake_run_free(run);
}

/* fp16 has the operations of its two results; fp8 has no sum of its own. */
static void test_tensor_operations(void **state)
{
	struct run *run = fake_limits_run();
	struct kernel_limits limits = analyzed(run);
	const struct kernel_limit_row *row = named(&limits, "gemm");

	(void)state;
	is_about(row->tensor_ops, 1e12);
	is_about(row->tensor_ops_per_s, 5e14);
	is_about(row->ops_per_byte, 500);
	/* The SMs are busier for the tensor cores are a part of them. */
	assert_int_equal(row->bound, BOUND_TENSOR);
	assert_string_equal(row->because, "the tensor cores at 72% of the peak");
	kernel_limits_release(&limits);
	fake_run_free(run);
}

static void test_latency(void **state)
{
	struct run *run = fake_limits_run();
	struct kernel_limits limits = analyzed(run);
	const struct kernel_limit_row *row = named(&limits, "scan");

	(void)state;
	is_about(row->theoretical_occupancy_pct, 50);
	assert_string_equal(row->occupancy_limiter, "registers");
	is_about(row->waves, 2);
	is_about(row->achieved_occupancy_pct, 12.5);
	is_about(row->sm_active_pct, 99);
	/* (12 + 18) / 2 of 15 + 4 + 3 + 1: issuing is no stall. */
	assert_string_equal(row->stall, "long_scoreboard");
	is_about(row->stall_pct, 100.0 * 15 / 23);
	assert_int_equal(row->bound, BOUND_LATENCY);
	assert_string_equal(row->because, "few warps (12%), 65% of stalls: global memory");
	kernel_limits_release(&limits);
	fake_run_free(run);
}

static void test_small_and_unknown(void **state)
{
	struct run *run = fake_limits_run();
	struct kernel_limits limits = analyzed(run);
	const struct kernel_limit_row *row = named(&limits, "tiny");

	(void)state;
	is_about(row->waves, 1 / (32.0 * 132)); /* 32 blocks fit, for there are no more slots */
	assert_int_equal(row->bound, BOUND_SMALL);
	is_about(row->l2_hit_pct, 40);
	is_about(row->l1_hit_pct, 50);
	row = named(&limits, "rest");
	assert_int_equal(row->bound, BOUND_UNKNOWN);
	assert_string_equal(row->no_bound, "lts__throughput was not counted");
	is_absent(row->mean_ns, "gpu__time_duration was not counted");
	is_absent(row->dram_bytes_per_s, "dram__bytes_read was not counted");
	kernel_limits_release(&limits);
	fake_run_free(run);
}

/* The rule at its edges. */
static void test_rule(void **state)
{
#define NO value_absent("not counted")
#define AT(x) value_of(x)
	const struct {
		struct value dram, l2, tensor, sm, waves;
		enum kernel_bound bound;
	} cases[] = {
		{ AT(60), AT(0), AT(0), AT(0), AT(9), BOUND_MEMORY },
		{ AT(59.9), AT(0), AT(0), AT(0), AT(9), BOUND_LATENCY },
		{ AT(61), AT(62), AT(0), AT(0), AT(9), BOUND_L2 },
		{ AT(61), AT(62), AT(63), AT(99), AT(9), BOUND_TENSOR },
		{ AT(61), AT(62), AT(59), AT(99), AT(9), BOUND_SM },
		{ AT(64), AT(62), AT(63), AT(99), AT(9), BOUND_MEMORY },
		{ AT(61), AT(62), NO, AT(99), AT(9), BOUND_SM },
		{ NO, NO, NO, AT(60), NO, BOUND_SM },
		{ NO, AT(5), AT(5), AT(5), AT(9), BOUND_UNKNOWN },
		{ AT(5), NO, AT(5), AT(5), AT(9), BOUND_UNKNOWN },
		{ AT(5), AT(5), AT(5), NO, AT(9), BOUND_UNKNOWN },
		{ AT(5), AT(5), NO, AT(5), AT(1), BOUND_LATENCY },
		{ AT(5), AT(5), NO, AT(5), AT(0.99), BOUND_SMALL },
		{ AT(5), AT(5), NO, AT(5), NO, BOUND_LATENCY },
		{ AT(70), AT(5), NO, AT(5), AT(0.5), BOUND_MEMORY },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct kernel_limit_row row = { .dram_pct = cases[i].dram,
						.l2_pct = cases[i].l2,
						.tensor_pct = cases[i].tensor,
						.sm_pct = cases[i].sm,
						.waves = cases[i].waves };

		kernel_bound_decide(&row);
		assert_int_equal(row.bound, cases[i].bound);
		assert_int_equal(row.no_bound != NULL, row.bound == BOUND_UNKNOWN);
		assert_int_equal(row.because[0] != '\0', row.bound != BOUND_UNKNOWN);
	}
}

/* Files can say anything. */
static void test_extremes(void **state)
{
	static const struct {
		const char *name, *unit;
		double value;
	} values[] = {
		{ "gpu__time_duration.sum", "ns", 0 },
		{ "dram__bytes_read.sum", "byte", 1e308 },
		{ "dram__bytes_write.sum", "byte", 1.7e308 },
		{ "sm__throughput.avg.pct_of_peak_sustained_elapsed", "cycle", 99 },
		{ "sm__ops_path_tensor_src_.sum", "", 1 },
		{ "sm__ops_path_tensor_src_a.sum", "", 1e308 },
		{ "sm__ops_path_tensor_src_b.sum", "", 1.7e308 },
		{ "smsp__average_warps_issue_stalled_per_issue_active.ratio", "", 5 },
		{ "smsp__average_warps_issue_stalled_"
		  "a_reason_with_a_name_that_is_far_too_long_per_issue_active.ratio",
		  "", 5 },
	};
	struct run *run = fake_run_new();
	struct kernel_limits limits = analyzed(run);

	(void)state;
	assert_int_equal(limits.n, 0);
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		fake_add_metric(run, 0,
				&(struct row_metric){ .launch = fake_launch(run, "k"),
						      .name = fake_string(run, values[i].name),
						      .unit = fake_string(run, values[i].unit),
						      .value = values[i].value });
	limits = analyzed(run);
	assert_int_equal(limits.n, 1);
	assert_false(limits.rows->dram_bytes.known);
	assert_false(limits.rows->dram_bytes_per_s.known);
	assert_false(limits.rows->tensor_ops.known);
	assert_false(limits.rows->sm_pct.known); /* its unit is another one */
	assert_false(limits.rows->stall_pct.known);
	is_absent(limits.rows->theoretical_occupancy_pct,
		  "the run does not say what the device is");
	is_absent(limits.rows->waves, "the run does not say what the device is");
	is_absent(limits.rows->share_pct, "the run has no times of kernels");
	kernel_limits_release(&limits);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order_and_shares),  cmocka_unit_test(test_occupancy_beside),
		cmocka_unit_test(test_single_passes),	  cmocka_unit_test(test_spreads),
		cmocka_unit_test(test_put_together),	  cmocka_unit_test(test_rates),
		cmocka_unit_test(test_tensor_operations), cmocka_unit_test(test_latency),
		cmocka_unit_test(test_small_and_unknown), cmocka_unit_test(test_rule),
		cmocka_unit_test(test_extremes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
