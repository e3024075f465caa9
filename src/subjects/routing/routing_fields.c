/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of routing; see fields.h.
 */
#include "subjects/routing/routing.h"

#include <math.h>

#include "subjects/answers/answers.h"
#include "subjects/routing/imbalance_tax.h"
#include "subjects/shared/fields.h"

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

/* Counts are rows of their own: of an expert, or of tokens with so many slots. */
static const struct field count_field = { .unit = UNIT_COUNT, .type = FIELD_U64 };

static const struct field_group layer_load = {
	FIELD_ARRAY,
	.fields = &count_field,
	.items = { ITEMS(struct routing_layer, n, experts) },
};

static const struct field_group k_hist = {
	FIELD_ARRAY,
	.fields = &count_field,
	.items = { ITEMS(struct k_counts, hist, n) },
};

/* Without assignments this is 0/0, which has no number. */
static struct cell utilization(const struct field_row *at)
{
	const struct routing_layer *layer = at->in->item;

	return cell_real(100.0 * (double)*(const uint64_t *)at->item / (double)layer->load.total);
}

static const struct field utilization_field = { .unit = UNIT_PCT, MAY_READ(REAL, utilization) };

static const struct field_group layer_utilization = {
	FIELD_ARRAY,
	.fields = &utilization_field,
	.items = { ITEMS(struct routing_layer, n, experts) },
};

static const struct field capacity_fields[] = {
	{ "factor", NULL, UNIT_RATIO, MEMBER(struct routing_capacity_case, factor),
	  .meaning = "capacity factor cf" },
	{ "drop_rate", NULL, UNIT_RATIO, MEMBER(struct routing_capacity_case, drop_rate) },
	{ "pad_waste", NULL, UNIT_RATIO, MEMBER(struct routing_capacity_case, pad_waste) },
};

static const struct field_group capacity = {
	FIELD_LIST,
	FIELD_ON_ONE_LINE,
	FIELDS(capacity_fields),
	.items = { ITEMS_INSIDE(struct routing_layer, capacity, n_capacity) },
	PART("capacity", "What a capacity would do (est.)."),
};

static struct cell legacy_efficiency(const struct field_row *at)
{
	const struct routing_layer *layer = at->item;

	return cell_real(routing_legacy_efficiency(layer->load.cv));
}

static const struct field legacy_fields[] = {
	{ "load_balance_score", NULL, UNIT_RATIO, OF(load.cv), .optional = true,
	  .absent = no_load },
	{ "routing_efficiency", NULL, UNIT_RATIO, READ(REAL, legacy_efficiency), .optional = true,
	  .absent = no_load },
};

static const struct field_group legacy = { FIELD_OBJECT, FIELD_ON_ONE_LINE, FIELDS(legacy_fields),
					   PART("legacy", "Names of an earlier tool.") };

/* A matrix is an array of rows, a row one of shares. */
static const struct field share_field = { .unit = UNIT_RATIO, .type = FIELD_REAL };

static const void *share_at(const struct field_row *in, size_t i)
{
	return (const double *)in->item + i;
}

static size_t layer_experts(const struct field_row *in)
{
	return ((const struct routing_layer *)in->item)->experts;
}

static size_t coactivation_columns(const struct field_row *in)
{
	return layer_experts(in->in);
}

static size_t affinity_columns(const struct field_row *in)
{
	return ((const struct routing_layer *)in->in->item)->affinity_experts;
}

static const void *coactivation_row(const struct field_row *in, size_t i)
{
	const struct routing_layer *layer = in->item;

	return layer->coactivation + i * layer->experts;
}

static const void *affinity_row(const struct field_row *in, size_t i)
{
	const struct routing_layer *layer = in->item;

	return layer->affinity + i * layer->affinity_experts;
}

static const struct field_group coactivation_shares = {
	FIELD_ARRAY,
	.fields = &share_field,
	.items = { .item = share_at, .count = coactivation_columns },
};

static const struct field coactivation_field = { .of = &coactivation_shares };

static const struct field_group coactivation = {
	FIELD_ARRAY,
	.fields = &coactivation_field,
	.items = { .item = coactivation_row, .count = layer_experts },
};

static const struct field_group affinity_shares = {
	FIELD_ARRAY,
	.fields = &share_field,
	.items = { .item = share_at, .count = affinity_columns },
};

static const struct field affinity_field = { .of = &affinity_shares };

static const struct field_group affinity = {
	FIELD_ARRAY,
	.fields = &affinity_field,
	.items = { .item = affinity_row, .count = layer_experts },
};

/* Times what chance gives; 0/0, and an expert beside itself, have no number. */
static struct cell coactivation_lift(const struct field_row *at)
{
	const struct routing_layer *layer = at->in->in->item;
	uint32_t i = (uint32_t)at->in->index, j = (uint32_t)at->index;

	if (i == j || !(layer->routed_load[i] > 0))
		return cell_real(NAN);
	return cell_real(*(const double *)at->item / routing_coactivation_chance(layer, i, j));
}

static struct cell affinity_lift(const struct field_row *at)
{
	const struct routing_layer *layer = at->in->in->item;

	return cell_real(*(const double *)at->item / layer->affinity_chance[at->index]);
}

static const struct field coactivation_lift_cell = { .unit = UNIT_RATIO,
						     MAY_READ(REAL, coactivation_lift) };
static const struct field affinity_lift_cell = { .unit = UNIT_RATIO,
						 MAY_READ(REAL, affinity_lift) };

static const struct field_group coactivation_lifts = {
	FIELD_ARRAY,
	.fields = &coactivation_lift_cell,
	.items = { .item = share_at, .count = coactivation_columns },
};

static const struct field_group affinity_lifts = {
	FIELD_ARRAY,
	.fields = &affinity_lift_cell,
	.items = { .item = share_at, .count = affinity_columns },
};

static const struct field coactivation_lift_field = { .of = &coactivation_lifts };
static const struct field affinity_lift_field = { .of = &affinity_lifts };

static const struct field_group coactivation_lift_rows = {
	FIELD_ARRAY,
	.fields = &coactivation_lift_field,
	.items = { .item = coactivation_row, .count = layer_experts },
};

static const struct field_group affinity_lift_rows = {
	FIELD_ARRAY,
	.fields = &affinity_lift_field,
	.items = { .item = affinity_row, .count = layer_experts },
};

static const char *no_coactivation(const struct field_row *at)
{
	return field_unknown(((const struct routing_layer *)at->item)->coactivation_known);
}

static const char *no_affinity(const struct field_row *at)
{
	return field_unknown(((const struct routing_layer *)at->item)->affinity_known);
}

static const char too_many[] = "more than 256 experts: the pairs beyond chance are in "
			       "coactivation_pairs and affinity_pairs";

static const char *no_coactivation_lift(const struct field_row *at)
{
	const struct routing_layer *layer = at->item;

	return no_coactivation(at) ?: layer->experts > ROUTING_LIFT_EXPERTS ? too_many : NULL;
}

static const char *no_affinity_lift(const struct field_row *at)
{
	const struct routing_layer *layer = at->item;

	if (no_affinity(at))
		return no_affinity(at);
	return layer->experts > ROUTING_LIFT_EXPERTS ||
			       layer->affinity_experts > ROUTING_LIFT_EXPERTS
		       ? too_many
		       : NULL;
}

#define OF_PAIR(member) MEMBER(struct routing_pair, member)
#define PAIR_TOKENS "tokens", "tokens", UNIT_COUNT, OF_PAIR(tokens), .meaning = "that visited both"
#define PAIR_SHARE                                                                                 \
	"share", "share", UNIT_RATIO, OF_PAIR(share),                                              \
		.meaning = "of the tokens of from, or of their slots in the next layer"
#define PAIR_CHANCE                                                                                \
	"chance", "chance", UNIT_RATIO, OF_PAIR(chance),                                           \
		.meaning = "what the loads alone would give"

static const struct field pair_fields[] = {
	{ "from", NULL, UNIT_INT, OF_PAIR(from), .meaning = "expert" },
	{ "to", NULL, UNIT_INT, OF_PAIR(to), .meaning = "expert" },
	{ PAIR_TOKENS },
	{ PAIR_SHARE },
	{ PAIR_CHANCE },
};

#define PAIR_PART PART("pair", "Two experts.")

static const struct field_group coactivation_pairs = {
	FIELD_LIST,
	FIELD_ON_ONE_LINE,
	FIELDS(pair_fields),
	.items = { ITEMS_INSIDE(struct routing_layer, coactivation_pairs, n_coactivation_pairs) },
	PAIR_PART,
};

static const struct field_group affinity_pairs = {
	FIELD_LIST,
	FIELD_ON_ONE_LINE,
	FIELDS(pair_fields),
	.items = { ITEMS_INSIDE(struct routing_layer, affinity_pairs, n_affinity_pairs) },
	PAIR_PART,
};

/* The experts of a step are as many as its layer has. */
static const void *expert_at(const struct field_row *in, size_t i)
{
	return &((const struct routing_step *)in->item)->n[i];
}

static size_t expert_count(const struct field_row *in)
{
	return layer_experts(in->in);
}

static const struct field_group step_load = {
	FIELD_ARRAY,
	.fields = &count_field,
	.items = { .item = expert_at, .count = expert_count },
};

static const char *no_step_load(const struct field_row *at)
{
	return ((const struct routing_step *)at->item)->load.known ? NULL : NO_LOAD;
}

static const struct field series_fields[] = {
	{ "step", NULL, UNIT_INT, OF_STEP(step) },
	{ "time_ns", NULL, UNIT_NS, MEMBER_AS(FIELD_TIME, struct routing_step, time_ns),
	  .meaning = "of its last record, since the start of the run", .metric = NO_METRIC },
	{ "tokens", NULL, UNIT_COUNT, OF_STEP(tokens), .meaning = "valid tokens" },
	{ "dropped", NULL, UNIT_COUNT, OF_STEP(dropped) },
	{ "imbalance", NULL, UNIT_RATIO, OF_STEP(load.imbalance), .absent = no_step_load },
	{ "cv", NULL, UNIT_RATIO, OF_STEP(load.cv), .absent = no_step_load },
	{ "imbalance_floor", NULL, UNIT_RATIO, OF_STEP(imbalance_floor) },
	{ "cv_floor", NULL, UNIT_RATIO, OF_STEP(cv_floor) },
	{ "cv_excess", NULL, UNIT_RATIO, OF_STEP(cv_excess) },
	{ "k_mean", NULL, UNIT_RATIO, OF_STEP(k.mean) },
	{ "router_confidence", NULL, UNIT_RATIO, OF_STEP(router_confidence) },
	{ "router_confidence_k", NULL, UNIT_RATIO, OF_STEP(router_confidence_k) },
	{ "flops_router", NULL, UNIT_COUNT, OF_STEP(flops_router) },
	{ "flops_expert", NULL, UNIT_COUNT, OF_STEP(flops_expert) },
	{ "load", .of = &step_load },
	{ "k_hist", .offset = offsetof(struct routing_step, k), .of = &k_hist },
};

static const struct field_group series = {
	FIELD_LIST,
	FIELD_ON_ONE_LINE,
	FIELDS(series_fields),
	.items = { ITEMS(struct routing_layer, steps, n_steps) },
	PART("routing_series", "One step of a layer."),
};

static const struct field layer_fields[] = {
	{ "layer", NULL, UNIT_INT, OF(layer), .names_row = true },
	{ "phase", NULL, UNIT_TEXT, READ(TEXT, phase), .names_row = true },
	{ "steps", NULL, UNIT_INT, OF(n_steps), .meaning = "with routing", .watched = true,
	  .grows = true },
	{ "tokens", NULL, UNIT_COUNT, OF(tokens), .meaning = "valid tokens", .watched = true,
	  .grows = true },
	{ "assignments", NULL, UNIT_COUNT, OF(assignments),
	  .meaning = "slots that went to an expert", .watched = true, .grows = true },
	{ "experts", NULL, UNIT_INT, OF(experts), .meaning = "of the layer", .names_row = true },
	{ "k_mean", NULL, UNIT_RATIO, OF(slots.mean) },
	{ "imbalance", NULL, UNIT_RATIO, OF(load.imbalance), .absent = no_load, .watched = true },
	{ "imbalance_floor", NULL, UNIT_RATIO, OF(imbalance_floor), .watched = true },
	{ "cv", NULL, UNIT_RATIO, OF(load.cv), .absent = no_load },
	{ "cv_floor", NULL, UNIT_RATIO, OF(cv_floor) },
	{ "cv_excess", NULL, UNIT_RATIO, OF(cv_excess), .watched = true },
	{ "gini", NULL, UNIT_RATIO, OF(load.gini), .absent = no_load },
	{ "entropy_norm", NULL, UNIT_RATIO, OF(load.entropy_norm), .absent = no_load,
	  .watched = true },
	{ "dead", NULL, UNIT_INT, OF(load.dead), .absent = no_load, .watched = true },
	{ "starved", NULL, UNIT_INT, OF(load.starved), .absent = no_load },
	{ "overloaded", NULL, UNIT_INT, OF(load.overloaded), .absent = no_load, .watched = true },
	{ "balancedness", NULL, UNIT_RATIO, OF(load.balancedness), .absent = no_load,
	  .watched = true },
	{ "max_violation_window", NULL, UNIT_RATIO, OF(load.max_violation), .absent = no_load,
	  .meaning = "(max - mean) / mean over the window" },
	{ "max_violation_step_mean", NULL, UNIT_RATIO, OF(max_violation_step_mean),
	  .meaning = "the same of each step, their mean" },
	{ "max_violation_step_max", NULL, UNIT_RATIO, OF(max_violation_step_max),
	  .meaning = "and the largest" },
	{ "k_min", NULL, UNIT_INT, OF(slots.min), .meaning = "fewest slots a token used" },
	{ "k_max", NULL, UNIT_INT, OF(slots.max), .meaning = "most slots" },
	{ "padding", NULL, UNIT_COUNT, OF(padding), .meaning = "rows that are no tokens" },
	{ "unused", NULL, UNIT_COUNT, OF(unused), .meaning = "slots that dynamic k left" },
	{ "dropped", NULL, UNIT_COUNT, OF(dropped), .meaning = "slots of full experts",
	  .watched = true, .grows = true },
	{ "invalid", NULL, UNIT_COUNT, OF(invalid), .watched = true, .grows = true },
	{ "drop_rate_measured", NULL, UNIT_RATIO, OF(drop_rate_measured), .watched = true },
	{ "capacity_factor", NULL, UNIT_RATIO, OF(capacity[0].factor),
	  .meaning = "of the two estimates that follow" },
	{ "drop_rate", NULL, UNIT_RATIO, OF(capacity[0].drop_rate),
	  .meaning = "est., see capacity" },
	{ "pad_waste", NULL, UNIT_RATIO, OF(capacity[0].pad_waste),
	  .meaning = "est., see capacity" },
	{ "tile_rows", NULL, UNIT_INT, OF(tile_rows),
	  .meaning = "tile height B of the estimate that follows" },
	{ "tile_waste", NULL, UNIT_RATIO, OF(tile_waste),
	  .meaning = "est., rows a grouped GEMM computes in vain" },
	{ "router_confidence", NULL, UNIT_RATIO, OF(router_confidence) },
	{ "router_confidence_k", NULL, UNIT_RATIO, OF(router_confidence_k) },
	{ "router_entropy", NULL, UNIT_RATIO, OF(router_entropy), .watched = true },
	{ "top1_prob", NULL, UNIT_RATIO, OF(top1_prob) },
	{ "topk_mass", NULL, UNIT_RATIO, OF(topk_mass) },
	{ "margin", NULL, UNIT_RATIO, OF(margin) },
	{ "repeat_rate", NULL, UNIT_RATIO, OF(repeat_rate) },
	{ "repeat_rate_uniform", NULL, UNIT_RATIO, OF(repeat_null), .meaning = "by chance" },
	{ "affinity_layer", NULL, UNIT_INT,
	  MEMBER_AS(FIELD_WHOLE, struct routing_layer, affinity_layer),
	  .meaning = "the next MoE layer" },
	{ "affinity_tokens", NULL, UNIT_COUNT,
	  MEMBER_AS(FIELD_WHOLE, struct routing_layer, affinity_tokens),
	  .meaning = "found in this layer and in the next" },
	{ "affinity_bits", NULL, UNIT_RATIO, OF(affinity_bits),
	  .meaning = "information that a token's expert gives about its expert in the next layer" },
	{ "affinity_bits_floor", NULL, UNIT_RATIO, OF(affinity_bits_floor),
	  .meaning = "by chance" },
	{ "affinity_bits_most", NULL, UNIT_RATIO, OF(affinity_bits_most),
	  .meaning = "if it reported all" },
	{ "hot_experts", NULL, UNIT_INT, OF(hot_h), .meaning = "size h of the hot set" },
	{ "hot_persistence", NULL, UNIT_RATIO, OF(hot_persistence), .watched = true },
	{ "unique_experts", NULL, UNIT_INT, OF(load.unique), .absent = no_load },
	{ "unique_experts_step_mean", NULL, UNIT_RATIO, OF(unique_step_mean),
	  .meaning = "in a step" },
	{ "unique_experts_step_uniform", NULL, UNIT_RATIO, OF(unique_step_expected),
	  .meaning = "by chance" },
	{ "expert_bytes_touched", NULL, UNIT_BYTES, OF(expert_bytes_touched) },
	{ "expert_bytes_touched_step_mean", NULL, UNIT_BYTES, OF(expert_bytes_touched_step_mean),
	  .meaning = "in a step" },
	{ "expert_bytes_touched_step_uniform", NULL, UNIT_BYTES,
	  OF(expert_bytes_touched_step_uniform), .meaning = "by chance" },
	{ "flops_router", NULL, UNIT_COUNT, OF(flops_router) },
	{ "flops_expert", NULL, UNIT_COUNT, OF(flops_expert) },
	{ "load", .of = &layer_load },
	{ "utilization_pct", .of = &layer_utilization },
	{ "k_hist", .offset = offsetof(struct routing_layer, slots), .of = &k_hist },
	{ "capacity", .of = &capacity, .meaning = "for every requested capacity factor" },
	{ "legacy", .of = &legacy, .meaning = "under the names of an earlier tool" },
	{ "coactivation_pairs", .of = &coactivation_pairs, .optional = true,
	  .absent = no_coactivation, .meaning = "most tokens beyond chance first" },
	{ "affinity_pairs", .of = &affinity_pairs, .optional = true, .absent = no_affinity,
	  .meaning = "most tokens beyond chance first" },
	{ "coactivation", .of = &coactivation, .forms = ROUTING_ONE_LAYER,
	  .absent = no_coactivation,
	  .meaning = "with --layer: tokens sent to both i and j / tokens sent to i" },
	{ "coactivation_lift", .of = &coactivation_lift_rows, .forms = ROUTING_ONE_LAYER,
	  .absent = no_coactivation_lift,
	  .meaning = "with --layer: the same / what the loads alone would give" },
	{ "affinity", .of = &affinity, .forms = ROUTING_ONE_LAYER, .absent = no_affinity,
	  .meaning = "with --layer: of the slots in the next layer of the tokens at i, the share "
		     "at j" },
	{ "affinity_lift", .of = &affinity_lift_rows, .forms = ROUTING_ONE_LAYER,
	  .absent = no_affinity_lift,
	  .meaning = "with --layer: the same / j's share of all these slots" },
	{ "series", .of = &series, .forms = ROUTING_ONE_LAYER,
	  .meaning = "with --layer: step by step" },
};

const struct field_set routing_fields = {
	FIELDS(layer_fields),
	.rows = { { ITEMS(struct routing, layers, n) } },
	.levels = 1,
	.row = "layer",
	.meaning = "MoE layer and phase",
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

static struct cell no_memory_in_routing(const struct field_row *at)
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
	{ "flops_total", "FLOPs", UNIT_COUNT, MAY_READ(REAL, total_flops) },
	{ "flops_router", "router", UNIT_COUNT, OF_STEP(flops_router) },
	{ "flops_expert", "experts", UNIT_COUNT, OF_STEP(flops_expert) },
	{ "active_experts", "active", UNIT_INT, OF_STEP(load.unique),
	  .meaning = "with an assignment" },
	{ "k_avg", "k", UNIT_RATIO, OF_STEP(k.mean), .meaning = "slots a token used" },
	{ "latency_ms", "router ms", UNIT_RATIO, MAY_READ(REAL, router_ms) },
	{ "router_conf", "conf.", UNIT_RATIO, OF_STEP(router_confidence),
	  .meaning = "router_confidence" },
	{ "memory_mb", NULL, UNIT_RATIO, MAY_READ(REAL, no_memory_in_routing),
	  .meaning = "routing records hold none" },
	{ "timestamp", NULL, UNIT_RATIO, READ(REAL, timestamp) },
	{ "device", NULL, UNIT_INT, MAY_READ(TEXT, no_device),
	  .meaning = "routing records name none" },
	{ "layer", "layer", UNIT_INT, OF(layer), .up = 1 },
	{ "phase", "phase", UNIT_TEXT, READ(TEXT, phase), .up = 1 },
	{ "tokens", "tokens", UNIT_COUNT, OF_STEP(tokens), .meaning = "valid tokens" },
};

const struct field_set routing_steps_fields = {
	FIELDS(step_fields),
	.rows = { { ITEMS(struct routing, layers, n) },
		  { ITEMS(struct routing_layer, steps, n_steps) } },
	.levels = 2,
	.meaning = "layer and phase in a step",
};

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
	{ "timestamp", NULL, UNIT_RATIO, READ(REAL, timestamp), .up = 1 },
	{ "step", "step", UNIT_INT, OF_STEP(step), .up = 1 },
	{ "layer", "layer", UNIT_INT, OF(layer), .up = 2 },
	{ "phase", "phase", UNIT_TEXT, READ(TEXT, phase), .up = 2 },
	{ "expert", "expert", UNIT_INT, READ(U64, expert), .meaning = "number" },
	{ "tokens", "tokens", UNIT_COUNT, READ(U64, expert_tokens), .meaning = "assignments" },
	{ "utilization_pct", "share", UNIT_PCT, MAY_READ(REAL, expert_share),
	  .meaning = "share of the step's" },
};

const struct field_set routing_experts_fields = {
	FIELDS(expert_fields),
	.rows = { { ITEMS(struct routing, layers, n) },
		  { ITEMS(struct routing_layer, steps, n_steps) },
		  { .item = expert_at, .count = expert_count } },
	.levels = 3,
	.meaning = "expert of a layer in a step",
};

/* Pairs within the layer first, then those with the next. */
static const void *pair_at(const struct field_row *in, size_t i)
{
	const struct routing_layer *layer = in->item;

	return i < layer->n_coactivation_pairs
		       ? &layer->coactivation_pairs[i]
		       : &layer->affinity_pairs[i - layer->n_coactivation_pairs];
}

static size_t pair_count(const struct field_row *in)
{
	const struct routing_layer *layer = in->item;

	return layer->n_coactivation_pairs + layer->n_affinity_pairs;
}

static struct cell pair_layer(const struct field_row *at)
{
	const struct routing_layer *layer = at->in->item;

	return at->index < layer->n_coactivation_pairs ? cell_int(layer->layer)
						       : cell_int((int64_t)layer->affinity_layer.v);
}

static struct cell pair_lift(const struct field_row *at)
{
	const struct routing_pair *pair = at->item;

	return pair->chance > 0 ? cell_real(pair->share / pair->chance)
				: cell_absent("chance is 0");
}

static const struct field pairs_fields[] = {
	{ "layer", "layer", UNIT_INT, OF(layer), .up = 1 },
	{ "phase", "phase", UNIT_TEXT, READ(TEXT, phase), .up = 1 },
	{ "from", "expert", UNIT_INT, OF_PAIR(from), .meaning = "expert of the layer" },
	{ "to_layer", "to layer", UNIT_INT, READ(I64, pair_layer),
	  .meaning = "the same layer: chosen together; the next: one after the other" },
	{ "to", "expert", UNIT_INT, OF_PAIR(to), .meaning = "expert of to_layer" },
	{ PAIR_TOKENS },
	{ PAIR_SHARE },
	{ PAIR_CHANCE },
	{ "lift", "lift", UNIT_RATIO, MAY_READ(REAL, pair_lift), .meaning = "share / chance" },
};

const struct field_set routing_pairs_fields = {
	FIELDS(pairs_fields),
	.rows = { { ITEMS(struct routing, layers, n) }, { .item = pair_at, .count = pair_count } },
	.levels = 2,
	.meaning = "pair of experts that more tokens visit than by chance",
};

static const void *slots_at(const struct field_row *in, size_t i)
{
	const struct k_counts *slots = &((const struct routing_layer *)in->item)->slots;

	return slots->hist[i] ? &slots->hist[i] : NULL;
}

static size_t slots_count(const struct field_row *in)
{
	return ((const struct routing_layer *)in->item)->slots.n;
}

static struct cell slots_share(const struct field_row *at)
{
	const struct routing_layer *layer = at->in->item;

	return cell_real(100.0 * (double)*(const uint64_t *)at->item / (double)layer->tokens);
}

static const struct field slots_fields[] = {
	{ "layer", "layer", UNIT_INT, OF(layer), .up = 1 },
	{ "phase", "phase", UNIT_TEXT, READ(TEXT, phase), .up = 1 },
	{ "k", "k", UNIT_INT, READ(U64, expert), .meaning = "slots used" },
	{ "tokens", "tokens", UNIT_COUNT, READ(U64, expert_tokens),
	  .meaning = "that used so many" },
	{ "tokens_pct", "share", UNIT_PCT, MAY_READ(REAL, slots_share),
	  .meaning = "of the layer's tokens" },
};

const struct field_set routing_k_fields = {
	FIELDS(slots_fields),
	.rows = { { ITEMS(struct routing, layers, n) },
		  { .item = slots_at, .count = slots_count } },
	.levels = 2,
	.meaning = "number of slots that tokens of a layer used",
};

static const struct routing_layer *layer_of_end(const struct field_row *at)
{
	return at->in->item;
}

static struct cell end_expert(const struct field_row *at)
{
	return cell_uint(*(const uint32_t *)at->item);
}

static struct cell end_assignments(const struct field_row *at)
{
	return cell_uint(layer_of_end(at)->n[*(const uint32_t *)at->item]);
}

/* An expert is at an end only where there are assignments. */
static struct cell end_load(const struct field_row *at)
{
	const struct routing_layer *layer = layer_of_end(at);

	return cell_real((double)layer->n[*(const uint32_t *)at->item] / layer->load.mean);
}

static const struct field end_fields[] = {
	{ "layer", NULL, UNIT_INT, OF(layer), .up = 1, .names_row = true },
	{ "phase", NULL, UNIT_TEXT, READ(TEXT, phase), .up = 1, .names_row = true },
	{ "experts", NULL, UNIT_INT, OF(experts), .up = 1, .names_row = true },
	{ "expert", NULL, UNIT_INT, READ(U64, end_expert), .names_row = true },
	{ "assignments", NULL, UNIT_COUNT, READ(U64, end_assignments), .watched = true,
	  .grows = true, .meaning = "slots that went to one of the hottest or coldest experts" },
	{ "load_ratio", NULL, UNIT_RATIO, READ(REAL, end_load), .watched = true,
	  .meaning = "the same / mean over the experts of the layer" },
};

const struct field_set routing_ends_fields = {
	FIELDS(end_fields),
	.rows = { { ITEMS(struct routing, layers, n) },
		  { ITEMS_INSIDE(struct routing_layer, ends, n_ends) } },
	.levels = 2,
	.row = "expert",
	.meaning = "one of the hottest or coldest experts of a layer",
};

#define OF_TAX_LAYER(member) MEMBER(struct tax_layer, member)
#define OF_TAX(member) MEMBER(struct imbalance_tax, member)

static const struct field tax_layer_fields[] = {
	{ "layer", NULL, UNIT_INT, OF_TAX_LAYER(layer), .names_row = true },
	{ "expert_ns", NULL, UNIT_NS, OF_TAX_LAYER(expert_ns),
	  .meaning = "expert work, all workers together" },
	{ "tax_ns", NULL, UNIT_NS, OF_TAX_LAYER(tax_ns), .watched = true,
	  .meaning = "busiest worker - mean over the workers, measured" },
	{ "tile_ns", NULL, UNIT_NS, OF_TAX_LAYER(tile_ns) },
	{ "what_if_ns", NULL, UNIT_NS, OF_TAX_LAYER(what_if_ns) },
	{ "what_if_devices", NULL, UNIT_INT, OF_TAX_LAYER(what_if_devices),
	  .meaning = "0: no estimate" },
};

static const struct field_group tax_layers = {
	FIELD_LIST,
	FIELD_LINE_EACH,
	FIELDS(tax_layer_fields),
	.items = { ITEMS(struct imbalance_tax, layers, n) },
	PART("tax_layer", "What uneven routing of one layer costs, by step."),
};

static struct cell tax_worker(const struct field_row *at)
{
	const struct imbalance_tax *tax = at->item;

	return cell_text(tax->on_device ? "device" : "thread");
}

static const struct field tax_fields[] = {
	{ "expert_ns", NULL, UNIT_NS, OF_TAX(expert_ns),
	  .meaning = "expert work of a step, all workers together" },
	{ "tax_ns", NULL, UNIT_NS, OF_TAX(tax_ns), .meaning = "of a step, sum of the layers" },
	{ "tax_pct", NULL, UNIT_PCT, OF_TAX(tax_pct), .meaning = "of the step time" },
	{ "tax_tokens_per_s", NULL, UNIT_COUNT, OF_TAX(tax_tokens_per_s),
	  .meaning = "that would be won without it" },
	{ "workers", NULL, UNIT_INT, OF_TAX(workers), .meaning = "that run experts concurrently" },
	{ "worker", NULL, UNIT_TEXT, READ(TEXT, tax_worker), .meaning = "device or thread" },
	{ "steps", NULL, UNIT_INT, OF_TAX(steps), .meaning = "examined" },
	{ "layers", .of = &tax_layers, .meaning = "by layer" },
};

static const struct field_group tax = {
	FIELD_OBJECT, FIELD_SPREAD_OUT, FIELDS(tax_fields),
	PART("imbalance_tax",
	     "What uneven routing costs: routing joined to the time of expert work.")
};

static const void *imbalance_tax(const struct field_row *at)
{
	return answer_imbalance_tax(at->answers);
}

#define OF_ALL(member) MEMBER(struct routing, member)

static const struct field total_fields[] = {
	{ "self_check", NULL, UNIT_TEXT, MEMBER_AS(FIELD_TEXT_INSIDE, struct routing, self_check),
	  .meaning = "ok, or what does not add up" },
	{ "records", NULL, UNIT_INT, OF_ALL(records), .meaning = "routing records", .grows = true },
	{ "layers", NULL, UNIT_INT, OF_ALL(n), .meaning = "rows" },
	{ "dropped", NULL, UNIT_COUNT, OF_ALL(dropped), .grows = true },
	{ "invalid", NULL, UNIT_COUNT, OF_ALL(invalid), .grows = true },
	{ "imbalance_tax", .from = imbalance_tax, .of = &tax,
	  .meaning = "what uneven routing costs in time" },
};

const struct field_set routing_total = { FIELDS(total_fields), .meaning = "All layers together." };
