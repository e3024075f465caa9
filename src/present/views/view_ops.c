/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of operations and ranges: where the time of the threads went.
 */
#include <inttypes.h>

#include "base/text/format.h"
#include "present/frame/scene.h"
#include "subjects/ops/ops.h"

/* In text the innermost call alone: there is no room for more. */
static unsigned int form(const struct scene *scene)
{
	if (scene->options->by_stack)
		return scene->options->json || scene->options->csv ? OPS_BY_STACK : OPS_BY_CALLER;
	if (scene->options->by_shape)
		return OPS_BY_SHAPE;
	return answer_ops(scene->answers)->gpu_ns.known ? OPS_ON_DEVICE : OPS_BY_NAME;
}

static int text(const struct scene *scene, const struct grid *grid, FILE *out)
{
	const struct ops *ops = answer_ops(scene->answers);
	struct text_layout layout = scene_layout(scene, 2);
	size_t limit = scene->options->limit;
	int r;

	if (!grid->n) {
		fputs(run_is_foreign(scene->run)
			      ? "  no operations or ranges in this run or window\n"
			      : "  no operations or ranges in this run or window (recorded from level "
				"trace on)\n",
		      out);
		return 0;
	}
	if (ops->gpu_ns.known)
		scene_sampled(scene, "device time ", out);
	r = grid_print(grid, limit, &layout, out);
	scene_more(limit && limit < grid->n ? limit : grid->n, grid->n, out);
	fprintf(out, "  %s of thread time in %s records, %s FLOPs\n",
		format_ns((double)ops->self_cpu_ns).text, format_count((double)ops->count).text,
		ops->no_flops ? "n/a" : format_count((double)ops->flops).text);
	if (ops->gpu_ns.known)
		fprintf(out, "  %s of device time in them, %s outside all ranges\n",
			format_ns(ops->gpu_ns.v).text, format_ns(ops->gpu_outside_ns.v).text);
	if (ops->gpu_unplaced_ns.known && ops->gpu_unplaced_ns.v > 0)
		fprintf(out, "  not attributed: %s whose launch call was not recorded\n",
			format_ns(ops->gpu_unplaced_ns.v).text);
	if (ops->unfinished)
		fprintf(out, "  %" PRIu64 " records were cut by the end of the process\n",
			ops->unfinished);
	return r;
}

const struct section section_ops = {
	.name = "ops",
	.sql = "op_summary",
	.reads = READS(&subject_ops, &subject_coverage),
	.device = true,
	.subject = &subject_ops,
	.rows = &ops_fields,
	.form = form,
	.total = &ops_total,
	.text = text,
};
