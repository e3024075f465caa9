/* SPDX-License-Identifier: Apache-2.0
 *
 * Routing: rows for JSON and CSV. The text is in routing_text.c.
 */

#include "present/frame/scene.h"
#include "present/views/routing_text.h"
#include "present/views/tax_text.h"
#include "subjects/routing/routing_fields.h"

static int fill(const struct scene *scene, struct grid *grid)
{
	struct field_row from = { .run = scene->run, .item = &scene->f->routing };

	return grid_fill(grid, &routing_fields, &from);
}

static void counts(struct json *json, const char *key, const uint64_t *n, size_t size)
{
	json_key(json, key);
	json_array_line(json);
	for (size_t i = 0; i < size; i++)
		json_uint(json, n[i]);
	json_array_end(json);
}

static void matrix(struct json *json, const char *key, struct value known, const double *cells,
		   size_t rows, size_t columns_n)
{
	if (!known.known) {
		grid_json_value(json, key, known);
		return;
	}
	json_key(json, key);
	json_array_line(json);
	for (size_t i = 0; i < rows; i++) {
		json_array_line(json);
		for (size_t j = 0; j < columns_n; j++)
			json_double(json, cells[i * columns_n + j]);
		json_array_end(json);
	}
	json_array_end(json);
}

static void series(struct json *json, const struct scene *scene, const struct routing_layer *layer)
{
	struct value none = value_absent("no assignments");

	json_key(json, "series");
	json_array_line(json);
	for (size_t i = 0; i < layer->n_steps; i++) {
		const struct routing_step *step = &layer->steps[i];

		json_object_line(json);
		json_key(json, "step");
		json_int(json, step->step);
		json_key(json, "time_ns");
		json_int(json, step->time_ns - scene->run->start_ns);
		json_key(json, "tokens");
		json_uint(json, step->tokens);
		json_key(json, "dropped");
		json_uint(json, step->dropped);
		grid_json_value(json, "imbalance",
				step->load.known ? value_of(step->load.imbalance) : none);
		grid_json_value(json, "cv", step->load.known ? value_of(step->load.cv) : none);
		grid_json_value(json, "imbalance_floor", step->imbalance_floor);
		grid_json_value(json, "cv_floor", step->cv_floor);
		grid_json_value(json, "cv_excess", step->cv_excess);
		grid_json_value(json, "k_mean", step->k.mean);
		grid_json_value(json, "router_confidence", step->router_confidence);
		grid_json_value(json, "router_confidence_k", step->router_confidence_k);
		grid_json_value(json, "flops_router", step->flops_router);
		grid_json_value(json, "flops_expert", step->flops_expert);
		counts(json, "load", step->n, layer->experts);
		counts(json, "k_hist", step->k.hist, step->k.n);
		json_object_end(json);
	}
	json_array_end(json);
}

static void pairs(struct json *json, const char *key, const struct routing_pair *pairs_of,
		  unsigned int n)
{
	json_key(json, key);
	json_array_line(json);
	for (unsigned int i = 0; i < n; i++) {
		json_object_line(json);
		json_key(json, "from");
		json_uint(json, pairs_of[i].from);
		json_key(json, "to");
		json_uint(json, pairs_of[i].to);
		json_key(json, "share");
		json_double(json, pairs_of[i].share);
		json_key(json, "chance");
		json_double(json, pairs_of[i].chance);
		json_object_end(json);
	}
	json_array_end(json);
}

static void capacities(struct json *json, const struct routing_layer *layer)
{
	json_key(json, "capacity");
	json_array_line(json);
	for (unsigned int i = 0; i < layer->n_capacity; i++) {
		json_object_line(json);
		json_key(json, "factor");
		json_double(json, layer->capacity[i].factor);
		grid_json_value(json, "drop_rate", layer->capacity[i].drop_rate);
		grid_json_value(json, "pad_waste", layer->capacity[i].pad_waste);
		json_object_end(json);
	}
	json_array_end(json);
}

static void extra(struct json *json, const void *item, const void *context)
{
	const struct routing_layer *layer = item;
	const struct scene *scene = context;

	counts(json, "load", layer->n, layer->experts);
	json_key(json, "utilization_pct");
	json_array_line(json);
	for (uint32_t e = 0; e < layer->experts; e++)
		/* 0/0 without assignments: NaN, which is null. */
		json_double(json, 100.0 * (double)layer->n[e] / (double)layer->load.total);
	json_array_end(json);
	counts(json, "k_hist", layer->slots.hist, layer->slots.n);
	capacities(json, layer);
	json_key(json, "legacy");
	json_object_line(json);
	if (layer->load.known) {
		json_key(json, "load_balance_score");
		json_double(json, layer->load.cv);
		json_key(json, "routing_efficiency");
		json_double(json, routing_legacy_efficiency(layer->load.cv));
	}
	json_object_end(json);
	/* The long ones only for a layer that was asked for. */
	if (scene->options->layer < 0)
		return;
	matrix(json, "coactivation", layer->coactivation_known, layer->coactivation, layer->experts,
	       layer->experts);
	if (layer->coactivation_known.known)
		pairs(json, "coactivation_pairs", layer->coactivation_pairs,
		      layer->n_coactivation_pairs);
	matrix(json, "affinity", layer->affinity_known, layer->affinity, layer->experts,
	       layer->affinity_experts);
	if (layer->affinity_known.known) {
		json_key(json, "affinity_layer");
		json_int(json, layer->affinity_layer);
		pairs(json, "affinity_pairs", layer->affinity_pairs, layer->n_affinity_pairs);
	}
	series(json, scene, layer);
}

static void total(const struct scene *scene, struct json *json)
{
	const struct routing *routing = &scene->f->routing;

	json_key(json, "self_check");
	json_string(json, routing->self_check);
	json_key(json, "records");
	json_uint(json, routing->records);
	json_key(json, "layers");
	json_uint(json, routing->n);
	json_key(json, "dropped");
	json_uint(json, routing->dropped);
	json_key(json, "invalid");
	json_uint(json, routing->invalid);
	tax_json(scene, json);
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
	.want = FIND_ROUTING | FIND_STEPS | FIND_TAX,
	.grid = fill,
	.total = total,
	.extra = extra,
	.text = text,
};
