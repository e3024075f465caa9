/* SPDX-License-Identifier: Apache-2.0
 *
 * What uneven routing costs, for people.
 */
#include <errno.h>

#include "base/text/format.h"
#include "subjects/pages/pages.h"
#include "subjects/routing/imbalance_tax.h"

#define TAX_LAYERS 16

/* With several workers the tax is measured; with one there are only estimates. */
static const struct grid_column measured[] = {
	{ "layer", "layer", UNIT_TEXT },
	{ "expert_ns", "experts a step", UNIT_NS },
	{ "tax_ns", "tax", UNIT_NS },
};
static const struct grid_column estimated[] = {
	{ "layer", "layer", UNIT_TEXT },	  { "expert_ns", "experts a step", UNIT_NS },
	{ "tile_ns", "tiles (est.)", UNIT_NS },	  { "what_if_ns", "tax if spread (est.)", UNIT_NS },
	{ "what_if_devices", "over", UNIT_TEXT },
};

static struct cell text_cell(const char *text)
{
	return text ? cell_text(text) : cell_absent("no memory");
}

static void layer_cells(const struct imbalance_tax *tax, const struct tax_layer *layer,
			struct cell *cells, struct page *page)
{
	cells[0] = text_cell(page_text(page, "%d", layer->layer));
	cells[1] = cell_value(layer->expert_ns);
	cells[2] = cell_value(tax->tax_ns.known ? layer->tax_ns : layer->tile_ns);
	if (tax->tax_ns.known)
		return;
	cells[3] = cell_value(layer->what_if_ns);
	cells[4] = layer->what_if_devices
			   ? text_cell(page_text(page, "%u devices", layer->what_if_devices))
			   : cell_absent("no spread is asked");
}

static void layers_table(const struct imbalance_tax *tax, struct page *page)
{
	struct grid *grid = page_grid(page);

	if (!grid)
		return;
	if (tax->tax_ns.known)
		grid_init(grid, measured, sizeof(measured) / sizeof(measured[0]));
	else
		grid_init(grid, estimated, sizeof(estimated) / sizeof(estimated[0]));
	for (size_t i = 0; i < tax->n; i++) {
		struct cell *cells = grid_add(grid, &tax->layers[i]);

		if (!cells) {
			page->error = -ENOMEM;
			return;
		}
		layer_cells(tax, &tax->layers[i], cells, page);
	}
	page_table(page, grid, TAX_LAYERS, " layers: moescope routing --json");
}

void imbalance_tax_page(const struct scene *scene, struct page *page)
{
	const struct imbalance_tax *tax = answer_imbalance_tax(scene->answers);

	page_empty_line(page);
	page_line(page, 2, "Imbalance tax: what uneven routing costs a step");
	if (!tax->n) {
		page_words(page, 2, 4, "n/a: %s", tax->tax_ns.reason);
		return;
	}
	if (tax->tax_ns.known) {
		page_words(page, 2, 4, "%s of a step's %s (%s), over %zu %s and %zu steps",
			   format_ns(tax->tax_ns.v).text, format_ns(tax->step_ns.v).text,
			   format_pct(tax->tax_pct.v).text, tax->workers,
			   tax->on_device ? "devices" : "threads", tax->steps);
		if (tax->tax_tokens_per_s.known)
			page_put(page, "; without it +%s tokens/s",
				 format_count(tax->tax_tokens_per_s.v).text);
	} else {
		page_words(page, 2, 4, "none now: %s", tax->tax_ns.reason);
	}
	layers_table(tax, page);
}
