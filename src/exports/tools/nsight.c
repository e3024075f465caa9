/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of frameworks around the Nsight tools: kernels and calls by name.
 */
#include "exports/tools/tool_files.h"
#include "subjects/api/api_calls.h"
#include "subjects/kernels/kernels.h"
#include "subjects/pages/section.h"

#define TOP_KERNELS 10
#define NONE_TIMED "none was timed"

static const char *kernel_untimed(const struct field_row *at)
{
	return ((const struct kernel_row *)at->item)->summary.n ? NULL : NONE_TIMED;
}

static const char *call_untimed(const struct field_row *at)
{
	return ((const struct api_row *)at->item)->summary.n ? NULL : NONE_TIMED;
}

static struct cell call_name(const struct field_row *at)
{
	const struct api_row *row = at->item;

	return cell_text(row->name ? run_string(at->run, row->name) : "(no name)");
}

#define KERNEL(member) MEMBER(struct kernel_row, member)
#define KERNEL_TIMED(member) KERNEL(member), .absent = kernel_untimed
#define CALL(member) MEMBER(struct api_row, member)
#define CALL_TIMED(member) CALL(member), .absent = call_untimed

static const struct field kernel_columns[] = {
	{ "Kernel Name", NULL, UNIT_TEXT, KERNEL(name), .meaning = "demangled name" },
	{ "Time %", NULL, UNIT_PCT, KERNEL_TIMED(share_pct),
	  .meaning = "share of the device time of all kernels" },
	{ "Total Time (ns)", NULL, UNIT_NS, KERNEL_TIMED(time_ns),
	  .meaning = "sum over the timed executions" },
	{ "Instances", NULL, UNIT_INT, KERNEL(count),
	  .meaning = "executions, untimed ones included" },
	{ "Avg (ns)", NULL, UNIT_NS, KERNEL_TIMED(summary.mean),
	  .meaning = "mean of the timed ones" },
	{ "Med (ns)", NULL, UNIT_NS, KERNEL_TIMED(summary.p50), .meaning = "their median" },
	{ "Min (ns)", NULL, UNIT_NS, KERNEL_TIMED(summary.min), .meaning = "" },
	{ "Max (ns)", NULL, UNIT_NS, KERNEL_TIMED(summary.max), .meaning = "" },
};

const struct field_set nsys_summary_file = {
	FIELDS(kernel_columns),
	.rows = { { ITEMS(struct kernels, rows, n) } },
	.levels = 1,
};

static const struct field call_columns[] = {
	{ "Name", NULL, UNIT_TEXT, READ(TEXT, call_name),
	  .meaning = "of the call into the CUDA runtime or driver" },
	{ "Time %", NULL, UNIT_PCT, CALL_TIMED(share_pct),
	  .meaning = "share of the time of all recorded calls" },
	{ "Total Time (ns)", NULL, UNIT_NS, CALL_TIMED(time_ns),
	  .meaning = "sum of their durations on the host" },
	{ "Num Calls", NULL, UNIT_INT, CALL(count), .meaning = "" },
	{ "Avg (ns)", NULL, UNIT_NS, CALL_TIMED(summary.mean), .meaning = "mean" },
	{ "Med (ns)", NULL, UNIT_NS, CALL_TIMED(summary.p50), .meaning = "median" },
	{ "Min (ns)", NULL, UNIT_NS, CALL_TIMED(summary.min), .meaning = "" },
	{ "Max (ns)", NULL, UNIT_NS, CALL_TIMED(summary.max), .meaning = "" },
};

const struct field_set api_summary_file = {
	FIELDS(call_columns),
	.rows = { { ITEMS(struct api_calls, rows, n) } },
	.levels = 1,
};

static struct cell real_time(const struct field_row *at)
{
	const char *member = (const char *)at->item + at->field->offset;

	return cell_real((double)*(const int64_t *)(const void *)member);
}

/* All times are real numbers in the JSON. */
#define TIMED_ITEM(of, of_timed)                                                                   \
	{ "time_percentage", NULL, UNIT_PCT, of_timed(share_pct) },                                \
		{ "total_time_ns", NULL, UNIT_NS, of_timed(time_ns), .read = real_time },          \
		{ "instances", NULL, UNIT_INT, of(count) },                                        \
		{ "avg_time_ns", NULL, UNIT_NS, of_timed(summary.mean) },                          \
		{ "min_time_ns", NULL, UNIT_NS, of_timed(summary.min) },                           \
	{                                                                                          \
		"max_time_ns", NULL, UNIT_NS, of_timed(summary.max)                                \
	}

static const struct field kernel_items[] = {
	{ "name", NULL, UNIT_TEXT, KERNEL(name) },
	TIMED_ITEM(KERNEL, KERNEL_TIMED),
};

static const struct field call_items[] = {
	{ "name", NULL, UNIT_TEXT, READ(TEXT, call_name) },
	TIMED_ITEM(CALL, CALL_TIMED),
};

static const struct field_group all_kernels = {
	FIELD_LIST,
	FIELD_LINE_EACH,
	FIELDS(kernel_items),
	.items = { ITEMS(struct kernels, rows, n) },
};

static const struct field_group top_kernels = {
	FIELD_LIST,
	FIELD_LINE_EACH,
	FIELDS(kernel_items),
	.items = { ITEMS(struct kernels, rows, n), .most = TOP_KERNELS },
};

static const struct field_group all_calls = {
	FIELD_LIST,
	FIELD_LINE_EACH,
	FIELDS(call_items),
	.items = { ITEMS(struct api_calls, rows, n) },
};

static const void *calls_of(const struct field_row *at)
{
	return answer_api_calls(at->answers);
}

static const char *no_device(const struct field_row *at)
{
	return scene_has_device(at->run) ? NULL : "no device records in this run";
}

static const struct field summary_fields[] = {
	{ "total_kernel_time_ns", NULL, UNIT_NS, MEMBER(struct kernels, time_ns), .read = real_time,
	  .absent = no_device, .meaning = "sum of the device time of timed kernels" },
	{ "top_kernels", .of = &top_kernels, .meaning = "the ten with the most time" },
};

static const struct field_group summary = { FIELD_OBJECT, FIELD_SPREAD_OUT,
					    FIELDS(summary_fields) };

static const struct field metrics_fields[] = {
	{ "cuda_kernels", .of = &all_kernels, .meaning = "as nsys_summary.csv" },
	{ "cuda_api_calls", .from = calls_of, .of = &all_calls,
	  .meaning = "as cuda_api_summary.csv" },
	{ "summary", .of = &summary },
};

const struct field_set nsys_metrics_file = { FIELDS(metrics_fields) };
