/* SPDX-License-Identifier: Apache-2.0
 *
 * Routing: rows for JSON and CSV. The text is in routing_text.c.
 */
#include <errno.h>

#include "present/frame/scene.h"
#include "present/views/routing_text.h"
#include "present/views/tax_text.h"
#include "subjects/routing/routing.h"

static const struct grid_column columns[] = {
	{ .key = "layer", .unit = GRID_INT },
	{ .key = "phase", .unit = GRID_TEXT },
	{ .key = "steps", .unit = GRID_INT },
	{ .key = "tokens", .unit = GRID_COUNT },
	{ .key = "assignments", .unit = GRID_COUNT },
	{ .key = "experts", .unit = GRID_INT },
	{ .key = "k_mean", .unit = GRID_RATIO },
	{ .key = "imbalance", .unit = GRID_RATIO },
	{ .key = "imbalance_floor", .unit = GRID_RATIO },
	{ .key = "cv", .unit = GRID_RATIO },
	{ .key = "cv_floor", .unit = GRID_RATIO },
	{ .key = "cv_excess", .unit = GRID_RATIO },
	{ .key = "gini", .unit = GRID_RATIO },
	{ .key = "entropy_norm", .unit = GRID_RATIO },
	{ .key = "dead", .unit = GRID_INT },
	{ .key = "starved", .unit = GRID_INT },
	{ .key = "overloaded", .unit = GRID_INT },
	{ .key = "balancedness", .unit = GRID_RATIO },
	{ .key = "max_violation_window", .unit = GRID_RATIO },
	{ .key = "max_violation_step_mean", .unit = GRID_RATIO },
	{ .key = "max_violation_step_max", .unit = GRID_RATIO },
	{ .key = "k_min", .unit = GRID_INT },
	{ .key = "k_max", .unit = GRID_INT },
	{ .key = "padding", .unit = GRID_COUNT },
	{ .key = "unused", .unit = GRID_COUNT },
	{ .key = "dropped", .unit = GRID_COUNT },
	{ .key = "invalid", .unit = GRID_COUNT },
	{ .key = "drop_rate_measured", .unit = GRID_RATIO },
	{ .key = "capacity_factor", .unit = GRID_RATIO },
	{ .key = "drop_rate", .unit = GRID_RATIO },
	{ .key = "pad_waste", .unit = GRID_RATIO },
	{ .key = "tile_rows", .unit = GRID_INT },
	{ .key = "tile_waste", .unit = GRID_RATIO },
	{ .key = "router_confidence", .unit = GRID_RATIO },
	{ .key = "router_confidence_k", .unit = GRID_RATIO },
	{ .key = "router_entropy", .unit = GRID_RATIO },
	{ .key = "top1_prob", .unit = GRID_RATIO },
	{ .key = "topk_mass", .unit = GRID_RATIO },
	{ .key = "margin", .unit = GRID_RATIO },
	{ .key = "repeat_rate", .unit = GRID_RATIO },
	{ .key = "repeat_rate_uniform", .unit = GRID_RATIO },
	{ .key = "hot_experts", .unit = GRID_INT },
	{ .key = "hot_persistence", .unit = GRID_RATIO },
	{ .key = "unique_experts", .unit = GRID_INT },
	{ .key = "unique_experts_step_mean", .unit = GRID_RATIO },
	{ .key = "unique_experts_step_uniform", .unit = GRID_RATIO },
	{ .key = "expert_bytes_touched", .unit = GRID_BYTES },
	{ .key = "expert_bytes_touched_step_mean", .unit = GRID_BYTES },
	{ .key = "expert_bytes_touched_step_uniform", .unit = GRID_BYTES },
	{ .key = "flops_router", .unit = GRID_COUNT },
	{ .key = "flops_expert", .unit = GRID_COUNT },
};

static struct cell load_cell(const struct routing_layer *layer, double value)
{
	return layer->load.known ? cell_real(value) : cell_absent("no assignments");
}

static struct cell load_count(const struct routing_layer *layer, uint64_t value)
{
	return layer->load.known ? cell_uint(value) : cell_absent("no assignments");
}

static struct cell *fill_load(const struct routing_layer *layer, struct cell *cell)
{
	const struct load_metrics *m = &layer->load;

	*cell++ = cell_int(layer->layer);
	*cell++ = cell_text(phase_name(layer->phase));
	*cell++ = cell_uint(layer->n_steps);
	*cell++ = cell_uint(layer->tokens);
	*cell++ = cell_uint(layer->assignments);
	*cell++ = cell_uint(layer->experts);
	*cell++ = cell_value(layer->slots.mean);
	*cell++ = load_cell(layer, m->imbalance);
	*cell++ = cell_value(layer->imbalance_floor);
	*cell++ = load_cell(layer, m->cv);
	*cell++ = cell_value(layer->cv_floor);
	*cell++ = cell_value(layer->cv_excess);
	*cell++ = load_cell(layer, m->gini);
	*cell++ = load_cell(layer, m->entropy_norm);
	*cell++ = load_count(layer, m->dead);
	*cell++ = load_count(layer, m->starved);
	*cell++ = load_count(layer, m->overloaded);
	*cell++ = load_cell(layer, m->balancedness);
	*cell++ = load_cell(layer, m->max_violation);
	*cell++ = cell_value(layer->max_violation_step_mean);
	*cell++ = cell_value(layer->max_violation_step_max);
	return cell;
}

static void fill_rest(const struct routing_layer *layer, struct cell *cell)
{
	*cell++ = cell_value(layer->slots.min);
	*cell++ = cell_value(layer->slots.max);
	*cell++ = cell_uint(layer->padding);
	*cell++ = cell_uint(layer->unused);
	*cell++ = cell_uint(layer->dropped);
	*cell++ = cell_uint(layer->invalid);
	*cell++ = cell_value(layer->drop_rate_measured);
	*cell++ = cell_real(layer->capacity[0].factor);
	*cell++ = cell_value(layer->capacity[0].drop_rate);
	*cell++ = cell_value(layer->capacity[0].pad_waste);
	*cell++ = cell_uint(layer->tile_rows);
	*cell++ = cell_value(layer->tile_waste);
	*cell++ = cell_value(layer->router_confidence);
	*cell++ = cell_value(layer->router_confidence_k);
	*cell++ = cell_value(layer->router_entropy);
	*cell++ = cell_value(layer->top1_prob);
	*cell++ = cell_value(layer->topk_mass);
	*cell++ = cell_value(layer->margin);
	*cell++ = cell_value(layer->repeat_rate);
	*cell++ = cell_value(layer->repeat_null);
	*cell++ = cell_uint(layer->hot_h);
	*cell++ = cell_value(layer->hot_persistence);
	*cell++ = load_count(layer, layer->load.unique);
	*cell++ = cell_value(layer->unique_step_mean);
	*cell++ = cell_value(layer->unique_step_expected);
	*cell++ = cell_value(layer->expert_bytes_touched);
	*cell++ = cell_value(layer->expert_bytes_touched_step_mean);
	*cell++ = cell_value(layer->expert_bytes_touched_step_uniform);
	*cell++ = cell_value(layer->flops_router);
	*cell++ = cell_value(layer->flops_expert);
}

static int fill(const struct scene *scene, struct grid *grid)
{
	grid_init(grid, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < answer_routing(scene->answers)->n; i++) {
		const struct routing_layer *layer = &answer_routing(scene->answers)->layers[i];
		struct cell *cell = grid_add(grid, layer);

		if (!cell)
			return -ENOMEM;
		fill_rest(layer, fill_load(layer, cell));
	}
	return 0;
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
	const struct routing *routing = answer_routing(scene->answers);

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
	.sql = "routing_summary",
	.reads = READS(&subject_routing, &subject_imbalance_tax),
	.routed_tokens = true,
	.grid = fill,
	.total = total,
	.extra = extra,
	.text = text,
};
