/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of calls into the CUDA runtime and driver.
 */
#include <inttypes.h>

#include "base/text/format.h"
#include "subjects/api/api_calls.h"
#include "subjects/kernels/launches.h"
#include "subjects/pages/pages.h"

static void api_page(const struct scene *scene, const struct grid *grid, struct page *page)
{
	const struct api_calls *api = answer_api_calls(scene->answers);
	const struct launches *launches = answer_launches(scene->answers);

	if (!scene_has_device(scene->run)) {
		page_no_device(scene, page);
		return;
	}
	page_sampled(scene, "", page);
	if (!grid->n) {
		page_line(page, 2, "no calls into CUDA in this run or window");
		return;
	}
	page_table(page, grid, scene->limit, PAGE_MORE_ROWS);
	page_line(page, 2, "%s of thread time in %s calls", format_ns((double)api->time_ns).text,
		  format_count((double)api->count).text);
	if (api->latency_ns.known)
		page_line(page, 2,
			  "from the call to the begin of its work on the device: median %s over "
			  "%" PRIu64,
			  format_ns(api->latency_ns.v).text, api->launches);
	if (launches->count)
		page_line(page, 2,
			  "launch-bound (the call takes longer than the kernel): %s of %s, %s",
			  format_count((double)launches->bound).text,
			  format_count((double)launches->count).text,
			  format_pct(launches->bound_pct.v).text);
	if (api->errors)
		page_line(page, 2, "calls that failed: %" PRIu64, api->errors);
}

const struct section section_api = {
	.name = "api",
	.sql = "api_summary",
	.reads = READS(&subject_api_calls, &subject_launches, &subject_coverage),
	.device = true,
	.subject = &subject_api_calls,
	.rows = &api_fields,
	.total = &api_total,
	.page = api_page,
	.command = {
		.place = 50,
		.summary = "calls into the CUDA runtime and driver",
		.description = "One row per recorded call: how often, how long, how many failed, "
			       "and how long after it the device started (median).",
		.examples = EXAMPLES({ "moescope api", "The newest run here, by time." },
				     { "moescope api a.mscope --sort errors",
				       "Failed calls first." }),
		.parameters = PARAMETERS(ASK_PLACE),
	},
};
