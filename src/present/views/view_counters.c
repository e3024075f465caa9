/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of metrics of single launches, as a kernel profiler measured them.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/text/format.h"
#include "present/frame/scene.h"
#include "subjects/counters/launch_metrics.h"

static const struct grid_column columns[] = {
	{ .key = "kernel", .unit = GRID_TEXT },
	{ .key = "short_name", .title = "kernel", .unit = GRID_TEXT, .flexible = true },
	{ .key = "metric", .title = "metric", .unit = GRID_TEXT, .flexible = true },
	{ .key = "unit", .title = "unit", .unit = GRID_TEXT },
	{ .key = "launches", .title = "launches", .unit = GRID_INT },
	{ .key = "mean", .title = "mean", .unit = GRID_COUNT },
	{ .key = "min", .title = "min", .unit = GRID_COUNT },
	{ .key = "max", .title = "max", .unit = GRID_COUNT },
	{ .key = "text", .unit = GRID_TEXT },
	{ .key = "section", .unit = GRID_TEXT },
};

static struct cell text_or(const struct run *run, uint32_t id, const char *reason)
{
	return id ? cell_text(run_string(run, id)) : cell_absent(reason);
}

static int fill(const struct scene *scene, struct grid *grid)
{
	const struct launch_metrics *m = answer_launch_metrics(scene->answers);

	grid_init(grid, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < m->n; i++) {
		const struct launch_metric_row *row = &m->rows[i];
		struct cell *cell = grid_add(grid, row);

		if (!cell)
			return -ENOMEM;
		*cell++ = text_or(scene->run, row->kernel, "the file does not name it");
		*cell++ = cell_text(row->short_name);
		*cell++ = text_or(scene->run, row->metric, "the file does not name it");
		*cell++ = text_or(scene->run, row->unit, "it has none");
		*cell++ = cell_uint(row->launches);
		*cell++ = cell_value(row->mean);
		*cell++ = cell_value(row->min);
		*cell++ = cell_value(row->max);
		*cell++ = text_or(scene->run, row->text, row->no_text);
		*cell++ = text_or(scene->run, row->section, "the file has no sections");
	}
	return 0;
}

static void total(const struct scene *scene, struct json *json)
{
	const struct launch_metrics *m = answer_launch_metrics(scene->answers);

	json_key(json, "kernels");
	json_uint(json, m->kernels);
	json_key(json, "launches");
	json_uint(json, m->launches);
	json_key(json, "values");
	json_uint(json, m->values);
}

static int text(const struct scene *scene, const struct grid *grid, FILE *out)
{
	const struct launch_metrics *m = answer_launch_metrics(scene->answers);
	struct text_layout layout = scene_layout(scene, 2);
	size_t limit = scene->options->limit;
	int r;

	if (!grid->n) {
		fputs("  no hardware counters in this run; import a CSV of Nsight Compute\n", out);
		return 0;
	}
	r = grid_print(grid, limit, &layout, out);
	scene_more(limit && limit < grid->n ? limit : grid->n, grid->n, out);
	fprintf(out,
		"  profiled: launches %" PRIu64 ", of kernels %" PRIu64 ", values %" PRIu64 "\n",
		m->launches, m->kernels, m->values);
	return r;
}

const struct section section_counters = {
	.name = "counters",
	.reads = READS(&subject_launch_metrics),
	.grid = fill,
	.total = total,
	.text = text,
};
