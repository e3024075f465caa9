/* SPDX-License-Identifier: Apache-2.0
 *
 * Routing metrics: the reference values of the definitions, and small cases by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "fake_run.h"
#include "moescope.h"
#include "subjects/routing/routing.h"

#define WITHIN(a, b, eps) assert_true(fabs((a) - (b)) < (eps))
#define NEAR(a, b) WITHIN(a, b, 1e-9)

static void test_reference_floors(void **state)
{
	static const double unique[][2] = { { 1, 8 }, { 8, 57 }, { 32, 163 }, { 128, 252 } };

	(void)state;
	WITHIN(routing_cv_floor(256, 8, 128), 0.492, 5e-4);
	WITHIN(routing_imbalance_floor(256, 8, 4), 2.64, 5e-3);
	for (size_t i = 0; i < 4; i++)
		WITHIN(routing_unique_expected(256, 8, unique[i][0]), unique[i][1], 0.5);
	NEAR(routing_cv_excess(0.5, 0.3), 0.4);
	NEAR(routing_cv_excess(0.3, 0.5), 0);
	/* 1 - C(6,2)/C(8,2) = 1 - 15/28; every set meets every other when they cannot avoid it. */
	NEAR(routing_repeat_null(8, 2, 2), 13.0 / 28);
	NEAR(routing_repeat_null(4, 3, 2), 1);
	NEAR(routing_repeat_null(8, 0, 2), 0);
}

static void test_capacity_and_tiles(void **state)
{
	/* 12 rows in three experts at tile height 4 need 16: one quarter is waste. */
	uint64_t n[] = { 5, 4, 3 };
	uint64_t capacity = routing_capacity(1.0, 6, 2, 3);

	(void)state;
	NEAR(1 - 12.0 / (double)routing_tile_rows(n, 3, 4), 0.25);
	assert_int_equal(capacity, 4);
	assert_int_equal(routing_over_capacity(n, 3, capacity), 1);
	assert_int_equal(routing_under_capacity(n, 3, capacity), 1);
	assert_int_equal(routing_capacity(1.25, 6, 2, 3), 5);
	assert_int_equal(routing_capacity(1.1, 6, 2, 3), 5);
}

static void test_degenerate_loads(void **state)
{
	uint64_t none[] = { 0, 0, 0, 0 }, one[] = { 0, 8, 0, 0 }, even[] = { 5, 5, 5, 5 };
	uint64_t edges[] = { 5, 15, 10, 10 };
	struct load_metrics m;

	(void)state;
	assert_int_equal(load_metrics_compute(none, 4, &m), 0);
	assert_false(m.known);
	assert_int_equal(load_metrics_compute(one, 4, &m), 0);
	NEAR(m.imbalance, 4);
	NEAR(m.entropy_norm, 0);
	NEAR(m.gini, 0.75);
	NEAR(m.cv, sqrt(3));
	assert_int_equal(m.dead, 3);
	assert_int_equal(m.starved, 3);
	assert_int_equal(m.overloaded, 1);
	assert_int_equal(m.unique, 1);
	assert_int_equal(load_metrics_compute(even, 4, &m), 0);
	NEAR(m.entropy_norm, 1);
	NEAR(m.gini, 0);
	NEAR(m.cv, 0);
	/* Exactly half and one and a half times the mean are neither starved nor overloaded. */
	assert_int_equal(load_metrics_compute(edges, 4, &m), 0);
	assert_int_equal(m.starved, 0);
	assert_int_equal(m.overloaded, 0);
	NEAR(routing_legacy_efficiency(0.5), 95);
	NEAR(routing_legacy_efficiency(11), 0);
}

static void test_hot_sets(void **state)
{
	uint64_t a[] = { 9, 8, 1, 1 }, b[] = { 9, 1, 8, 1 }, flat[] = { 1, 1, 1, 1 };
	double jaccard;

	(void)state;
	assert_int_equal(routing_hot_jaccard(a, b, 4, 2, &jaccard), 0);
	NEAR(jaccard, 1.0 / 3);
	assert_int_equal(routing_hot_jaccard(flat, flat, 4, 2, &jaccard), 0);
	NEAR(jaccard, 1);
	assert_int_equal(routing_hot_jaccard(a, b, 4, 9, &jaccard), 0);
	NEAR(jaccard, 1);
}

static void test_ends(void **state)
{
	uint64_t n[] = { 3, 9, 1, 9, 0, 5 }, flat[] = { 2, 2, 2 }, one = 4;
	uint32_t ends[12], two[] = { 1, 3, 2, 4 }, all[] = { 1, 3, 5, 0, 2, 4 };
	uint32_t in_order[] = { 0, 1, 2 };

	(void)state;
	assert_int_equal(routing_ends(n, 6, 2, ends), 4);
	assert_memory_equal(ends, two, sizeof(two));
	/* The coldest are not told again among the hottest. */
	assert_int_equal(routing_ends(n, 6, 4, ends), 6);
	assert_memory_equal(ends, all, sizeof(all));
	assert_int_equal(routing_ends(n, 6, 6, ends), 6);
	assert_memory_equal(ends, all, sizeof(all));
	assert_int_equal(routing_ends(flat, 3, 2, ends), 3);
	assert_memory_equal(ends, in_order, sizeof(in_order));
	assert_int_equal(routing_ends(&one, 1, 2, ends), 1);
	assert_int_equal(ends[0], 0);
}

static struct routing analyzed(const struct run *run, struct selection sel,
			       struct routing_options options)
{
	struct routing routing;

	assert_int_equal(routing_analyze(run, &sel, &options, &routing), 0);
	return routing;
}

static void test_layers_and_windows(void **state)
{
	struct run *run = fake_run_new();
	uint32_t a[] = { 6, 2, 0, 0 }, b[] = { 2, 2, 2, 2 };
	const struct routing_layer *layer;
	struct routing r;

	(void)state;
	fake_routing(run, 1, 20, 0, 2, 4, b);
	fake_routing(run, 0, 10, 1, 2, 4, a);
	fake_routing(run, 0, 10, 0, 2, 4, a);
	fake_routing(run, 1, 20, 0, 2, 4, a); /* a second batch of the same step */
	fake_add_moe_layer(run, 0,
			   &(struct row_moe_layer){ .layer = 0,
						    .experts = 4,
						    .k = 2,
						    .hidden = 16,
						    .inner = 32,
						    .matrices = 3,
						    .expert_bytes = 1000 });
	r = analyzed(run, SELECT_ALL, (struct routing_options){ .tile_rows = 4 });
	assert_true(r.self_check_ok);
	assert_string_equal(r.self_check, "ok");
	assert_int_equal(r.n, 2);
	layer = &r.layers[0];
	assert_int_equal(layer->layer, 0);
	assert_int_equal(layer->n_steps, 2);
	assert_int_equal(layer->records, 3);
	assert_int_equal(layer->tokens, 12);
	assert_int_equal(layer->assignments, 24);
	assert_int_equal(layer->n[0], 14);
	assert_int_equal(layer->n[1], 6);
	assert_int_equal(layer->n[2], 2);
	assert_int_equal(layer->load.dead, 0);
	assert_int_equal(r.layers[1].load.dead, 2);
	NEAR(layer->load.imbalance, 14.0 / 6);
	NEAR(layer->cv_floor.v, sqrt((4 - 2) / (12.0 * 2)));
	NEAR(layer->imbalance_floor.v, 1 + sqrt(2 * log(4) * 0.5 / 6));
	NEAR(layer->cv_excess.v, sqrt(layer->load.cv * layer->load.cv - 2 / 24.0));
	/* Step 0: max 6, mean 2; step 1: max 8, mean 4. */
	NEAR(layer->max_violation_step_mean.v, (2.0 + 1.0) / 2);
	NEAR(layer->max_violation_step_max.v, 2);
	NEAR(layer->load.max_violation, 14.0 / 6 - 1);
	NEAR(layer->slots.mean.v, 2);
	assert_int_equal(layer->slots.hist[2], 12);
	/* Per batch of 4 tokens: C = ceil(1.25*4*2/4) = 3; over: 3, 0, 3 of 24; under in a: 1+3+3,
	 * in b: 4, of 12 places each. */
	NEAR(layer->capacity[0].drop_rate.v, 6.0 / 24);
	NEAR(layer->capacity[0].pad_waste.v, (7 + 7 + 4) / 36.0);
	/* Tiles of 4: a needs 8+4, b 16. */
	NEAR(layer->tile_waste.v, 1 - 24.0 / 40);
	NEAR(layer->unique_step_mean.v, 3);
	NEAR(layer->hot_persistence.v, 1);
	NEAR(layer->flops_router.v, 2.0 * 12 * 16 * 4 + 5.0 * 12 * 4);
	NEAR(layer->flops_expert.v, 24.0 * 6 * 16 * 32);
	NEAR(layer->expert_bytes_touched.v, 4000);
	NEAR(layer->expert_bytes_touched_step_mean.v, 3000);
	/* Uniform: 4 tokens of two slots in step 0, 8 in step 1. */
	NEAR(layer->expert_bytes_touched_step_uniform.v,
	     1000 * (routing_unique_expected(4, 2, 4) + routing_unique_expected(4, 2, 8)) / 2);
	/* Step by step the same formulas: 4 tokens in step 0, 8 in step 1, two slots each. */
	assert_int_equal(layer->steps[0].k.n, 3);
	assert_int_equal(layer->steps[0].k.hist[2], 4);
	assert_int_equal(layer->steps[1].k.hist[2], 8);
	assert_int_equal(layer->steps[1].k.hist[0], 0);
	NEAR(layer->steps[1].k.mean.v, 2);
	NEAR(layer->steps[0].flops_router.v, 2.0 * 4 * 16 * 4 + 5.0 * 4 * 4);
	NEAR(layer->steps[1].flops_expert.v, 16.0 * 6 * 16 * 32);
	assert_false(layer->steps[0].router_confidence.known);
	assert_false(r.layers[1].flops_expert.known);
	assert_false(r.layers[1].steps[0].flops_router.known);
	assert_false(layer->router_confidence.known);
	assert_false(layer->repeat_rate.known);
	routing_release(&r);
	r = analyzed(run, (struct selection){ 1, 1, 0, -1 }, (struct routing_options){ 0 });
	assert_int_equal(r.n, 1);
	assert_int_equal(r.layers[0].assignments, 16);
	assert_int_equal(r.layers[0].steps[0].n[0], 8);
	routing_release(&r);
	fake_run_free(run);
}

static void test_several_capacities(void **state)
{
	struct run *run = fake_run_new();
	uint32_t a[] = { 6, 2, 0, 0 };
	struct routing_options options = { .capacity_factors = { 1, 2, 3 },
					   .n_capacity_factors = 3 };
	struct routing r;

	(void)state;
	fake_routing(run, 0, 10, 0, 2, 4, a);
	r = analyzed(run, SELECT_ALL, options);
	assert_int_equal(r.layers[0].n_capacity, 3);
	/* Four tokens, two slots, four experts: 2, 4 and 6 places an expert. */
	NEAR(r.layers[0].capacity[0].drop_rate.v, 4.0 / 8);
	NEAR(r.layers[0].capacity[0].pad_waste.v, 4.0 / 8);
	NEAR(r.layers[0].capacity[1].drop_rate.v, 2.0 / 8);
	NEAR(r.layers[0].capacity[1].pad_waste.v, 10.0 / 16);
	NEAR(r.layers[0].capacity[2].factor, 3);
	NEAR(r.layers[0].capacity[2].drop_rate.v, 0);
	routing_release(&r);
	fake_run_free(run);
}

static void test_router_times(void **state)
{
	struct run *run = fake_run_new();
	uint32_t a[] = { 6, 2, 0, 0 };
	struct routing r;

	(void)state;
	fake_step(run, 5, 0, 100, 4);
	fake_step(run, 6, 100, 200, 4);
	fake_routing(run, 5, 50, 0, 2, 4, a);
	fake_routing(run, 6, 150, 0, 2, 4, a);
	fake_routing(run, 6, 150, 1, 2, 4, a);
	fake_range(run, fake_site(run, "router", 0, -1, MOESCOPE_FORWARD), 10, 17, 1, 0);
	fake_op(run, fake_site(run, "router", 0, -1, MOESCOPE_FORWARD), 20, 23, 1, 0, 8);
	fake_range(run, fake_site(run, "router", 0, -1, MOESCOPE_BACKWARD), 110, 119, 1, 0);
	fake_range(run, fake_site(run, "attention", 0, -1, MOESCOPE_FORWARD), 120, 130, 1, 0);
	fake_range(run, fake_site(run, "router", 1, -1, MOESCOPE_FORWARD), 140, 145, 1, 0);
	r = analyzed(run, SELECT_ALL, (struct routing_options){ .router_time = true });
	NEAR(r.layers[0].steps[0].router_ns.v, 7 + 3);
	assert_false(r.layers[0].steps[1].router_ns.known);
	NEAR(r.layers[1].steps[0].router_ns.v, 5);
	routing_release(&r);
	fake_run_free(run);
}

static void test_self_check(void **state)
{
	struct run *run = fake_run_new();
	uint32_t load[] = { 3, 3 }, hist[] = { 0, 2, 2 };
	struct row_routing row = { .k = 2,
				   .tokens = 4,
				   .unused = 1,
				   .dropped = 1,
				   .experts = 2,
				   .k_slots = 3,
				   .weighted_tokens = 4,
				   .confidence_sum = 2,
				   .scored_tokens = 2,
				   .entropy_sum = 1,
				   .top1_sum = 1.5,
				   .topk_mass_sum = 1.8,
				   .margin_sum = 0.4,
				   .load = load,
				   .k_hist = hist };
	struct routing r;

	(void)state;
	fake_add_routing(run, 0, &row);
	r = analyzed(run, SELECT_ALL, (struct routing_options){ 0 });
	assert_true(r.self_check_ok);
	NEAR(r.layers[0].slots.mean.v, 1.5);
	NEAR(r.layers[0].slots.min.v, 1);
	NEAR(r.layers[0].drop_rate_measured.v, 1.0 / 7);
	NEAR(r.layers[0].router_confidence.v, 0.5);
	NEAR(r.layers[0].steps[0].router_confidence.v, 0.5);
	assert_int_equal(r.layers[0].steps[0].k.hist[1], 2);
	NEAR(r.layers[0].router_entropy.v, 0.5);
	NEAR(r.layers[0].top1_prob.v, 0.75);
	NEAR(r.layers[0].topk_mass.v, 0.9);
	NEAR(r.layers[0].margin.v, 0.2);
	routing_release(&r);
	row.dropped = 2; /* slots no longer add up */
	fake_add_routing(run, 0, &row);
	row.dropped = 1;
	load[0] = 4; /* neither slots nor counts do */
	fake_add_routing(run, 0, &row);
	r = analyzed(run, SELECT_ALL, (struct routing_options){ 0 });
	assert_false(r.self_check_ok);
	assert_int_equal(r.failed_counts, 1);
	assert_int_equal(r.failed_slots, 2);
	assert_non_null(strstr(r.self_check, "of 3 records"));
	routing_release(&r);
	fake_run_free(run);
}

static void add_tokens(struct run *run, int32_t layer, uint64_t first, const int32_t *slots,
		       uint32_t n)
{
	fake_add_routed(run, 0,
			&(struct row_routed){ .layer = layer,
					      .phase = MOESCOPE_FORWARD,
					      .k = 2,
					      .first = first,
					      .slots = n,
					      .expert = slots });
}

static void test_tokens(void **state)
{
	static const int32_t zero[] = { 0, 1, 0, 2, 3, MOESCOPE_SLOT_UNUSED, -1, -1, 2, 3 };
	static const int32_t one[] = { 0, 1, 0, 1, 2, 3, -1, -1, 2, MOESCOPE_SLOT_DROPPED };
	struct run *run = fake_run_new();
	uint32_t load[] = { 2, 2, 2, 2 };
	const struct routing_layer *layer;
	struct routing r;

	(void)state;
	fake_routing(run, 0, 10, 0, 2, 4, load);
	fake_routing(run, 0, 10, 1, 2, 4, load);
	/* Layer 1 comes first in the file: rows are paired by their number, not by order. */
	add_tokens(run, 1, 0, one, 10);
	add_tokens(run, 0, 0, zero, 10);
	r = analyzed(run, SELECT_ALL, (struct routing_options){ .token_level = true });
	layer = &r.layers[0];
	assert_int_equal(layer->routed_tokens, 4);
	/* Pairs of neighbours: {0,1}{0,2} meet, {0,2}{3} do not; padding breaks the chain. */
	NEAR(layer->repeat_rate.v, 0.5);
	NEAR(layer->repeat_null.v,
	     (routing_repeat_null(4, 2, 2) + routing_repeat_null(4, 2, 1)) / 2);
	NEAR(layer->coactivation[0 * 4 + 1], 0.5);
	NEAR(layer->coactivation[1 * 4 + 0], 1);
	NEAR(layer->coactivation[0 * 4 + 3], 0);
	NEAR(layer->coactivation[3 * 4 + 2], 0.5);
	NEAR(layer->coactivation[0 * 4 + 0], 1);
	NEAR(layer->affinity_layer.v, 1);
	NEAR(layer->affinity[0 * 4 + 0], 0.5);
	NEAR(layer->affinity[0 * 4 + 1], 0.5);
	/* Expert 3: token 2 goes to {2,3}, token 4 to {2}: three slots. */
	NEAR(layer->affinity[3 * 4 + 2], 2.0 / 3);
	NEAR(layer->affinity[3 * 4 + 3], 1.0 / 3);
	NEAR(layer->affinity_tokens.v, 4);
	for (int i = 0; i < 4; i++) {
		double sum = 0;

		for (int j = 0; j < 4; j++)
			sum += layer->affinity[i * 4 + j];
		NEAR(sum, 1);
	}
	assert_false(r.layers[1].affinity_known.known);
	/* Loads of the sets: 2 1 2 2, so k is 7/4. {0,1}: all of the one token at 1, where two of
	 * the six other places give 0.75 * 2 / 6. */
	assert_int_equal(layer->coactivation_pairs[0].from, 1);
	assert_int_equal(layer->coactivation_pairs[0].to, 0);
	NEAR(layer->coactivation_pairs[0].share, 1);
	NEAR(layer->coactivation_pairs[0].chance, 0.75 * 2 / 6);
	assert_int_equal(layer->coactivation_pairs[0].tokens, 1);
	/* Of the 12 pairs of a slot and one in layer 1, three go to expert 2: of the three that
	 * come from 3 two. */
	assert_int_equal(layer->affinity_pairs[0].from, 3);
	assert_int_equal(layer->affinity_pairs[0].to, 2);
	NEAR(layer->affinity_pairs[0].chance, 3.0 / 12);
	assert_int_equal(layer->affinity_pairs[0].tokens, 2);
	assert_true(layer->n_affinity_pairs > 0);
	for (unsigned int i = 0; i < layer->n_affinity_pairs; i++) {
		const struct routing_pair *pair = &layer->affinity_pairs[i];

		NEAR(pair->share, layer->affinity[pair->from * 4 + pair->to]);
		assert_true(pair->share > pair->chance);
	}
	routing_release(&r);
	/* One layer asked for: its successor is still found. */
	r = analyzed(run, (struct selection){ INT64_MIN, INT64_MAX, 0, -1 },
		     (struct routing_options){ .token_level = true });
	assert_int_equal(r.n, 1);
	assert_true(r.layers[0].affinity_known.known);
	NEAR(r.layers[0].affinity_layer.v, 1);
	NEAR(r.layers[0].affinity[3 * 4 + 2], 2.0 / 3);
	routing_release(&r);
	fake_run_free(run);
}

#define FLOW_TOKENS 3000
#define FLOW_K 3
#define FLOW_EXPERTS 7
#define FLOW_NEXT 5

/* What the tokens of two layers tell of each other. */
static struct routing flow_of(struct run *run, const int32_t *zero, const int32_t *one)
{
	static const uint32_t load[FLOW_EXPERTS] = { FLOW_K }, next[FLOW_NEXT] = { FLOW_K };

	fake_routing(run, 0, 10, 0, FLOW_K, FLOW_EXPERTS, load);
	fake_routing(run, 0, 10, 1, FLOW_K, FLOW_NEXT, next);
	for (int layer = 0; layer < 2; layer++)
		fake_add_routed(run, 0,
				&(struct row_routed){ .layer = layer,
						      .phase = MOESCOPE_FORWARD,
						      .k = FLOW_K,
						      .slots = FLOW_TOKENS * FLOW_K,
						      .expert = layer ? one : zero });
	return analyzed(run, SELECT_ALL, (struct routing_options){ .token_level = true });
}

static uint32_t pick(uint32_t *state, uint32_t n)
{
	*state = *state * 1664525 + 1013904223;
	return (uint32_t)((uint64_t)(*state >> 8) * n >> 24);
}

/* `n` different experts of `experts` in a token's slots. */
static void draw(uint32_t *state, uint32_t n, uint32_t experts, int32_t *slots)
{
	for (uint32_t j = 0; j < FLOW_K; j++)
		slots[j] = MOESCOPE_SLOT_UNUSED;
	for (uint32_t j = 0; j < n;) {
		int32_t expert = (int32_t)pick(state, experts);
		bool seen = false;

		for (uint32_t i = 0; i < j; i++)
			seen = seen || slots[i] == expert;
		if (!seen)
			slots[j++] = expert;
	}
}

static bool has(const int32_t *slots, int token, int32_t expert)
{
	const int32_t *own = slots + (size_t)token * FLOW_K;

	return own[0] == expert || own[1] == expert || own[2] == expert;
}

static double plogp(double n, double total)
{
	return n > 0 ? n / total * log(n / total) / log(2) : 0;
}

/* By membership, token by token, and by the entropies of both and of the pair. */
static void assert_recounted(const struct routing_layer *layer, const int32_t *zero,
			     const int32_t *one)
{
	double pairs[FLOW_EXPERTS][FLOW_NEXT] = { 0 }, rows[FLOW_EXPERTS] = { 0 };
	double columns[FLOW_NEXT] = { 0 }, total = 0, bits = 0, most = 0;

	for (int32_t e = 0; e < FLOW_EXPERTS; e++)
		for (int32_t f = 0; f < FLOW_NEXT; f++)
			for (int token = 0; token < FLOW_TOKENS; token++) {
				int n = has(zero, token, e) && has(one, token, f);

				pairs[e][f] += n;
				rows[e] += n;
				columns[f] += n;
				total += n;
			}
	for (int e = 0; e < FLOW_EXPERTS; e++) {
		bits -= plogp(rows[e], total);
		for (int f = 0; f < FLOW_NEXT; f++) {
			bits += plogp(pairs[e][f], total);
			NEAR(layer->affinity[e * FLOW_NEXT + f], pairs[e][f] / rows[e]);
		}
	}
	for (int f = 0; f < FLOW_NEXT; f++) {
		most -= plogp(columns[f], total);
		NEAR(layer->affinity_chance[f], columns[f] / total);
	}
	bits += most;
	for (int token = 0; token < FLOW_TOKENS; token++) {
		int here = 0, there = 0;

		for (int j = 0; j < FLOW_K; j++) {
			here += zero[token * FLOW_K + j] >= 0;
			there += one[token * FLOW_K + j] >= 0;
		}
		most -= here && there ? here * there / total * log(there) / log(2) : 0;
	}
	NEAR(layer->affinity_bits.v, bits);
	NEAR(layer->affinity_bits_most.v, most);
	for (unsigned int i = 0; i < layer->n_affinity_pairs; i++) {
		const struct routing_pair *pair = &layer->affinity_pairs[i];

		NEAR((double)pair->tokens, pairs[pair->from][pair->to]);
	}
}

static void test_flow_is_recounted(void **state)
{
	static int32_t zero[FLOW_TOKENS * FLOW_K], one[FLOW_TOKENS * FLOW_K];
	uint32_t random = 1;

	(void)state;
	/* Of a third, of two thirds or of all tokens the first expert here decides on the one there. */
	for (uint32_t planted = 1; planted <= 3; planted++) {
		struct run *run = fake_run_new();
		struct routing r;

		for (int token = 0; token < FLOW_TOKENS; token++) {
			int32_t *from = zero + (size_t)token * FLOW_K;
			int32_t *to = one + (size_t)token * FLOW_K;

			draw(&random, pick(&random, FLOW_K + 1), FLOW_EXPERTS, from);
			draw(&random, pick(&random, FLOW_K + 1), FLOW_NEXT, to);
			if (from[0] >= 0 && pick(&random, 3) < planted)
				draw(&(uint32_t){ (uint32_t)from[0] * 77777 }, 1, FLOW_NEXT, to);
		}
		r = flow_of(run, zero, one);
		assert_recounted(&r.layers[0], zero, one);
		assert_true(r.layers[0].affinity_bits.v <= r.layers[0].affinity_bits_most.v);
		assert_true(r.layers[0].affinity_bits.v > 4 * r.layers[0].affinity_bits_floor.v);
		routing_release(&r);
		fake_run_free(run);
	}
}

/* Independent draws show the floor, on average over some runs. */
static void test_floor_of_flow(void **state)
{
	static int32_t zero[FLOW_TOKENS * FLOW_K], one[FLOW_TOKENS * FLOW_K];
	const int runs = 24;
	uint32_t random = 7;
	double ratios = 0;

	(void)state;
	for (int i = 0; i < runs; i++) {
		struct run *run = fake_run_new();
		struct routing r;

		for (size_t token = 0; token < FLOW_TOKENS; token++) {
			draw(&random, 2, FLOW_EXPERTS, zero + token * FLOW_K);
			draw(&random, 3, FLOW_NEXT, one + token * FLOW_K);
		}
		r = flow_of(run, zero, one);
		ratios += r.layers[0].affinity_bits.v / r.layers[0].affinity_bits_floor.v;
		routing_release(&r);
		fake_run_free(run);
	}
	WITHIN(ratios / runs, 1, 0.25);
}

static void test_flow_that_tells_all(void **state)
{
	/* {0,1} goes to {2,3} and back: which half is 1 bit; which of its two nobody can know. */
	static int32_t zero[FLOW_TOKENS * FLOW_K], one[FLOW_TOKENS * FLOW_K];
	struct run *run = fake_run_new();
	struct routing r;

	(void)state;
	for (int token = 0; token < FLOW_TOKENS; token++)
		for (int j = 0; j < FLOW_K; j++) {
			int32_t half = token % 2 * 2;

			zero[token * FLOW_K + j] = j < 2 ? half + j : MOESCOPE_SLOT_UNUSED;
			one[token * FLOW_K + j] = j < 2 ? 2 - half + j : MOESCOPE_SLOT_DROPPED;
		}
	r = flow_of(run, zero, one);
	NEAR(r.layers[0].affinity_bits.v, 1);
	NEAR(r.layers[0].affinity_bits_most.v, 1);
	NEAR(r.layers[0].affinity_bits_floor.v, 1.0 / (2 * log(2) * FLOW_TOKENS));
	assert_false(r.layers[1].affinity_bits.known);
	assert_string_equal(r.layers[1].affinity_bits.reason, "no MoE layer after this one");
	routing_release(&r);
	/* Nobody was in both layers. */
	for (int i = 0; i < FLOW_TOKENS * FLOW_K; i++)
		run->routed.expert[i] = -1;
	r = analyzed(run, SELECT_ALL, (struct routing_options){ .token_level = true });
	NEAR(r.layers[0].affinity_tokens.v, 0);
	assert_false(r.layers[0].affinity_bits.known);
	assert_int_equal(r.layers[0].n_affinity_pairs, 0);
	routing_release(&r);
	fake_run_free(run);
}

static void test_decoding_goes_on(void **state)
{
	static const int32_t tokens[3][2] = { { 0, 1 }, { 1, 2 }, { 0, 3 } };
	struct run *run = fake_run_new();
	uint32_t load[] = { 2, 2, 2, 2 };
	struct routing r;

	(void)state;
	fake_routing(run, 0, 10, 0, 2, 4, load);
	for (int i = 0; i < 3; i++)
		add_tokens(run, 0, 0, tokens[i], 2);
	r = analyzed(run, SELECT_ALL, (struct routing_options){ .token_level = true });
	NEAR(r.layers[0].repeat_rate.v, 0.5);
	routing_release(&r);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reference_floors),
		cmocka_unit_test(test_capacity_and_tiles),
		cmocka_unit_test(test_degenerate_loads),
		cmocka_unit_test(test_hot_sets),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_layers_and_windows),
		cmocka_unit_test(test_several_capacities),
		cmocka_unit_test(test_router_times),
		cmocka_unit_test(test_self_check),
		cmocka_unit_test(test_tokens),
		cmocka_unit_test(test_flow_is_recounted),
		cmocka_unit_test(test_floor_of_flow),
		cmocka_unit_test(test_flow_that_tells_all),
		cmocka_unit_test(test_decoding_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
