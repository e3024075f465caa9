/* SPDX-License-Identifier: Apache-2.0
 *
 * Routing in time: a row for each layer and step, with the columns that users of router profilers
 * know, and a row for each expert of them. Layer after layer, steps ascending.
 */
#include "present/frame/scene.h"
#include "present/views/routing_text.h"
#include "subjects/routing/routing.h"

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

const struct section section_routing_steps = {
	.name = "routing-steps",
	.sql = "routing_steps",
	.reads = READS(&subject_routing, &subject_imbalance_tax),
	.router_time = true,
	.subject = &subject_routing,
	.rows = &routing_steps_fields,
	.total = &routing_total,
	.text = text,
};

const struct section section_routing_experts = {
	.name = "routing-experts",
	.sql = "routing_experts",
	.reads = READS(&subject_routing, &subject_imbalance_tax),
	.subject = &subject_routing,
	.rows = &routing_experts_fields,
	.total = &routing_total,
	.text = text,
};
