/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of kernels, in all forms; see fields.h.
 */
#include "subjects/kernels/kernels.h"

#include "subjects/answers/answers.h"
#include "subjects/kernels/launches.h"
#include "subjects/shared/fields.h"

#define OF(member) MEMBER(struct kernel_row, member)
#define OF_LAUNCH(member) MEMBER(struct launch_row, member), .from = launch_of
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

static const void *launch_of(const struct field_row *at)
{
	return launches_find(answer_launches(at->answers),
			     ((const struct kernel_row *)at->item)->name_id);
}

static const char *no_launch(const struct field_row *at)
{
	return launch_of(at) ? NULL : "no timed kernel of it has its launch call recorded";
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
	{ "launch_latency_ns", NULL, UNIT_NS, OF_LAUNCH(latency_ns), .forms = BY(NAME),
	  .optional = true, .absent = no_launch },
	{ "launch_overhead_ns", NULL, UNIT_NS, OF_LAUNCH(overhead_ns), .forms = BY(NAME),
	  .optional = true, .absent = no_launch },
	{ "launch_bound", NULL, UNIT_INT, OF_LAUNCH(bound), .forms = BY(NAME),
	  .optional = true, .absent = no_launch },
};
/* clang-format on */

const struct field_set kernels_fields = {
	FIELDS(fields),
	.rows = { { ITEMS(struct kernels, rows, n) } },
	.levels = 1,
};

#define OF_ALL(member) MEMBER(struct kernels, member)
#define OF_LAUNCHES(member) MEMBER(struct launches, member), .from = launches

static struct cell not_by_name(const struct field_row *at)
{
	(void)at;
	return cell_absent("the rows are not by name");
}

static const void *launches(const struct field_row *at)
{
	return answer_launches(at->answers);
}

static const struct field total_fields[] = {
	{ "count", NULL, UNIT_INT, OF_ALL(count) },
	{ "names", NULL, UNIT_INT, OF_ALL(n), .forms = BY(NAME) },
	{ "names", NULL, UNIT_INT, .read = not_by_name, .forms = ~BY(NAME) },
	{ "time_ns", NULL, UNIT_NS, OF_ALL(time_ns) },
	{ "untimed", NULL, UNIT_INT, OF_ALL(untimed) },
	{ "whole_steps", NULL, UNIT_INT, OF_ALL(whole_steps), .forms = BY(STEP) },
	{ "count_per_step", NULL, UNIT_COUNT, OF_ALL(step_count_mean), .forms = BY(STEP) },
	{ "time_per_step_ns", NULL, UNIT_NS, OF_ALL(step_time_mean_ns), .forms = BY(STEP) },
	{ "launch_latency_ns", NULL, UNIT_NS, OF_LAUNCHES(latency_ns) },
	{ "launch_overhead_ns", NULL, UNIT_NS, OF_LAUNCHES(overhead_ns) },
	{ "launch_bound_pct", NULL, UNIT_PCT, OF_LAUNCHES(bound_pct) },
	{ "without_call", NULL, UNIT_INT, OF_ALL(without_call) },
	{ "outside_ranges", NULL, UNIT_INT, OF_ALL(outside_ranges) },
};

const struct field_set kernels_total = { FIELDS(total_fields) };
