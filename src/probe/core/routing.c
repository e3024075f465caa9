/* SPDX-License-Identifier: Apache-2.0
 *
 * Routing reported by the program: counted here, on the caller's thread, straight into its ring, so
 * the arrays can be reused when the call returns.
 *
 * The slots are counted in two ways: per expert, and per token as k; the reader checks that both
 * sums agree.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "probe/core/probe.h"

#define MAX_K 64
#define MAX_EXPERTS 32768 /* their counts fit the usual ring */
#define LOOK_STRIDE 8	  /* below MOESCOPE_FULL weights and scores of every eighth token count */

struct counts {
	uint32_t *load, *k_hist;
	struct row_routing *row;
};

/* Slot s of token t as stored in a run: an expert, one of MOESCOPE_SLOT_*, or an invalid value. */
static inline int32_t slot_as(const struct moescope_routing *routing, enum moescope_number type,
			      uint64_t t, uint32_t s)
{
	uint64_t at = t * routing->k + s;
	int64_t slot = type == MOESCOPE_I64 ? ((const int64_t *)routing->indices)[at]
					    : ((const int32_t *)routing->indices)[at];

	if (routing->mask && !routing->mask[t])
		return MOESCOPE_SLOT_PADDING;
	if ((uint64_t)slot < routing->experts)
		return (int32_t)slot;
	if (routing->elsewhere && slot != MOESCOPE_SLOT_DROPPED)
		return MOESCOPE_SLOT_UNUSED;
	return slot == (int32_t)slot ? (int32_t)slot : INT32_MAX;
}

static int32_t slot_of(const struct moescope_routing *routing, uint64_t t, uint32_t s)
{
	return slot_as(routing, routing->indices_type, t, s);
}

/* Inlined once per type, so the loop over all slots does not test for it. */
static inline __attribute__((always_inline)) void count_slots_as(
	const struct moescope_routing *routing, enum moescope_number type, struct counts *to)
{
	struct row_routing *row = to->row;

	for (uint64_t t = 0; t < routing->tokens; t++) {
		uint32_t used = 0, padding = 0;

		for (uint32_t s = 0; s < routing->k; s++) {
			int32_t slot = slot_as(routing, type, t, s);

			if ((uint32_t)slot < routing->experts) {
				to->load[slot]++;
				used++;
			} else if (slot == MOESCOPE_SLOT_PADDING) {
				padding++;
			} else if (slot == MOESCOPE_SLOT_UNUSED) {
				row->unused++;
			} else if (slot == MOESCOPE_SLOT_DROPPED) {
				row->dropped++;
			} else {
				row->invalid++;
			}
		}
		if (padding == routing->k) {
			row->padding++;
			continue;
		}
		row->unused += padding; /* in a real token: an unused slot */
		row->tokens++;
		to->k_hist[used]++;
	}
}

static void count_slots(const struct moescope_routing *routing, struct counts *to)
{
	if (routing->indices_type == MOESCOPE_I64)
		count_slots_as(routing, MOESCOPE_I64, to);
	else
		count_slots_as(routing, MOESCOPE_I32, to);
}

static bool is_padding(const struct moescope_routing *routing, uint64_t t)
{
	for (uint32_t s = 0; s < routing->k; s++)
		if (slot_of(routing, t, s) != MOESCOPE_SLOT_PADDING)
			return false;
	return true;
}

static float half_float(uint16_t bits)
{
	int exponent = bits >> 10 & 31;
	float fraction = (float)(bits & 1023);
	float value = exponent == 0    ? ldexpf(fraction, -24)
		      : exponent == 31 ? (fraction != 0.0f ? NAN : INFINITY)
				       : ldexpf(fraction + 1024, exponent - 25);

	return bits & 0x8000 ? -value : value;
}

static float bfloat_float(uint16_t bits)
{
	uint32_t wide = (uint32_t)bits << 16;
	float value;

	memcpy(&value, &wide, sizeof(value));
	return value;
}

/* The weight of a slot; 0 if it has none: no expert, not a positive number. */
static float weight_of(const struct moescope_routing *routing, uint64_t t, uint32_t s)
{
	uint64_t at = t * routing->k + s;
	float weight;

	if ((uint32_t)slot_of(routing, t, s) >= routing->experts)
		return 0;
	switch (routing->weights_type) {
	case MOESCOPE_F16:
		weight = half_float(((const uint16_t *)routing->weights)[at]);
		break;
	case MOESCOPE_BF16:
		weight = bfloat_float(((const uint16_t *)routing->weights)[at]);
		break;
	default:
		weight = ((const float *)routing->weights)[at];
	}
	return weight > 0 && isfinite(weight) ? weight : 0;
}

/* 1 - H(w)/ln E over the token's normalised weights, summed over the tokens that have any. */
static void sum_confidence(const struct moescope_routing *routing, uint64_t stride,
			   struct row_routing *row)
{
	float per_nat = 1.0f / logf((float)routing->experts);

	for (uint64_t t = 0; t < routing->tokens; t += stride) {
		float weights[MAX_K], sum = 0, entropy = 0;

		for (uint32_t s = 0; s < routing->k; s++)
			sum += weights[s] = weight_of(routing, t, s);
		if (!(sum > 0))
			continue;
		for (uint32_t s = 0; s < routing->k; s++)
			if (weights[s] > 0)
				entropy -= weights[s] / sum * logf(weights[s] / sum);
		row->confidence_sum += 1.0f - entropy * per_nat;
		row->weighted_tokens++;
	}
}

/* The k + 1 largest of a score row, descending. */
static void largest(const float *scores, uint32_t n, uint32_t k, float *top)
{
	uint32_t have = 0;

	for (uint32_t e = 0; e < n; e++) {
		uint32_t at = have;

		if (have == k + 1 && scores[e] <= top[k])
			continue;
		if (have <= k)
			have++;
		else
			at = k;
		for (; at > 0 && top[at - 1] < scores[e]; at--)
			top[at] = top[at - 1];
		top[at] = scores[e];
	}
	for (; have <= k; have++)
		top[have] = 0;
}

static void sum_scores(const struct moescope_routing *routing, uint64_t stride,
		       struct row_routing *row)
{
	float top[MAX_K + 1];

	for (uint64_t t = 0; t < routing->tokens; t += stride) {
		const float *scores = routing->scores + t * routing->experts;
		float entropy = 0, mass = 0;

		if (is_padding(routing, t))
			continue;
		for (uint32_t e = 0; e < routing->experts; e++)
			if (scores[e] > 0)
				entropy -= scores[e] * logf(scores[e]);
		largest(scores, routing->experts, routing->k, top);
		for (uint32_t s = 0; s < routing->k; s++)
			mass += top[s];
		row->entropy_sum += entropy;
		row->top1_sum += top[0];
		row->topk_mass_sum += mass;
		row->margin_sum += top[routing->k - 1] - top[routing->k];
		row->scored_tokens++;
	}
}

static void fill_slots(const struct moescope_routing *routing, uint64_t first, uint64_t rows,
		       int32_t *to)
{
	bool plain = routing->indices_type == MOESCOPE_I32 && !routing->mask && !routing->elsewhere;

	if (plain) {
		memcpy(to, (const int32_t *)routing->indices + first * routing->k,
		       rows * routing->k * sizeof(*to));
		return;
	}
	for (uint64_t t = first; t < first + rows; t++)
		for (uint32_t s = 0; s < routing->k; s++)
			*to++ = slot_of(routing, t, s);
}

static void push_slots(const struct moescope_routing *routing, int64_t step, uint32_t phase,
		       struct ring *ring)
{
	uint64_t piece = probe_piece_bytes(ring) / (sizeof(int32_t) * routing->k);

	for (uint64_t first = 0; first < routing->tokens; first += piece) {
		uint64_t rows = routing->tokens - first < piece ? routing->tokens - first : piece;
		struct row_routed row = { .step = step,
					  .layer = routing->layer,
					  .phase = (uint8_t)phase,
					  .k = routing->k,
					  .first = first,
					  .slots = (uint32_t)(rows * routing->k) };
		size_t bytes = sizeof(struct ring_record) + sizeof(row) +
			       ((row.slots * sizeof(int32_t) + 7) & ~(size_t)7);
		struct ring_record *record = probe_reserve(ring, RECORD_ROUTED, 0, bytes);
		char *to = (char *)(record + 1);

		if (!record)
			continue;
		memcpy(to, &row, sizeof(row));
		fill_slots(routing, first, rows, (int32_t *)(to + sizeof(row)));
		ring_commit(ring, (uint32_t)bytes);
	}
}

static bool valid(const struct moescope_routing *routing)
{
	return routing->indices && routing->experts && routing->experts <= MAX_EXPERTS &&
	       routing->k && routing->k <= MAX_K && routing->k <= routing->experts &&
	       routing->indices_type <= MOESCOPE_I64 && routing->weights_type <= MOESCOPE_BF16 &&
	       routing->weights_type != MOESCOPE_I64;
}

/* Counts straight into the ring; false if there was no room. */
static bool count(struct ring *ring, const struct moescope_routing *routing, uint32_t level,
		  struct row_routing *row)
{
	size_t load_bytes = (routing->experts * sizeof(uint32_t) + 7) & ~(size_t)7;
	size_t bytes = sizeof(struct ring_record) + sizeof(*row) + load_bytes +
		       (((routing->k + 1) * sizeof(uint32_t) + 7) & ~(size_t)7);
	struct ring_record *record = probe_reserve(ring, RECORD_ROUTING, 0, bytes);
	uint64_t stride = level >= MOESCOPE_FULL ? 1 : LOOK_STRIDE;
	struct counts to = { .row = row };

	if (!record)
		return false;
	memset(record + 1, 0, bytes - sizeof(*record));
	to.load = (uint32_t *)((char *)(record + 1) + sizeof(*row));
	to.k_hist = (uint32_t *)((char *)to.load + load_bytes);
	row->time_ns = (int64_t)clock_ticks();
	row->step = steps_current();
	row->layer = routing->layer;
	row->phase = (uint8_t)(routing->phase ? routing->phase : probe_phase(ring));
	row->k = routing->k;
	row->experts = routing->experts;
	row->k_slots = routing->k + 1;
	count_slots(routing, &to);
	if (level >= MOESCOPE_TRACE && routing->weights && routing->experts > 1)
		sum_confidence(routing, stride, row);
	if (level >= MOESCOPE_TRACE && routing->scores)
		sum_scores(routing, stride, row);
	memcpy(record + 1, row, sizeof(*row));
	ring_commit(ring, (uint32_t)bytes);
	return true;
}

static void route(struct ring *ring, const struct moescope_routing *routing, uint32_t level)
{
	struct row_routing row = { 0 };

	if (count(ring, routing, level, &row) && level >= MOESCOPE_FULL)
		push_slots(routing, row.step, row.phase, ring);
}

void moescope_routes(const struct moescope_routing *routings, size_t n)
{
	uint32_t gate = gate_load(), level = GATE_NOW(gate);
	const char *at = (const char *)routings;
	struct moescope_routing routing;
	struct ring *ring;
	size_t stride = 0;

	if (level < MOESCOPE_COUNTS || !(ring = probe_take()))
		return;
	for (size_t i = 0; i < n; i++, at += stride) {
		bool given = probe_given(&routing, sizeof(routing), at);

		if (given && !stride)
			stride = routing.struct_size;
		if (given && routing.struct_size == stride && valid(&routing))
			route(ring, &routing, level);
		else
			ring_drop(ring, DROP_TOO_LARGE);
		if (!stride)
			break;
	}
	probe_give();
}

void moescope_route(const struct moescope_routing *routing)
{
	moescope_routes(routing, 1);
}
