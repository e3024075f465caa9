/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of kernels: where the time of the devices went, by name, class or place.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/text/format.h"
#include "present/frame/scene.h"
#include "subjects/kernels/kernels.h"
#include "subjects/kernels/launches.h"

/* clang-format off */
#define FIGURES                                                                                    \
	{ .key = "count", .title = "count", .unit = GRID_INT },                                    \
	{ .key = "time_ns", .title = "time", .unit = GRID_NS },                                    \
	{ .key = "share_pct", .title = "share", .unit = GRID_PCT },                                \
	{ .key = "mean_ns", .title = "mean", .unit = GRID_NS },                                    \
	{ .key = "min_ns", .unit = GRID_NS },                                                      \
	{ .key = "max_ns", .unit = GRID_NS },                                                      \
	{ .key = "p50_ns", .unit = GRID_NS },                                                      \
	{ .key = "p95_ns", .unit = GRID_NS },                                                      \
	{ .key = "p99_ns", .unit = GRID_NS },                                                      \
	{ .key = "untimed", .unit = GRID_INT },                                                    \
	{ .key = "occupancy_pct", .title = "occ", .unit = GRID_PCT },                              \
	{ .key = "occupancy_limiter", .unit = GRID_TEXT }
#define COLUMNS(...)                                                                               \
	(const struct grid_column[]){ __VA_ARGS__, FIGURES },                                      \
	sizeof((const struct grid_column[]){ __VA_ARGS__, FIGURES }) / sizeof(struct grid_column)

/* By name alone, and only where launches were looked at. */
#define LAUNCHES                                                                                   \
	{ .key = "launch_latency_ns", .unit = GRID_NS, .data_only_when_set = true },               \
	{ .key = "launch_overhead_ns", .unit = GRID_NS, .data_only_when_set = true },              \
	{ .key = "launch_bound", .unit = GRID_INT, .data_only_when_set = true }
#define COLUMNS_LAUNCHES(...)                                                                      \
	(const struct grid_column[]){ __VA_ARGS__, FIGURES, LAUNCHES },                            \
	sizeof((const struct grid_column[]){ __VA_ARGS__, FIGURES, LAUNCHES }) /                   \
		sizeof(struct grid_column)

/* In the order of enum kernels_by. */
static const struct {
	const struct grid_column *columns;
	size_t n;
} tables[] = {
	{ COLUMNS_LAUNCHES({ .key = "name", .unit = GRID_TEXT },
		  { .key = "short_name", .title = "kernel", .unit = GRID_TEXT, .flexible = true },
		  { .key = "class", .title = "class", .unit = GRID_TEXT }) },
	{ COLUMNS({ .key = "class", .title = "class", .unit = GRID_TEXT }) },
	{ COLUMNS({ .key = "range", .title = "range", .unit = GRID_TEXT, .flexible = true }) },
	{ COLUMNS({ .key = "layer", .title = "layer", .unit = GRID_INT }) },
	{ COLUMNS({ .key = "layer", .title = "layer", .unit = GRID_INT },
		  { .key = "expert", .title = "expert", .unit = GRID_INT }) },
	{ COLUMNS({ .key = "phase", .title = "phase", .unit = GRID_TEXT }) },
	{ COLUMNS({ .key = "step", .title = "step", .unit = GRID_INT },
		  { .key = "whole", .title = "whole", .unit = GRID_TEXT }) },
	{ COLUMNS({ .key = "rank", .title = "rank", .unit = GRID_INT },
		  { .key = "device", .title = "device", .unit = GRID_INT },
		  { .key = "stream", .title = "stream", .unit = GRID_INT }) },
	{ COLUMNS({ .key = "rank", .title = "rank", .unit = GRID_INT },
		  { .key = "device", .title = "device", .unit = GRID_INT }) },
	{ COLUMNS({ .key = "rank", .title = "rank", .unit = GRID_INT },
		  { .key = "graph", .title = "graph", .unit = GRID_INT }) },
};
/* clang-format on */

static void fill_launches(const struct scene *scene, const struct kernel_row *row,
			  struct cell *cell)
{
	const struct launch_row *launch = launches_find(answer_launches(scene->answers),
							row->name_id);
	static const char none[] = "no timed kernel of it has its launch call recorded";

	*cell++ = launch ? cell_value(launch->latency_ns) : cell_absent(none);
	*cell++ = launch ? cell_value(launch->overhead_ns) : cell_absent(none);
	*cell = launch ? cell_uint(launch->bound) : cell_absent(none);
}

static struct cell *fill_key(const struct scene *scene, const struct kernel_row *row,
			     struct cell *cell)
{
	enum kernels_by by = (enum kernels_by)scene->options->kernels_by;

	switch (by) {
	case KERNELS_BY_NAME:
		*cell++ = cell_text(row->name);
		*cell++ = cell_text(row->short_name);
		*cell++ = cell_text(row->class);
		break;
	case KERNELS_BY_CLASS:
		*cell++ = cell_text(row->class);
		break;
	case KERNELS_BY_RANGE:
		*cell++ = row->no_place ? cell_absent(row->no_place) : cell_text(row->range);
		break;
	case KERNELS_BY_LAYER:
		*cell++ = row->no_place ? cell_absent(row->no_place) : cell_int(row->layer);
		break;
	case KERNELS_BY_EXPERT:
		*cell++ = row->no_place	   ? cell_absent(row->no_place)
			  : row->layer < 0 ? cell_absent("no range around the launch names a layer")
					   : cell_int(row->layer);
		*cell++ = row->no_place ? cell_absent(row->no_place) : cell_int(row->expert);
		break;
	case KERNELS_BY_PHASE:
		*cell++ = row->no_place ? cell_absent(row->no_place)
					: cell_text(phase_name(row->phase));
		break;
	case KERNELS_BY_STEP:
		*cell++ = row->no_place ? cell_absent(row->no_place) : cell_int(row->step);
		*cell++ = row->no_place ? cell_absent(row->no_place) : cell_bool(row->whole_step);
		break;
	case KERNELS_BY_GRAPH:
		*cell++ = row->no_place ? cell_absent(row->no_place) : cell_uint(row->rank);
		*cell++ = row->no_place ? cell_absent(row->no_place) : cell_uint(row->graph);
		break;
	case KERNELS_BY_STREAM:
	case KERNELS_BY_DEVICE:
		*cell++ = cell_uint(row->rank);
		*cell++ = cell_uint(row->device);
		if (by == KERNELS_BY_STREAM)
			*cell++ = cell_uint(row->stream);
		break;
	}
	return cell;
}

static struct cell of_timed(const struct kernel_row *row, double value)
{
	return row->summary.n ? cell_real(value) : cell_absent("no execution was timed");
}

static int fill(const struct scene *scene, struct grid *grid)
{
	enum kernels_by by = (enum kernels_by)scene->options->kernels_by;

	grid_init(grid, tables[by].columns, tables[by].n);
	for (size_t i = 0; i < answer_kernels(scene->answers)->n; i++) {
		const struct kernel_row *row = &answer_kernels(scene->answers)->rows[i];
		struct cell *cell = grid_add(grid, row);

		if (!cell)
			return -ENOMEM;
		cell = fill_key(scene, row, cell);
		*cell++ = cell_uint(row->count);
		*cell++ = row->summary.n ? cell_int(row->time_ns)
					 : cell_absent("no execution was timed");
		*cell++ = of_timed(row, row->share_pct);
		*cell++ = of_timed(row, row->summary.mean);
		*cell++ = of_timed(row, row->summary.min);
		*cell++ = of_timed(row, row->summary.max);
		*cell++ = of_timed(row, row->summary.p50);
		*cell++ = of_timed(row, row->summary.p95);
		*cell++ = of_timed(row, row->summary.p99);
		*cell++ = cell_uint(row->untimed);
		*cell++ = cell_value(row->occupancy_pct);
		*cell++ = row->occupancy_limiter ? cell_text(row->occupancy_limiter)
						 : cell_absent(row->occupancy_pct.reason);
		if (by == KERNELS_BY_NAME)
			fill_launches(scene, row, cell);
	}
	return 0;
}

static void total(const struct scene *scene, struct json *json)
{
	const struct kernels *kernels = answer_kernels(scene->answers);

	json_key(json, "count");
	json_uint(json, kernels->count);
	if (scene->options->kernels_by == KERNELS_BY_NAME) {
		json_key(json, "names");
		json_uint(json, kernels->n);
	} else {
		grid_json_value(json, "names", value_absent("the rows are not by name"));
	}
	json_key(json, "time_ns");
	json_int(json, kernels->time_ns);
	json_key(json, "untimed");
	json_uint(json, kernels->untimed);
	if (scene->options->kernels_by == KERNELS_BY_STEP) {
		json_key(json, "whole_steps");
		json_uint(json, kernels->whole_steps);
		grid_json_value(json, "count_per_step", kernels->step_count_mean);
		grid_json_value(json, "time_per_step_ns", kernels->step_time_mean_ns);
	}
	grid_json_value(json, "launch_latency_ns", answer_launches(scene->answers)->latency_ns);
	grid_json_value(json, "launch_overhead_ns", answer_launches(scene->answers)->overhead_ns);
	grid_json_value(json, "launch_bound_pct", answer_launches(scene->answers)->bound_pct);
	grid_json_value(json, "without_call", kernels->without_call);
	grid_json_value(json, "outside_ranges", kernels->outside_ranges);
}

static void doubts(const struct scene *scene, FILE *out)
{
	const struct kernels *kernels = answer_kernels(scene->answers);
	int by = scene->options->kernels_by;

	if (kernels->untimed)
		fprintf(out, "  without times: %" PRIu64 "; they count, their time does not\n",
			kernels->untimed);
	if (kernels->without_call.known && kernels->without_call.v > 0)
		fprintf(out, "  not attributed: %.0f whose launch call was not recorded\n",
			kernels->without_call.v);
	if (by >= KERNELS_BY_RANGE && by <= KERNELS_BY_PHASE && kernels->outside_ranges.known &&
	    kernels->outside_ranges.v > 0)
		fprintf(out, "  not attributed: %.0f launched outside all ranges\n",
			kernels->outside_ranges.v);
}

static void launch_line(const struct scene *scene, FILE *out)
{
	const struct launches *l = answer_launches(scene->answers);

	if (!l->count)
		return;
	fprintf(out, "  a launch (medians): call %s, to the device %s\n",
		format_ns(l->overhead_ns.v).text, format_ns(l->latency_ns.v).text);
	fprintf(out, "  launch-bound (the call takes longer than the kernel): %s of %s, %s\n",
		format_count((double)l->bound).text, format_count((double)l->count).text,
		format_pct(l->bound_pct.v).text);
}

static int text(const struct scene *scene, const struct grid *grid, FILE *out)
{
	const struct kernels *kernels = answer_kernels(scene->answers);
	struct text_layout layout = scene_layout(scene, 2);
	size_t limit = scene->options->limit;
	int r;

	scene_sampled(scene, "", out);
	if (!scene->run->kernel.n) {
		if (scene_has_device(scene->run))
			fputs("  no kernels in this run\n", out);
		else
			scene_no_device(scene, out);
		return 0;
	}
	if (!grid->n) {
		fputs("  no kernels in this part of the run\n", out);
		doubts(scene, out);
		return 0;
	}
	r = grid_print(grid, limit, &layout, out);
	scene_more(limit && limit < grid->n ? limit : grid->n, grid->n, out);
	fprintf(out, "  %s of device time in %s kernels\n",
		format_ns((double)kernels->time_ns).text,
		format_count((double)kernels->count).text);
	if (scene->options->kernels_by == KERNELS_BY_STEP && kernels->whole_steps)
		fprintf(out, "  a step: %s in %s kernels, mean of %zu whole step%s\n",
			format_ns(kernels->step_time_mean_ns.v).text,
			format_count(kernels->step_count_mean.v).text, kernels->whole_steps,
			kernels->whole_steps == 1 ? "" : "s");
	launch_line(scene, out);
	doubts(scene, out);
	return r;
}

const struct section section_kernels = {
	.name = "kernels",
	.sql = "kernel_summary",
	.reads = READS(&subject_kernels, &subject_launches, &subject_coverage),
	.device = true,
	.grid = fill,
	.total = total,
	.text = text,
};
