/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations that somebody else has timed, and the history of an allocator. On the program's thread, between its steps: here, unlike
 * in every other call, it waits for the drain, because a window of them is larger than a ring.
 */
#include "probe/probe.h"

static void push(struct ring *ring, const struct moescope_past_op *op)
{
	const uint8_t deepest = RING_OP_TIMES_NS - 1;
	struct ring_op *to;

	probe_wait_for_room(ring, sizeof(*to));
	to = ring_reserve(ring, sizeof(*to));
	if (!to)
		return;
	*to = (struct ring_op){
		.range = { .record = { .words = sizeof(*to) / 8,
				       .kind = RECORD_OP,
				       .depth = RING_OP_TIMES_NS |
						(uint8_t)(op->depth < deepest ? op->depth
									      : deepest),
				       .name = op->name },
			   .layer = op->layer,
			   .expert = op->expert,
			   .start_ticks = (uint64_t)op->start_ns,
			   .duration_phase = (uint64_t)op->duration_ns << 8 | (uint8_t)op->phase },
		.shape = op->shape | (uint64_t)op->thread << 32,
		.flops = op->flops,
		.bytes = op->bytes,
	};
	ring_commit(ring, sizeof(*to));
}

void moescope_past_ops(const struct moescope_past_op *ops, size_t n)
{
	struct ring *ring;

	if (GATE_SESSION(gate_load()) < MOESCOPE_TRACE || !(ring = probe_ring()))
		return;
	for (size_t i = 0; ops && i < n; i++)
		if (ops[i].duration_ns >= 0)
			push(ring, &ops[i]);
		else
			ring_drop(ring, DROP_UNBALANCED);
}

static void push_memory(struct ring *ring, const struct moescope_past_memory *event)
{
	struct memory_record {
		struct ring_record record;
		struct row_memory row;
	} * to;

	probe_wait_for_room(ring, sizeof(*to));
	to = ring_reserve(ring, sizeof(*to));
	if (!to)
		return;
	*to = (struct memory_record){
		.record = { .words = sizeof(*to) / 8,
			    .kind = RECORD_MEMORY,
			    .depth = RING_TIMES_NS },
		.row = { .time_ns = event->time_ns,
			 .event = (uint8_t)event->event,
			 .address = event->address,
			 .bytes = event->event == MOESCOPE_EVENT_FREE ? 0 : event->bytes,
			 .device = event->device,
			 .use = (uint8_t)event->use,
			 .site = event->site },
	};
	ring_commit(ring, sizeof(*to));
}

void moescope_past_memory(const struct moescope_past_memory *events, size_t n)
{
	struct ring *ring;

	if (GATE_SESSION(gate_load()) < MOESCOPE_STEPS || !(ring = probe_ring()))
		return;
	for (size_t i = 0; events && i < n; i++)
		push_memory(ring, &events[i]);
}
