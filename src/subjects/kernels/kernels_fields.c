/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of kernels, in all forms; see kernels_fields.h.
 */
#include "subjects/kernels/kernels_fields.h"

#define OF(member) MEMBER(struct kernel_row, member)
#define BY(what) (1U << KERNELS_BY_##what)

static const char *no_place(const struct field_row *at)
{
	return ((const struct kernel_row *)at->item)->no_place;
}

static const char *no_layer(const struct field_row *at)
{
	const struct kernel_row *row = at->item;

	if (row->no_place || row->layer >= 0)
		return row->no_place;
	return "no range around the launch names a layer";
}

static const char *untimed(const struct field_row *at)
{
	return ((const struct kernel_row *)at->item)->summary.n ? NULL : "no execution was timed";
}

static struct cell phase(const struct field_row *at)
{
	return cell_text(phase_name(((const struct kernel_row *)at->item)->phase));
}

static struct cell limiter(const struct field_row *at)
{
	const struct kernel_row *row = at->item;

	return row->occupancy_limiter ? cell_text(row->occupancy_limiter)
				      : cell_absent(row->occupancy_pct.reason);
}

static const struct launch_row *launch_of(const struct field_row *at)
{
	const struct kernels_context *context = at->context;

	return launches_find(context->launches, ((const struct kernel_row *)at->item)->name_id);
}

static const char *no_launch(const struct field_row *at)
{
	return launch_of(at) ? NULL : "no timed kernel of it has its launch call recorded";
}

static struct cell launch_latency(const struct field_row *at)
{
	return cell_value(launch_of(at)->latency_ns);
}

static struct cell launch_overhead(const struct field_row *at)
{
	return cell_value(launch_of(at)->overhead_ns);
}

static struct cell launch_bound(const struct field_row *at)
{
	return cell_uint(launch_of(at)->bound);
}

/* clang-format off */
static const struct field fields[] = {
	{ "name", NULL, UNIT_TEXT, OF(name), .forms = BY(NAME) },
	{ "short_name", "kernel", UNIT_TEXT, OF(short_name), .forms = BY(NAME), .flexible = true },
	{ "class", "class", UNIT_TEXT, OF(class), .forms = BY(NAME) | BY(CLASS) },
	{ "range", "range", UNIT_TEXT, OF(range), .forms = BY(RANGE), .flexible = true,
	  .absent = no_place },
	{ "layer", "layer", UNIT_INT, OF(layer), .forms = BY(LAYER), .absent = no_place },
	{ "layer", "layer", UNIT_INT, OF(layer), .forms = BY(EXPERT), .absent = no_layer },
	{ "expert", "expert", UNIT_INT, OF(expert), .forms = BY(EXPERT), .absent = no_place },
	{ "phase", "phase", UNIT_TEXT, .read = phase, .forms = BY(PHASE), .absent = no_place },
	{ "step", "step", UNIT_INT, OF(step), .forms = BY(STEP), .absent = no_place },
	{ "whole", "whole", UNIT_TEXT, OF(whole_step), .forms = BY(STEP), .absent = no_place },
	{ "rank", "rank", UNIT_INT, OF(rank), .forms = BY(STREAM) | BY(DEVICE) },
	{ "device", "device", UNIT_INT, OF(device), .forms = BY(STREAM) | BY(DEVICE) },
	{ "stream", "stream", UNIT_INT, OF(stream), .forms = BY(STREAM) },
	{ "rank", "rank", UNIT_INT, OF(rank), .forms = BY(GRAPH), .absent = no_place },
	{ "graph", "graph", UNIT_INT, OF(graph), .forms = BY(GRAPH), .absent = no_place },
	{ "count", "count", UNIT_INT, OF(count) },
	{ "time_ns", "time", UNIT_NS, OF(time_ns), .absent = untimed },
	{ "share_pct", "share", UNIT_PCT, OF(share_pct), .absent = untimed },
	{ "mean_ns", "mean", UNIT_NS, OF(summary.mean), .absent = untimed },
	{ "min_ns", NULL, UNIT_NS, OF(summary.min), .absent = untimed },
	{ "max_ns", NULL, UNIT_NS, OF(summary.max), .absent = untimed },
	{ "p50_ns", NULL, UNIT_NS, OF(summary.p50), .absent = untimed },
	{ "p95_ns", NULL, UNIT_NS, OF(summary.p95), .absent = untimed },
	{ "p99_ns", NULL, UNIT_NS, OF(summary.p99), .absent = untimed },
	{ "untimed", NULL, UNIT_INT, OF(untimed) },
	{ "occupancy_pct", "occ", UNIT_PCT, OF(occupancy_pct) },
	{ "occupancy_limiter", NULL, UNIT_TEXT, .read = limiter },
	/* Only where launches were looked at. */
	{ "launch_latency_ns", NULL, UNIT_NS, .read = launch_latency, .forms = BY(NAME),
	  .optional = true, .absent = no_launch },
	{ "launch_overhead_ns", NULL, UNIT_NS, .read = launch_overhead, .forms = BY(NAME),
	  .optional = true, .absent = no_launch },
	{ "launch_bound", NULL, UNIT_INT, .read = launch_bound, .forms = BY(NAME),
	  .optional = true, .absent = no_launch },
};
/* clang-format on */

const struct field_set kernels_fields = {
	FIELDS(fields),
	.rows = { { ITEMS(struct kernels, rows, n) } },
	.levels = 1,
};
