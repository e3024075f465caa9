/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of metrics of single launches, as a kernel profiler measured them.
 */
#include <inttypes.h>

#include "base/text/format.h"
#include "present/frame/scene.h"
#include "subjects/counters/launch_metrics.h"

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
	.subject = &subject_launch_metrics,
	.rows = &counters_fields,
	.total = &counters_total,
	.text = text,
};
