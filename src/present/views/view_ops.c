/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of operations and ranges: where the time of the threads went.
 */
#include <inttypes.h>

#include "base/text/format.h"
#include "present/frame/scene.h"
#include "subjects/ops/ops_fields.h"

/* Of all rows: a sum that lacks some of the records is none. */
static struct value told(uint64_t sum, uint64_t untold)
{
	return untold ? value_absent("not told for all of these operations")
		      : value_of((double)sum);
}

/* In text the innermost call alone: there is no room for more. */
static enum ops_form form_of(const struct scene *scene)
{
	if (scene->options->by_stack)
		return scene->options->json || scene->options->csv ? OPS_BY_STACK : OPS_BY_CALLER;
	if (scene->options->by_shape)
		return OPS_BY_SHAPE;
	return scene->f->ops.gpu_ns.known ? OPS_ON_DEVICE : OPS_BY_NAME;
}

static int fill(const struct scene *scene, struct grid *grid)
{
	struct field_row from = { .run = scene->run,
				  .item = &scene->f->ops,
				  .form = form_of(scene) };

	return grid_fill(grid, &ops_fields, &from);
}

static void json_told(struct json *json, const char *key, uint64_t sum, uint64_t untold)
{
	if (untold) {
		grid_json_value(json, key, told(sum, untold));
		return;
	}
	json_key(json, key);
	json_uint(json, sum);
}

static void total(const struct scene *scene, struct json *json)
{
	const struct ops *ops = &scene->f->ops;

	json_key(json, "count");
	json_uint(json, ops->count);
	json_key(json, "names");
	json_uint(json, ops->n);
	json_key(json, "self_cpu_ns");
	json_int(json, ops->self_cpu_ns);
	grid_json_value(json, "self_gpu_ns", ops->gpu_ns);
	grid_json_value(json, "gpu_outside_ns", ops->gpu_outside_ns);
	grid_json_value(json, "gpu_unplaced_ns", ops->gpu_unplaced_ns);
	json_told(json, "flops", ops->flops, ops->no_flops);
	json_told(json, "self_bytes", ops->bytes, ops->no_bytes);
	json_key(json, "unfinished");
	json_uint(json, ops->unfinished);
}

static int text(const struct scene *scene, const struct grid *grid, FILE *out)
{
	const struct ops *ops = &scene->f->ops;
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
	.want = FIND_OPS,
	.device = true,
	.grid = fill,
	.total = total,
	.text = text,
};
