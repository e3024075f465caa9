/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of calls into the CUDA runtime and driver.
 */
#include <inttypes.h>

#include "base/text/format.h"
#include "present/frame/scene.h"
#include "subjects/api/api_calls.h"
#include "subjects/kernels/launches.h"

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
	.subject = &subject_api_calls,
	.rows = &api_fields,
	.total = &api_total,
	.text = text,
};
