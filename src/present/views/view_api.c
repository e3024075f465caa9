/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of calls into the CUDA runtime and driver.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/text/format.h"
#include "present/frame/scene.h"
#include "subjects/api/api_calls.h"
#include "subjects/kernels/launches.h"

static const struct grid_column columns[] = {
	{ .key = "name", .title = "call", .unit = GRID_TEXT, .flexible = true },
	{ .key = "library", .unit = GRID_TEXT },
	{ .key = "count", .title = "count", .unit = GRID_INT },
	{ .key = "time_ns", .title = "time", .unit = GRID_NS },
	{ .key = "share_pct", .title = "share", .unit = GRID_PCT },
	{ .key = "mean_ns", .title = "mean", .unit = GRID_NS },
	{ .key = "p50_ns", .unit = GRID_NS },
	{ .key = "p95_ns", .unit = GRID_NS },
	{ .key = "p99_ns", .unit = GRID_NS },
	{ .key = "min_ns", .unit = GRID_NS },
	{ .key = "max_ns", .title = "max", .unit = GRID_NS },
	{ .key = "errors", .title = "errors", .unit = GRID_INT },
	{ .key = "launch_latency_ns", .title = "to device", .unit = GRID_NS },
	{ .key = "launches", .unit = GRID_INT },
};

static struct cell errors_cell(uint64_t errors, uint64_t not_told)
{
	return not_told ? cell_absent(NOT_IN_FILE) : cell_uint(errors);
}

static int fill(const struct scene *scene, struct grid *grid)
{
	grid_init(grid, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < answer_api_calls(scene->answers)->n; i++) {
		const struct api_row *row = &answer_api_calls(scene->answers)->rows[i];
		struct cell *cell = grid_add(grid, row);

		if (!cell)
			return -ENOMEM;
		*cell++ = cell_text(row->name ? run_string(scene->run, row->name) : "(no name)");
		*cell++ = cell_text(row->driver ? "driver" : "runtime");
		*cell++ = cell_uint(row->count);
		*cell++ = cell_int(row->time_ns);
		*cell++ = cell_real(row->share_pct);
		*cell++ = cell_real(row->summary.mean);
		*cell++ = cell_real(row->summary.p50);
		*cell++ = cell_real(row->summary.p95);
		*cell++ = cell_real(row->summary.p99);
		*cell++ = cell_real(row->summary.min);
		*cell++ = cell_real(row->summary.max);
		*cell++ = errors_cell(row->errors, row->not_told);
		*cell++ = cell_value(row->latency_ns);
		*cell++ = cell_uint(row->launches);
	}
	return 0;
}

static void total(const struct scene *scene, struct json *json)
{
	const struct api_calls *api = answer_api_calls(scene->answers);
	struct cell errors = errors_cell(api->errors, api->not_told);

	json_key(json, "count");
	json_uint(json, api->count);
	json_key(json, "names");
	json_uint(json, api->n);
	json_key(json, "time_ns");
	json_int(json, api->time_ns);
	grid_json_cell(json, "errors", &errors);
	grid_json_value(json, "launch_latency_ns", api->latency_ns);
	json_key(json, "launches");
	json_uint(json, api->launches);
	grid_json_value(json, "launch_overhead_ns", answer_launches(scene->answers)->overhead_ns);
	grid_json_value(json, "launch_bound_pct", answer_launches(scene->answers)->bound_pct);
}

static int text(const struct scene *scene, const struct grid *grid, FILE *out)
{
	const struct api_calls *api = answer_api_calls(scene->answers);
	struct text_layout layout = scene_layout(scene, 2);
	size_t limit = scene->options->limit;
	int r;

	if (!scene_has_device(scene->run)) {
		scene_no_device(scene, out);
		return 0;
	}
	scene_sampled(scene, "", out);
	if (!grid->n) {
		fputs("  no calls into CUDA in this run or window\n", out);
		return 0;
	}
	r = grid_print(grid, limit, &layout, out);
	scene_more(limit && limit < grid->n ? limit : grid->n, grid->n, out);
	fprintf(out, "  %s of thread time in %s calls\n", format_ns((double)api->time_ns).text,
		format_count((double)api->count).text);
	if (api->latency_ns.known)
		fprintf(out,
			"  from the call to the begin of its work on the device: median %s "
			"over %" PRIu64 "\n",
			format_ns(api->latency_ns.v).text, api->launches);
	if (answer_launches(scene->answers)->count)
		fprintf(out,
			"  launch-bound (the call takes longer than the kernel): %s of %s, %s\n",
			format_count((double)answer_launches(scene->answers)->bound).text,
			format_count((double)answer_launches(scene->answers)->count).text,
			format_pct(answer_launches(scene->answers)->bound_pct.v).text);
	if (api->errors)
		fprintf(out, "  calls that failed: %" PRIu64 "\n", api->errors);
	return r;
}

const struct section section_api = {
	.name = "api",
	.sql = "api_summary",
	.reads = READS(&subject_api_calls, &subject_launches, &subject_coverage),
	.device = true,
	.grid = fill,
	.total = total,
	.text = text,
};
