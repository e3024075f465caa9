/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of efficiency; see fields.h.
 */
#include "subjects/efficiency/efficiency.h"

#include <stdio.h>

#include "subjects/shared/fields.h"

#define OF(member) MEMBER(struct efficiency_row, member)

static struct cell bound(const struct field_row *at)
{
	const struct efficiency_row *row = at->item;

	return row->bound ? cell_text(row->bound) : cell_absent(row->roof_flops_per_s.reason);
}

static const struct field fields[] = {
	{ "name", "work", UNIT_TEXT, OF(name), .flexible = true,
	  .meaning = "of the class or operation" },
	{ "count", NULL, UNIT_INT, OF(count), .meaning = "executions" },
	{ "time_ns", "time", UNIT_NS, OF(time_ns), .meaning = "their time", .metric = NO_METRIC },
	{ "covered_pct", "covered", UNIT_PCT, OF(covered_pct) },
	{ "flops", NULL, UNIT_FLOPS, OF(flops), .meaning = "reported" },
	{ "bytes", NULL, UNIT_BYTES, OF(bytes), .meaning = "reported" },
	{ "flops_per_s", "rate", UNIT_FLOPS, OF(flops_per_s), .meaning = "over the covered time" },
	{ "bytes_per_s", NULL, UNIT_BYTES, OF(bytes_per_s), .meaning = "over the covered time" },
	{ "flops_per_byte", "FLOP/B", UNIT_RATIO, OF(flops_per_byte) },
	{ "roof_flops_per_s", NULL, UNIT_FLOPS, OF(roof_flops_per_s),
	  .meaning = "min(peak, flops_per_byte x rate of the memory)" },
	{ "roof_pct", "of roof", UNIT_PCT, OF(roof_pct) },
	{ "bound", "bound", UNIT_TEXT, MAY_READ(TEXT, bound),
	  .meaning = "compute or memory: which part of the roof is above it" },
};

const struct field_set efficiency_fields = {
	FIELDS(fields),
	.rows = { { ITEMS(struct efficiency, rows, n) } },
	.levels = 1,
	.meaning = "kernel class or operation",
};

#define OF_DEVICE(member) MEMBER(struct efficiency_device, member)

static struct cell device_kind(const struct field_row *at)
{
	return cell_text(((const struct efficiency_device *)at->item)->cpu ? "cpu" : "gpu");
}

static const char *no_peaks(const struct field_row *at)
{
	const struct efficiency_device *device = at->item;

	return device->source ? NULL : device->reason;
}

static const char *dtype_key(const struct field_row *at, char *room, size_t size)
{
	snprintf(room, size, "%s_flops_per_s", peak_dtype_name((enum peak_dtype)at->index));
	return room;
}

static struct cell dtype_peak(const struct field_row *at)
{
	double peak = *(const double *)at->item;

	return peak > 0 ? cell_real(peak) : cell_absent("unknown");
}

static const struct field dtype_field = { .unit = UNIT_FLOPS, MAY_READ(REAL, dtype_peak) };

static const struct field_group dtypes = {
	FIELD_BESIDE,
	.fields = &dtype_field,
	.items = { .inside = true, .size = sizeof(double), .most = PEAK_DTYPES },
	.name = dtype_key,
};

static const char *gpm_key(const struct field_row *at, char *room, size_t size)
{
	(void)room;
	(void)size;
	return gpm_metric_key((enum gpm_metric)at->index);
}

static const struct field gpm_field = { .unit = UNIT_PCT, .type = FIELD_VALUE };

static const struct field_group gpm = {
	FIELD_BESIDE,
	.fields = &gpm_field,
	.items = { .inside = true, .size = sizeof(struct value), .most = GPM_METRICS },
	.name = gpm_key,
};

static const struct field device_fields[] = {
	{ "rank", NULL, UNIT_INT, OF_DEVICE(rank) },
	{ "device", NULL, UNIT_TEXT, READ(TEXT, device_kind), .meaning = "gpu or cpu" },
	{ "index", NULL, UNIT_INT, OF_DEVICE(device), .meaning = "number of the device" },
	{ "name", NULL, UNIT_TEXT, OF_DEVICE(name), .meaning = "of the device" },
	{ "peaks_source", NULL, UNIT_TEXT, OF_DEVICE(source), .absent = no_peaks,
	  .meaning = "where its peaks come from" },
	{ "calibrated", NULL, UNIT_INT, OF_DEVICE(calibrated),
	  .meaning = "they were measured on this machine" },
	{ "peak_flops_per_s", NULL, UNIT_FLOPS, OF_DEVICE(peak_flops_per_s),
	  .meaning = "for the data type of the run" },
	{ "peak_memory_bytes_per_s", NULL, UNIT_BYTES, OF_DEVICE(memory_bytes_per_s),
	  .meaning = "of its memory" },
	{ "DTYPE_flops_per_s", .offset = offsetof(struct efficiency_device, peaks.flops_per_s),
	  .of = &dtypes },
	{ "GPM", .offset = offsetof(struct efficiency_device, gpm), .of = &gpm },
	{ "dram_bytes_per_s", NULL, UNIT_BYTES, OF_DEVICE(dram_bytes_per_s),
	  .meaning = "that share of peak_memory_bytes_per_s" },
};

static const struct field_group devices = {
	FIELD_LIST,
	FIELD_SPREAD_OUT,
	FIELDS(device_fields),
	.items = { ITEMS(struct efficiency, devices, n_devices) },
	PART("efficiency_device", "What a device can do, and how busy its parts were."),
};

#define OF_POINT(member) MEMBER(struct roofline_point, member)

static const struct field point_fields[] = {
	{ "name", NULL, UNIT_TEXT, OF_POINT(name), .meaning = "kernel class or operation" },
	{ "flops_per_byte", NULL, UNIT_RATIO, OF_POINT(flops_per_byte) },
	{ "flops_per_s", NULL, UNIT_FLOPS, OF_POINT(flops_per_s), .meaning = "achieved" },
	{ "time_ns", NULL, UNIT_NS, OF_POINT(time_ns), .meaning = "behind the point",
	  .metric = NO_METRIC },
};

static const struct field_group roofline = {
	FIELD_LIST,
	FIELD_LINE_EACH,
	FIELDS(point_fields),
	.items = { ITEMS(struct efficiency, points, n_points) },
	PART("roofline_point", "A point of the roofline plot."),
};

#define OF_ALL(member) MEMBER(struct efficiency, member)

static struct cell by(const struct field_row *at)
{
	return cell_text(((const struct efficiency *)at->item)->on_device ? "kernel class"
									  : "operation");
}

static const char *no_model_flops(const struct field_row *at)
{
	return field_unknown(((const struct efficiency *)at->item)->model_flops);
}

static const char *no_dtype(const struct field_row *at)
{
	return field_unknown(((const struct efficiency *)at->item)->dtype);
}

static struct cell dtype(const struct field_row *at)
{
	int which = (int)((const struct efficiency *)at->item)->dtype.v;

	return cell_text(peak_dtype_name((enum peak_dtype)which));
}

static const struct field total_fields[] = {
	{ "by", NULL, UNIT_TEXT, READ(TEXT, by),
	  .meaning = "what the rows are by: kernel class, or operation" },
	{ "mfu_pct", NULL, UNIT_PCT, OF_ALL(mfu_pct),
	  .meaning = "model FLOPs / (step time x peak)" },
	{ "model_flops", NULL, UNIT_FLOPS, OF_ALL(model_flops), .meaning = "of the steps" },
	{ "model_flops_per_s", NULL, UNIT_FLOPS, OF_ALL(model_flops_per_s),
	  .meaning = "over the time of the steps" },
	{ "flops_source", NULL, UNIT_TEXT, OF_ALL(flops_source), .absent = no_model_flops,
	  .meaning = "who reported the FLOPs" },
	{ "dtype", NULL, UNIT_TEXT, READ(TEXT, dtype), .absent = no_dtype,
	  .meaning = "data type of the peak: fp64, fp32, tf32, bf16, fp16, fp8" },
	{ "dtype_source", NULL, UNIT_TEXT, OF_ALL(dtype_source), .absent = no_dtype,
	  .meaning = "how it is known" },
	{ "steps", NULL, UNIT_INT, OF_ALL(steps), .meaning = "finished and recorded" },
	{ "step_time_ns", NULL, UNIT_NS, OF_ALL(step_time_ns), .meaning = "their time" },
	{ "roof_flops_per_s", NULL, UNIT_FLOPS, OF_ALL(roof_flops_per_s),
	  .meaning = "flat part of the roofline" },
	{ "roof_bytes_per_s", NULL, UNIT_BYTES, OF_ALL(roof_bytes_per_s), .meaning = "its slope" },
	{ "devices", .of = &devices, .meaning = "of the run" },
	{ "roofline", .of = &roofline, .meaning = "work that reported both FLOPs and bytes" },
};

const struct field_set efficiency_total = { FIELDS(total_fields),
					    .meaning = "The run against what its devices can do." };
