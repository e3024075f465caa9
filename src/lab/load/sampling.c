/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers with a seed; see sampling.h.
 */
#include "lab/load/sampling.h"

#include <math.h>

#include "subjects/numbers/stats.h"

/* Steps of splitmix64: neighbouring seeds become distant states. */
static uint64_t mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

void sampler_seed(struct sampler *sampler, int64_t seed, enum sampler_stream stream)
{
	sampler->state = mix(mix((uint64_t)seed) + (uint64_t)stream);
}

double sample_uniform(struct sampler *sampler)
{
	return ((double)(stats_random(&sampler->state) >> 11) + 0.5) * 0x1p-53;
}

double sample_normal(struct sampler *sampler)
{
	double radius = sqrt(-2 * log(sample_uniform(sampler)));

	return radius * cos(2 * M_PI * sample_uniform(sampler));
}

/* Marsaglia and Tsang's method; a shape below 1 is that of shape + 1 times U^(1/shape). */
double sample_gamma(struct sampler *sampler, double shape)
{
	double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3;
	double c = 1 / sqrt(9 * d);
	double x, v, u;

	do {
		do {
			x = sample_normal(sampler);
			v = 1 + c * x;
		} while (v <= 0);
		v = v * v * v;
		u = sample_uniform(sampler);
	} while (log(u) >= 0.5 * x * x + d - d * v + d * log(v));
	if (shape < 1)
		return d * v * pow(sample_uniform(sampler), 1 / shape);
	return d * v;
}
