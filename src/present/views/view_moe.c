/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a mixture of experts on the devices: a row for each part and pass, what of its
 * communication is hidden, what that costs, and the layers.
 */
#include <inttypes.h>

#include "base/text/format.h"
#include "present/frame/scene.h"
#include "subjects/moe/moe_lens.h"

#define TOP_COST 5
#define TOP_LAYERS 16

static void put_line(const struct scene *scene, const char *line, FILE *out)
{
	fputs("  ", out);
	text_wrap(out, line, (size_t)scene_layout(scene, 0).width, 2, 4);
}

static int print_grid(const struct scene *scene, size_t limit, const struct field_set *set,
		      enum moe_form form, FILE *out)
{
	struct text_layout layout = scene_layout(scene, 2);
	struct field_row at = section_from(&section_moe, scene);
	struct grid grid;
	int r;

	at.form = form;
	r = grid_fill(&grid, set, &at);

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
	return print_grid(scene, SIZE_MAX, &moe_fields, MOE_BY_COMM, out);
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
	return print_grid(scene, TOP_COST, &moe_cost_fields, MOE_BY_PART, out);
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
	return moe->layers_none
		       ? 0
		       : print_grid(scene, TOP_LAYERS, &moe_layers_fields, MOE_BY_PART, out);
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
	.subject = &subject_moe_lens,
	.rows = &moe_fields,
	.total = &moe_total,
	.text = text,
};
