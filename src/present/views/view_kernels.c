/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of kernels: where the time of the devices went, by name, class or place.
 */
#include <inttypes.h>

#include "base/text/format.h"
#include "present/frame/scene.h"
#include "subjects/kernels/kernels.h"
#include "subjects/kernels/launches.h"

static unsigned int form(const struct scene *scene)
{
	return 1U << scene->options->kernels_by;
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
	.subject = &subject_kernels,
	.rows = &kernels_fields,
	.form = form,
	.total = &kernels_total,
	.text = text,
};
