/* SPDX-License-Identifier: Apache-2.0
 *
 * Routing in time: a row for each layer and step, with the columns that users of router profilers
 * know, and a row for each expert of them. Layer after layer, steps ascending.
 */
#include <errno.h>

#include "present/frame/scene.h"
#include "present/views/routing_text.h"
#include "subjects/routing/routing.h"

static const struct grid_column step_columns[] = {
	{ .key = "step", .title = "step", .unit = GRID_INT },
	{ .key = "flops_total", .title = "FLOPs", .unit = GRID_COUNT },
	{ .key = "flops_router", .title = "router", .unit = GRID_COUNT },
	{ .key = "flops_expert", .title = "experts", .unit = GRID_COUNT },
	{ .key = "active_experts", .title = "active", .unit = GRID_INT },
	{ .key = "k_avg", .title = "k", .unit = GRID_RATIO },
	{ .key = "latency_ms", .title = "router ms", .unit = GRID_RATIO },
	{ .key = "router_conf", .title = "conf.", .unit = GRID_RATIO },
	{ .key = "memory_mb", .unit = GRID_RATIO },
	{ .key = "timestamp", .unit = GRID_RATIO },
	{ .key = "device", .unit = GRID_INT },
	{ .key = "layer", .title = "layer", .unit = GRID_INT },
	{ .key = "phase", .title = "phase", .unit = GRID_TEXT },
	{ .key = "tokens", .title = "tokens", .unit = GRID_COUNT },
};

static const struct grid_column expert_columns[] = {
	{ .key = "timestamp", .unit = GRID_RATIO },
	{ .key = "step", .title = "step", .unit = GRID_INT },
	{ .key = "layer", .title = "layer", .unit = GRID_INT },
	{ .key = "phase", .title = "phase", .unit = GRID_TEXT },
	{ .key = "expert", .title = "expert", .unit = GRID_INT },
	{ .key = "tokens", .title = "tokens", .unit = GRID_COUNT },
	{ .key = "utilization_pct", .title = "share", .unit = GRID_PCT },
};

/* Seconds since 1970. */
static struct cell timestamp(const struct routing_step *step)
{
	return cell_real((double)step->realtime_ns / 1e9);
}

static struct cell total_flops(const struct routing_step *step)
{
	if (!step->flops_router.known)
		return cell_value(step->flops_router);
	if (!step->flops_expert.known)
		return cell_value(step->flops_expert);
	return cell_real(step->flops_router.v + step->flops_expert.v);
}

static void fill_step(const struct routing_layer *layer, const struct routing_step *step,
		      struct cell *cell)
{
	*cell++ = cell_int(step->step);
	*cell++ = total_flops(step);
	*cell++ = cell_value(step->flops_router);
	*cell++ = cell_value(step->flops_expert);
	*cell++ = cell_uint(step->load.unique);
	*cell++ = cell_value(step->k.mean);
	*cell++ = step->router_ns.known ? cell_real(step->router_ns.v / 1e6)
					: cell_absent(step->router_ns.reason);
	*cell++ = cell_value(step->router_confidence);
	*cell++ = cell_absent("routing records hold no memory; see 'moescope memory'");
	*cell++ = timestamp(step);
	*cell++ = cell_absent("routing records do not name a device");
	*cell++ = cell_int(layer->layer);
	*cell++ = cell_text(phase_name(layer->phase));
	*cell++ = cell_uint(step->tokens);
}

static int fill_steps(const struct scene *scene, struct grid *grid)
{
	const struct routing *routing = answer_routing(scene->answers);

	grid_init(grid, step_columns, sizeof(step_columns) / sizeof(step_columns[0]));
	for (size_t i = 0; i < routing->n; i++)
		for (size_t s = 0; s < routing->layers[i].n_steps; s++) {
			const struct routing_step *step = &routing->layers[i].steps[s];
			struct cell *cell = grid_add(grid, step);

			if (!cell)
				return -ENOMEM;
			fill_step(&routing->layers[i], step, cell);
		}
	return 0;
}

static int add_experts(const struct routing_layer *layer, const struct routing_step *step,
		       struct grid *grid)
{
	for (uint32_t e = 0; e < layer->experts; e++) {
		struct cell *cell = grid_add(grid, step);

		if (!cell)
			return -ENOMEM;
		*cell++ = timestamp(step);
		*cell++ = cell_int(step->step);
		*cell++ = cell_int(layer->layer);
		*cell++ = cell_text(phase_name(layer->phase));
		*cell++ = cell_uint(e);
		*cell++ = cell_uint(step->n[e]);
		*cell++ = step->load.known
				  ? cell_real(100 * (double)step->n[e] / (double)step->load.total)
				  : cell_absent("no assignments");
	}
	return 0;
}

static int fill_experts(const struct scene *scene, struct grid *grid)
{
	const struct routing *routing = answer_routing(scene->answers);
	int r = 0;

	grid_init(grid, expert_columns, sizeof(expert_columns) / sizeof(expert_columns[0]));
	for (size_t i = 0; i < routing->n; i++)
		for (size_t s = 0; r >= 0 && s < routing->layers[i].n_steps; s++)
			r = add_experts(&routing->layers[i], &routing->layers[i].steps[s], grid);
	return r;
}

static int text(const struct scene *scene, const struct grid *grid, FILE *out)
{
	struct text_layout layout = scene_layout(scene, 2);
	size_t limit = scene->options->limit;
	int r;

	if (!grid->n) {
		routing_text_none(scene, out);
		return 0;
	}
	layout.gap = layout.width < 92 ? 1 : 2;
	r = grid_print(grid, limit, &layout, out);
	scene_more(limit && limit < grid->n ? limit : grid->n, grid->n, out);
	return r;
}

static void total(const struct scene *scene, struct json *json)
{
	section_routing.total(scene, json);
}

const struct section section_routing_steps = {
	.name = "routing-steps",
	.sql = "routing_steps",
	.reads = READS(&subject_routing),
	.router_time = true,
	.grid = fill_steps,
	.total = total,
	.text = text,
};

const struct section section_routing_experts = {
	.name = "routing-experts",
	.sql = "routing_experts",
	.reads = READS(&subject_routing),
	.grid = fill_experts,
	.total = total,
	.text = text,
};
