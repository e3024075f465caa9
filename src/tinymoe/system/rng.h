/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers: xoshiro256** (public algorithm of Blackman and Vigna), seeded by splitmix64.
 *
 * The state is four words that a checkpoint stores. Streams of one seed (parameters, batches,
 * sampling) are independent, so drawing more from one never affects another.
 */
#ifndef TINYMOE_RNG_H
#define TINYMOE_RNG_H

#include <stdint.h>

struct rng {
	uint64_t state[4];
};

enum rng_stream {
	RNG_PARAMETERS = 1,
	RNG_BATCHES = 2,
	RNG_SAMPLING = 3,
};

void rng_init(struct rng *rng, uint64_t seed, enum rng_stream stream);

/* Uniform in [0, 1); uniform in [0, limit) without modulo bias; standard normal. */
double rng_uniform(struct rng *rng);
uint64_t rng_below(struct rng *rng, uint64_t limit);
double rng_normal(struct rng *rng);

#endif
