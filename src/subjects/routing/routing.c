/* SPDX-License-Identifier: Apache-2.0
 *
 * Routing per layer and phase from the ROUTING records; see routing.h. Pure, any thread.
 *
 * Records are sorted by (phase, layer, experts, step); a group of equal first three is a
 * routing_layer, a group of all four one of its steps: several ranks and micro-batches of a step
 * are summed. Capacity and tiles apply to each batch, so their what-ifs are summed per record.
 */
#include "subjects/routing/routing.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cmp.h"

struct key {
	size_t row;
	int64_t step;
	int32_t layer;
	uint32_t experts;
	uint8_t phase;
};

/* Sums of what-ifs and router statistics over the records of a layer. */
struct sums {
	double capacity_places[ROUTING_FACTORS_MAX], over[ROUTING_FACTORS_MAX];
	double under[ROUTING_FACTORS_MAX], tile_rows;
	uint64_t weighted, scored;
	double confidence, entropy, top1, topk_mass, margin;
};

static int same_layer(const struct key *x, const struct key *y)
{
	return x->layer == y->layer && x->phase == y->phase && x->experts == y->experts;
}

static int by_layer_step(const void *a, const void *b)
{
	const struct key *x = a, *y = b;

	return CMP(x->phase, y->phase) ?: CMP(x->layer, y->layer) ?: CMP(x->experts, y->experts) ?:
	       CMP(x->step, y->step) ?: CMP(x->row, y->row);
}

static int select_rows(const struct run *run, const struct selection *sel, struct key **ret_keys,
		       size_t *ret_n)
{
	const struct table_routing *t = &run->routing;
	struct key *keys = calloc(t->n ? t->n : 1, sizeof(*keys));
	size_t n = 0;

	if (!keys)
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++)
		if (t->experts[i] && selection_has_step(sel, t->step[i]) &&
		    selection_has_place(sel, t->layer[i], t->phase[i]))
			keys[n++] = (struct key){ i, t->step[i], t->layer[i], t->experts[i],
						  t->phase[i] };
	if (n)
		qsort(keys, n, sizeof(*keys), by_layer_step);
	*ret_keys = keys;
	*ret_n = n;
	return 0;
}

static void check_record(const struct table_routing *t, size_t i, struct routing *out)
{
	uint64_t load = 0, used = 0, tokens = 0;

	for (uint64_t j = t->load_first[i]; j < t->load_first[i + 1]; j++)
		load += t->load[j];
	for (uint64_t j = t->k_hist_first[i]; j < t->k_hist_first[i + 1]; j++) {
		used += (j - t->k_hist_first[i]) * t->k_hist[j];
		tokens += t->k_hist[j];
	}
	out->failed_counts += load != used || tokens != t->tokens[i];
	out->failed_slots += t->tokens[i] * t->k[i] !=
			     load + t->unused[i] + t->dropped[i] + t->invalid[i];
	out->records++;
	out->invalid += t->invalid[i];
	out->dropped += t->dropped[i];
}

static int add_k_hist(struct k_counts *counts, const struct table_routing *t, size_t i)
{
	uint64_t first = t->k_hist_first[i], n = t->k_hist_first[i + 1] - first;

	if (n > counts->n) {
		uint64_t *grown = reallocarray(counts->hist, n, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		for (uint64_t j = counts->n; j < n; j++)
			grown[j] = 0;
		counts->hist = grown;
		counts->n = (uint32_t)n;
	}
	for (uint64_t j = 0; j < n; j++)
		counts->hist[j] += t->k_hist[first + j];
	return 0;
}

/* Adds one record to its step and its layer; `n` is scratch for its loads. */
static int add_record(const struct table_routing *t, size_t i, struct routing_layer *layer,
		      struct routing_step *step, struct sums *sums, uint64_t *n)
{
	uint64_t first = t->load_first[i];
	int r;

	for (uint32_t e = 0; e < layer->experts; e++) {
		n[e] = first + e < t->load_first[i + 1] ? t->load[first + e] : 0;
		step->n[e] += n[e];
		layer->n[e] += n[e];
		layer->assignments += n[e];
	}
	step->time_ns = t->time_ns[i];
	step->tokens += t->tokens[i];
	step->dropped += t->dropped[i];
	step->weighted += t->weighted_tokens[i];
	step->confidence += t->confidence_sum[i];
	layer->records++;
	layer->tokens += t->tokens[i];
	layer->padding += t->padding[i];
	layer->unused += t->unused[i];
	layer->dropped += t->dropped[i];
	layer->invalid += t->invalid[i];
	if (t->k[i] > layer->k)
		layer->k = t->k[i];
	for (unsigned int c = 0; c < layer->n_capacity; c++) {
		uint64_t capacity = routing_capacity(layer->capacity[c].factor, t->tokens[i],
						     t->k[i], layer->experts);

		sums->capacity_places[c] += (double)capacity * layer->experts;
		sums->over[c] += (double)routing_over_capacity(n, layer->experts, capacity);
		sums->under[c] += (double)routing_under_capacity(n, layer->experts, capacity);
	}
	sums->tile_rows += (double)routing_tile_rows(n, layer->experts, layer->tile_rows);
	sums->weighted += t->weighted_tokens[i];
	sums->confidence += t->confidence_sum[i];
	sums->scored += t->scored_tokens[i];
	sums->entropy += t->entropy_sum[i];
	sums->top1 += t->top1_sum[i];
	sums->topk_mass += t->topk_mass_sum[i];
	sums->margin += t->margin_sum[i];
	r = add_k_hist(&step->k, t, i);
	return r < 0 ? r : add_k_hist(&layer->slots, t, i);
}

static void set_floors(const struct load_metrics *load, uint32_t experts, uint64_t tokens,
		       struct value *cv_floor, struct value *imbalance_floor,
		       struct value *cv_excess)
{
	double k;

	if (!load->known || !tokens) {
		*cv_floor = *imbalance_floor = *cv_excess = value_absent("no assignments");
		return;
	}
	k = (double)load->total / (double)tokens;
	*cv_floor = value_of(routing_cv_floor(experts, k, (double)tokens));
	*imbalance_floor = value_of(routing_imbalance_floor(experts, k, load->mean));
	*cv_excess = value_of(routing_cv_excess(load->cv, cv_floor->v));
}

static struct value ratio(double part, double whole, const char *reason)
{
	return whole > 0 ? value_of(part / whole) : value_absent(reason);
}

static void set_k(struct k_counts *k)
{
	double tokens = 0, used = 0;
	bool any = false;

	k->min = k->max = k->mean = value_absent("no tokens");
	for (uint32_t j = 0; j < k->n; j++) {
		if (!k->hist[j])
			continue;
		tokens += (double)k->hist[j];
		used += (double)j * (double)k->hist[j];
		if (!any)
			k->min = value_of(j);
		k->max = value_of(j);
		any = true;
	}
	if (any)
		k->mean = value_of(used / tokens);
}

static const char no_weights[] = "the program gave no router weights";

/* 1 - H(w) / ln k from 1 - H(w) / ln E: over E, equal weights of the k chosen are not 0. */
static struct value confidence_k(struct value confidence, uint32_t k, uint32_t experts)
{
	if (!confidence.known)
		return confidence;
	if (k < 2 || experts < 2)
		return value_absent("one weight a token says nothing");
	return value_of(1 - (1 - confidence.v) * log(experts) / log(k));
}

static void set_what_ifs(struct routing_layer *layer, const struct sums *sums)
{
	static const char none[] = "no assignments";
	static const char no_scores[] = "the program gave no router scores";
	double scored = (double)sums->scored;

	for (unsigned int c = 0; c < layer->n_capacity; c++) {
		layer->capacity[c].drop_rate = ratio(sums->over[c], (double)layer->assignments,
						     none);
		layer->capacity[c].pad_waste = ratio(sums->under[c], sums->capacity_places[c],
						     none);
	}
	layer->tile_waste = sums->tile_rows > 0
				    ? value_of(1 - (double)layer->assignments / sums->tile_rows)
				    : value_absent(none);
	layer->drop_rate_measured = ratio((double)layer->dropped,
					  (double)(layer->assignments + layer->dropped), none);
	layer->router_confidence = ratio(sums->confidence, (double)sums->weighted, no_weights);
	layer->router_confidence_k = confidence_k(layer->router_confidence, layer->k,
						  layer->experts);
	layer->router_entropy = ratio(sums->entropy, scored, no_scores);
	layer->top1_prob = ratio(sums->top1, scored, no_scores);
	layer->topk_mass = ratio(sums->topk_mass, scored, no_scores);
	layer->margin = ratio(sums->margin, scored, no_scores);
}

/* Row of the layer's MOE_LAYER record (the last one that fits), or SIZE_MAX. */
static size_t find_sizes(const struct table_moe_layer *t, const struct routing_layer *layer)
{
	size_t found = SIZE_MAX;

	for (size_t i = 0; i < t->n; i++)
		if (t->layer[i] == layer->layer && t->experts[i] == layer->experts)
			found = i;
	return found;
}

static void set_flops(const struct table_moe_layer *t, size_t row, uint64_t tokens_n,
		      uint64_t assignments, struct value *ret_router, struct value *ret_expert)
{
	double tokens = (double)tokens_n, experts, hidden, inner;

	*ret_router = *ret_expert = value_absent("the program did not give the sizes of this "
						 "layer");
	if (row == SIZE_MAX)
		return;
	experts = t->experts[row];
	hidden = t->hidden[row];
	inner = t->inner[row];
	if (hidden > 0)
		*ret_router = value_of(2 * tokens * hidden * experts + 5 * tokens * experts);
	if (hidden <= 0 || inner <= 0)
		return;
	if (t->matrices[row] == 2 || t->matrices[row] == 3)
		*ret_expert = value_of((double)assignments * 2 * t->matrices[row] * hidden * inner);
	else
		*ret_expert = value_absent("experts with neither two nor three matrices have no "
					   "formula");
}

/* What needs the layer's sizes. */
static void set_costs(const struct run *run, struct routing_layer *layer)
{
	const struct table_moe_layer *t = &run->moe_layer;
	size_t row = find_sizes(t, layer);

	set_flops(t, row, layer->tokens, layer->assignments, &layer->flops_router,
		  &layer->flops_expert);
	for (size_t i = 0; i < layer->n_steps; i++) {
		struct routing_step *s = &layer->steps[i];

		set_flops(t, row, s->tokens, s->load.total, &s->flops_router, &s->flops_expert);
	}
	layer->expert_bytes_touched = layer->expert_bytes_touched_step_mean =
		layer->expert_bytes_touched_step_uniform =
			value_absent("the program did not give the sizes of this layer");
	if (row != SIZE_MAX && t->expert_bytes[row]) {
		double bytes = (double)t->expert_bytes[row];

		layer->expert_bytes_touched = value_of(layer->load.unique * bytes);
		if (layer->unique_step_mean.known) {
			layer->expert_bytes_touched_step_mean =
				value_of(layer->unique_step_mean.v * bytes);
			layer->expert_bytes_touched_step_uniform =
				value_of(layer->unique_step_expected.v * bytes);
		}
	}
}

static void set_ends(struct routing_layer *layer)
{
	uint32_t h = layer->hot_h < ROUTING_ENDS_MAX ? layer->hot_h : ROUTING_ENDS_MAX;

	if (layer->load.known)
		layer->n_ends = routing_ends(layer->n, layer->experts, h, layer->ends);
}

static int set_series(struct routing_layer *layer)
{
	double violation = 0, worst = 0, unique = 0, expected = 0, hot = 0;
	size_t n = 0, pairs = 0;

	layer->hot_h = layer->k ? layer->k : 1;
	set_ends(layer);
	for (size_t i = 0; i < layer->n_steps; i++) {
		struct routing_step *s = &layer->steps[i];
		int r = load_metrics_compute(s->n, layer->experts, &s->load);
		double jaccard;

		if (r < 0)
			return r;
		set_floors(&s->load, layer->experts, s->tokens, &s->cv_floor, &s->imbalance_floor,
			   &s->cv_excess);
		set_k(&s->k);
		s->router_confidence = ratio(s->confidence, (double)s->weighted, no_weights);
		s->router_confidence_k = confidence_k(s->router_confidence, layer->k,
						      layer->experts);
		if (!s->load.known)
			continue;
		violation += s->load.max_violation;
		worst = fmax(worst, s->load.max_violation);
		unique += s->load.unique;
		expected += routing_unique_expected(layer->experts,
						    (double)s->load.total / (double)s->tokens,
						    (double)s->tokens);
		n++;
		if (!i || !s[-1].load.known)
			continue;
		r = routing_hot_jaccard(s[-1].n, s->n, layer->experts, layer->hot_h, &jaccard);
		if (r < 0)
			return r;
		hot += jaccard;
		pairs++;
	}
	layer->max_violation_step_mean = ratio(violation, (double)n, "no assignments");
	layer->max_violation_step_max = n ? value_of(worst) : value_absent("no assignments");
	layer->unique_step_mean = ratio(unique, (double)n, "no assignments");
	layer->unique_step_expected = ratio(expected, (double)n, "no assignments");
	layer->hot_persistence = ratio(hot, (double)pairs, "fewer than two steps");
	return 0;
}

static const char no_tokens[] = "needs the experts of every token: record with --level full";

static int open_layer(struct routing_layer *layer, const struct key *key, size_t n_records,
		      const struct routing_options *options)
{
	*layer = (struct routing_layer){
		.layer = key->layer,
		.phase = key->phase,
		.experts = key->experts,
		.capacity = { { .factor = ROUTING_CAPACITY_FACTOR } },
		.n_capacity = 1,
		.tile_rows = options->tile_rows ? options->tile_rows : ROUTING_TILE_ROWS,
		.repeat_rate = value_absent(no_tokens),
		.repeat_null = value_absent(no_tokens),
		.coactivation_known = value_absent(no_tokens),
		.affinity_known = value_absent(no_tokens),
		.affinity_layer = value_absent(no_tokens),
		.affinity_tokens = value_absent(no_tokens),
		.affinity_bits = value_absent(no_tokens),
		.affinity_bits_floor = value_absent(no_tokens),
		.affinity_bits_most = value_absent(no_tokens),
	};
	if (options->n_capacity_factors)
		layer->n_capacity = options->n_capacity_factors;
	for (unsigned int c = 0; c < options->n_capacity_factors; c++)
		layer->capacity[c].factor = options->capacity_factors[c];
	layer->n = calloc(key->experts, sizeof(*layer->n));
	layer->steps = calloc(n_records, sizeof(*layer->steps));
	return layer->n && layer->steps ? 0 : -ENOMEM;
}

static int64_t realtime_offset(const struct run *run, size_t row)
{
	uint16_t shard = run->routing.shard[row];

	return shard < run->n_shards ? run->shards[shard].realtime_offset_ns : 0;
}

/* keys[0..n): the records of one layer. */
static int build_layer(const struct run *run, const struct key *keys, size_t n,
		       const struct routing_options *options, struct routing_layer *layer)
{
	struct sums sums = { 0 };
	uint64_t *scratch;
	int r = open_layer(layer, keys, n, options);

	if (r < 0)
		return r;
	scratch = calloc(layer->experts, sizeof(*scratch));
	if (!scratch)
		return -ENOMEM;
	for (size_t i = 0; r >= 0 && i < n; i++) {
		if (!i || keys[i].step != keys[i - 1].step) {
			struct routing_step *step = &layer->steps[layer->n_steps++];

			step->step = keys[i].step;
			step->router_ns = value_absent("no range named 'router' in this layer and "
						       "step");
			step->n = calloc(layer->experts, sizeof(*step->n));
			if (!step->n) {
				r = -ENOMEM;
				break;
			}
		}
		r = add_record(&run->routing, keys[i].row, layer, &layer->steps[layer->n_steps - 1],
			       &sums, scratch);
		layer->steps[layer->n_steps - 1].realtime_ns = run->routing.time_ns[keys[i].row] +
							       realtime_offset(run, keys[i].row);
	}
	free(scratch);
	if (r >= 0)
		r = load_metrics_compute(layer->n, layer->experts, &layer->load);
	if (r < 0)
		return r;
	set_floors(&layer->load, layer->experts, layer->tokens, &layer->cv_floor,
		   &layer->imbalance_floor, &layer->cv_excess);
	set_k(&layer->slots);
	set_what_ifs(layer, &sums);
	r = set_series(layer);
	if (r >= 0)
		set_costs(run, layer);
	return r;
}

static void say_self_check(struct routing *out)
{
	out->self_check_ok = !out->failed_counts && !out->failed_slots;
	if (!out->records)
		snprintf(out->self_check, sizeof(out->self_check), "no routing records");
	else if (out->self_check_ok)
		snprintf(out->self_check, sizeof(out->self_check), "ok");
	else
		snprintf(out->self_check, sizeof(out->self_check),
			 "of %" PRIu64 " records, %" PRIu64
			 " have loads that do not add up to the tokens' choices and %" PRIu64
			 " have slots that do not add up",
			 out->records, out->failed_counts, out->failed_slots);
}

static int build_layers(const struct run *run, const struct key *keys, size_t n,
			const struct routing_options *options, struct routing *out)
{
	size_t n_layers = 0;
	int r = 0;

	for (size_t i = 0; i < n; i++) {
		check_record(&run->routing, keys[i].row, out);
		n_layers += !i || !same_layer(&keys[i - 1], &keys[i]);
	}
	out->layers = calloc(n_layers ? n_layers : 1, sizeof(*out->layers));
	if (!out->layers)
		return -ENOMEM;
	for (size_t from = 0; r >= 0 && from < n;) {
		size_t to = from;

		while (to < n && same_layer(&keys[from], &keys[to]))
			to++;
		r = build_layer(run, keys + from, to - from, options, &out->layers[out->n++]);
		from = to;
	}
	return r;
}

int routing_analyze(const struct run *run, const struct selection *sel,
		    const struct routing_options *options, struct routing *ret_routing)
{
	struct routing out = { 0 };
	struct key *keys;
	size_t n;
	int r = select_rows(run, sel, &keys, &n);

	if (r < 0)
		return r;
	r = build_layers(run, keys, n, options, &out);
	free(keys);
	if (r >= 0 && options->token_level)
		r = routing_tokens_fill(run, sel, &out);
	if (r >= 0 && options->router_time)
		r = routing_times_fill(run, &out);
	if (r < 0) {
		routing_release(&out);
		return r;
	}
	say_self_check(&out);
	*ret_routing = out;
	return 0;
}

void routing_release(struct routing *routing)
{
	for (size_t i = 0; i < routing->n; i++) {
		struct routing_layer *layer = &routing->layers[i];

		for (size_t s = 0; s < layer->n_steps; s++) {
			free(layer->steps[s].n);
			free(layer->steps[s].k.hist);
		}
		free(layer->steps);
		free(layer->n);
		free(layer->slots.hist);
		free(layer->coactivation);
		free(layer->routed_load);
		free(layer->affinity);
		free(layer->affinity_chance);
	}
	free(routing->layers);
	*routing = (struct routing){ 0 };
}
