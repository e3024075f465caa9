/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns a completed slot of the recorder into rows of the run: the same rows as routing.c makes
 * from arrays in host memory. On the recorder's drain thread.
 */
#include <string.h>

#include "probe/core/device_rows.h"
#include "probe/routing/recorder_inside.h"

static void push_counts(const struct moescope_recorder *r, const struct recorder_layer *layer,
			struct row_routing *row)
{
	const uint32_t *k_hist = (const uint32_t *)(layer + 1), *load = k_hist + r->k + 1;
	struct probe_list lists[] = {
		{ load, row->experts * sizeof(uint32_t) },
		{ k_hist, row->k_slots * sizeof(uint32_t) },
	};

	probe_push_device_lists(RECORD_ROUTING, row, sizeof(*row), lists, 2);
}

/* Kept slots as the API has them. */
static void widen(const struct moescope_recorder *r, const uint8_t *kept, size_t n, int32_t *to)
{
	const uint16_t *wide = (const uint16_t *)kept;
	int32_t limit = RECORDER_CODE(RECORDER_INVALID, r->kept_bytes),
		top = limit + RECORDER_CODES;

	for (size_t i = 0; i < n; i++) {
		int32_t code = r->kept_bytes == 1 ? kept[i] : wide[i];

		to[i] = code >= limit ? code - top : code;
	}
}

static void push_kept(struct moescope_recorder *r, const struct recorder_layer *layer,
		      const struct row_routing *routing, const uint8_t *kept,
		      const uint8_t *kept_weights)
{
	uint32_t rows = layer->rows < r->kept_rows ? layer->rows : r->kept_rows, k = routing->k;
	struct ring *ring = probe_ring();
	uint32_t piece;

	if (!ring)
		return;
	piece = probe_piece_bytes(ring) / (sizeof(int32_t) * k);
	for (uint32_t first = 0; first < rows; first += piece) {
		uint32_t n = rows - first < piece ? rows - first : piece;
		struct row_routed row = { .step = routing->step,
					  .layer = routing->layer,
					  .phase = routing->phase,
					  .k = k,
					  .first = first,
					  .slots = n * k };
		struct probe_list lists[] = {
			{ r->slot_row, row.slots * sizeof(int32_t) },
			{ kept_weights ? kept_weights + (size_t)first * k : NULL, 0 },
		};

		if (kept_weights)
			row.weights = row.slots;
		lists[1].bytes = row.weights;
		widen(r, kept + (size_t)first * k * r->kept_bytes, row.slots, r->slot_row);
		probe_push_device_lists(RECORD_ROUTED, &row, sizeof(row), lists, 2);
	}
}

void recorder_rows_push(struct moescope_recorder *r, const uint32_t *counts, const uint8_t *kept,
			const uint8_t *kept_weights, int64_t time_ns)
{
	const struct recorder_slot *slot = (const struct recorder_slot *)counts;
	size_t layer_slots = (size_t)r->kept_rows * r->k;

	for (uint32_t l = 0; l < r->layers; l++) {
		const struct recorder_layer *layer = recorder_layer_at(r, counts, l);
		uint32_t shape = atomic_load_explicit(&r->shapes[l], memory_order_relaxed);
		struct row_routing row = { .time_ns = time_ns,
					   .step = slot->step,
					   .layer = (int32_t)l,
					   .phase = (uint8_t)layer->phase,
					   .k = shape & 0xff,
					   .tokens = layer->tokens,
					   .padding = layer->padding,
					   .unused = layer->unused,
					   .dropped = layer->dropped,
					   .invalid = layer->invalid,
					   .experts = shape >> 8,
					   .k_slots = (shape & 0xff) + 1,
					   .weighted_tokens = layer->weighted,
					   .confidence_sum = layer->confidence };

		if (!layer->tokens && !layer->padding)
			continue;
		push_counts(r, layer, &row);
		if (kept)
			push_kept(r, layer, &row, kept + l * layer_slots * r->kept_bytes,
				  kept_weights && layer->weighted ? kept_weights + l * layer_slots
								  : NULL);
	}
}
