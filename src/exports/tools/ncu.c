/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of frameworks around Nsight Compute: counters by kernel, and kernels side by side, each with its times
 * in the run and what its counters say.
 */
#include "exports/tools/tool_files.h"
#include "subjects/counters/kernel_limits.h"

#define KERNEL(member) MEMBER(struct kernel_limit_row, member)
#define IN_RUN(member) KERNEL(member), .absent = not_in_run

static const char *not_in_run(const struct field_row *at)
{
	const struct kernel_limit_row *row = at->item;

	return row->count ? NULL : "the run has no times of this kernel";
}

static struct cell mean_in_run(const struct field_row *at)
{
	const struct kernel_limit_row *row = at->item;

	return cell_real((double)row->time_ns / (double)row->count);
}

static struct cell bandwidth(const struct field_row *at)
{
	struct value rate = ((const struct kernel_limit_row *)at->item)->dram_bytes_per_s;

	return rate.known ? cell_real(rate.v / 1e9) : cell_absent(rate.reason);
}

static struct cell tensor_rate(const struct field_row *at)
{
	struct value rate = ((const struct kernel_limit_row *)at->item)->tensor_ops_per_s;

	return rate.known ? cell_real(rate.v / 1e12) : cell_absent(rate.reason);
}

static struct cell bound(const struct field_row *at)
{
	const struct kernel_limit_row *row = at->item;

	return row->bound ? cell_text(kernel_bound_word(row->bound)) : cell_absent(row->no_bound);
}

/* The first columns are those of nsys_summary.csv. */
static const struct field columns[] = {
	{ "Kernel Name", NULL, UNIT_TEXT, KERNEL(name), .meaning = "demangled name" },
	{ "Time %", NULL, UNIT_PCT, IN_RUN(share_pct),
	  .meaning = "share of the device time of all kernels of the run" },
	{ "Total Time (ns)", NULL, UNIT_NS, IN_RUN(time_ns),
	  .meaning = "sum over the timed executions in the run" },
	{ "Instances", NULL, UNIT_INT, IN_RUN(count), .meaning = "those executions" },
	{ "Avg (ns)", NULL, UNIT_NS, READ(REAL, mean_in_run), .absent = not_in_run,
	  .meaning = "their mean" },
	{ "Profiled Launches", NULL, UNIT_INT, KERNEL(launches),
	  .meaning = "launches whose counters were read" },
	{ "Profiled Avg (ns)", NULL, UNIT_NS, KERNEL(mean_ns), .meaning = "their mean time" },
	{ "SM %", NULL, UNIT_PCT, KERNEL(sm_pct), .meaning = "sm__throughput, of the peak" },
	{ "Tensor %", NULL, UNIT_PCT, KERNEL(tensor_pct),
	  .meaning = "sm__pipe_tensor_cycles_active, of the time" },
	{ "DRAM %", NULL, UNIT_PCT, KERNEL(dram_pct), .meaning = "dram__throughput, of the peak" },
	{ "L2 %", NULL, UNIT_PCT, KERNEL(l2_pct), .meaning = "lts__throughput, of the peak" },
	{ "L1 Hit %", NULL, UNIT_PCT, KERNEL(l1_hit_pct), .meaning = "l1tex__t_sector_hit_rate" },
	{ "L2 Hit %", NULL, UNIT_PCT, KERNEL(l2_hit_pct), .meaning = "lts__t_sector_hit_rate" },
	{ "Achieved Occupancy %", NULL, UNIT_PCT, KERNEL(achieved_occupancy_pct),
	  .meaning = "sm__warps_active, of those that fit" },
	{ "Theoretical Occupancy %", NULL, UNIT_PCT, KERNEL(theoretical_occupancy_pct),
	  .meaning = "by block size, registers and shared memory" },
	{ "DRAM (GB/s)", NULL, UNIT_RATE, MAY_READ(REAL, bandwidth),
	  .meaning = "bytes of DRAM / time, 10^9 bytes" },
	{ "Tensor (TFLOP/s)", NULL, UNIT_RATE, MAY_READ(REAL, tensor_rate),
	  .meaning = "operations of the tensor cores, integer ones too, / time" },
	{ "Bound By", NULL, UNIT_TEXT, MAY_READ(TEXT, bound),
	  .meaning = "'moescope explain bound_by' has the rule" },
};

const struct field_set ncu_summary_file = {
	FIELDS(columns),
	.rows = { { ITEMS(struct kernel_limits, rows, n) } },
	.levels = 1,
};

static const struct field_group kernels = {
	FIELD_LIST,
	FIELD_LINE_EACH,
	.table = &kernel_limits_fields,
};

static const struct field_group metrics = {
	FIELD_LIST,
	FIELD_LINE_EACH,
	.table = &counters_fields,
};

static const void *metrics_of(const struct field_row *at)
{
	return answer_launch_metrics(at->answers);
}

static const struct field summary_fields[] = {
	{ "kernels", NULL, UNIT_INT, MEMBER(struct kernel_limits, n),
	  .meaning = "names of kernels" },
	{ "launches", NULL, UNIT_INT, MEMBER(struct kernel_limits, launches),
	  .meaning = "launches whose counters were read" },
};

static const struct field_group summary = { FIELD_OBJECT, FIELD_SPREAD_OUT,
					    FIELDS(summary_fields) };

static const struct field metrics_fields[] = {
	{ "kernels", .of = &kernels, .meaning = "as 'moescope counters --by kernel --json'" },
	{ "metrics", .from = metrics_of, .of = &metrics,
	  .meaning = "as 'moescope counters --json'" },
	{ "summary", .of = &summary },
};

const struct field_set ncu_metrics_file = { FIELDS(metrics_fields) };
