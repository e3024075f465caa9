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
	{ "name", "work", UNIT_TEXT, OF(name), .flexible = true },
	{ "count", NULL, UNIT_INT, OF(count) },
	{ "time_ns", "time", UNIT_NS, OF(time_ns) },
	{ "covered_pct", "covered", UNIT_PCT, OF(covered_pct) },
	{ "flops", NULL, UNIT_FLOPS, OF(flops) },
	{ "bytes", NULL, UNIT_BYTES, OF(bytes) },
	{ "flops_per_s", "rate", UNIT_FLOPS, OF(flops_per_s) },
	{ "bytes_per_s", NULL, UNIT_BYTES, OF(bytes_per_s) },
	{ "flops_per_byte", "FLOP/B", UNIT_RATIO, OF(flops_per_byte) },
	{ "roof_flops_per_s", NULL, UNIT_FLOPS, OF(roof_flops_per_s) },
	{ "roof_pct", "of roof", UNIT_PCT, OF(roof_pct) },
	{ "bound", "bound", UNIT_TEXT, .read = bound },
};

const struct field_set efficiency_fields = {
	FIELDS(fields),
	.rows = { { ITEMS(struct efficiency, rows, n) } },
	.levels = 1,
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

	return peak > 0 ? cell_real(peak) : cell_absent("not known");
}

static const struct field dtype_field = { .unit = UNIT_FLOPS, .read = dtype_peak };

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
	{ "device", NULL, UNIT_TEXT, .read = device_kind },
	{ "index", NULL, UNIT_INT, OF_DEVICE(device) },
	{ "name", NULL, UNIT_TEXT, OF_DEVICE(name) },
	{ "peaks_source", NULL, UNIT_TEXT, OF_DEVICE(source), .absent = no_peaks },
	{ "calibrated", NULL, UNIT_INT, OF_DEVICE(calibrated) },
	{ "peak_flops_per_s", NULL, UNIT_FLOPS, OF_DEVICE(peak_flops_per_s) },
	{ "peak_memory_bytes_per_s", NULL, UNIT_BYTES, OF_DEVICE(memory_bytes_per_s) },
	{ "DTYPE_flops_per_s", .offset = offsetof(struct efficiency_device, peaks.flops_per_s),
	  .of = &dtypes },
	{ "GPM", .offset = offsetof(struct efficiency_device, gpm), .of = &gpm },
	{ "dram_bytes_per_s", NULL, UNIT_BYTES, OF_DEVICE(dram_bytes_per_s) },
};

static const struct field_group devices = {
	FIELD_LIST,
	FIELD_SPREAD_OUT,
	FIELDS(device_fields),
	.items = { ITEMS(struct efficiency, devices, n_devices) },
};

#define OF_POINT(member) MEMBER(struct roofline_point, member)

static const struct field point_fields[] = {
	{ "name", NULL, UNIT_TEXT, OF_POINT(name) },
	{ "flops_per_byte", NULL, UNIT_RATIO, OF_POINT(flops_per_byte) },
	{ "flops_per_s", NULL, UNIT_FLOPS, OF_POINT(flops_per_s) },
	{ "time_ns", NULL, UNIT_NS, OF_POINT(time_ns) },
};

static const struct field_group roofline = {
	FIELD_LIST,
	FIELD_LINE_EACH,
	FIELDS(point_fields),
	.items = { ITEMS(struct efficiency, points, n_points) },
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
	{ "by", NULL, UNIT_TEXT, .read = by },
	{ "mfu_pct", NULL, UNIT_PCT, OF_ALL(mfu_pct) },
	{ "model_flops", NULL, UNIT_FLOPS, OF_ALL(model_flops) },
	{ "model_flops_per_s", NULL, UNIT_FLOPS, OF_ALL(model_flops_per_s) },
	{ "flops_source", NULL, UNIT_TEXT, OF_ALL(flops_source), .absent = no_model_flops },
	{ "dtype", NULL, UNIT_TEXT, .read = dtype, .absent = no_dtype },
	{ "dtype_source", NULL, UNIT_TEXT, OF_ALL(dtype_source), .absent = no_dtype },
	{ "steps", NULL, UNIT_INT, OF_ALL(steps) },
	{ "step_time_ns", NULL, UNIT_NS, OF_ALL(step_time_ns) },
	{ "roof_flops_per_s", NULL, UNIT_FLOPS, OF_ALL(roof_flops_per_s) },
	{ "roof_bytes_per_s", NULL, UNIT_BYTES, OF_ALL(roof_bytes_per_s) },
	{ "devices", .of = &devices },
	{ "roofline", .of = &roofline },
};

const struct field_set efficiency_total = { FIELDS(total_fields) };
