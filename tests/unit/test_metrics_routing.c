/* SPDX-License-Identifier: Apache-2.0
 *
 * The definitions of the routing metrics from top to bottom, each with values computed by hand: on
 * the formulas, and where a row is about runs, on a run. What routers say of themselves is in
 * test_metrics_router.c, the rest of the definitions in test_metrics_time.c.
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
#include "subjects/numbers/stats.h"
#include "subjects/routing/routing.h"

#define WITHIN(a, b, eps) assert_true(fabs((a) - (b)) < (eps))
#define NEAR(a, b) WITHIN(a, b, 1e-9)

static struct load_metrics metrics_of(const uint64_t *n, uint32_t experts)
{
	struct load_metrics m;

	assert_int_equal(load_metrics_compute(n, experts, &m), 0);
	assert_true(m.known);
	return m;
}

static struct routing analyzed(const struct run *run, struct routing_options options)
{
	struct selection sel = SELECT_ALL;
	struct routing r;

	options.token_level = true;
	assert_int_equal(routing_analyze(run, &sel, &options, &r), 0);
	return r;
}

/* N 16, m 4: the loads of most rows. */
static const uint64_t four[] = { 8, 4, 3, 1 };

static void test_loads(void **state)
{
	struct load_metrics m = metrics_of(four, 4);
	double p[] = { 0.5, 0.25, 0.1875, 0.0625 }, h = 0;

	(void)state;
	assert_int_equal(m.total, 16);
	NEAR(m.mean, 4);
	NEAR(m.imbalance, 2);
	NEAR(m.balancedness, 0.5);
	NEAR(m.max_violation, 1);
	/* Squares of the distances to 4: 16 + 0 + 1 + 9 = 26, over 4 experts. */
	NEAR(m.cv, sqrt(6.5) / 4);
	/* Ascending 1 3 4 8 with -3 -1 1 3: -3 - 3 + 4 + 24 = 22, over 4 * 16. */
	NEAR(m.gini, 22.0 / 64);
	for (int i = 0; i < 4; i++)
		h -= p[i] * log(p[i]);
	NEAR(m.entropy_norm, h / log(4));
	assert_int_equal(m.dead, 0);
	assert_int_equal(m.starved, 1);	   /* 1 < 2; 3 is not */
	assert_int_equal(m.overloaded, 1); /* 8 > 6 */
	assert_int_equal(m.unique, 4);
	/* The edges are not beyond: 0.5 m and 1.5 m themselves. */
	m = metrics_of((const uint64_t[]){ 2, 6, 4, 4, 0, 8 }, 6);
	NEAR(m.mean, 4);
	assert_int_equal(m.starved, 1);
	assert_int_equal(m.overloaded, 1);
	assert_int_equal(m.dead, 1);
}

static void test_reference_values(void **state)
{
	static const struct {
		uint64_t n[12];
		double imbalance, gini, entropy, cv;
	} cases[] = {
		{ { 90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86 },
		  2.12585,
		  0.329703,
		  0.924249,
		  0.588993 },
		{ { 20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27 },
		  2.04498,
		  0.386678,
		  0.895816,
		  0.684339 },
	};
	static const double unique[][2] = { { 1, 8 }, { 8, 57 }, { 32, 163 }, { 128, 252 } };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct load_metrics m = metrics_of(cases[i].n, 12);

		WITHIN(m.imbalance, cases[i].imbalance, 5e-6);
		WITHIN(m.gini, cases[i].gini, 5e-7);
		WITHIN(m.entropy_norm, cases[i].entropy, 5e-7);
		WITHIN(m.cv, cases[i].cv, 5e-7);
		NEAR(m.balancedness, 1 / m.imbalance);
		NEAR(m.max_violation, m.imbalance - 1);
	}
	WITHIN(routing_cv_floor(256, 8, 128), 0.492, 5e-4);
	WITHIN(routing_imbalance_floor(256, 8, 4), 2.64, 5e-3);
	for (size_t i = 0; i < 4; i++)
		WITHIN(routing_unique_expected(256, 8, unique[i][0]), unique[i][1], 0.5);
}

static void test_floors(void **state)
{
	(void)state;
	/* (10 - 2) / (16 * 2) = 1/4. */
	NEAR(routing_cv_floor(10, 2, 16), 0.5);
	/* e^2 experts and half of them a token: 1 + sqrt(2 * 2 * 0.5 / 8). */
	NEAR(routing_imbalance_floor(exp(2), exp(2) / 2, 8), 1.5);
	NEAR(routing_cv_excess(0.5, 0.3), 0.4);
	NEAR(routing_cv_excess(0.3, 0.5), 0);
	/* 4 (1 - (1/2)^3). */
	NEAR(routing_unique_expected(4, 2, 3), 3.5);
}

/* k different experts of a token, each set as likely as any other. */
static void route_uniformly(uint64_t *seed, uint32_t experts, uint32_t k, uint64_t *n)
{
	uint32_t order[256];

	for (uint32_t e = 0; e < experts; e++)
		order[e] = e;
	for (uint32_t s = 0; s < k; s++) {
		uint32_t at = s + (uint32_t)((stats_random(seed) >> 11) % (experts - s));
		uint32_t expert = order[at];

		order[at] = order[s];
		order[s] = expert;
		n[expert]++;
	}
}

static void test_floors_against_simulation(void **state)
{
	enum { EXPERTS = 256, K = 8, TOKENS = 128, BATCHES = 4000 };
	double cv = 0, imbalance = 0, unique = 0;
	uint64_t seed = 20260131;

	(void)state;
	for (int batch = 0; batch < BATCHES; batch++) {
		uint64_t n[EXPERTS] = { 0 };
		struct load_metrics m;

		for (int t = 0; t < TOKENS; t++)
			route_uniformly(&seed, EXPERTS, K, n);
		m = metrics_of(n, EXPERTS);
		cv += m.cv / BATCHES;
		imbalance += m.imbalance / BATCHES;
		unique += (double)m.unique / BATCHES;
	}
	/* The mean of cv lies a little under the root of the mean of its square. */
	WITHIN(cv, 0.490, 0.003);
	WITHIN(cv, routing_cv_floor(EXPERTS, K, TOKENS), 0.005);
	WITHIN(imbalance, 2.66, 0.05);
	WITHIN(imbalance, routing_imbalance_floor(EXPERTS, K, 4), 0.06);
	WITHIN(unique, routing_unique_expected(EXPERTS, K, TOKENS), 0.5);
}

static void test_what_ifs(void **state)
{
	(void)state;
	/* T 8, k 2, E 4, cf 1: C = 4; over it 4, under it 0 + 1 + 3. */
	assert_int_equal(routing_capacity(1, 8, 2, 4), 4);
	assert_int_equal(routing_over_capacity(four, 4, 4), 4);
	assert_int_equal(routing_under_capacity(four, 4, 4), 4);
	assert_int_equal(routing_capacity(1.1, 8, 2, 4), 5);
	/* 12 rows that need 16 at B 4: 1 - 12/16. */
	assert_int_equal(routing_tile_rows((const uint64_t[]){ 5, 4, 3 }, 3, 4), 16);
}

static void test_repeats_and_hot_sets(void **state)
{
	static const uint64_t a[] = { 9, 8, 1, 1, 0 }, b[] = { 9, 1, 8, 1, 0 };
	double jaccard;

	(void)state;
	/* 1 - C(4,2)/C(6,2) = 1 - 6/15. */
	NEAR(routing_repeat_null(6, 2, 2), 0.6);
	NEAR(routing_repeat_null(3, 2, 2), 1);
	assert_int_equal(routing_hot_jaccard(a, b, 5, 2, &jaccard), 0);
	NEAR(jaccard, 1.0 / 3); /* {0,1} and {0,2} */
}

static void test_legacy(void **state)
{
	(void)state;
	NEAR(routing_legacy_efficiency(0.588993), 94.11007);
	NEAR(routing_legacy_efficiency(11), 0);
	NEAR(routing_legacy_efficiency(0), 100);
}

/* Two steps of a layer of four experts with two slots each, sizes told. */
static struct run *layer_run(void)
{
	static const uint32_t first[] = { 8, 4, 3, 1 }, second[] = { 2, 2, 6, 6 };
	struct run *run = fake_run_new();

	fake_routing(run, 0, 10, 0, 2, 4, first);
	fake_routing(run, 1, 20, 0, 2, 4, second);
	fake_add_moe_layer(run, 0,
			   &(struct row_moe_layer){ .layer = 0,
						    .experts = 4,
						    .k = 2,
						    .hidden = 10,
						    .inner = 20,
						    .matrices = 3,
						    .expert_bytes = 1200 });
	return run;
}

static void test_layer(void **state)
{
	struct run *run = layer_run();
	struct routing r = analyzed(run, (struct routing_options){ .capacity_factors = { 1 },
								   .n_capacity_factors = 1,
								   .tile_rows = 4 });
	const struct routing_layer *layer = &r.layers[0];

	(void)state;
	assert_int_equal(r.n, 1);
	assert_true(r.self_check_ok);
	/* Over the window 10 6 9 7 of 32, m 8; of the steps 8/4 and 6/4. */
	NEAR(layer->load.imbalance, 10.0 / 8);
	NEAR(layer->load.max_violation, 0.25);
	NEAR(layer->max_violation_step_mean.v, (1 + 0.5) / 2);
	NEAR(layer->max_violation_step_max.v, 1);
	NEAR(layer->load.cv, sqrt((4 + 4 + 1 + 1) / 4.0) / 8);
	NEAR(layer->cv_floor.v, sqrt((4 - 2) / (16.0 * 2)));
	NEAR(layer->imbalance_floor.v, 1 + sqrt(2 * log(4) * 0.5 / 8));
	NEAR(layer->cv_excess.v, routing_cv_excess(sqrt(10 / 4.0) / 8, 0.25));
	NEAR(layer->slots.mean.v, 2);
	NEAR(layer->slots.min.v, 2);
	NEAR(layer->slots.max.v, 2);
	assert_int_equal(layer->slots.hist[2], 16);
	/* By batch, C = 4: over 4 and 4, under 4 and 4, of N 32 and 2 * 4 * 4 places. */
	NEAR(layer->capacity[0].drop_rate.v, 8.0 / 32);
	NEAR(layer->capacity[0].pad_waste.v, 8.0 / 32);
	/* Tiles of 4: 8 4 4 4 and 4 4 8 8. */
	NEAR(layer->tile_waste.v, 1 - 32.0 / 44);
	/* The two busiest: {0,1} and {2,3}. */
	assert_int_equal(layer->hot_h, 2);
	NEAR(layer->hot_persistence.v, 0);
	NEAR(layer->unique_step_mean.v, 4);
	NEAR(layer->unique_step_expected.v, 4 * (1 - pow(0.5, 8)));
	NEAR(layer->expert_bytes_touched.v, 4 * 1200);
	NEAR(layer->expert_bytes_touched_step_uniform.v, 4 * (1 - pow(0.5, 8)) * 1200);
	/* T 16, H 10, E 4; 6 H I a slot. */
	NEAR(layer->flops_router.v, 2.0 * 16 * 10 * 4 + 5.0 * 16 * 4);
	NEAR(layer->flops_expert.v, 32.0 * 6 * 10 * 20);
	NEAR(layer->steps[0].flops_expert.v, 16.0 * 6 * 10 * 20);
	routing_release(&r);
	run->moe_layer.matrices[0] = 2;
	r = analyzed(run, (struct routing_options){ 0 });
	NEAR(r.layers[0].flops_expert.v, 32.0 * 4 * 10 * 20);
	routing_release(&r);
	/* The number of matrices is never assumed. */
	run->moe_layer.matrices[0] = 0;
	r = analyzed(run, (struct routing_options){ 0 });
	assert_false(r.layers[0].flops_expert.known);
	routing_release(&r);
	fake_run_free(run);
}

static void test_tokens(void **state)
{
	/* Tokens {0,1} {1,2} {3,0}; in the next layer {0,1} {0,1} {2,3}. */
	static const int32_t zero[] = { 0, 1, 1, 2, 3, 0 }, one[] = { 0, 1, 0, 1, 2, 3 };
	static const uint32_t load_zero[] = { 2, 2, 1, 1 }, load_one[] = { 2, 2, 1, 1 };
	struct run *run = fake_run_new();
	const struct routing_layer *layer;
	struct routing r;

	(void)state;
	fake_routing(run, 0, 10, 0, 2, 4, load_zero);
	fake_routing(run, 0, 10, 1, 2, 4, load_one);
	for (int l = 0; l < 2; l++)
		fake_add_routed(run, 0,
				&(struct row_routed){ .layer = l,
						      .phase = MOESCOPE_FORWARD,
						      .k = 2,
						      .slots = 6,
						      .expert = l ? one : zero });
	r = analyzed(run, (struct routing_options){ 0 });
	layer = &r.layers[0];
	/* {0,1}{1,2} meet, {1,2}{3,0} do not. */
	NEAR(layer->repeat_rate.v, 0.5);
	NEAR(layer->repeat_null.v, 1 - 1.0 / 6);
	/* Two tokens at 0: one of them also at 1, one at 3. */
	NEAR(layer->coactivation[0 * 4 + 1], 0.5);
	NEAR(layer->coactivation[0 * 4 + 2], 0);
	NEAR(layer->coactivation[0 * 4 + 3], 0.5);
	NEAR(layer->coactivation[3 * 4 + 0], 1);
	/* Both tokens at 1 go to {0,1}: half a slot each. The one at 3 to {2,3}. */
	NEAR(layer->affinity[1 * 4 + 0], 0.5);
	NEAR(layer->affinity[1 * 4 + 2], 0);
	NEAR(layer->affinity[3 * 4 + 3], 0.5);
	NEAR(layer->affinity[0 * 4 + 0], 0.25);
	routing_release(&r);
	fake_run_free(run);
}

static void test_dynamic_k_and_self_check(void **state)
{
	/* Three tokens with 0, 1 and 2 of two slots. */
	static const uint32_t load[] = { 2, 1, 0 }, hist[] = { 1, 1, 1 }, wrong[] = { 1, 0, 2 };
	struct row_routing row = { .k = 2,
				   .tokens = 3,
				   .unused = 3,
				   .experts = 3,
				   .k_slots = 3,
				   .load = load,
				   .k_hist = hist };
	struct run *run = fake_run_new();
	struct routing r;

	(void)state;
	fake_add_routing(run, 0, &row);
	r = analyzed(run, (struct routing_options){ 0 });
	NEAR(r.layers[0].slots.mean.v, 1);
	NEAR(r.layers[0].slots.min.v, 0);
	NEAR(r.layers[0].slots.max.v, 2);
	assert_true(r.self_check_ok);
	assert_int_equal(r.layers[0].load.dead, 1);
	routing_release(&r);
	/* Tokens that used 4 slots in all, and 3 assignments. */
	row.k_hist = wrong;
	fake_add_routing(run, 0, &row);
	r = analyzed(run, (struct routing_options){ 0 });
	assert_false(r.self_check_ok);
	assert_int_equal(r.failed_counts, 1);
	routing_release(&r);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_loads),	 cmocka_unit_test(test_reference_values),
		cmocka_unit_test(test_floors),	 cmocka_unit_test(test_floors_against_simulation),
		cmocka_unit_test(test_what_ifs), cmocka_unit_test(test_repeats_and_hot_sets),
		cmocka_unit_test(test_legacy),	 cmocka_unit_test(test_layer),
		cmocka_unit_test(test_tokens),	 cmocka_unit_test(test_dynamic_k_and_self_check),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
