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

void tax_json(const struct scene *scene, struct json *json)
{
	/* Rows by step and by expert have the total of routing, without its tax. */
	static const struct imbalance_tax none;
	const struct imbalance_tax *tax = answers_has(scene->answers, &subject_imbalance_tax)
						  ? answer_imbalance_tax(scene->answers)
						  : &none;

	json_key(json, "imbalance_tax");
	json_object(json);
	grid_json_value(json, "expert_ns", tax->expert_ns);
	grid_json_value(json, "tax_ns", tax->tax_ns);
	grid_json_value(json, "tax_pct", tax->tax_pct);
	grid_json_value(json, "tax_tokens_per_s", tax->tax_tokens_per_s);
	json_key(json, "workers");
	json_uint(json, tax->workers);
	json_key(json, "worker");
	json_string(json, tax->on_device ? "device" : "thread");
	json_key(json, "steps");
	json_uint(json, tax->steps);
	json_key(json, "layers");
	json_array(json);
	for (size_t i = 0; i < tax->n; i++) {
		const struct tax_layer *layer = &tax->layers[i];

		json_object_line(json);
		json_key(json, "layer");
		json_int(json, layer->layer);
		grid_json_value(json, "expert_ns", layer->expert_ns);
		grid_json_value(json, "tax_ns", layer->tax_ns);
		grid_json_value(json, "tile_ns", layer->tile_ns);
		grid_json_value(json, "what_if_ns", layer->what_if_ns);
		json_key(json, "what_if_devices");
		json_uint(json, layer->what_if_devices);
		json_object_end(json);
	}
	json_array_end(json);
	json_object_end(json);
}
