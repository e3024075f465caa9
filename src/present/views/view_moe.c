/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a mixture of experts on the devices: a row for each part and pass, what of its
 * communication is hidden, what that costs, and the layers.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/text/format.h"
#include "present/frame/scene.h"
#include "subjects/moe/moe_lens.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define TOP_COST 5
#define TOP_LAYERS 16

static const struct grid_column columns[] = {
	{ .key = "part", .title = "part", .unit = GRID_TEXT, .flexible = true },
	{ .key = "pass", .title = "pass", .unit = GRID_TEXT },
	{ .key = "count", .title = "kernels", .unit = GRID_INT },
	{ .key = "time_ns", .title = "time", .unit = GRID_NS },
	{ .key = "share_pct", .title = "of kernels", .unit = GRID_PCT },
	{ .key = "comm_ns", .unit = GRID_NS },
	{ .key = "notify_ns", .unit = GRID_NS },
	{ .key = "overlap_ns", .unit = GRID_NS },
	{ .key = "comm_overlap_pct", .unit = GRID_PCT },
	{ .key = "exposed_ns", .unit = GRID_NS },
	{ .key = "beside_forward_ns", .unit = GRID_NS },
	{ .key = "beside_backward_ns", .unit = GRID_NS },
	{ .key = "beside_weight_ns", .unit = GRID_NS },
	{ .key = "beside_unknown_ns", .unit = GRID_NS },
	{ .key = "two_batch_ns", .unit = GRID_NS },
	{ .key = "untimed", .unit = GRID_INT },
};

/* In text, for the rows that communicate. */
static const struct grid_column comm_columns[] = {
	{ .key = "part", .title = "part", .unit = GRID_TEXT, .flexible = true },
	{ .key = "pass", .title = "pass", .unit = GRID_TEXT },
	{ .key = "comm_ns", .title = "comm", .unit = GRID_NS },
	{ .key = "notify_ns", .title = "notify", .unit = GRID_NS },
	{ .key = "comm_overlap_pct", .title = "hidden", .unit = GRID_PCT },
	{ .key = "exposed_ns", .title = "exposed", .unit = GRID_NS },
	{ .key = "two_batch_ns", .title = "over other batch", .unit = GRID_NS },
};

static const struct grid_column cost_columns[] = {
	{ .key = "short_name", .title = "kernel", .unit = GRID_TEXT, .flexible = true },
	{ .key = "name", .unit = GRID_TEXT },
	{ .key = "beside", .title = "launches", .unit = GRID_INT },
	{ .key = "clear", .unit = GRID_INT },
	{ .key = "beside_mean_ns", .title = "overlapped", .unit = GRID_NS },
	{ .key = "clear_mean_ns", .title = "alone", .unit = GRID_NS },
	{ .key = "extra_ns", .title = "extra", .unit = GRID_NS },
};

static const struct grid_column layer_columns[] = {
	{ .key = "number", .title = "#", .unit = GRID_INT },
	{ .key = "count", .title = "kernels", .unit = GRID_INT },
	{ .key = "attention_ns", .title = "attention", .unit = GRID_NS },
	{ .key = "router_ns", .title = "router", .unit = GRID_NS },
	{ .key = "dispatch_ns", .title = "dispatch", .unit = GRID_NS },
	{ .key = "experts_ns", .title = "experts", .unit = GRID_NS },
	{ .key = "combine_ns", .title = "combine", .unit = GRID_NS },
	{ .key = "shared_ns", .unit = GRID_NS },
	{ .key = "rest_ns", .unit = GRID_NS },
	{ .key = "exposed_ns", .title = "exposed", .unit = GRID_NS },
};

static void fill_comm(const struct moe_comm *comm, struct cell *cell)
{
	const char *none = "this part does not communicate";

	for (int i = 0; i < 10; i++)
		cell[i] = cell_absent(none);
	if (!comm->count)
		return;
	*cell++ = cell_int(comm->time_ns);
	*cell++ = cell_int(comm->notify_ns);
	*cell++ = cell_int(comm->hidden_ns);
	*cell++ = cell_value(comm->hidden_pct);
	*cell++ = cell_int(comm->exposed_ns);
	for (int pass = 0; pass < MOE_PASSES; pass++)
		*cell++ = cell_int(comm->beside_ns[pass]);
	*cell = cell_int(comm->two_batch_ns);
}

static int fill(const struct scene *scene, struct grid *grid)
{
	const struct moe_lens *moe = answer_moe_lens(scene->answers);

	grid_init(grid, columns, COUNT(columns));
	for (int i = 0; i < MOE_PARTS * MOE_PASSES; i++) {
		const struct moe_row *row = &moe->rows[i / MOE_PASSES][i % MOE_PASSES];
		struct cell *cell;

		if (!row->count)
			continue;
		cell = grid_add(grid, row);
		if (!cell)
			return -ENOMEM;
		*cell++ = cell_text(moe_part_name((enum moe_part)(i / MOE_PASSES)));
		*cell++ = cell_text(moe_pass_name((enum moe_pass)(i % MOE_PASSES)));
		*cell++ = cell_uint(row->count);
		*cell++ = row->count > row->untimed ? cell_int(row->time_ns)
						    : cell_absent("none was timed");
		*cell++ = moe->kernels_ns > 0
				  ? cell_real(100 * (double)row->time_ns / (double)moe->kernels_ns)
				  : cell_absent("no kernel was timed");
		fill_comm(&row->comm, cell);
		cell[10] = cell_uint(row->untimed);
	}
	return 0;
}

static int fill_comm_rows(const struct scene *scene, struct grid *grid)
{
	grid_init(grid, comm_columns, COUNT(comm_columns));
	for (int i = 0; i < MOE_PARTS * MOE_PASSES; i++) {
		const struct moe_row *row =
			&answer_moe_lens(scene->answers)->rows[i / MOE_PASSES][i % MOE_PASSES];
		struct cell *cell;

		if (!row->comm.count)
			continue;
		cell = grid_add(grid, row);
		if (!cell)
			return -ENOMEM;
		*cell++ = cell_text(moe_part_name((enum moe_part)(i / MOE_PASSES)));
		*cell++ = cell_text(moe_pass_name((enum moe_pass)(i % MOE_PASSES)));
		*cell++ = cell_int(row->comm.time_ns);
		*cell++ = cell_int(row->comm.notify_ns);
		*cell++ = cell_value(row->comm.hidden_pct);
		*cell++ = cell_int(row->comm.exposed_ns);
		*cell++ = cell_int(row->comm.two_batch_ns);
	}
	return 0;
}

static int fill_cost(const struct scene *scene, struct grid *grid)
{
	const struct moe_cost *cost = &answer_moe_lens(scene->answers)->cost;

	grid_init(grid, cost_columns, COUNT(cost_columns));
	for (size_t i = 0; i < cost->n; i++) {
		const struct moe_cost_row *row = &cost->rows[i];
		struct cell *cell = grid_add(grid, row);

		if (!cell)
			return -ENOMEM;
		*cell++ = cell_text(row->short_name);
		*cell++ = cell_text(row->name);
		*cell++ = cell_uint(row->beside);
		*cell++ = cell_uint(row->clear);
		*cell++ = cell_real(row->beside_ns);
		*cell++ = cell_real(row->clear_ns);
		*cell++ = cell_real(row->extra_ns);
	}
	return 0;
}

static int fill_layers(const struct scene *scene, struct grid *grid)
{
	const struct moe_lens *moe = answer_moe_lens(scene->answers);

	bool any[MOE_PARTS] = { false };

	for (size_t i = 0; i < moe->n_layers; i++)
		for (int part = 0; part < MOE_PARTS; part++)
			any[part] |= moe->layers[i].sum_ns[part] > 0;
	grid_init(grid, layer_columns, COUNT(layer_columns));
	for (size_t i = 0; i < moe->n_layers; i++) {
		const struct moe_layer *layer = &moe->layers[i];
		struct cell *cell = grid_add(grid, layer);

		if (!cell)
			return -ENOMEM;
		*cell++ = cell_int(layer->number);
		*cell++ = cell_uint(layer->count);
		for (int part = 0; part < MOE_PARTS; part++)
			*cell++ = any[part] ? cell_int(layer->sum_ns[part])
					    : cell_absent("no kernel of this part has a layer");
		*cell++ = moe->comm.count ? cell_int(layer->comm_ns - layer->hidden_ns)
					  : cell_absent("no expert communication");
	}
	return 0;
}

typedef int (*fill_function)(const struct scene *scene, struct grid *grid);

static void put_grid(const struct scene *scene, const char *key, fill_function fill_rows,
		     struct json *json)
{
	struct grid grid;

	/* Comes out of json_finish, as all failures of writing do. */
	if (fill_rows(scene, &grid) < 0 && !json->failed)
		json->failed = -ENOMEM;
	json_key(json, key);
	grid_json(&grid, 0, json, NULL, NULL);
	grid_release(&grid);
}

static void put_text(struct json *json, const char *key, const char *text, const char *reason)
{
	struct cell cell = text ? cell_text(text) : cell_absent(reason);

	grid_json_cell(json, key, &cell);
}

static void total(const struct scene *scene, struct json *json)
{
	const struct moe_lens *moe = answer_moe_lens(scene->answers);
	static const char *const beside[MOE_PASSES] = { "beside_forward_ns", "beside_backward_ns",
							"beside_weight_ns", "beside_unknown_ns" };
	const struct {
		const char *key;
		int64_t ns;
	} times[] = {
		{ "comm_ns", moe->comm.time_ns },	    { "notify_ns", moe->comm.notify_ns },
		{ "overlap_ns", moe->comm.hidden_ns },	    { "exposed_ns", moe->comm.exposed_ns },
		{ "two_batch_ns", moe->comm.two_batch_ns },
	};
	struct value none = value_absent(moe->reason);
	struct cell kernels = moe->reason ? cell_absent(moe->reason) : cell_int(moe->kernels_ns);

	json_key(json, "present");
	json_bool(json, !moe->reason);
	json_key(json, "count");
	json_uint(json, moe->comm.count);
	grid_json_cell(json, "kernels_ns", &kernels);
	for (size_t i = 0; i < COUNT(times); i++) {
		json_key(json, times[i].key);
		json_int(json, times[i].ns);
	}
	for (int pass = 0; pass < MOE_PASSES; pass++) {
		json_key(json, beside[pass]);
		json_int(json, moe->comm.beside_ns[pass]);
	}
	grid_json_value(json, "comm_overlap_pct", moe->reason ? none : moe->comm.hidden_pct);
	grid_json_value(json, "two_batch_pct", moe->reason ? none : moe->two_batch_pct);
	json_key(json, "overlap_kind");
	json_string(json, moe_overlap_name(moe->overlap));
	put_text(json, "precision", moe->precision,
		 moe->reason ? moe->reason : "no name of a product of experts tells it");
	json_key(json, "compared");
	json_uint(json, moe->cost.compared);
	grid_json_value(json, "extra_ns", moe->reason ? none : moe->cost.extra_ns);
	grid_json_value(json, "slower_pct", moe->reason ? none : moe->cost.slower_pct);
	put_text(json, "layers_by", moe->layers_none ? NULL : moe->layers_by,
		 moe->reason ? moe->reason : moe->layers_none);
	put_grid(scene, "cost", fill_cost, json);
	put_grid(scene, "layers", fill_layers, json);
}

static void put_line(const struct scene *scene, const char *line, FILE *out)
{
	fputs("  ", out);
	text_wrap(out, line, (size_t)scene_layout(scene, 0).width, 2, 4);
}

static int print_grid(const struct scene *scene, size_t limit, fill_function fill_rows, FILE *out)
{
	struct text_layout layout = scene_layout(scene, 2);
	struct grid grid;
	int r = fill_rows(scene, &grid);

	if (r >= 0) {
		r = grid_print(&grid, limit, &layout, out);
		if (limit < grid.n)
			fprintf(out, "  ... %zu more: moescope moe --json\n", grid.n - limit);
	}
	grid_release(&grid);
	return r;
}

static int comm_text(const struct scene *scene, FILE *out)
{
	const struct moe_lens *moe = answer_moe_lens(scene->answers);
	const struct moe_comm *comm = &moe->comm;
	char line[400], notify[64] = "";

	if (!comm->count) {
		put_line(scene,
			 "no expert communication: no dispatch, combine or all-to-all kernels",
			 out);
		return 0;
	}
	if (comm->notify_ns > 0)
		snprintf(notify, sizeof(notify), "; %s of it notify and wait",
			 format_ns((double)comm->notify_ns).text);
	snprintf(line, sizeof(line), "expert communication: %s, %s hidden, %s exposed%s",
		 format_ns((double)comm->time_ns).text,
		 comm->hidden_pct.known ? format_pct(comm->hidden_pct.v).text : "n/a",
		 format_ns((double)comm->exposed_ns).text, notify);
	put_line(scene, line, out);
	if (moe->overlap != MOE_NO_OVERLAP) {
		snprintf(line, sizeof(line),
			 "two-batch overlap, %s: %s of it overlaps work of another batch",
			 moe_overlap_name(moe->overlap), format_pct(moe->two_batch_pct.v).text);
		put_line(scene, line, out);
	}
	return print_grid(scene, SIZE_MAX, fill_comm_rows, out);
}

static int cost_text(const struct scene *scene, FILE *out)
{
	const struct moe_cost *cost = &answer_moe_lens(scene->answers)->cost;
	char line[320];

	if (!answer_moe_lens(scene->answers)->comm.count)
		return 0;
	if (!cost->extra_ns.known) {
		snprintf(line, sizeof(line), "slowdown of overlapped kernels: n/a: %s",
			 cost->extra_ns.reason);
		put_line(scene, line, out);
		return 0;
	}
	snprintf(
		line, sizeof(line),
		"overlapped kernels run %s %s than the same launches without communication (%" PRIu64
		" compared, %s in total)",
		format_pct(cost->slower_pct.v < 0 ? -cost->slower_pct.v : cost->slower_pct.v).text,
		cost->slower_pct.v < 0 ? "faster" : "slower", cost->compared,
		format_ns(cost->extra_ns.v).text);
	put_line(scene, line, out);
	return print_grid(scene, TOP_COST, fill_cost, out);
}

static int layers_text(const struct scene *scene, FILE *out)
{
	const struct moe_lens *moe = answer_moe_lens(scene->answers);
	char line[320];

	if (moe->layers_none)
		snprintf(line, sizeof(line), "layers: n/a: %s", moe->layers_none);
	else
		snprintf(line, sizeof(line), "%zu layer%s, %s", moe->n_layers,
			 moe->n_layers == 1 ? "" : "s",
			 moe->layers_by[0] == 'r' ? "numbered as in their ranges"
						  : "numbered in the order of their ranges");
	put_line(scene, line, out);
	return moe->layers_none ? 0 : print_grid(scene, TOP_LAYERS, fill_layers, out);
}

static int text(const struct scene *scene, const struct grid *grid, FILE *out)
{
	const struct moe_lens *moe = answer_moe_lens(scene->answers);
	struct text_layout layout = scene_layout(scene, 2);
	char line[200];
	int r;

	if (moe->reason) {
		snprintf(line, sizeof(line), "n/a: %s", moe->reason);
		put_line(scene, line, out);
		return 0;
	}
	scene_sampled(scene, "", out);
	r = grid_print(grid, scene->options->limit, &layout, out);
	if (r < 0)
		return r;
	scene_more(scene->options->limit && scene->options->limit < grid->n ? scene->options->limit
									    : grid->n,
		   grid->n, out);
	r = comm_text(scene, out);
	if (r < 0)
		return r;
	if (moe->precision) {
		snprintf(line, sizeof(line), "experts compute in %s", moe->precision);
		put_line(scene, line, out);
	}
	if (moe->shared_none)
		put_line(scene, moe->shared_none, out);
	r = cost_text(scene, out);
	return r < 0 ? r : layers_text(scene, out);
}

const struct section section_moe = {
	.name = "moe",
	.sql = "moe_summary",
	.reads = READS(&subject_moe_lens, &subject_coverage),
	.device = true,
	.grid = fill,
	.total = total,
	.text = text,
};
