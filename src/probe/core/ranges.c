/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges and operations: the hot path. Runs on the program's threads; no lock, no system call
 * unless the ring is half full, no allocation after the thread's first record.
 *
 * An open range is a frame in the thread's shared control page, so it is known even if the process
 * is killed inside it; only its end makes a record.
 */
#include <errno.h>

#include "probe/core/probe.h"

#include "probe/core/open_ranges.h"

#define RELAXED memory_order_relaxed

/* Recording was switched while ranges were open: they cannot be closed with a true time. */
static void restack(struct ring *ring, uint32_t epoch)
{
	if (ring->epoch && ring->depth)
		atomic_fetch_add_explicit(&ring->control->dropped[DROP_UNBALANCED], ring->depth,
					  RELAXED);
	ring->epoch = epoch;
	ring->depth = ring->too_deep = 0;
	atomic_store_explicit(&ring->control->depth, 0, RELAXED);
}

/* The frame, or NULL if there was no room for it. */
static inline __attribute__((always_inline)) const struct ring_frame *open_frame(
	uint32_t gate, uint32_t name, int32_t layer, int32_t expert, uint32_t shape, uint64_t bits)
{
	struct ring *ring = probe_take();
	struct ring_frame *frame;

	if (__builtin_expect(!ring, 0))
		return NULL;
	if (__builtin_expect(ring->epoch != GATE_EPOCH(gate), 0))
		restack(ring, GATE_EPOCH(gate));
	if (__builtin_expect(ring->depth == RING_MAX_DEPTH, 0)) {
		ring->too_deep++;
		ring_drop(ring, DROP_TOO_DEEP);
		probe_give();
		return NULL;
	}
	frame = &ring->control->frames[ring->depth];
	if (ring->depth) {
		const struct ring_frame *outer = frame - 1;

		if (layer < 0)
			layer = (int32_t)(atomic_load_explicit(&outer->name_layer, RELAXED) >> 32);
		if (expert < 0)
			expert = (int32_t)atomic_load_explicit(&outer->expert_shape, RELAXED);
		if (!(bits & 0xff))
			bits |= atomic_load_explicit(&outer->bits, RELAXED) & 0xff;
	}
	atomic_store_explicit(&frame->name_layer, name | (uint64_t)(uint32_t)layer << 32, RELAXED);
	atomic_store_explicit(&frame->expert_shape, (uint32_t)expert | (uint64_t)shape << 32,
			      RELAXED);
	atomic_store_explicit(&frame->bits, bits, RELAXED);
	atomic_store_explicit(&frame->start_ticks, clock_ticks(), RELAXED);
	atomic_store_explicit(&ring->control->depth, ++ring->depth, memory_order_release);
	probe_give();
	return frame;
}

/* The frame that an end closes, or NULL if there is none. */
static inline __attribute__((always_inline)) const struct ring_frame *pop(struct ring *ring,
									  uint32_t gate)
{
	if (__builtin_expect(ring->epoch != GATE_EPOCH(gate), 0)) {
		bool first = ring->epoch == 0; /* no range before this on the thread */

		restack(ring, GATE_EPOCH(gate));
		if (!first)
			return NULL;
	}
	if (__builtin_expect(ring->too_deep, 0)) {
		ring->too_deep--;
		return NULL;
	}
	if (__builtin_expect(!ring->depth, 0)) {
		/* After a switch this is the end of a range that began unrecorded. */
		if (ring->epoch <= 1)
			ring_drop(ring, DROP_UNBALANCED);
		return NULL;
	}
	atomic_store_explicit(&ring->control->depth, --ring->depth, RELAXED);
	return &ring->control->frames[ring->depth];
}

static inline __attribute__((always_inline)) void fill_range_record(const struct ring *ring,
								    const struct ring_frame *frame,
								    uint64_t now, uint8_t kind,
								    uint16_t bytes,
								    struct ring_range *to)
{
	uint64_t name = atomic_load_explicit(&frame->name_layer, RELAXED);
	uint64_t start = atomic_load_explicit(&frame->start_ticks, RELAXED);

	to->record = (struct ring_record){ .words = bytes / 8,
					   .kind = kind,
					   .depth = (uint8_t)ring->depth,
					   .name = (uint32_t)name };
	to->layer = (int32_t)(name >> 32);
	to->expert = (int32_t)atomic_load_explicit(&frame->expert_shape, RELAXED);
	to->start_ticks = start;
	to->duration_phase = (now - start) << 8 |
			     (atomic_load_explicit(&frame->bits, RELAXED) & 0xff);
}

void moescope_range_begin(moescope_name name, int32_t layer, int32_t expert,
			  enum moescope_phase phase)
{
	uint32_t gate = gate_load();
	uint64_t bits = (uint8_t)phase;

	if (GATE_NOW(gate) < MOESCOPE_STEPS)
		return;
	if (GATE_NOW(gate) < MOESCOPE_TRACE && !phase)
		bits |= FRAME_SILENT;
	open_frame(gate, name, layer, expert, 0, bits);
}

static inline __attribute__((always_inline)) void end(struct ring *ring,
						      const struct ring_frame *frame, uint64_t now)
{
	struct ring_range *record;

	if (atomic_load_explicit(&frame->bits, RELAXED) & FRAME_SILENT)
		return;
	record = ring_reserve(ring, sizeof(*record));
	if (!record)
		return;
	fill_range_record(ring, frame, now, RECORD_RANGE, sizeof(*record), record);
	ring_commit(ring, sizeof(*record));
}

void moescope_range_end(void)
{
	uint32_t gate = gate_load();
	const struct ring_frame *frame;
	struct ring *ring;
	uint64_t now;

	if (GATE_NOW(gate) < MOESCOPE_STEPS)
		return;
	ring = probe_take();
	if (__builtin_expect(!ring, 0))
		return;
	now = clock_ticks();
	if ((frame = pop(ring, gate)))
		end(ring, frame, now);
	probe_give();
}

void moescope_range_push(const char *name)
{
	uint32_t gate = gate_load();
	uint64_t bits = GATE_NOW(gate) < MOESCOPE_TRACE ? FRAME_SILENT : 0;

	if (GATE_NOW(gate) < MOESCOPE_STEPS)
		return;
	open_frame(gate, moescope_intern(name), -1, -1, 0, bits);
}

void moescope_range_pop(void)
{
	moescope_range_end();
}

uint32_t probe_range_open(moescope_name name, uint64_t *ret_start_ticks)
{
	uint32_t gate = gate_load(), place = GATE_EPOCH(gate) << 16;
	const struct ring_frame *frame;

	if (GATE_NOW(gate) < MOESCOPE_STEPS)
		return 0;
	frame = open_frame(gate, name, -1, -1, 0,
			   GATE_NOW(gate) < MOESCOPE_TRACE ? FRAME_SILENT : 0);
	if (!frame)
		return thread_ring ? place | PLACE_TOO_DEEP : 0;
	*ret_start_ticks = atomic_load_explicit(&frame->start_ticks, RELAXED);
	return place | thread_ring->depth;
}

static void copy_frame(struct ring_frame *to, const struct ring_frame *from)
{
	atomic_store_explicit(&to->start_ticks, atomic_load_explicit(&from->start_ticks, RELAXED),
			      RELAXED);
	atomic_store_explicit(&to->name_layer, atomic_load_explicit(&from->name_layer, RELAXED),
			      RELAXED);
	atomic_store_explicit(&to->expert_shape, atomic_load_explicit(&from->expert_shape, RELAXED),
			      RELAXED);
	atomic_store_explicit(&to->bits, atomic_load_explicit(&from->bits, RELAXED), RELAXED);
}

/* Removes a frame from the middle of the stack. A kill meanwhile loses the frames above it, which
 * are unfinished anyway, rather than leaving half of one in place of another. */
static void take_out(struct ring *ring, uint32_t index)
{
	struct ring_frame *frames = ring->control->frames;

	atomic_store_explicit(&ring->control->depth, index, memory_order_release);
	ring->depth--;
	for (uint32_t i = index; i < ring->depth; i++)
		copy_frame(&frames[i], &frames[i + 1]);
	atomic_store_explicit(&ring->control->depth, ring->depth, memory_order_release);
}

/* The record of a frame below others. */
static void end_below(struct ring *ring, uint32_t index, uint64_t now)
{
	const struct ring_frame *frame = &ring->control->frames[index];
	struct ring_range *record = NULL;

	if (!(atomic_load_explicit(&frame->bits, RELAXED) & FRAME_SILENT))
		record = ring_reserve(ring, sizeof(*record));
	if (record) {
		fill_range_record(ring, frame, now, RECORD_RANGE, sizeof(*record), record);
		record->record.depth = (uint8_t)index;
		ring_commit(ring, sizeof(*record));
	}
	take_out(ring, index);
}

/* All other cases of closing a place: true if frames above it have moved. */
static bool close_below(struct ring *ring, uint32_t epoch, uint32_t place_epoch, uint32_t at,
			uint64_t now)
{
	if (ring->epoch != epoch) {
		restack(ring, epoch);
		return false;
	}
	if (place_epoch != epoch)
		return false; /* it began unrecorded, or is already counted */
	if (at == PLACE_TOO_DEEP) {
		ring->too_deep -= ring->too_deep != 0;
		return false;
	}
	if (at > ring->depth) { /* a call of the program has closed it */
		ring_drop(ring, DROP_UNBALANCED);
		return false;
	}
	end_below(ring, at - 1, now);
	return true;
}

bool probe_range_close(uint32_t place)
{
	uint32_t gate = gate_load(), at = place & 0xffff;
	bool moved = false;
	struct ring *ring;
	uint64_t now;

	if (GATE_NOW(gate) < MOESCOPE_STEPS)
		return false;
	ring = probe_take();
	if (!ring)
		return false;
	now = clock_ticks();
	if (__builtin_expect(place == (ring->epoch << 16 | ring->depth) && !ring->too_deep &&
				     ring->epoch == GATE_EPOCH(gate),
			     1))
		end(ring, pop(ring, gate), now);
	else
		moved = close_below(ring, GATE_EPOCH(gate), place >> 16, at, now);
	probe_give();
	return moved;
}

void moescope_op_begin(moescope_name name, int32_t layer, int32_t expert, moescope_name shape)
{
	uint32_t gate = gate_load();
	uint64_t bits = GATE_NOW(gate) < MOESCOPE_TRACE ? FRAME_OP | FRAME_SILENT : FRAME_OP;

	if (GATE_NOW(gate) < MOESCOPE_STEPS)
		return;
	open_frame(gate, name, layer, expert, shape, bits);
}

static inline __attribute__((always_inline)) void end_op(struct ring *ring,
							 const struct ring_frame *frame,
							 uint64_t now, uint64_t flops,
							 uint64_t bytes)
{
	struct ring_op *record;

	if (atomic_load_explicit(&frame->bits, RELAXED) & FRAME_SILENT)
		return;
	record = ring_reserve(ring, sizeof(*record));
	if (!record)
		return;
	fill_range_record(ring, frame, now, RECORD_OP, sizeof(*record), &record->range);
	record->shape = atomic_load_explicit(&frame->expert_shape, RELAXED) >> 32;
	record->flops = flops;
	record->bytes = bytes;
	ring_commit(ring, sizeof(*record));
}

void moescope_op_end(uint64_t flops, uint64_t bytes)
{
	uint32_t gate = gate_load();
	const struct ring_frame *frame;
	struct ring *ring;
	uint64_t now;

	if (GATE_NOW(gate) < MOESCOPE_STEPS)
		return;
	ring = probe_take();
	if (__builtin_expect(!ring, 0))
		return;
	now = clock_ticks();
	if ((frame = pop(ring, gate)))
		end_op(ring, frame, now, flops, bytes);
	probe_give();
}

uint32_t probe_phase(const struct ring *ring)
{
	if (!ring->depth || ring->epoch != GATE_EPOCH(gate_load()))
		return MOESCOPE_PHASE_NONE;
	return atomic_load_explicit(&ring->control->frames[ring->depth - 1].bits, RELAXED) & 0xff;
}

size_t moescope_open_ranges(struct open_range *ranges, size_t most)
{
	const struct ring *ring = atomic_load(&probe_session) ? probe_ring() : NULL;
	uint32_t depth = ring && ring->epoch == GATE_EPOCH(gate_load()) ? ring->depth : 0;
	size_t n = 0;

	while (depth && n < most) {
		const struct ring_frame *frame = &ring->control->frames[--depth];
		uint64_t name = atomic_load_explicit(&frame->name_layer, RELAXED);

		ranges[n++] = (struct open_range){
			.name = (moescope_name)name,
			.layer = (int32_t)(name >> 32),
			.expert = (int32_t)atomic_load_explicit(&frame->expert_shape, RELAXED),
		};
	}
	return n;
}
