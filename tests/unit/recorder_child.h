/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of the device recorder: a scripted driver that runs its kernels, calls that a scenario
 * and its test make alike, and a row of the run against an independent count of them. Include after
 * cmocka.h, once per program.
 */
#ifndef TESTS_RECORDER_CHILD_H
#define TESTS_RECORDER_CHILD_H

#include <dlfcn.h>

#include "fake_recorder_cuda.h"
#include "probe_child.h"
#include "recount.h"

#define LAYERS 3
#define EXPERTS 16
#define K 4
#define STREAM ((void *)0x7)

static const struct fake_recorder_cuda *cuda;

static inline void use_fake(void)
{
	void *library;

	CHECK(setenv("MOESCOPE_CUDA", FAKE_RECORDER_CUDA_PATH, 1) == 0);
	CHECK(setenv("MOESCOPE_NVRTC", FAKE_RECORDER_CUDA_PATH, 1) == 0);
	library = dlopen(FAKE_RECORDER_CUDA_PATH, RTLD_NOW);
	CHECK(library);
	cuda = dlsym(library, "fake_recorder_cuda");
	CHECK(cuda);
}

static inline struct moescope_recorder *opened_for(uint32_t layers, uint32_t experts,
						   uint64_t tokens, uint32_t slots)
{
	struct moescope_recorder_options options = { .struct_size = sizeof(options),
						     .layers = layers,
						     .experts = experts,
						     .k = K,
						     .tokens = tokens,
						     .slots = slots,
						     .weights = 1 };
	struct moescope_recorder *recorder = NULL;
	int r = moescope_recorder_open(&options, &recorder);

	if (r != 0)
		fprintf(stderr, "%s\n", moescope_recorder_words());
	CHECK(r == 0);
	CHECK(moescope_recorder_words()[0] == '\0');
	return recorder;
}

static inline struct moescope_recorder *opened(uint32_t experts, uint64_t tokens, uint32_t slots)
{
	return opened_for(LAYERS, experts, tokens, slots);
}

/* The call of a layer and step, the same in the scenario and in its test. */
static inline void make_given(uint32_t experts, int64_t step, uint32_t layer, struct given *given)
{
	uint64_t seed = (uint64_t)step * 31 + layer + 1;

	given_random(given, experts, K, 1 + any(&seed, 400), 12, &seed);
	if (step % 2)
		given_weights(given, &seed);
	if (step % 3 == 0)
		given_mask(given, &seed);
}

static inline struct moescope_device_routing routing_of(uint32_t layer, const struct given *given)
{
	return (struct moescope_device_routing){ .struct_size =
							 sizeof(struct moescope_device_routing),
						 .layer = (int32_t)layer,
						 .phase = MOESCOPE_DECODE,
						 .experts = given->experts,
						 .k = given->k,
						 .tokens = given->rows,
						 .indices = given->slots,
						 .indices_type = MOESCOPE_I64,
						 .weights_type = MOESCOPE_F32,
						 .weights = given->weights,
						 .valid = &given->valid,
						 .mask = given->mask,
						 .stream = STREAM };
}

static inline int route_given(struct moescope_recorder *recorder, uint32_t layer,
			      const struct given *given)
{
	struct moescope_device_routing routing = routing_of(layer, given);

	return moescope_recorder_route(recorder, &routing);
}

static inline void route_step(struct moescope_recorder *recorder, uint32_t experts, int64_t step)
{
	for (uint32_t layer = 0; layer < LAYERS; layer++) {
		struct given given;

		make_given(experts, step, layer, &given);
		CHECK(route_given(recorder, layer, &given) == 0);
		given_release(&given);
	}
	CHECK(moescope_recorder_step(recorder, step, STREAM) == 0);
}

/* The counts of a row, whatever its step and layer. */
static inline void assert_counts(const struct run *run, size_t row, uint32_t experts,
				 const struct recount *counted)
{
	const struct table_routing *t = &run->routing;
	struct recount want = *counted;

	assert_int_equal(t->phase[row], MOESCOPE_DECODE);
	assert_int_equal(t->k[row], K);
	assert_int_equal(t->experts[row], experts);
	assert_int_equal(t->tokens[row], want.tokens);
	assert_int_equal(t->padding[row], want.padding);
	assert_int_equal(t->unused[row], want.unused);
	assert_int_equal(t->dropped[row], want.dropped);
	assert_int_equal(t->invalid[row], want.invalid);
	assert_int_equal(t->weighted_tokens[row], want.weighted);
	assert_near(t->confidence_sum[row], want.confidence);
	assert_memory_equal(t->load + t->load_first[row], want.load, experts * 4);
	assert_memory_equal(t->k_hist + t->k_hist_first[row], want.k_hist, (K + 1) * 4);
	assert_true(t->time_ns[row] > 0);
}

static inline void assert_routing(const struct run *run, size_t row, uint32_t experts, int64_t step,
				  uint32_t layer)
{
	struct recount want = { 0 };
	struct given given;

	make_given(experts, step, layer, &given);
	recount_add(&given, &want);
	assert_int_equal(run->routing.step[row], step);
	assert_int_equal(run->routing.layer[row], layer);
	assert_counts(run, row, experts, &want);
	given_release(&given);
	recount_release(&want);
}

#endif
