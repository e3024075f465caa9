/* SPDX-License-Identifier: Apache-2.0
 *
 * Routing: rows for JSON and CSV. The text is in routing_text.c.
 */

#include "present/frame/scene.h"
#include "present/views/routing_text.h"
#include "present/views/tax_text.h"
#include "subjects/routing/routing.h"

static unsigned int form(const struct scene *scene)
{
	return scene->options->layer < 0 ? ROUTING_ALL_LAYERS : ROUTING_ONE_LAYER;
}

static int text(const struct scene *scene, const struct grid *grid, FILE *out)
{
	int r;

	if (!grid->n) {
		routing_text_none(scene, out);
		return 0;
	}
	r = routing_text_table(scene, grid, scene->options->limit, out);
	if (r < 0)
		return r;
	routing_text_heat(scene, out);
	if (r >= 0)
		r = tax_text(scene, out);
	if (scene->options->layer >= 0)
		for (size_t i = 0; r >= 0 && i < grid->n; i++)
			r = routing_text_layer(scene, grid->rows[i].item, out);
	routing_text_check(scene, out);
	return r;
}

const struct section section_routing = {
	.name = "routing",
	.sql = "routing_summary",
	.reads = READS(&subject_routing, &subject_imbalance_tax),
	.routed_tokens = true,
	.subject = &subject_routing,
	.rows = &routing_fields,
	.form = form,
	.total = &routing_total,
	.text = text,
};
