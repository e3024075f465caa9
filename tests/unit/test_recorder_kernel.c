/* SPDX-License-Identifier: Apache-2.0
 *
 * The recorder's kernels, run as C, against an independent count: every kind of slot, mask and valid
 * rows, all number types, several calls a layer, a full ring, a closed gate, tokens beyond the kept.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "recorder_shim.h"
#include "recount.h"

#include <stdbool.h>

/* A device of one recorder. */
struct device {
	struct recorder_state state;
	struct recorder_shared shared;
	unsigned int layers, experts, k, slots, kept_rows, kept_bytes, layer_words, slot_words;
	unsigned int *counts;
	unsigned char *kept, *kept_weights;
};

static void device_make(struct device *d, unsigned int layers, unsigned int experts, unsigned int k,
			unsigned int slots, unsigned int kept_rows)
{
	size_t kept;

	memset(d, 0, sizeof(*d));
	d->layers = layers;
	d->experts = experts;
	d->k = k;
	d->slots = slots;
	d->kept_rows = kept_rows;
	d->kept_bytes = experts <= 252 ? 1 : 2;
	d->layer_words = (RECORDER_LAYER_WORDS + k + 1 + experts + 1) & ~1u;
	d->slot_words = RECORDER_SLOT_WORDS + layers * d->layer_words;
	d->counts = calloc((size_t)slots * d->slot_words, 4);
	kept = (size_t)slots * layers * kept_rows * k;
	d->kept = kept ? malloc(kept * d->kept_bytes) : NULL;
	d->kept_weights = kept ? malloc(kept) : NULL;
	d->state.gate = 1;
}

static void device_release(struct device *d)
{
	free(d->counts);
	free(d->kept);
	free(d->kept_weights);
}

static struct recorder_layer *device_layer(struct device *d, unsigned int slot, unsigned int layer)
{
	return (void *)(d->counts + (size_t)slot * d->slot_words + RECORDER_SLOT_WORDS +
			layer * d->layer_words);
}

static void device_step(struct device *d, long long step)
{
	struct recorder_step args = { &d->state, &d->shared, d->counts,
				      step,	 d->slots,   d->slot_words };

	end_step(&args);
}

static void *narrowed(const struct given *given, bool wide)
{
	size_t n = (size_t)given->rows * given->k;
	int32_t *to = malloc((n + 1) * (wide ? 8 : 4));

	for (size_t i = 0; i < n; i++)
		if (wide)
			((int64_t *)to)[i] = given->slots[i];
		else
			to[i] = (int32_t)given->slots[i];
	return to;
}

/* Weights are 64ths, which the short types hold exactly. */
static void *weights_as(const struct given *given, unsigned int type)
{
	size_t n = (size_t)given->rows * given->k;
	void *to = malloc(n * 4 + 4);

	for (size_t i = 0; i < n; i++) {
		float w = given->weights[i];
		uint32_t bits;

		memcpy(&bits, &w, 4);
		if (type == 2)
			((float *)to)[i] = w;
		else if (type == 4)
			((uint16_t *)to)[i] = (uint16_t)(bits >> 16);
		else
			((uint16_t *)to)[i] = (uint16_t)(w ? ((bits >> 23) - 112) << 10 |
									 (bits >> 13 & 0x3ff)
							   : 0);
	}
	return to;
}

/* Its indices and weights are to be freed. */
static struct recorder_call device_call(struct device *d, unsigned int layer,
					const struct given *given, bool wide,
					unsigned int weights_type)
{
	void *indices = narrowed(given, wide);
	void *weights = given->weights ? weights_as(given, weights_type) : NULL;
	struct recorder_call call = {
		.state = &d->state,
		.counts = d->counts,
		.kept = d->kept,
		.kept_weights = d->kept_weights,
		.indices = indices,
		.weights = weights,
		.valid = given->valid == given->rows ? NULL : &given->valid,
		.mask = given->mask,
		.rows = given->rows,
		.k = given->k,
		.experts = given->experts,
		.layer = layer,
		.phase = layer + 1,
		.indices_64 = wide,
		.weights_type = weights_type,
		.layers = d->layers,
		.max_k = d->k,
		.layer_words = d->layer_words,
		.slot_words = d->slot_words,
		.kept_rows = d->kept_rows,
		.kept_bytes = d->kept_bytes,
		.copies = RECORDER_MAX_EXPERTS / given->experts,
	};

	if (call.copies > 8)
		call.copies = 8;
	return call;
}

static void call_release(const void *indices, const void *weights)
{
	free((void *)indices);
	free((void *)weights);
}

static void device_route(struct device *d, unsigned int layer, const struct given *given,
			 unsigned int blocks, bool wide, unsigned int weights_type)
{
	struct recorder_call call = device_call(d, layer, given, wide, weights_type);

	shim_route(&call, blocks, call.rows <= RECORDER_DIRECT_ROWS ? 32 : RECORDER_THREADS);
	call_release(call.indices, call.weights);
}

static void assert_kept(struct device *d, unsigned int slot, unsigned int layer, unsigned int k,
			const struct recount *want)
{
	size_t at = ((size_t)slot * d->layers + layer) * d->kept_rows * d->k;
	size_t n = (size_t)d->kept_rows * k;

	n = n < want->n_kept ? n : want->n_kept;
	for (size_t i = 0; i < n; i++) {
		int top = d->kept_bytes == 1 ? 256 : 65536;
		int code = d->kept_bytes == 1 ? d->kept[at + i]
					      : ((unsigned short *)d->kept)[at + i];

		assert_int_equal(code >= top - 4 ? code - top : code, want->kept[i]);
	}
}

static void assert_layer(struct device *d, unsigned int slot, unsigned int layer, unsigned int k,
			 unsigned int experts, const struct recount *want)
{
	struct recorder_layer *got = device_layer(d, slot, layer);
	unsigned int *k_hist = (unsigned int *)(got + 1), *load = k_hist + d->k + 1;

	assert_int_equal(got->tokens, want->tokens);
	assert_int_equal(got->padding, want->padding);
	assert_int_equal(got->unused, want->unused);
	assert_int_equal(got->dropped, want->dropped);
	assert_int_equal(got->invalid, want->invalid);
	assert_int_equal(got->weighted, want->weighted);
	assert_int_equal(got->rows, d->kept ? want->tokens + want->padding : 0);
	assert_int_equal(got->ticket, 0);
	assert_int_equal(got->phase, layer + 1);
	if (fabs(got->confidence - want->confidence) > 1e-5 * (1 + fabs(want->confidence)))
		fail_msg("confidence %.9g is not %.9g", got->confidence, want->confidence);
	assert_memory_equal(load, want->load, experts * 4);
	assert_memory_equal(k_hist, want->k_hist, (k + 1) * 4);
	if (d->kept)
		assert_kept(d, slot, layer, k, want);
}

/* One call, counted twice. */
static void check(unsigned int experts, unsigned int k, unsigned int rows, unsigned int odd,
		  uint64_t seed)
{
	for (unsigned int variant = 0; variant < 8; variant++) {
		struct device d;
		struct given given;
		struct recount want = { 0 };

		device_make(&d, 2, experts, k, 2, variant & 4 ? rows / 2 + 1 : 0);
		given_random(&given, experts, k, rows, odd, &seed);
		if (variant & 1)
			given_weights(&given, &seed);
		if (variant & 2)
			given_mask(&given, &seed);
		if (variant == 5 || variant == 6)
			given.valid = any(&seed, rows + 1);
		recount_add(&given, &want);
		device_route(&d, 1, &given, rows <= 32 ? 1 : 1 + any(&seed, 5), variant % 3 == 0,
			     2 + variant % 3);
		assert_layer(&d, 0, 1, k, experts, &want);
		assert_int_equal(device_layer(&d, 0, 0)->rows,
				 0); /* the other layer is untouched */
		assert_int_equal(device_layer(&d, 1, 1)->rows, 0);
		given_release(&given);
		recount_release(&want);
		device_release(&d);
	}
}

static void test_counts(void **state)
{
	static const struct {
		unsigned int experts, k, rows;
	} cases[] = { { 8, 2, 1 },	{ 8, 2, 32 },	 { 8, 2, 33 },	   { 8, 2, 5000 },
		      { 1, 1, 1 },	{ 1, 1, 700 },	 { 1024, 1, 100 }, { 1024, 64, 700 },
		      { 256, 8, 1000 }, { 252, 8, 300 }, { 253, 8, 300 },  { 64, 64, 90 },
		      { 128, 8, 31 },	{ 3, 3, 257 } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (unsigned int odd = 0; odd <= 256; odd += 128)
			check(cases[i].experts, cases[i].k, cases[i].rows, odd, i * 7 + odd + 1);
}

/* A kernel's worth of calls that differ in everything, twice: the second rows stand behind the first. */
static void test_many_calls(void **state)
{
	struct recorder_calls *calls = malloc(sizeof(*calls));
	struct recount want[RECORDER_FEW];
	struct device d;
	uint64_t seed = 11;

	(void)state;
	memset(want, 0, sizeof(want));
	device_make(&d, RECORDER_FEW, 300, 6, 2, 40);
	for (int turn = 0; turn < 2; turn++) {
		struct given given[RECORDER_FEW];

		memset(calls, 0xa5, sizeof(*calls));
		for (unsigned int i = 0; i < RECORDER_FEW; i++) {
			unsigned int k = 1 + i % 6, experts = k + i * 4;
			struct recorder_call call;

			given_random(&given[i], experts, k, 1 + any(&seed, 32), 30, &seed);
			if (i % 2)
				given_weights(&given[i], &seed);
			if (i % 3 == 0)
				given_mask(&given[i], &seed);
			if (i % 4 == 0)
				given[i].valid = any(&seed, given[i].rows + 1);
			recount_add(&given[i], &want[i]);
			call = device_call(&d, i, &given[i], i % 5 < 2, 2 + i % 3);
			if (i == 0)
				calls->common = call;
			calls->few[i] = (struct recorder_few){
				call.indices, call.weights,    call.valid,	  call.mask,
				call.rows,    call.k,	       call.experts,	  call.layer,
				call.phase,   call.indices_64, call.weights_type, 0
			};
		}
		shim_routes(calls, RECORDER_FEW, 32);
		for (unsigned int i = 0; i < RECORDER_FEW; i++) {
			call_release(calls->few[i].indices, calls->few[i].weights);
			given_release(&given[i]);
		}
	}
	for (unsigned int i = 0; i < RECORDER_FEW; i++) {
		unsigned int k = 1 + i % 6;

		assert_layer(&d, 0, i, k, k + i * 4, &want[i]);
		recount_release(&want[i]);
	}
	device_release(&d);
	free(calls);
}

static void test_all_padding(void **state)
{
	(void)state;
	for (unsigned int rows = 1; rows < 100; rows += 60) {
		struct given given;
		struct recount want = { 0 };
		struct device d;
		uint64_t seed = 1;

		device_make(&d, 1, 4, 2, 2, rows);
		given_random(&given, 4, 2, rows, 0, &seed);
		for (unsigned int i = 0; i < rows * 2; i++)
			given.slots[i] = -1;
		recount_add(&given, &want);
		assert_int_equal(want.padding, rows);
		device_route(&d, 0, &given, 1, false, 2);
		assert_layer(&d, 0, 0, 2, 4, &want);
		given_release(&given);
		recount_release(&want);
		device_release(&d);
	}
}

/* The rows of a later call stand behind those of the earlier ones, up to the number kept. */
static void test_several_calls_add_up(void **state)
{
	struct recount want = { 0 };
	struct device d;
	uint64_t seed = 5;

	(void)state;
	device_make(&d, 1, 16, 4, 2, 300);
	for (int call = 0; call < 6; call++) {
		struct given given;

		given_random(&given, 16, 4, 1 + any(&seed, 150), 20, &seed);
		given_weights(&given, &seed);
		recount_add(&given, &want);
		device_route(&d, 0, &given, given.rows <= 32 ? 1 : 3, true, 4);
		given_release(&given);
	}
	assert_true(want.n_kept > 300 * 4);
	assert_layer(&d, 0, 0, 4, 16, &want);
	recount_release(&want);
	device_release(&d);
}

static void test_weights_are_kept_as_shares(void **state)
{
	int64_t slots[] = { 0, 3, 2, -2 };
	float weights[] = { 1.5f, 0.5f, 0.25f, 9 };
	struct given given = {
		.experts = 4, .k = 2, .rows = 2, .valid = 2, .slots = slots, .weights = weights
	};
	struct device d;

	(void)state;
	device_make(&d, 1, 4, 2, 2, 2);
	device_route(&d, 0, &given, 1, true, 2);
	assert_int_equal(d.kept_weights[0], 191);
	assert_int_equal(d.kept_weights[1], 64);
	assert_int_equal(d.kept_weights[2], 255);
	assert_int_equal(d.kept_weights[3], 0);
	device_release(&d);
}

static void test_half_precision(void **state)
{
	(void)state;
	assert_true(half_as_float(0x3c00) == 1.0f);
	assert_true(half_as_float(0xbc00) == -1.0f);
	assert_true(half_as_float(0x3555) == 0.333251953125f);
	assert_true(half_as_float(0x7bff) == 65504.0f);
	assert_true(half_as_float(0x0001) == 5.9604644775390625e-8f);
	assert_true(half_as_float(0x8000) == 0);
	assert_true(isinf(half_as_float(0x7c00)));
	assert_true(isnan(half_as_float(0x7e00)));
}

/* With no slot left steps are dropped, each call counted, until the host gives slots back. */
static void test_full_ring(void **state)
{
	struct given given;
	struct device d;
	uint64_t seed = 3;

	(void)state;
	device_make(&d, 2, 4, 2, 3, 0);
	given_random(&given, 4, 2, 10, 0, &seed);
	for (int step = 0; step < 5; step++) {
		device_route(&d, 0, &given, 1, false, 2);
		device_route(&d, 1, &given, 1, false, 2);
		device_step(&d, -1);
	}
	assert_int_equal(d.shared.head, 3);
	assert_int_equal(d.shared.dropped_calls, 4);
	for (unsigned int slot = 0; slot < 3; slot++) {
		assert_int_equal(((struct recorder_slot *)(d.counts + slot * d.slot_words))->step,
				 slot);
		assert_int_equal(device_layer(&d, slot, 0)->tokens, 10);
	}
	/* The host has taken one; it is seen at the end of a step. */
	memset(d.counts, 0, d.slot_words * 4);
	d.shared.tail = 1;
	device_step(&d, -1);
	device_route(&d, 0, &given, 1, false, 2);
	device_step(&d, -1);
	assert_int_equal(d.shared.head, 4);
	assert_int_equal(((struct recorder_slot *)d.counts)->step, 6);
	assert_int_equal(device_layer(&d, 0, 0)->tokens, 10);
	assert_int_equal(d.shared.dropped_calls, 4);
	given_release(&given);
	device_release(&d);
}

static void test_gate_and_step_numbers(void **state)
{
	static const long long want[] = { 0, 40, 41, 46 };
	struct given given;
	struct device d;
	uint64_t seed = 3;

	(void)state;
	device_make(&d, 1, 4, 2, 8, 0);
	given_random(&given, 4, 2, 40, 0, &seed);
	device_route(&d, 0, &given, 1, false, 2);
	device_step(&d, -1); /* 0 */
	device_step(&d, -1); /* nothing in it: no slot */
	device_route(&d, 0, &given, 1, false, 2);
	device_step(&d, 40);
	device_route(&d, 0, &given, 1, false, 2);
	device_step(&d, -1); /* 41 */
	d.state.gate = 0;
	for (int i = 0; i < 4; i++) {
		device_route(&d, 0, &given, 1, false, 2);
		device_step(&d, -1);
	}
	d.state.gate = 1;
	device_route(&d, 0, &given, 1, false, 2);
	device_step(&d, -1);
	assert_int_equal(d.shared.head, 4);
	for (unsigned int slot = 0; slot < 4; slot++)
		assert_int_equal(((struct recorder_slot *)(d.counts + slot * d.slot_words))->step,
				 want[slot]);
	assert_int_equal(d.shared.dropped_calls, 0);
	given_release(&given);
	device_release(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_many_calls),
		cmocka_unit_test(test_all_padding),
		cmocka_unit_test(test_several_calls_add_up),
		cmocka_unit_test(test_weights_are_kept_as_shares),
		cmocka_unit_test(test_half_precision),
		cmocka_unit_test(test_full_ring),
		cmocka_unit_test(test_gate_and_step_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
