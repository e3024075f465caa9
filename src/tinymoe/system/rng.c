/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers. Stateless: the caller owns the struct rng, one thread at a time.
 */
#include "tinymoe/system/rng.h"

#include <math.h>

static uint64_t rotate_left(uint64_t x, int bits)
{
	return (x << bits) | (x >> (64 - bits));
}

static uint64_t splitmix(uint64_t *x)
{
	uint64_t z = *x += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

void rng_init(struct rng *rng, uint64_t seed, enum rng_stream stream)
{
	uint64_t x = seed;

	/* The stream is hashed in, not added: seeds 1 and 2 must not share shifted streams. */
	x = splitmix(&x) ^ ((uint64_t)stream * UINT64_C(0xd1342543de82ef95));
	for (int i = 0; i < 4; i++)
		rng->state[i] = splitmix(&x);
}

static uint64_t rng_next(struct rng *rng)
{
	uint64_t *s = rng->state;
	uint64_t result = rotate_left(s[1] * 5, 7) * 9;
	uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotate_left(s[3], 45);
	return result;
}

double rng_uniform(struct rng *rng)
{
	return (double)(rng_next(rng) >> 11) * 0x1p-53;
}

uint64_t rng_below(struct rng *rng, uint64_t limit)
{
	uint64_t reject = -limit % limit;
	uint64_t x;

	do {
		x = rng_next(rng);
	} while (x < reject);
	return x % limit;
}

double rng_normal(struct rng *rng)
{
	double radius = sqrt(-2 * log(1 - rng_uniform(rng)));

	return radius * cos(6.283185307179586 * rng_uniform(rng));
}
