/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of kernels: where the time of the devices went, by name, class or place.
 */
#include <inttypes.h>

#include "base/text/format.h"
#include "subjects/kernels/kernels.h"
#include "subjects/kernels/launches.h"
#include "subjects/pages/pages.h"

#define TOP_KERNELS 10 /* of the report */

static unsigned int kernels_form(const struct scene *scene)
{
	return 1U << scene->question.kernels_by;
}

static void kernels_doubts(const struct scene *scene, struct page *page)
{
	const struct kernels *kernels = answer_kernels(scene->answers);
	int by = scene->question.kernels_by;

	if (kernels->untimed)
		page_line(page, 2, "without times: %" PRIu64 "; they count, their time does not",
			  kernels->untimed);
	if (kernels->without_call.known && kernels->without_call.v > 0)
		page_line(page, 2, "not attributed: %.0f whose launch call was not recorded",
			  kernels->without_call.v);
	if (by >= KERNELS_BY_RANGE && by <= KERNELS_BY_PHASE && kernels->outside_ranges.known &&
	    kernels->outside_ranges.v > 0)
		page_line(page, 2, "not attributed: %.0f launched outside all ranges",
			  kernels->outside_ranges.v);
}

static void launch_lines(const struct scene *scene, struct page *page)
{
	const struct launches *l = answer_launches(scene->answers);

	if (!l->count)
		return;
	page_line(page, 2, "a launch (medians): call %s, to the device %s",
		  format_ns(l->overhead_ns.v).text, format_ns(l->latency_ns.v).text);
	page_line(page, 2, "launch-bound (the call takes longer than the kernel): %s of %s, %s",
		  format_count((double)l->bound).text, format_count((double)l->count).text,
		  format_pct(l->bound_pct.v).text);
}

static void kernels_page(const struct scene *scene, const struct grid *grid, struct page *page)
{
	const struct kernels *kernels = answer_kernels(scene->answers);

	page_sampled(scene, "", page);
	if (!scene->run->kernel.n) {
		if (scene_has_device(scene->run))
			page_line(page, 2, "no kernels in this run");
		else
			page_no_device(scene, page);
		return;
	}
	if (!grid->n) {
		page_line(page, 2, "no kernels in this part of the run");
		kernels_doubts(scene, page);
		return;
	}
	page_table(page, grid, scene->limit, PAGE_MORE_ROWS);
	page_line(page, 2, "%s of device time in %s kernels",
		  format_ns((double)kernels->time_ns).text,
		  format_count((double)kernels->count).text);
	if (scene->question.kernels_by == KERNELS_BY_STEP && kernels->whole_steps)
		page_line(page, 2, "a step: %s in %s kernels, mean of %zu whole step%s",
			  format_ns(kernels->step_time_mean_ns.v).text,
			  format_count(kernels->step_count_mean.v).text, kernels->whole_steps,
			  kernels->whole_steps == 1 ? "" : "s");
	launch_lines(scene, page);
	kernels_doubts(scene, page);
}

void kernels_report(const struct scene *scene, struct page *page)
{
	if (!scene_has_device(scene->run))
		return;
	page_title(page, "Kernels, by device time");
	page_sampled(scene, "", page);
	if (answer_kernels(scene->answers)->n)
		page_table(page, page_section(page, &section_kernels, scene), TOP_KERNELS,
			   ": moescope kernels");
	else
		page_line(page, 2, "n/a: no kernels in this run or window");
}

/* In the order of enum kernels_by. */
static const char *const by_choices[] = { "name", "class",  "range",  "layer", "expert", "phase",
					  "step", "stream", "device", "graph", NULL };
static const struct question_parameter by = {
	.name = "by",
	.letter = 'b',
	.kind = ASK_CHOICE,
	.metavar = "WHAT",
	.choices = by_choices,
	.help = "one row per name, class, range, layer, expert, phase, step, stream, device or "
		"CUDA graph",
	.default_text = "name",
	.offset = offsetof(struct question, kernels_by),
};
static const struct question_parameter classes = {
	.name = "classes",
	.kind = ASK_FILE,
	.metavar = "FILE",
	.help = "more classes: lines with a class, a tab and a regular expression; the first match "
		"wins, before the built-in classes",
	.offset = offsetof(struct question, classes_file),
};

const struct section section_kernels = {
	.name = "kernels",
	.sql = "kernel_summary",
	.reads = READS(&subject_kernels, &subject_launches, &subject_coverage),
	.device = true,
	.subject = &subject_kernels,
	.rows = &kernels_fields,
	.form = kernels_form,
	.total = &kernels_total,
	.page = kernels_page,
	.command = {
		.place = 30,
		.summary = "device time by kernel, class or place in the program",
		.description = "One row per kernel: how often it ran, its device time, and what "
			       "kind of work it is. A kernel belongs to the range, layer, phase "
			       "and step that launched it.",
		.examples = EXAMPLES({ "moescope kernels", "The newest run here, by time." },
				     { "moescope kernels a.mscope --by class",
				       "How much is GEMM, attention, copying." },
				     { "moescope kernels a.mscope --by range --steps 10:20",
				       "Device time by range, for eleven steps." }),
		.parameters = PARAMETERS(&by, &classes, ASK_PLACE),
	},
};
