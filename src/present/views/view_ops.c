/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of operations and ranges: where the time of the threads went.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/text/format.h"
#include "present/frame/scene.h"
#include "subjects/ops/ops.h"

static const struct grid_column columns[] = {
	{ .key = "name", .title = "name", .unit = GRID_TEXT, .flexible = true },
	{ .key = "kind", .unit = GRID_TEXT },
	{ .key = "count", .title = "count", .unit = GRID_INT },
	{ .key = "self_cpu_ns", .title = "self", .unit = GRID_NS },
	{ .key = "self_cpu_pct", .title = "self %", .unit = GRID_PCT },
	{ .key = "cpu_ns", .title = "total", .unit = GRID_NS },
	{ .key = "self_gpu_ns", .unit = GRID_NS },
	{ .key = "gpu_ns", .unit = GRID_NS },
	{ .key = "flops", .unit = GRID_COUNT },
	{ .key = "flops_per_s", .title = "speed", .unit = GRID_FLOPS },
	{ .key = "self_bytes", .title = "bytes", .unit = GRID_BYTES },
	{ .key = "unfinished", .unit = GRID_INT },
	{ .key = "shapes", .unit = GRID_TEXT, .data_only_when_set = true },
	{ .key = "stack", .unit = GRID_TEXT, .data_only_when_set = true },
};

/* With device records their time takes the place of arithmetic in text. */
static const struct grid_column columns_gpu[] = {
	{ .key = "name", .title = "name", .unit = GRID_TEXT, .flexible = true },
	{ .key = "kind", .unit = GRID_TEXT },
	{ .key = "count", .title = "count", .unit = GRID_INT },
	{ .key = "self_cpu_ns", .title = "self", .unit = GRID_NS },
	{ .key = "self_cpu_pct", .title = "self %", .unit = GRID_PCT },
	{ .key = "cpu_ns", .title = "total", .unit = GRID_NS },
	{ .key = "self_gpu_ns", .title = "gpu self", .unit = GRID_NS },
	{ .key = "gpu_ns", .title = "gpu total", .unit = GRID_NS },
	{ .key = "flops", .unit = GRID_COUNT },
	{ .key = "flops_per_s", .unit = GRID_FLOPS },
	{ .key = "self_bytes", .unit = GRID_BYTES },
	{ .key = "unfinished", .unit = GRID_INT },
	{ .key = "shapes", .unit = GRID_TEXT, .data_only_when_set = true },
	{ .key = "stack", .unit = GRID_TEXT, .data_only_when_set = true },
};

static const struct grid_column columns_by_shape[] = {
	{ .key = "name", .title = "name", .unit = GRID_TEXT, .flexible = true },
	{ .key = "kind", .unit = GRID_TEXT },
	{ .key = "count", .title = "count", .unit = GRID_INT },
	{ .key = "self_cpu_ns", .title = "self", .unit = GRID_NS },
	{ .key = "self_cpu_pct", .title = "self %", .unit = GRID_PCT },
	{ .key = "cpu_ns", .unit = GRID_NS },
	{ .key = "self_gpu_ns", .unit = GRID_NS },
	{ .key = "gpu_ns", .unit = GRID_NS },
	{ .key = "flops", .unit = GRID_COUNT },
	{ .key = "flops_per_s", .title = "speed", .unit = GRID_FLOPS },
	{ .key = "self_bytes", .unit = GRID_BYTES },
	{ .key = "unfinished", .unit = GRID_INT },
	{ .key = "shapes", .title = "shape", .unit = GRID_TEXT, .flexible = true },
	{ .key = "stack", .unit = GRID_TEXT, .data_only_when_set = true },
};

static const struct grid_column columns_by_stack[] = {
	{ .key = "name", .title = "name", .unit = GRID_TEXT, .flexible = true },
	{ .key = "kind", .unit = GRID_TEXT },
	{ .key = "count", .title = "count", .unit = GRID_INT },
	{ .key = "self_cpu_ns", .title = "self", .unit = GRID_NS },
	{ .key = "self_cpu_pct", .title = "self %", .unit = GRID_PCT },
	{ .key = "cpu_ns", .unit = GRID_NS },
	{ .key = "self_gpu_ns", .unit = GRID_NS },
	{ .key = "gpu_ns", .unit = GRID_NS },
	{ .key = "flops", .unit = GRID_COUNT },
	{ .key = "flops_per_s", .unit = GRID_FLOPS },
	{ .key = "self_bytes", .unit = GRID_BYTES },
	{ .key = "unfinished", .unit = GRID_INT },
	{ .key = "shapes", .unit = GRID_TEXT, .data_only_when_set = true },
	{ .key = "stack", .title = "called from", .unit = GRID_TEXT, .flexible = true },
};

/* Of a row or of all: a sum that lacks some of the records is none. */
static struct value told(uint64_t sum, uint64_t untold)
{
	return untold ? value_absent("not told for all of these operations")
		      : value_of((double)sum);
}

static struct cell told_cell(const struct op_row *row, uint64_t sum, uint64_t untold)
{
	if (!row->is_op)
		return cell_absent("a range carries no arithmetic");
	return untold ? cell_value(told(sum, untold)) : cell_uint(sum);
}

/* In text the innermost call alone: there is no room for more. */
static const char *stack_text(const struct scene *scene, uint32_t stack)
{
	const char *text = run_string(scene->run, stack), *last = strrchr(text, ';');

	return !scene->options->json && !scene->options->csv && last ? last + 1 : text;
}

static int fill(const struct scene *scene, struct grid *grid)
{
	struct value gpu = answer_ops(scene->answers)->gpu_ns;

	if (scene->options->by_stack)
		grid_init(grid, columns_by_stack, sizeof(columns_by_stack) / sizeof(columns[0]));
	else if (scene->options->by_shape)
		grid_init(grid, columns_by_shape, sizeof(columns_by_shape) / sizeof(columns[0]));
	else if (gpu.known)
		grid_init(grid, columns_gpu, sizeof(columns_gpu) / sizeof(columns[0]));
	else
		grid_init(grid, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < answer_ops(scene->answers)->n; i++) {
		const struct op_row *row = &answer_ops(scene->answers)->rows[i];
		struct cell *cell = grid_add(grid, row);

		if (!cell)
			return -ENOMEM;
		*cell++ = cell_text(row->name ? run_string(scene->run, row->name) : "(no name)");
		*cell++ = cell_text(row->is_op ? "op" : "range");
		*cell++ = cell_uint(row->count);
		*cell++ = cell_int(row->self_cpu_ns);
		*cell++ = cell_real(row->self_share_pct);
		*cell++ = cell_int(row->cpu_ns);
		*cell++ = gpu.known ? cell_int(row->self_gpu_ns) : cell_value(gpu);
		*cell++ = gpu.known ? cell_int(row->gpu_ns) : cell_value(gpu);
		*cell++ = told_cell(row, row->flops, row->no_flops);
		*cell++ = cell_value(row->flops_per_s);
		*cell++ = told_cell(row, row->bytes, row->no_bytes);
		*cell++ = cell_uint(row->unfinished);
		*cell++ = !scene->options->by_shape ? cell_absent("not asked for")
			  : row->shape		    ? cell_text(run_string(scene->run, row->shape))
						    : cell_absent("the program gave no shape");
		*cell++ = !scene->options->by_stack ? cell_absent("not asked for")
			  : row->stack		    ? cell_text(stack_text(scene, row->stack))
						    : cell_absent("no stack was recorded");
	}
	return 0;
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
	const struct ops *ops = answer_ops(scene->answers);

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
	.grid = fill,
	.total = total,
	.text = text,
};
