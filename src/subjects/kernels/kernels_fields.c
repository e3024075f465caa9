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

static const char *kernel_untimed(const struct field_row *at)
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
	{ "name", NULL, UNIT_TEXT, OF(name), .forms = BY(NAME), .meaning = "full name, demangled" },
	{ "short_name", "kernel", UNIT_TEXT, OF(short_name), .forms = BY(NAME), .flexible = true,
	  .meaning = "function with its namespaces, of what a wrapper runs; with the word that "
		     "distinguishes it from others in the table" },
	{ "class", "class", UNIT_TEXT, OF(class), .forms = BY(NAME) | BY(CLASS),
	  .meaning = "kind of work, by the name; where rows are by class also by the ranges "
		     "around the launch (explain kernel_class)" },
	{ "range", "range", UNIT_TEXT, OF(range), .forms = BY(RANGE), .flexible = true,
	  .absent = no_place, .meaning = "names of the ranges around the launch: outer/inner" },
	{ "layer", "layer", UNIT_INT, OF(layer), .forms = BY(LAYER), .absent = no_place },
	{ "layer", "layer", UNIT_INT, OF(layer), .forms = BY(EXPERT), .absent = no_layer },
	{ "expert", "expert", UNIT_INT, OF(expert), .forms = BY(EXPERT), .absent = no_place },
	{ "phase", "phase", UNIT_TEXT, READ(TEXT, phase), .forms = BY(PHASE), .absent = no_place,
	  .meaning = "phase of the range around the launch" },
	{ "step", "step", UNIT_INT, OF(step), .forms = BY(STEP), .absent = no_place },
	{ "whole", "whole", UNIT_TEXT, OF(whole_step), .forms = BY(STEP), .absent = no_place,
	  .meaning = "device records cover the whole step" },
	{ "rank", "rank", UNIT_INT, OF(rank), .forms = BY(STREAM) | BY(DEVICE) },
	{ "device", "device", UNIT_INT, OF(device), .forms = BY(STREAM) | BY(DEVICE) },
	{ "stream", "stream", UNIT_INT, OF(stream), .forms = BY(STREAM),
	  .meaning = "number of the stream" },
	{ "rank", "rank", UNIT_INT, OF(rank), .forms = BY(GRAPH), .absent = no_place },
	{ "graph", "graph", UNIT_INT, OF(graph), .forms = BY(GRAPH), .absent = no_place,
	  .meaning = "number of the CUDA graph" },
	{ "count", "count", UNIT_INT, OF(count), .meaning = "executions" },
	{ "time_ns", "time", UNIT_NS, OF(time_ns), .absent = kernel_untimed,
	  .meaning = "device time of the timed ones", .metric = "kernel_time" },
	{ "share_pct", "share", UNIT_PCT, OF(share_pct), .absent = kernel_untimed },
	{ "mean_ns", "mean", UNIT_NS, OF(summary.mean), .absent = kernel_untimed },
	{ "min_ns", NULL, UNIT_NS, OF(summary.min), .absent = kernel_untimed },
	{ "max_ns", NULL, UNIT_NS, OF(summary.max), .absent = kernel_untimed },
	{ "p50_ns", NULL, UNIT_NS, OF(summary.p50), .absent = kernel_untimed },
	{ "p95_ns", NULL, UNIT_NS, OF(summary.p95), .absent = kernel_untimed },
	{ "p99_ns", NULL, UNIT_NS, OF(summary.p99), .absent = kernel_untimed },
	{ "std_ns", NULL, UNIT_NS, OF(summary.std), .absent = kernel_untimed,
	  .meaning = "population standard deviation of the times", .metric = "kernel_time" },
	{ "untimed", NULL, UNIT_INT, OF(untimed), .meaning = "executions without times" },
	{ "occupancy_pct", "occ", UNIT_PCT, OF(occupancy_pct),
	  .meaning = "theoretical: warps that blocks of the launch can fill, of those the "
		     "multiprocessor holds; weighted by time" },
	{ "occupancy_limiter", NULL, UNIT_TEXT, MAY_READ(TEXT, limiter),
	  .meaning = "what limits it: threads, blocks, registers or shared memory" },
	/* Only where launches were looked at. */
	{ "launch_latency_ns", NULL, UNIT_NS, OF_LAUNCH(latency_ns), .forms = BY(NAME),
	  .optional = true, .absent = no_launch,
	  .meaning = "by name: median of device start - call start" },
	{ "launch_overhead_ns", NULL, UNIT_NS, OF_LAUNCH(overhead_ns), .forms = BY(NAME),
	  .optional = true, .absent = no_launch,
	  .meaning = "by name: median duration of the launch call, shared by its kernels" },
	{ "launch_bound", NULL, UNIT_INT, OF_LAUNCH(bound), .forms = BY(NAME),
	  .optional = true, .absent = no_launch },
};
/* clang-format on */

const struct field_set kernels_fields = {
	FIELDS(fields),
	.rows = { { ITEMS(struct kernels, rows, n) } },
	.levels = 1,
	.meaning = "kernel name, class or place",
};

#define OF_ALL(member) MEMBER(struct kernels, member)
#define OF_LAUNCHES(member) MEMBER(struct launches, member), .from = kernel_launches

static struct cell not_by_name(const struct field_row *at)
{
	(void)at;
	return cell_absent("the rows are not by name");
}

static const void *kernel_launches(const struct field_row *at)
{
	return answer_launches(at->answers);
}

static const struct field total_fields[] = {
	{ "count", NULL, UNIT_INT, OF_ALL(count), .meaning = "executions", .grows = true },
	{ "names", NULL, UNIT_INT, OF_ALL(n), .forms = BY(NAME), .meaning = "different names" },
	{ "names", NULL, UNIT_INT, MAY_READ(U64, not_by_name), .forms = ~BY(NAME) },
	{ "time_ns", NULL, UNIT_NS, OF_ALL(time_ns), .meaning = "device time of the timed ones",
	  .metric = "kernel_time", .grows = true },
	{ "untimed", NULL, UNIT_INT, OF_ALL(untimed), .meaning = "executions without times",
	  .grows = true },
	{ "whole_steps", NULL, UNIT_INT, OF_ALL(whole_steps), .forms = BY(STEP),
	  .meaning = "by step: steps covered wholly" },
	{ "count_per_step", NULL, UNIT_COUNT, OF_ALL(step_count_mean), .forms = BY(STEP),
	  .meaning = "by step: executions in a step, mean of those" },
	{ "time_per_step_ns", NULL, UNIT_NS, OF_ALL(step_time_mean_ns), .forms = BY(STEP),
	  .meaning = "by step: device time in a step, mean of those" },
	{ "launch_latency_ns", NULL, UNIT_NS, OF_LAUNCHES(latency_ns) },
	{ "launch_overhead_ns", NULL, UNIT_NS, OF_LAUNCHES(overhead_ns),
	  .meaning = "median duration of the launch call, shared by its kernels" },
	{ "launch_bound_pct", NULL, UNIT_PCT, OF_LAUNCHES(bound_pct) },
	{ "without_call", NULL, UNIT_INT, OF_ALL(without_call),
	  .meaning = "kernels whose launch call was not recorded" },
	{ "outside_ranges", NULL, UNIT_INT, OF_ALL(outside_ranges),
	  .meaning = "launched outside all ranges" },
};

const struct field_set kernels_total = { FIELDS(total_fields) };
