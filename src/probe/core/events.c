/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's other records: marks, counters, memory, tokens, facts. On the program's threads; a
 * gate load when off, a copy into the thread's ring when on.
 */
#include <errno.h>
#include <string.h>

#include "probe/core/device_rows.h"
#include "probe/core/probe.h"

struct ring_record *probe_reserve(struct ring *ring, enum record_kind kind, uint8_t depth,
				  size_t bytes)
{
	struct ring_record *record;

	if (bytes > ring->size / 4 || bytes / 8 > UINT16_MAX) {
		ring_drop(ring, DROP_TOO_LARGE);
		return NULL;
	}
	record = ring_reserve(ring, (uint32_t)bytes);
	if (record)
		*record = (struct ring_record){ .words = (uint16_t)(bytes / 8),
						.kind = (uint8_t)kind,
						.depth = depth };
	return record;
}

static size_t record_bytes(size_t row_size, const struct probe_list *lists, int n_lists)
{
	size_t bytes = (sizeof(struct ring_record) + row_size + 7) & ~(size_t)7;

	for (int i = 0; i < n_lists; i++)
		bytes += (lists[i].bytes + 7) & ~(size_t)7;
	return bytes;
}

static void push_row(enum record_kind kind, uint8_t depth, const void *row, size_t row_size,
		     const struct probe_list *lists, int n_lists)
{
	struct ring *ring = probe_take();
	struct ring_record *record;
	char *to;

	if (!ring)
		return;
	record = probe_reserve(ring, kind, depth, record_bytes(row_size, lists, n_lists));
	if (record) {
		to = (char *)(record + 1);
		memcpy(to, row, row_size);
		to += row_size;
		for (int i = 0; i < n_lists; i++) {
			if (lists[i].bytes)
				memcpy(to, lists[i].data, lists[i].bytes);
			to += (lists[i].bytes + 7) & ~(size_t)7;
		}
		ring_commit(ring, record->words * 8u);
	}
	probe_give();
}

void probe_push(enum record_kind kind, const void *row, size_t row_size,
		const struct probe_list *lists, int n_lists)
{
	push_row(kind, 0, row, row_size, lists, n_lists);
}

void probe_push_ns(enum record_kind kind, const void *row, size_t row_size,
		   const struct probe_list *lists, int n_lists, bool wait)
{
	size_t bytes = record_bytes(row_size, lists, n_lists);
	struct ring *ring = probe_ring();

	if (!ring)
		return;
	/* Twice: at the end of the ring a record may have to skip almost its own size. */
	if (wait && bytes <= ring->size / 4 && ring->head + 2 * bytes > ring->limit)
		probe_wait_for_room(ring, (uint32_t)bytes);
	push_row(kind, RING_TIMES_NS, row, row_size, lists, n_lists);
}

__thread bool probe_on_program_thread;
_Atomic uint64_t probe_device_dropped, probe_device_unknown;

void probe_lost_device(uint64_t dropped, uint64_t unknown)
{
	atomic_fetch_add(&probe_device_dropped, dropped);
	atomic_fetch_add(&probe_device_unknown, unknown);
}

void probe_push_device(enum record_kind kind, const void *row, size_t row_size)
{
	probe_push_device_lists(kind, row, row_size, NULL, 0);
}

void probe_push_device_lists(enum record_kind kind, const void *row, size_t row_size,
			     const struct probe_list *lists, int n_lists)
{
	probe_push_ns(kind, row, row_size, lists, n_lists, !probe_on_program_thread);
}

/* Every row structure has 8-byte fields or a size that is a multiple of 8 in the ring. */
#define PUSH(kind, row)                                                                            \
	do {                                                                                       \
		_Static_assert(sizeof(row) % 8 == 0, "rows keep the ring aligned");                \
		probe_push(kind, &(row), sizeof(row), NULL, 0);                                    \
	} while (0)

void moescope_mark(const char *text)
{
	struct row_mark row = { 0 };
	struct ring *ring;

	if (GATE_NOW(gate_load()) < MOESCOPE_COUNTS || !(ring = probe_ring()))
		return;
	row.time_ns = (int64_t)clock_ticks();
	row.text = moescope_intern(text);
	row.thread = ring_thread(ring);
	PUSH(RECORD_MARK, row);
}

void moescope_counter(const char *name, double value)
{
	struct row_counter row = { 0 };

	if (GATE_NOW(gate_load()) < MOESCOPE_COUNTS || !probe_ring())
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
	struct ring *ring;

	if (GATE_SESSION(gate_load()) < MOESCOPE_STEPS || !(ring = probe_ring()))
		return;
	row.time_ns = (int64_t)clock_ticks();
	row.address = (uintptr_t)address;
	row.bytes = bytes;
	row.device = device;
	row.use = (uint8_t)use;
	row.site = site;
	row.thread = ring_thread(ring);
	PUSH(RECORD_MEMORY, row);
}

void moescope_free(const void *address, int32_t device)
{
	struct row_memory row = { .event = 1 };
	struct ring *ring;

	if (GATE_SESSION(gate_load()) < MOESCOPE_STEPS || !(ring = probe_ring()))
		return;
	row.time_ns = (int64_t)clock_ticks();
	row.address = (uintptr_t)address;
	row.device = device;
	row.thread = ring_thread(ring);
	PUSH(RECORD_MEMORY, row);
}

void moescope_device_sample(uint32_t device, moescope_name metric, double value)
{
	struct row_sample row = { .device = device, .metric = metric, .value = value };

	if (GATE_SESSION(gate_load()) < MOESCOPE_STEPS || !probe_ring())
		return;
	row.time_ns = (int64_t)clock_ticks();
	PUSH(RECORD_SAMPLE, row);
}

static void token_event(uint64_t request, uint8_t event, uint64_t count)
{
	struct row_token row = { .request = request, .event = event, .count = count };

	if (GATE_NOW(gate_load()) < MOESCOPE_STEPS || !probe_ring())
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
	struct moescope_moe_layer given;
	struct row_moe_layer row;

	if (GATE_SESSION(gate_load()) < MOESCOPE_COUNTS ||
	    !probe_given(&given, sizeof(given), layer))
		return;
	row = (struct row_moe_layer){ .layer = given.layer,
				      .experts = given.experts,
				      .k = given.k,
				      .hidden = given.hidden,
				      .inner = given.inner,
				      .matrices = given.matrices,
				      .expert_bytes = given.expert_bytes,
				      .capacity_factor = given.capacity_factor };
	PUSH(RECORD_MOE_LAYER, row);
}
