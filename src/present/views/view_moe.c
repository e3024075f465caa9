/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a mixture of experts on the devices: a row for each part and pass, what of its
 * communication is hidden, what that costs, and the layers.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/text/format.h"
#include "present/frame/scene.h"
#include "subjects/moe/moe_fields.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define TOP_COST 5
#define TOP_LAYERS 16

struct table {
	const struct field_set *set;
	enum moe_form form;
};

static const struct table by_part = { &moe_fields, MOE_BY_PART };
static const struct table by_comm = { &moe_fields, MOE_BY_COMM };
static const struct table cost_table = { &moe_cost_fields, MOE_BY_PART };
static const struct table layers_table = { &moe_layers_fields, MOE_BY_PART };

static int fill_table(const struct scene *scene, const struct table *table, struct grid *grid)
{
	struct moe_layers_context context = moe_layers_context(&scene->f->moe);
	struct field_row from = {
		.run = scene->run, .item = &scene->f->moe, .form = table->form, .context = &context
	};

	return grid_fill(grid, table->set, &from);
}

static int fill(const struct scene *scene, struct grid *grid)
{
	return fill_table(scene, &by_part, grid);
}

static void put_grid(const struct scene *scene, const char *key, const struct table *table,
		     struct json *json)
{
	struct grid grid;

	/* Comes out of json_finish, as all failures of writing do. */
	if (fill_table(scene, table, &grid) < 0 && !json->failed)
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
	const struct moe_lens *moe = &scene->f->moe;
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
	put_grid(scene, "cost", &cost_table, json);
	put_grid(scene, "layers", &layers_table, json);
}

static void put_line(const struct scene *scene, const char *line, FILE *out)
{
	fputs("  ", out);
	text_wrap(out, line, (size_t)scene_layout(scene, 0).width, 2, 4);
}

static int print_grid(const struct scene *scene, size_t limit, const struct table *table, FILE *out)
{
	struct text_layout layout = scene_layout(scene, 2);
	struct grid grid;
	int r = fill_table(scene, table, &grid);

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
	const struct moe_lens *moe = &scene->f->moe;
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
	return print_grid(scene, SIZE_MAX, &by_comm, out);
}

static int cost_text(const struct scene *scene, FILE *out)
{
	const struct moe_cost *cost = &scene->f->moe.cost;
	char line[320];

	if (!scene->f->moe.comm.count)
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
	return print_grid(scene, TOP_COST, &cost_table, out);
}

static int layers_text(const struct scene *scene, FILE *out)
{
	const struct moe_lens *moe = &scene->f->moe;
	char line[320];

	if (moe->layers_none)
		snprintf(line, sizeof(line), "layers: n/a: %s", moe->layers_none);
	else
		snprintf(line, sizeof(line), "%zu layer%s, %s", moe->n_layers,
			 moe->n_layers == 1 ? "" : "s",
			 moe->layers_by[0] == 'r' ? "numbered as in their ranges"
						  : "numbered in the order of their ranges");
	put_line(scene, line, out);
	return moe->layers_none ? 0 : print_grid(scene, TOP_LAYERS, &layers_table, out);
}

static int text(const struct scene *scene, const struct grid *grid, FILE *out)
{
	const struct moe_lens *moe = &scene->f->moe;
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
	.want = FIND_MOE,
	.device = true,
	.grid = fill,
	.total = total,
	.text = text,
};
