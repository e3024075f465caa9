/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers with a seed: the same seed and stream give the same numbers on every machine. One
 * owner, any thread.
 */
#ifndef LAB_SAMPLING_H
#define LAB_SAMPLING_H

#include <stdint.h>

struct sampler {
	uint64_t state;
};

/* What the numbers are for: streams of one seed are independent, so more prompts do not change the
 * arrivals. */
enum sampler_stream { STREAM_ARRIVALS, STREAM_LENGTHS, STREAM_PROMPTS, STREAM_CANCELS };

void sampler_seed(struct sampler *sampler, int64_t seed, enum sampler_stream stream);
double sample_uniform(struct sampler *sampler);		    /* between 0 and 1, exclusive */
double sample_normal(struct sampler *sampler);		    /* mean 0, deviation 1 */
double sample_gamma(struct sampler *sampler, double shape); /* scale 1, so its mean is the shape */

#endif
