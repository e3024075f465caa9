/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations that something else has timed, and the history of an allocator. On the program's
 * thread, between its steps: unlike every other call, these wait for the drain, because a window of
 * them is larger than a ring.
 */
#include "probe/core/probe.h"

static void write_op(struct ring *ring, const struct moescope_past_op *op)
{
	const uint8_t deepest = RING_OP_TIMES_NS - 1;
	struct ring_op *to = ring_reserve(ring, sizeof(*to));

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

static void push_past_op(struct ring *ring, const struct moescope_past_op *op)
{
	probe_wait_for_room(ring, sizeof(struct ring_op));
	ring = probe_take();
	if (!ring)
		return;
	if (op->duration_ns >= 0)
		write_op(ring, op);
	else
		ring_drop(ring, DROP_UNBALANCED);
	probe_give();
}

void moescope_past_ops(const struct moescope_past_op *ops, size_t n)
{
	struct ring *ring;

	if (GATE_SESSION(gate_load()) < MOESCOPE_TRACE || !(ring = probe_ring()))
		return;
	for (size_t i = 0; ops && i < n; i++)
		push_past_op(ring, &ops[i]);
}

static void push_memory(const struct moescope_past_memory *event)
{
	struct row_memory row = { .time_ns = event->time_ns,
				  .event = (uint8_t)event->event,
				  .address = event->address,
				  .bytes = event->event == MOESCOPE_EVENT_FREE ? 0 : event->bytes,
				  .device = event->device,
				  .use = (uint8_t)event->use,
				  .site = event->site };

	probe_push_ns(RECORD_MEMORY, &row, sizeof(row), NULL, 0, true);
}

void moescope_past_memory(const struct moescope_past_memory *events, size_t n)
{
	if (GATE_SESSION(gate_load()) < MOESCOPE_STEPS)
		return;
	for (size_t i = 0; events && i < n; i++)
		push_memory(&events[i]);
}
