/* SPDX-License-Identifier: Apache-2.0
 *
 * An independent count of routing, written from the text of moescope.h: what the recorder's counts of
 * a layer and step must be. Also random calls with every kind of slot in them.
 */
#ifndef TESTS_RECOUNT_H
#define TESTS_RECOUNT_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define RECOUNT_EXPERTS 1024
#define RECOUNT_K 64
#define RECOUNT_ROWS 20000

/* A call as the test makes it; rows*k slots, and what goes with them. */
struct given {
	uint32_t experts, k, rows;
	int64_t *slots;
	float *weights; /* NULL: none */
	uint8_t *mask;	/* NULL: none */
	uint32_t valid; /* rows: all */
};

struct recount {
	uint64_t tokens, padding, unused, dropped, invalid, weighted;
	double confidence;
	uint32_t load[RECOUNT_EXPERTS], k_hist[RECOUNT_K + 1];
	int32_t *kept; /* slots of all rows, in order */
	size_t n_kept;
};

static inline void recount_release(struct recount *count)
{
	free(count->kept);
	memset(count, 0, sizeof(*count));
}

static inline void given_release(struct given *given)
{
	free(given->slots);
	free(given->weights);
	free(given->mask);
	memset(given, 0, sizeof(*given));
}

static inline uint32_t any(uint64_t *seed, uint32_t n)
{
	*seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)((*seed >> 33) % n);
}

/* `odd` of 256 slots are no expert. */
static inline void given_random(struct given *given, uint32_t experts, uint32_t k, uint32_t rows,
				uint32_t odd, uint64_t *seed)
{
	static const int64_t oddities[] = { -1, -2, -3, -4, -1000, INT32_MIN, INT32_MAX, 0 };

	*given = (struct given){ .experts = experts, .k = k, .rows = rows, .valid = rows };
	given->slots = calloc((size_t)rows * k + 1, sizeof(*given->slots));
	for (size_t i = 0; i < (size_t)rows * k; i++) {
		int64_t odd_slot = oddities[any(seed, 8)];

		given->slots[i] = any(seed, 256) < odd ? odd_slot ? odd_slot : experts
						       : any(seed, experts);
	}
	for (uint32_t row = 0; odd && row < rows; row += 1 + any(seed, 7))
		for (uint32_t s = 0; s < k; s++)
			given->slots[(size_t)row * k + s] = -1;
}

static inline void given_weights(struct given *given, uint64_t *seed)
{
	given->weights = calloc((size_t)given->rows * given->k + 1, sizeof(float));
	for (size_t i = 0; i < (size_t)given->rows * given->k; i++)
		given->weights[i] = (float)any(seed, 64) / 64.0f;
}

static inline void given_mask(struct given *given, uint64_t *seed)
{
	given->mask = calloc(given->rows + 1, 1);
	for (uint32_t i = 0; i < given->rows; i++)
		given->mask[i] = any(seed, 4) != 0;
}

static inline double entropy_of(const double *share, uint32_t n)
{
	double h = 0;

	for (uint32_t i = 0; i < n; i++)
		h -= share[i] > 0 ? share[i] * log(share[i]) : 0;
	return h;
}

static inline void recount_row(const struct given *given, uint32_t row, struct recount *count)
{
	const int64_t *slots = given->slots + (size_t)row * given->k;
	int is_token = row < given->valid && (!given->mask || given->mask[row]), real = 0;
	double share[RECOUNT_K] = { 0 }, sum = 0;
	uint32_t experts = 0, unused = 0;

	for (uint32_t s = 0; s < given->k; s++)
		real |= slots[s] != -1;
	is_token = is_token && real;
	for (uint32_t s = 0; s < given->k; s++) {
		int expert = slots[s] >= 0 && slots[s] < given->experts;

		count->kept[count->n_kept++] = !is_token ? -1
					       : expert || (slots[s] >= -3 && slots[s] < 0)
						       ? (int32_t)slots[s]
						       : -4;
		if (!is_token)
			continue;
		if (expert) {
			count->load[slots[s]]++;
			experts++;
			share[s] = given->weights
					   ? (double)given->weights[(size_t)row * given->k + s]
					   : 0;
			sum += share[s];
		}
		unused += slots[s] == -1 || slots[s] == -2;
		count->dropped += slots[s] == -3;
		count->invalid += !expert && (slots[s] < -3 || slots[s] >= 0);
	}
	if (!is_token) {
		count->padding++;
		return;
	}
	count->tokens++;
	count->unused += unused;
	count->k_hist[experts]++;
	if (sum > 0 && given->experts > 1) {
		for (uint32_t s = 0; s < given->k; s++)
			share[s] /= sum;
		count->weighted++;
		count->confidence += 1 - entropy_of(share, given->k) / log(given->experts);
	}
}

static inline void recount_add(const struct given *given, struct recount *count)
{
	count->kept = realloc(count->kept, (count->n_kept + (size_t)given->rows * given->k + 1) *
						   sizeof(*count->kept));
	for (uint32_t row = 0; row < given->rows; row++)
		recount_row(given, row, count);
}

#endif
