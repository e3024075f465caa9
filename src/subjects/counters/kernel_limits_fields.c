/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of why kernels are slow; see fields.h.
 */
#include "subjects/counters/kernel_limits.h"

#include "subjects/shared/fields.h"

#define OF(member) MEMBER(struct kernel_limit_row, member)

static struct cell bound_by(const struct field_row *at)
{
	const struct kernel_limit_row *row = at->item;

	return row->bound ? cell_text(kernel_bound_word(row->bound)) : cell_absent(row->no_bound);
}

static struct cell because(const struct field_row *at)
{
	const struct kernel_limit_row *row = at->item;

	return row->bound ? cell_text(row->because) : cell_absent(row->no_bound);
}

static struct cell limiter(const struct field_row *at)
{
	const struct kernel_limit_row *row = at->item;

	return row->occupancy_limiter ? cell_text(row->occupancy_limiter)
				      : cell_absent("the launch or the device is unknown");
}

static struct cell stall(const struct field_row *at)
{
	const struct kernel_limit_row *row = at->item;

	return row->stall_pct.known ? cell_text(row->stall) : cell_absent(row->stall_pct.reason);
}

static struct cell tensor_type(const struct field_row *at)
{
	const struct kernel_limit_row *row = at->item;

	return row->tensor_type < PEAK_DTYPES
		       ? cell_text(peak_dtype_name(row->tensor_type))
		       : cell_absent("no operations of the tensor cores, or of another type");
}

/* clang-format off */
static const struct field fields[] = {
	{ "kernel", NULL, UNIT_TEXT, OF(name), .meaning = "name of the kernel, demangled" },
	{ "short_name", "kernel", UNIT_TEXT, OF(short_name), .flexible = true,
	  .meaning = "function with its namespaces" },
	{ "launches", "n", UNIT_INT, OF(launches), .meaning = "that were measured" },
	{ "mean_ns", "mean", UNIT_NS, OF(mean_ns), .metric = "launch_metric",
	  .meaning = "mean time of a measured launch" },
	{ "time_spread_pct", NULL, UNIT_PCT, OF(time_spread_pct), .metric = NO_METRIC,
	  .meaning = "(largest - smallest) / mean of the times of its launches" },
	{ "clock_spread_pct", NULL, UNIT_PCT, OF(clock_spread_pct), .metric = NO_METRIC,
	  .meaning = "the same of the clock of the multiprocessors meanwhile" },
	{ "share_pct", NULL, UNIT_PCT, OF(share_pct),
	  .meaning = "share of the device time of all kernels of the run" },
	{ "sm_pct", "SM", UNIT_PCT, OF(sm_pct),
	  .meaning = "multiprocessors: the rate of their busiest part, of its peak" },
	{ "sm_active_pct", NULL, UNIT_PCT, OF(sm_active_pct), .metric = NO_METRIC,
	  .meaning = "share of the time in which multiprocessors had work" },
	{ "tensor_pct", "tensor", UNIT_PCT, OF(tensor_pct),
	  .meaning = "share of the time in which the tensor cores worked" },
	{ "dram_pct", "DRAM", UNIT_PCT, OF(dram_pct), .metric = "kernel_dram_pct",
	  .meaning = "share of the peak bandwidth of the device's memory" },
	{ "l2_pct", "L2", UNIT_PCT, OF(l2_pct),
	  .meaning = "L2 cache: the rate of its busiest part, of its peak" },
	{ "l2_hit_pct", NULL, UNIT_PCT, OF(l2_hit_pct), .meaning = "hits, of all accesses to the L2 cache" },
	{ "l1_hit_pct", NULL, UNIT_PCT, OF(l1_hit_pct), .meaning = "hits, of all accesses to the L1 cache" },
	{ "achieved_occupancy_pct", "occ", UNIT_PCT, OF(achieved_occupancy_pct),
	  .meaning = "warps that were active, of those that fit, while a multiprocessor had work" },
	{ "theoretical_occupancy_pct", NULL, UNIT_PCT, OF(theoretical_occupancy_pct),
	  .metric = "theoretical_occupancy",
	  .meaning = "warps that blocks of the launch can fill, of those that fit" },
	{ "occupancy_limiter", NULL, UNIT_TEXT, MAY_READ(TEXT, limiter),
	  .meaning = "what limits it: threads, blocks, registers or shared memory" },
	{ "waves", NULL, UNIT_RATIO, OF(waves),
	  .meaning = "blocks of the grid / blocks that the GPU can run at once" },
	{ "warp_efficiency_pct", NULL, UNIT_PCT, OF(warp_efficiency_pct),
	  .meaning = "active threads of an executed warp, of 32" },
	{ "dram_read_bytes", NULL, UNIT_BYTES, OF(dram_read_bytes), .meaning = "bytes read from DRAM by a launch" },
	{ "dram_write_bytes", NULL, UNIT_BYTES, OF(dram_write_bytes), .meaning = "bytes written to DRAM by a launch" },
	{ "dram_bytes", NULL, UNIT_BYTES, OF(dram_bytes), .meaning = "both" },
	{ "dram_bytes_per_s", NULL, UNIT_BYTES, OF(dram_bytes_per_s), .meaning = "bytes of DRAM / time, over the launches that have both" },
	{ "tensor_ops", NULL, UNIT_COUNT, OF(tensor_ops),
	  .meaning = "operations of the tensor cores in a launch, of all types that were counted" },
	{ "tensor_ops_per_s", NULL, UNIT_COUNT, OF(tensor_ops_per_s), .meaning = "operations / time, over the launches that have both" },
	{ "ops_per_byte", NULL, UNIT_RATIO, OF(ops_per_byte), .meaning = "tensor_ops_per_s / dram_bytes_per_s" },
	{ "tensor_type", NULL, UNIT_TEXT, MAY_READ(TEXT, tensor_type), .meaning = "data type of most of these operations" },
	{ "roof_ops_per_s", NULL, UNIT_COUNT, OF(roof_ops_per_s), .metric = NO_METRIC,
	  .meaning = "the roofline at this ops_per_byte: the smaller of the type's peak and ops_per_byte * memory rate" },
	{ "roof_pct", NULL, UNIT_PCT, OF(roof_pct), .metric = NO_METRIC,
	  .meaning = "tensor_ops_per_s / roof_ops_per_s" },
	{ "stall", NULL, UNIT_TEXT, MAY_READ(TEXT, stall),
	  .meaning = "the most frequent reason for which warps could not issue, by NVIDIA's name" },
	{ "stall_pct", NULL, UNIT_PCT, OF(stall_pct), .meaning = "its share of all such reasons that were counted" },
	{ "bound_by", "bound by", UNIT_TEXT, MAY_READ(TEXT, bound_by),
	  .meaning = "memory, L2, tensor, SM, small grid or latency (explain bound_by)" },
	{ "because", NULL, UNIT_TEXT, MAY_READ(TEXT, because), .meaning = "the figures that say so" },
};
/* clang-format on */

const struct field_set kernel_limits_fields = {
	FIELDS(fields),
	.rows = { { ITEMS(struct kernel_limits, rows, n) } },
	.levels = 1,
	.meaning = "kernel with counters of its launches",
};

static const struct field total_fields[] = {
	{ "kernels", NULL, UNIT_INT, MEMBER(struct kernel_limits, n),
	  .meaning = "names of kernels" },
	{ "launches", NULL, UNIT_INT, MEMBER(struct kernel_limits, launches),
	  .meaning = "launches that were measured" },
};

const struct field_set kernel_limits_total = { FIELDS(total_fields) };
