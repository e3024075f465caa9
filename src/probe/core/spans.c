/* SPDX-License-Identifier: Apache-2.0
 *
 * Open spans by id; see spans.h. An id is a never-reused number above the index of its slot, so an
 * end finds its slot without a search and a late one cannot hit another span.
 */
#include "probe/core/spans.h"

#include "probe/core/probe.h"

#define SLOT_BITS 12
#define NO_SLOT 0xfffu /* in an id: the span is not recorded */
#define BUSY 1	       /* smaller than any id */
_Static_assert(SPANS_OPEN <= NO_SLOT, "indexes fit their bits");

struct slot {
	_Atomic uint64_t id; /* 0: free */
	uint64_t start_ticks;
	uint32_t name, domain, thread, session;
};

static struct slot slots[SPANS_OPEN];
static _Atomic uint32_t n_open;
static _Atomic uint64_t next_number = 1;
static _Atomic uint64_t first_number; /* smaller ones belong to finished sessions */

static uint64_t new_number(void)
{
	return atomic_fetch_add_explicit(&next_number, 1, memory_order_relaxed);
}

/* A free slot made busy, or NULL. Numbers go round the table, so the first try usually succeeds. */
static struct slot *take_free(uint64_t number)
{
	if (atomic_fetch_add_explicit(&n_open, 1, memory_order_relaxed) < SPANS_OPEN) {
		for (uint32_t i = 0; i < SPANS_OPEN; i++) {
			struct slot *slot = &slots[(number + i) % SPANS_OPEN];
			uint64_t none = 0;

			if (atomic_load_explicit(&slot->id, memory_order_relaxed) == 0 &&
			    atomic_compare_exchange_strong(&slot->id, &none, BUSY))
				return slot;
		}
	}
	atomic_fetch_sub_explicit(&n_open, 1, memory_order_relaxed);
	return NULL;
}

/* Takes an id's span out of its slot; false if it is not there. */
static bool take_out(struct slot *slot, uint64_t id, struct slot *ret_span)
{
	if (!atomic_compare_exchange_strong(&slot->id, &id, BUSY))
		return false;
	ret_span->start_ticks = slot->start_ticks;
	ret_span->name = slot->name;
	ret_span->domain = slot->domain;
	ret_span->thread = slot->thread;
	ret_span->session = slot->session;
	atomic_store(&slot->id, 0);
	atomic_fetch_sub_explicit(&n_open, 1, memory_order_relaxed);
	return true;
}

uint64_t span_unrecorded(void)
{
	return new_number() << SLOT_BITS | NO_SLOT;
}

uint64_t span_start(uint32_t name, uint32_t domain, uint64_t start_ticks)
{
	uint64_t number = new_number(), id = number << SLOT_BITS | NO_SLOT;
	struct ring *ring = probe_ring();
	struct slot *slot;

	if (!ring)
		return id;
	slot = take_free(number);
	if (!slot) {
		ring_drop(ring, DROP_TOO_DEEP);
		return id;
	}
	slot->start_ticks = start_ticks;
	slot->name = name;
	slot->domain = domain;
	slot->thread = ring_thread(ring);
	slot->session = atomic_load_explicit(&probe_session, memory_order_relaxed);
	id = number << SLOT_BITS | (uint64_t)(slot - slots);
	atomic_store(&slot->id, id);
	return id;
}

static void record(const struct slot *span, uint64_t end_ticks, uint32_t end_thread,
		   uint8_t unfinished)
{
	struct row_span row = { .name = span->name,
				.start_ns = (int64_t)span->start_ticks,
				.duration_ns = (int64_t)(end_ticks - span->start_ticks),
				.thread = span->thread,
				.end_thread = end_thread,
				.domain = span->domain,
				.unfinished = unfinished };

	_Static_assert(sizeof(row) % 8 == 0, "rows keep the ring aligned");
	probe_push(RECORD_SPAN, &row, sizeof(row), NULL, 0);
}

void span_end(uint64_t id)
{
	uint32_t index = id & NO_SLOT;
	struct ring *ring;
	struct slot span;

	if (index == NO_SLOT || id >> SLOT_BITS <= atomic_load(&first_number))
		return;
	if (!take_out(&slots[index], id, &span)) {
		ring = GATE_NOW(gate_load()) ? probe_ring() : NULL;
		if (ring)
			ring_drop(ring, DROP_UNBALANCED);
		return;
	}
	if (span.session != atomic_load_explicit(&probe_session, memory_order_relaxed))
		return;
	ring = probe_ring();
	if (ring)
		record(&span, clock_ticks(), ring_thread(ring), 0);
}

uint32_t spans_finish(void)
{
	uint32_t session = atomic_load(&probe_session), n = 0;
	uint64_t now = 0;
	struct slot span;

	for (uint32_t i = 0; i < SPANS_OPEN && atomic_load(&n_open); i++) {
		uint64_t id = atomic_load(&slots[i].id);

		if (id <= BUSY || !take_out(&slots[i], id, &span) || span.session != session)
			continue;
		now = now ? now : clock_ticks();
		record(&span, now, 0, 1);
		n++;
	}
	atomic_store(&first_number, atomic_load(&next_number) - 1);
	return n;
}

void spans_after_fork(void)
{
	for (uint32_t i = 0; i < SPANS_OPEN && atomic_load(&n_open); i++)
		atomic_store(&slots[i].id, 0);
	atomic_store(&n_open, 0);
	atomic_store(&first_number, atomic_load(&next_number) - 1);
}
