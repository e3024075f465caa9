/* SPDX-License-Identifier: Apache-2.0
 *
 * What the C API records of routing, against sums made here; arguments that it refuses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "probe_child.h"

#define TOKENS 37
#define EXPERTS 6
#define K 3

struct routing_case {
	int32_t indices[TOKENS * K];
	float weights[TOKENS * K], scores[TOKENS * EXPERTS];
};

static void make_routing(struct routing_case *c)
{
	struct rng rng = { 8 };

	for (int t = 0; t < TOKENS; t++) {
		float sum = 0;

		for (int s = 0; s < K; s++) {
			static const int32_t odd[] = { -2, -3, -1, EXPERTS, -77, INT32_MAX };

			c->indices[t * K + s] = rng_below(&rng, 4)
							? (int32_t)rng_below(&rng, EXPERTS)
							: odd[rng_below(&rng, 6)];
			if (t % 9 == 4)
				c->indices[t * K + s] = MOESCOPE_SLOT_PADDING;
			c->weights[t * K + s] = (float)rng_below(&rng, 1000) / 999.0f;
		}
		for (int e = 0; e < EXPERTS; e++)
			sum += c->scores[t * EXPERTS + e] = (float)rng_below(&rng, 1000) + 0.5f;
		for (int e = 0; e < EXPERTS; e++)
			c->scores[t * EXPERTS + e] /= sum;
	}
}

static enum moescope_level wanted_level;

static void routes(void)
{
	struct routing_case c;
	struct moescope_routing routing = { .struct_size = sizeof(routing),
					    .layer = 2,
					    .experts = EXPERTS,
					    .k = K,
					    .tokens = TOKENS,
					    .indices = c.indices,
					    .weights = c.weights,
					    .scores = c.scores };

	make_routing(&c);
	start_at(wanted_level);
	moescope_step_begin(42);
	moescope_range_begin(moescope_intern("moe"), 2, -1, MOESCOPE_DECODE);
	moescope_route(&routing);
	routing.weights = routing.scores = NULL;
	routing.phase = MOESCOPE_PREFILL;
	moescope_route(&routing);
	moescope_range_end();
	moescope_step_end(1);
	moescope_stop();
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? 1 : x > y ? -1 : 0;
}

struct routing_sums {
	uint64_t load[EXPERTS], k_hist[K + 1];
	uint64_t tokens, padding, unused, dropped, invalid, weighted, scored;
	double confidence, entropy, top1, mass, margin;
};

/* From the definitions in words, in double. */
static struct routing_sums sum_routing(const struct routing_case *c, int stride)
{
	struct routing_sums sums = { 0 };

	for (int t = 0; t < TOKENS; t++) {
		const int32_t *slots = c->indices + t * K;
		double weight = 0, h = 0, sorted[EXPERTS];
		int used = 0, padding = 0;

		for (int s = 0; s < K; s++)
			padding += slots[s] == MOESCOPE_SLOT_PADDING;
		if (padding == K) {
			sums.padding++;
			continue;
		}
		sums.tokens++;
		for (int s = 0; s < K; s++) {
			bool expert = slots[s] >= 0 && slots[s] < EXPERTS;

			if (expert) {
				sums.load[slots[s]]++;
				used++;
				weight += c->weights[t * K + s];
			}
			sums.unused += slots[s] == MOESCOPE_SLOT_UNUSED ||
				       slots[s] == MOESCOPE_SLOT_PADDING;
			sums.dropped += slots[s] == MOESCOPE_SLOT_DROPPED;
			sums.invalid += slots[s] >= EXPERTS || slots[s] < -3;
		}
		sums.k_hist[used]++;
		if (t % stride)
			continue;
		for (int s = 0; s < K && weight > 0; s++) {
			double p = c->weights[t * K + s] / weight;

			if (slots[s] >= 0 && slots[s] < EXPERTS && p > 0)
				h -= p * log(p);
		}
		if (weight > 0) {
			sums.weighted++;
			sums.confidence += 1 - h / log(EXPERTS);
		}
		sums.scored++;
		for (int e = 0; e < EXPERTS; e++) {
			sorted[e] = c->scores[t * EXPERTS + e];
			sums.entropy -= sorted[e] > 0 ? sorted[e] * log(sorted[e]) : 0;
		}
		qsort(sorted, EXPERTS, sizeof(sorted[0]), by_size);
		sums.top1 += sorted[0];
		for (int s = 0; s < K; s++)
			sums.mass += sorted[s];
		sums.margin += sorted[K - 1] - sorted[K];
	}
	return sums;
}

static void test_routing(void **state)
{
	struct routing_case c;

	make_routing(&c);
	for (int level = MOESCOPE_COUNTS; level <= MOESCOPE_FULL; level++) {
		struct routing_sums want = sum_routing(&c, level >= MOESCOPE_FULL ? 1 : 8);
		bool statistics = level >= MOESCOPE_TRACE;
		struct run *run;

		wanted_level = (enum moescope_level)level;
		run = run_of(routes);
		assert_int_equal(run->routing.n, 2);
		for (size_t i = 0; i < 2; i++) {
			const struct table_routing *r = &run->routing;

			assert_int_equal(r->step[i], 42);
			assert_int_equal(r->layer[i], 2);
			assert_int_equal(r->tokens[i], want.tokens);
			assert_int_equal(r->padding[i], want.padding);
			assert_int_equal(r->unused[i], want.unused);
			assert_int_equal(r->dropped[i], want.dropped);
			assert_int_equal(r->invalid[i], want.invalid);
			assert_int_equal(r->experts[i], EXPERTS);
			for (size_t e = 0; e < EXPERTS; e++)
				assert_int_equal(r->load[r->load_first[i] + e], want.load[e]);
			for (size_t k = 0; k <= K; k++)
				assert_int_equal(r->k_hist[r->k_hist_first[i] + k], want.k_hist[k]);
		}
		/* The enclosing range's phase, but only where ranges are known. */
		assert_int_equal(run->routing.phase[0],
				 level >= MOESCOPE_STEPS ? MOESCOPE_DECODE : 0);
		assert_int_equal(run->routing.phase[1], MOESCOPE_PREFILL);
		assert_int_equal(run->routing.weighted_tokens[0], statistics ? want.weighted : 0);
		assert_int_equal(run->routing.scored_tokens[0], statistics ? want.scored : 0);
		assert_int_equal(run->routing.weighted_tokens[1], 0);
		assert_int_equal(run->routing.scored_tokens[1], 0);
		if (statistics) {
			assert_near(run->routing.confidence_sum[0], want.confidence);
			assert_near(run->routing.entropy_sum[0], want.entropy);
			assert_near(run->routing.top1_sum[0], want.top1);
			assert_near(run->routing.topk_mass_sum[0], want.mass);
			assert_near(run->routing.margin_sum[0], want.margin);
		}
		if (level == MOESCOPE_FULL) {
			assert_int_equal(run->routed.n, 2);
			assert_int_equal(run->routed.slots[0], TOKENS * K);
			assert_int_equal(run->routed.first[0], 0);
			assert_memory_equal(run->routed.expert + run->routed.expert_first[1],
					    c.indices, sizeof(c.indices));
		}
		run_free(run);
		tear_down(state);
		set_up(state);
	}
}

/* The same choice as frameworks have it: 64-bit indices, half-precision weights, padding in a mask
 * and experts of other processes among the indices. */
struct typed_case {
	int64_t indices[TOKENS * K];
	uint16_t weights[2][TOKENS * K]; /* bf16, f16 */
	uint8_t mask[TOKENS];
	struct routing_case plain;
};

static void make_typed(struct typed_case *c)
{
	static const int64_t outside[] = { -1, EXPERTS, 1ll << 32, -(5ll << 33),
					   MOESCOPE_SLOT_DROPPED };
	static const struct {
		float value;
		uint16_t bf16, f16;
	} known[] = {
		{ 1.0f, 0x3f80, 0x3c00 },     { 0.5f, 0x3f00, 0x3800 },
		{ 0.375f, 0x3ec0, 0x3600 },   { 0x1p-20f, 0x3580, 0x0010 }, /* subnormal in f16 */
		{ 0.0f, 0x0000, 0x8000 },     { -1.0f, 0xbf80, 0xbc00 },
		{ INFINITY, 0x7f80, 0x7c00 }, { NAN, 0x7fc0, 0x7e00 },
	};
	struct rng rng = { 9 };

	make_routing(&c->plain);
	for (int i = 0; i < TOKENS * K; i++) {
		size_t w = rng_below(&rng, 8);
		bool here = rng_below(&rng, 4) != 0;
		int64_t slot = here ? (int64_t)rng_below(&rng, EXPERTS) : outside[i % 5];

		c->mask[i / K] = i / K % 7 != 2;
		c->indices[i] = slot;
		c->plain.indices[i] = !c->mask[i / K] ? MOESCOPE_SLOT_PADDING
				      : here || slot == MOESCOPE_SLOT_DROPPED
					      ? (int32_t)slot
					      : MOESCOPE_SLOT_UNUSED;
		c->weights[0][i] = known[w].bf16;
		c->weights[1][i] = known[w].f16;
		c->plain.weights[i] = known[w].value > 0 && isfinite(known[w].value)
					      ? known[w].value
					      : 0;
	}
}

static void typed_routes(void)
{
	struct typed_case c;
	struct moescope_routing routing = { .struct_size = sizeof(routing),
					    .experts = EXPERTS,
					    .k = K,
					    .tokens = TOKENS,
					    .indices = c.indices,
					    .indices_type = MOESCOPE_I64,
					    .mask = c.mask,
					    .elsewhere = 1 };

	struct moescope_routing both[2];

	make_typed(&c);
	start_at(MOESCOPE_FULL);
	for (int i = 0; i < 2; i++) {
		both[i] = routing;
		both[i].weights = c.weights[i];
		both[i].weights_type = i ? MOESCOPE_F16 : MOESCOPE_BF16;
	}
	moescope_routes(both, 2);
	routing = both[1];
	routing.elsewhere = 0;
	moescope_route(&routing);
	moescope_stop();
}

static void test_types_mask_and_elsewhere(void **state)
{
	struct run *run = run_of(typed_routes);
	struct routing_sums want;
	struct typed_case c;

	(void)state;
	make_typed(&c);
	want = sum_routing(&c.plain, 1);
	assert_int_equal(run->routing.n, 3);
	for (size_t i = 0; i < 3; i++) {
		const struct table_routing *r = &run->routing;

		assert_int_equal(r->tokens[i], want.tokens);
		assert_int_equal(r->padding[i], want.padding);
		assert_int_equal(r->weighted_tokens[i], want.weighted);
		assert_near(r->confidence_sum[i], want.confidence);
		for (size_t e = 0; e < EXPERTS; e++)
			assert_int_equal(r->load[r->load_first[i] + e], want.load[e]);
		if (i < 2)
			assert_memory_equal(run->routed.expert + run->routed.expert_first[i],
					    c.plain.indices, sizeof(c.plain.indices));
	}
	assert_int_equal(run->routing.unused[1], want.unused);
	assert_int_equal(run->routing.dropped[1], want.dropped);
	assert_int_equal(run->routing.invalid[1], 0);
	assert_true(run->routing.invalid[2] > 0); /* without `elsewhere` they are not experts */
	run_free(run);
}

static void bad_routing(void)
{
	static const int32_t indices[4];
	struct moescope_routing good = { .struct_size = sizeof(good),
					 .experts = 2,
					 .k = 2,
					 .tokens = 2,
					 .indices = indices },
				bad, three[3];

	start_at(MOESCOPE_TRACE);
	moescope_route(NULL);
	moescope_routes(NULL, 3);
	for (int i = 0; i < 3; i++)
		three[i] = good;
	three[1].struct_size--;
	moescope_routes(three, 3);
	moescope_routes(three, 0);
	bad = good, bad.struct_size = 8, moescope_route(&bad);
	bad = good, bad.indices = NULL, moescope_route(&bad);
	bad = good, bad.experts = 0, moescope_route(&bad);
	bad = good, bad.experts = 70000, moescope_route(&bad);
	bad = good, bad.k = 0, moescope_route(&bad);
	bad = good, bad.k = 65, moescope_route(&bad);
	bad = good, bad.indices_type = MOESCOPE_F32, moescope_route(&bad);
	bad = good, bad.weights_type = MOESCOPE_I64, moescope_route(&bad);
	bad = good, bad.tokens = 0, moescope_route(&bad);
	moescope_route(&good);
	moescope_moe_layer(NULL);
	moescope_get_stats(NULL);
	moescope_mark(NULL);
	moescope_range_push(NULL);
	moescope_range_pop();
	CHECK(moescope_intern(NULL) == 0 && moescope_intern("") == 0);
	moescope_stop();
}

static void test_bad_arguments(void **state)
{
	struct run *run = run_of(bad_routing);

	(void)state;
	assert_int_equal(run->routing.n, 4);
	assert_int_equal(run->routing.tokens[1], 2);
	assert_int_equal(run->routing.tokens[2], 0);
	assert_int_equal(run->routing.tokens[3], 2);
	assert_int_equal(run->loss.dropped_too_large, 11);
	assert_int_equal(run->mark.n, 1);
	assert_int_equal(run->range.n, 1);
	run_free(run);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_routing),
		TEST(test_types_mask_and_elsewhere),
		TEST(test_bad_arguments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
