/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of routing; see routing_fields.h.
 */
#include "subjects/routing/routing_fields.h"

#define OF(member) MEMBER(struct routing_layer, member)
#define OF_STEP(member) MEMBER(struct routing_step, member)

#define NO_LOAD "no assignments"

static const char *no_load(const struct field_row *at)
{
	return ((const struct routing_layer *)at->item)->load.known ? NULL : NO_LOAD;
}

static struct cell phase(const struct field_row *at)
{
	return cell_text(phase_name(((const struct routing_layer *)at->item)->phase));
}

static const struct field layer_fields[] = {
	{ "layer", NULL, UNIT_INT, OF(layer) },
	{ "phase", NULL, UNIT_TEXT, .read = phase },
	{ "steps", NULL, UNIT_INT, OF(n_steps) },
	{ "tokens", NULL, UNIT_COUNT, OF(tokens) },
	{ "assignments", NULL, UNIT_COUNT, OF(assignments) },
	{ "experts", NULL, UNIT_INT, OF(experts) },
	{ "k_mean", NULL, UNIT_RATIO, OF(slots.mean) },
	{ "imbalance", NULL, UNIT_RATIO, OF(load.imbalance), .absent = no_load },
	{ "imbalance_floor", NULL, UNIT_RATIO, OF(imbalance_floor) },
	{ "cv", NULL, UNIT_RATIO, OF(load.cv), .absent = no_load },
	{ "cv_floor", NULL, UNIT_RATIO, OF(cv_floor) },
	{ "cv_excess", NULL, UNIT_RATIO, OF(cv_excess) },
	{ "gini", NULL, UNIT_RATIO, OF(load.gini), .absent = no_load },
	{ "entropy_norm", NULL, UNIT_RATIO, OF(load.entropy_norm), .absent = no_load },
	{ "dead", NULL, UNIT_INT, OF(load.dead), .absent = no_load },
	{ "starved", NULL, UNIT_INT, OF(load.starved), .absent = no_load },
	{ "overloaded", NULL, UNIT_INT, OF(load.overloaded), .absent = no_load },
	{ "balancedness", NULL, UNIT_RATIO, OF(load.balancedness), .absent = no_load },
	{ "max_violation_window", NULL, UNIT_RATIO, OF(load.max_violation), .absent = no_load },
	{ "max_violation_step_mean", NULL, UNIT_RATIO, OF(max_violation_step_mean) },
	{ "max_violation_step_max", NULL, UNIT_RATIO, OF(max_violation_step_max) },
	{ "k_min", NULL, UNIT_INT, OF(slots.min) },
	{ "k_max", NULL, UNIT_INT, OF(slots.max) },
	{ "padding", NULL, UNIT_COUNT, OF(padding) },
	{ "unused", NULL, UNIT_COUNT, OF(unused) },
	{ "dropped", NULL, UNIT_COUNT, OF(dropped) },
	{ "invalid", NULL, UNIT_COUNT, OF(invalid) },
	{ "drop_rate_measured", NULL, UNIT_RATIO, OF(drop_rate_measured) },
	{ "capacity_factor", NULL, UNIT_RATIO, OF(capacity[0].factor) },
	{ "drop_rate", NULL, UNIT_RATIO, OF(capacity[0].drop_rate) },
	{ "pad_waste", NULL, UNIT_RATIO, OF(capacity[0].pad_waste) },
	{ "tile_rows", NULL, UNIT_INT, OF(tile_rows) },
	{ "tile_waste", NULL, UNIT_RATIO, OF(tile_waste) },
	{ "router_confidence", NULL, UNIT_RATIO, OF(router_confidence) },
	{ "router_confidence_k", NULL, UNIT_RATIO, OF(router_confidence_k) },
	{ "router_entropy", NULL, UNIT_RATIO, OF(router_entropy) },
	{ "top1_prob", NULL, UNIT_RATIO, OF(top1_prob) },
	{ "topk_mass", NULL, UNIT_RATIO, OF(topk_mass) },
	{ "margin", NULL, UNIT_RATIO, OF(margin) },
	{ "repeat_rate", NULL, UNIT_RATIO, OF(repeat_rate) },
	{ "repeat_rate_uniform", NULL, UNIT_RATIO, OF(repeat_null) },
	{ "hot_experts", NULL, UNIT_INT, OF(hot_h) },
	{ "hot_persistence", NULL, UNIT_RATIO, OF(hot_persistence) },
	{ "unique_experts", NULL, UNIT_INT, OF(load.unique), .absent = no_load },
	{ "unique_experts_step_mean", NULL, UNIT_RATIO, OF(unique_step_mean) },
	{ "unique_experts_step_uniform", NULL, UNIT_RATIO, OF(unique_step_expected) },
	{ "expert_bytes_touched", NULL, UNIT_BYTES, OF(expert_bytes_touched) },
	{ "expert_bytes_touched_step_mean", NULL, UNIT_BYTES, OF(expert_bytes_touched_step_mean) },
	{ "expert_bytes_touched_step_uniform", NULL, UNIT_BYTES,
	  OF(expert_bytes_touched_step_uniform) },
	{ "flops_router", NULL, UNIT_COUNT, OF(flops_router) },
	{ "flops_expert", NULL, UNIT_COUNT, OF(flops_expert) },
};

const struct field_set routing_fields = {
	FIELDS(layer_fields),
	.rows = { { ITEMS(struct routing, layers, n) } },
	.levels = 1,
};

/* Seconds since 1970. */
static struct cell timestamp(const struct field_row *at)
{
	return cell_real((double)((const struct routing_step *)at->item)->realtime_ns / 1e9);
}

static struct cell total_flops(const struct field_row *at)
{
	const struct routing_step *step = at->item;

	if (!step->flops_router.known)
		return cell_value(step->flops_router);
	if (!step->flops_expert.known)
		return cell_value(step->flops_expert);
	return cell_real(step->flops_router.v + step->flops_expert.v);
}

static struct cell router_ms(const struct field_row *at)
{
	struct value ns = ((const struct routing_step *)at->item)->router_ns;

	return ns.known ? cell_real(ns.v / 1e6) : cell_absent(ns.reason);
}

static struct cell no_memory(const struct field_row *at)
{
	(void)at;
	return cell_absent("routing records hold no memory; see 'moescope memory'");
}

static struct cell no_device(const struct field_row *at)
{
	(void)at;
	return cell_absent("routing records do not name a device");
}

static const struct field step_fields[] = {
	{ "step", "step", UNIT_INT, OF_STEP(step) },
	{ "flops_total", "FLOPs", UNIT_COUNT, .read = total_flops },
	{ "flops_router", "router", UNIT_COUNT, OF_STEP(flops_router) },
	{ "flops_expert", "experts", UNIT_COUNT, OF_STEP(flops_expert) },
	{ "active_experts", "active", UNIT_INT, OF_STEP(load.unique) },
	{ "k_avg", "k", UNIT_RATIO, OF_STEP(k.mean) },
	{ "latency_ms", "router ms", UNIT_RATIO, .read = router_ms },
	{ "router_conf", "conf.", UNIT_RATIO, OF_STEP(router_confidence) },
	{ "memory_mb", NULL, UNIT_RATIO, .read = no_memory },
	{ "timestamp", NULL, UNIT_RATIO, .read = timestamp },
	{ "device", NULL, UNIT_INT, .read = no_device },
	{ "layer", "layer", UNIT_INT, OF(layer), .up = 1 },
	{ "phase", "phase", UNIT_TEXT, .read = phase, .up = 1 },
	{ "tokens", "tokens", UNIT_COUNT, OF_STEP(tokens) },
};

const struct field_set routing_steps_fields = {
	FIELDS(step_fields),
	.rows = { { ITEMS(struct routing, layers, n) },
		  { ITEMS(struct routing_layer, steps, n_steps) } },
	.levels = 2,
};

/* The rows of experts are the counts of a step. */
static const void *expert_at(const struct field_row *in, size_t i)
{
	return &((const struct routing_step *)in->item)->n[i];
}

static size_t expert_count(const struct field_row *in)
{
	return ((const struct routing_layer *)in->in->item)->experts;
}

static struct cell expert(const struct field_row *at)
{
	return cell_uint(at->index);
}

static struct cell expert_tokens(const struct field_row *at)
{
	return cell_uint(*(const uint64_t *)at->item);
}

static struct cell expert_share(const struct field_row *at)
{
	const struct routing_step *step = at->in->item;
	double n = (double)*(const uint64_t *)at->item;

	return step->load.known ? cell_real(100 * n / (double)step->load.total)
				: cell_absent(NO_LOAD);
}

static const struct field expert_fields[] = {
	{ "timestamp", NULL, UNIT_RATIO, .read = timestamp, .up = 1 },
	{ "step", "step", UNIT_INT, OF_STEP(step), .up = 1 },
	{ "layer", "layer", UNIT_INT, OF(layer), .up = 2 },
	{ "phase", "phase", UNIT_TEXT, .read = phase, .up = 2 },
	{ "expert", "expert", UNIT_INT, .read = expert },
	{ "tokens", "tokens", UNIT_COUNT, .read = expert_tokens },
	{ "utilization_pct", "share", UNIT_PCT, .read = expert_share },
};

const struct field_set routing_experts_fields = {
	FIELDS(expert_fields),
	.rows = { { ITEMS(struct routing, layers, n) },
		  { ITEMS(struct routing_layer, steps, n_steps) },
		  { .item = expert_at, .count = expert_count } },
	.levels = 3,
};
