/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of operations and ranges: where the time of the threads went.
 */
#include <inttypes.h>

#include "base/text/format.h"
#include "subjects/ops/ops.h"
#include "subjects/pages/pages.h"

#define TOP_OPS 12 /* of the report */

/* For people the innermost call alone: there is no room for more. */
static unsigned int ops_form(const struct scene *scene)
{
	if (scene->question.by_stack)
		return scene->data ? OPS_BY_STACK : OPS_BY_CALLER;
	if (scene->question.by_shape)
		return OPS_BY_SHAPE;
	return answer_ops(scene->answers)->gpu_ns.known ? OPS_ON_DEVICE : OPS_BY_NAME;
}

/* Ranges are of all steps. */
static void put_sample(const struct scene *scene, struct page *page)
{
	const char *sampled = run_fact(scene->run, FACT_SAMPLED_OPS);

	if (sampled)
		page_words(page, 2, 4, "operations of PyTorch: %s", sampled);
}

static void ops_page(const struct scene *scene, const struct grid *grid, struct page *page)
{
	const struct ops *ops = answer_ops(scene->answers);

	if (!grid->n) {
		page_line(page, 2, "no operations or ranges in this run or window%s",
			  run_is_foreign(scene->run) ? "" : " (recorded from level trace on)");
		return;
	}
	if (ops->gpu_ns.known)
		page_sampled(scene, "device time ", page);
	put_sample(scene, page);
	page_table(page, grid, scene->limit, PAGE_MORE_ROWS);
	page_line(page, 2, "%s of thread time in %s records, %s FLOPs",
		  format_ns((double)ops->self_cpu_ns).text, format_count((double)ops->count).text,
		  ops->no_flops ? "n/a" : format_count((double)ops->flops).text);
	if (ops->gpu_ns.known)
		page_line(page, 2, "%s of device time in them, %s outside all ranges",
			  format_ns(ops->gpu_ns.v).text, format_ns(ops->gpu_outside_ns.v).text);
	if (ops->gpu_unplaced_ns.known && ops->gpu_unplaced_ns.v > 0)
		page_line(page, 2, "not attributed: %s whose launch call was not recorded",
			  format_ns(ops->gpu_unplaced_ns.v).text);
	if (ops->unfinished)
		page_line(page, 2, "%" PRIu64 " records were cut by the end of the process",
			  ops->unfinished);
}

void ops_report(const struct scene *scene, struct page *page)
{
	const struct ops *ops = answer_ops(scene->answers);

	page_title(page, "Operations, by self time over all threads");
	if (ops->gpu_ns.known)
		page_sampled(scene, "device time ", page);
	put_sample(scene, page);
	if (ops->n)
		page_table(page, page_section(page, &section_ops, scene), TOP_OPS,
			   ": moescope ops");
	else
		page_line(page, 2, "n/a: no operations or ranges were recorded");
}

static const struct question_parameter by_shape = {
	.name = "by-shape",
	.kind = ASK_FLAG,
	.help = "one row per shape of an operation's inputs",
	.offset = offsetof(struct question, by_shape),
};
static const struct question_parameter by_stack = {
	.name = "by-stack",
	.kind = ASK_FLAG,
	.help = "one row per call stack of an operation",
	.offset = offsetof(struct question, by_stack),
};

const struct section section_ops = {
	.name = "ops",
	.sql = "op_summary",
	.reads = READS(&subject_ops, &subject_coverage),
	.device = true,
	.subject = &subject_ops,
	.rows = &ops_fields,
	.form = ops_form,
	.total = &ops_total,
	.page = ops_page,
	.command = {
		.place = 40,
		.summary = "time, FLOPs and bytes by operation",
		.description = "One row per operation and range: how often it ran, its time with "
			       "and without what ran inside it, its FLOPs and the memory it moved.",
		.examples = EXAMPLES({ "moescope ops",
				       "The newest run here, by time without children." },
				     { "moescope ops a.mscope --sort flops --limit 5",
				       "The five with the most FLOPs." },
				     { "moescope ops a.mscope --phase backward --layer 0 --by-shape",
				       "The backward pass of the first layer, shape by shape." },
				     { "moescope ops a.mscope --by-stack --sort gpu_ns",
				       "Which lines of the program the devices work for." }),
		.parameters = PARAMETERS(&by_shape, &by_stack, ASK_PLACE),
	},
};
