/* SPDX-License-Identifier: Apache-2.0
 *
 * The imbalance tax as text and JSON; see tax_text.h.
 */
#include "present/views/tax_text.h"

#include <errno.h>

#include "base/text/format.h"
#include "subjects/routing/imbalance_tax.h"

#define TAX_LAYERS 16

static void cell(struct text_table *table, struct value value)
{
	if (value.known)
		text_table_cell(table, format_ns(value.v).text, TEXT_PLAIN);
	else
		text_table_cell(table, "n/a", TEXT_DIM);
}

static int layers_table(const struct scene *scene, FILE *out)
{
	const struct imbalance_tax *tax = answer_imbalance_tax(scene->answers);
	/* With several workers the tax is measured; with one there are only estimates. */
	static const struct text_column measured[] = {
		{ "layer", TEXT_LEFT, false },
		{ "experts a step", TEXT_RIGHT, false },
		{ "tax", TEXT_RIGHT, false },
	};
	static const struct text_column estimated[] = {
		{ "layer", TEXT_LEFT, false },
		{ "experts a step", TEXT_RIGHT, false },
		{ "tiles (est.)", TEXT_RIGHT, false },
		{ "tax if spread (est.)", TEXT_RIGHT, false },
		{ "over", TEXT_LEFT, false },
	};
	bool several = tax->tax_ns.known;
	struct text_layout layout = scene_layout(scene, 2);
	struct text_table *table = several ? text_table_new(measured, 3)
					   : text_table_new(estimated, 5);
	size_t n = tax->n < TAX_LAYERS ? tax->n : TAX_LAYERS;
	int r;

	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const struct tax_layer *layer = &tax->layers[i];

		text_table_cellf(table, TEXT_PLAIN, "%d", layer->layer);
		cell(table, layer->expert_ns);
		cell(table, several ? layer->tax_ns : layer->tile_ns);
		if (several)
			continue;
		cell(table, layer->what_if_ns);
		if (layer->what_if_devices)
			text_table_cellf(table, TEXT_PLAIN, "%u devices", layer->what_if_devices);
		else
			text_table_cell(table, "n/a", TEXT_DIM);
	}
	r = text_table_print(table, &layout, out);
	text_table_free(table);
	if (n < tax->n)
		fprintf(out, "  ... %zu more layers: moescope routing --json\n", tax->n - n);
	return r;
}

int tax_text(const struct scene *scene, FILE *out)
{
	const struct imbalance_tax *tax = answer_imbalance_tax(scene->answers);
	char line[320];

	fputs("\n  Imbalance tax: what uneven routing costs a step\n", out);
	if (!tax->n) {
		snprintf(line, sizeof(line), "n/a: %s", tax->tax_ns.reason);
	} else if (tax->tax_ns.known) {
		snprintf(line, sizeof(line),
			 "%s of a step's %s (%s), over %zu %s and %zu steps%s%s%s",
			 format_ns(tax->tax_ns.v).text, format_ns(tax->step_ns.v).text,
			 format_pct(tax->tax_pct.v).text, tax->workers,
			 tax->on_device ? "devices" : "threads", tax->steps,
			 tax->tax_tokens_per_s.known ? "; without it +" : "",
			 tax->tax_tokens_per_s.known ? format_count(tax->tax_tokens_per_s.v).text
						     : "",
			 tax->tax_tokens_per_s.known ? " tokens/s" : "");
	} else {
		snprintf(line, sizeof(line), "none now: %s", tax->tax_ns.reason);
	}
	fputs("  ", out);
	text_wrap(out, line, (size_t)scene_layout(scene, 0).width, 2, 4);
	return tax->n ? layers_table(scene, out) : 0;
}
