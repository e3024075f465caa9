/* SPDX-License-Identifier: Apache-2.0
 *
 * The other records of the program: marks, counters, memory, tokens, facts. On the program's
 * threads; a gate load when off, a copy into the thread's ring when on.
 */
#include <errno.h>
#include <string.h>

#include "probe/probe.h"

void probe_push(enum record_kind kind, const void *row, size_t row_size,
		const struct probe_list *lists, int n_lists)
{
	size_t bytes = sizeof(struct ring_record) + row_size;
	struct ring *ring = probe_ring();
	struct ring_record *record;
	char *to;

	if (!ring)
		return;
	for (int i = 0; i < n_lists; i++)
		bytes += (lists[i].bytes + 7) & ~(size_t)7;
	if (bytes > ring->size / 4 || bytes / 8 > UINT16_MAX) {
		ring_drop(ring, DROP_TOO_LARGE);
		return;
	}
	record = ring_reserve(ring, (uint32_t)bytes);
	if (!record)
		return;
	*record = (struct ring_record){ .words = (uint16_t)(bytes / 8), .kind = (uint8_t)kind };
	to = (char *)(record + 1);
	memcpy(to, row, row_size);
	to += row_size;
	for (int i = 0; i < n_lists; i++) {
		memcpy(to, lists[i].data, lists[i].bytes);
		to += (lists[i].bytes + 7) & ~(size_t)7;
	}
	ring_commit(ring, (uint32_t)bytes);
}

/* Every row structure has 8-byte fields or a size that is a multiple of 8 in the ring. */
#define PUSH(kind, row)                                                                            \
	do {                                                                                       \
		_Static_assert(sizeof(row) % 8 == 0, "rows keep the ring aligned");                \
		probe_push(kind, &(row), sizeof(row), NULL, 0);                                    \
	} while (0)

static uint32_t thread_of(const struct ring *ring)
{
	return ring ? atomic_load_explicit(&ring->control->thread, memory_order_relaxed) : 0;
}

void moescope_mark(const char *text)
{
	struct row_mark row = { 0 };

	if (GATE_NOW(gate_load()) < MOESCOPE_COUNTS)
		return;
	row.time_ns = (int64_t)clock_ticks();
	row.text = moescope_intern(text);
	row.thread = thread_of(probe_ring());
	PUSH(RECORD_MARK, row);
}

void moescope_counter(const char *name, double value)
{
	struct row_counter row = { 0 };

	if (GATE_NOW(gate_load()) < MOESCOPE_COUNTS)
		return;
	row.time_ns = (int64_t)clock_ticks();
	row.name = moescope_intern(name);
	row.value = value;
	PUSH(RECORD_COUNTER, row);
}

/* Memory is recorded in every step, scheduled or not: a free makes no sense without its
 * allocation. */
void moescope_alloc(const void *address, uint64_t bytes, int32_t device,
		    enum moescope_memory_use use, moescope_name site)
{
	struct row_memory row = { 0 };

	if (GATE_SESSION(gate_load()) < MOESCOPE_STEPS)
		return;
	row.time_ns = (int64_t)clock_ticks();
	row.address = (uintptr_t)address;
	row.bytes = bytes;
	row.device = device;
	row.use = (uint8_t)use;
	row.site = site;
	row.thread = thread_of(probe_ring());
	PUSH(RECORD_MEMORY, row);
}

void moescope_free(const void *address, int32_t device)
{
	struct row_memory row = { .event = 1 };

	if (GATE_SESSION(gate_load()) < MOESCOPE_STEPS)
		return;
	row.time_ns = (int64_t)clock_ticks();
	row.address = (uintptr_t)address;
	row.device = device;
	row.thread = thread_of(probe_ring());
	PUSH(RECORD_MEMORY, row);
}

void moescope_device_sample(uint32_t device, moescope_name metric, double value)
{
	struct row_sample row = { .device = device, .metric = metric, .value = value };

	if (GATE_SESSION(gate_load()) < MOESCOPE_STEPS)
		return;
	row.time_ns = (int64_t)clock_ticks();
	PUSH(RECORD_SAMPLE, row);
}

static void token_event(uint64_t request, uint8_t event, uint64_t count)
{
	struct row_token row = { .request = request, .event = event, .count = count };

	if (GATE_NOW(gate_load()) < MOESCOPE_STEPS)
		return;
	row.time_ns = (int64_t)clock_ticks();
	PUSH(RECORD_TOKEN, row);
}

void moescope_request_begin(uint64_t request, uint64_t prompt_tokens)
{
	token_event(request, 0, prompt_tokens);
}

void moescope_token(uint64_t request)
{
	token_event(request, 1, 1);
}

void moescope_request_end(uint64_t request)
{
	token_event(request, 2, 0);
}

void moescope_info(const char *key, const char *value)
{
	struct row_fact row = { 0 };

	if (GATE_SESSION(gate_load()) < MOESCOPE_COUNTS)
		return;
	row.key = moescope_intern(key);
	row.value = moescope_intern(value);
	PUSH(RECORD_FACT, row);
}

void moescope_moe_layer(const struct moescope_moe_layer *layer)
{
	struct row_moe_layer row;

	if (GATE_SESSION(gate_load()) < MOESCOPE_COUNTS || !layer ||
	    layer->struct_size < sizeof(*layer))
		return;
	row = (struct row_moe_layer){ .layer = layer->layer,
				      .experts = layer->experts,
				      .k = layer->k,
				      .hidden = layer->hidden,
				      .inner = layer->inner,
				      .matrices = layer->matrices,
				      .expert_bytes = layer->expert_bytes,
				      .capacity_factor = layer->capacity_factor };
	PUSH(RECORD_MOE_LAYER, row);
}
