/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of calls into the CUDA runtime and driver.
 */
#include <inttypes.h>

#include "base/text/format.h"
#include "present/frame/scene.h"
#include "subjects/api/api_fields.h"

static struct cell errors_cell(uint64_t errors, uint64_t not_told)
{
	return not_told ? cell_absent(NOT_IN_FILE) : cell_uint(errors);
}

static int fill(const struct scene *scene, struct grid *grid)
{
	struct field_row from = { .run = scene->run, .item = &scene->f->api };

	return grid_fill(grid, &api_fields, &from);
}

static void total(const struct scene *scene, struct json *json)
{
	const struct api_calls *api = &scene->f->api;
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
	grid_json_value(json, "launch_overhead_ns", scene->f->launches.overhead_ns);
	grid_json_value(json, "launch_bound_pct", scene->f->launches.bound_pct);
}

static int text(const struct scene *scene, const struct grid *grid, FILE *out)
{
	const struct api_calls *api = &scene->f->api;
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
	if (scene->f->launches.count)
		fprintf(out,
			"  launch-bound (the call takes longer than the kernel): %s of %s, %s\n",
			format_count((double)scene->f->launches.bound).text,
			format_count((double)scene->f->launches.count).text,
			format_pct(scene->f->launches.bound_pct.v).text);
	if (api->errors)
		fprintf(out, "  calls that failed: %" PRIu64 "\n", api->errors);
	return r;
}

const struct section section_api = {
	.name = "api",
	.want = FIND_API | FIND_LAUNCHES,
	.device = true,
	.grid = fill,
	.total = total,
	.text = text,
};
