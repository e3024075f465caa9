/* SPDX-License-Identifier: Apache-2.0
 *
 * Ring records to rows; see drain.h. Rings may be those of a killed process, or a hostile file:
 * every size and position is checked before use. The file may also be truncated while this reads
 * it, turning the memory under a record into zeros: checked data is never read a second time.
 */
#include "trace/drain.h"

#include <errno.h>
#include <string.h>

#include "moescope.h"

/* The largest fixed part of a row, with room for its alignment. */
union any_row {
#define KIND(id, NAME, name) struct row_##name name;
	RECORD_KINDS(KIND)
#undef KIND
};

struct sink {
	struct encoder *encoder;
	const struct tick_map *map;
	uint32_t thread;
	uint64_t last_ticks; /* the largest seen */
};

static int64_t to_ns(struct sink *sink, uint64_t ticks)
{
	if (ticks > sink->last_ticks)
		sink->last_ticks = ticks;
	return tick_map_ns(sink->map, ticks);
}

static int take_range(struct sink *sink, const struct ring_range *from, uint32_t unfinished)
{
	uint64_t duration = from->duration_phase >> 8;
	struct row_site site = { .name = from->record.name,
				 .layer = from->layer,
				 .expert = from->expert,
				 .phase = (uint8_t)from->duration_phase };
	bool past = from->record.kind == RECORD_OP && from->record.depth & RING_OP_TIMES_NS;
	struct row_op row = { .thread = sink->thread, .depth = from->record.depth };

	if (past) {
		row.thread = (uint32_t)(((const struct ring_op *)from)->shape >> 32);
		row.depth = from->record.depth & ~RING_OP_TIMES_NS;
		row.start_ns = (int64_t)from->start_ticks;
		row.duration_ns = (int64_t)duration;
	} else {
		row.start_ns = to_ns(sink, from->start_ticks);
		row.duration_ns = to_ns(sink, from->start_ticks + duration) - row.start_ns;
	}
	row.unfinished = (uint8_t)unfinished;
	row.site = encoder_site(sink->encoder, &site);
	if (!row.site)
		return -ENOMEM;
	if (from->record.kind == RECORD_OP) {
		const struct ring_op *op = (const struct ring_op *)from;

		row.shape = (uint32_t)op->shape;
		if (op->flops == MOESCOPE_UNKNOWN)
			row.unknown |= OP_FLOPS_UNKNOWN;
		else
			row.flops = op->flops;
		if (op->bytes == MOESCOPE_UNKNOWN)
			row.unknown |= OP_BYTES_UNKNOWN;
		else
			row.bytes = op->bytes;
		return encoder_append(sink->encoder, RECORD_OP, &row);
	}
	return encoder_append(sink->encoder, RECORD_RANGE,
			      &(struct row_range){ .site = row.site,
						   .start_ns = row.start_ns,
						   .duration_ns = row.duration_ns,
						   .thread = row.thread,
						   .depth = row.depth,
						   .unfinished = row.unfinished });
}

static void fix_times(struct sink *sink, const struct kind_desc *desc, char *row)
{
	uint64_t start, duration;
	int64_t ns, span;

	if (desc->time_column < 0)
		return;
	memcpy(&start, row + desc->columns[desc->time_column].row_offset, sizeof(start));
	ns = to_ns(sink, start);
	memcpy(row + desc->columns[desc->time_column].row_offset, &ns, sizeof(ns));
	if (desc->duration_column < 0)
		return;
	memcpy(&duration, row + desc->columns[desc->duration_column].row_offset, sizeof(duration));
	span = to_ns(sink, start + duration) - ns;
	memcpy(row + desc->columns[desc->duration_column].row_offset, &span, sizeof(span));
}

/* Points the lists of a copied row to the bytes that follow it in the ring. */
static int fix_lists(const struct kind_desc *desc, char *row, const uint8_t *lists, size_t bytes)
{
	for (int c = 0; c < desc->n_columns; c++) {
		const struct column_desc *column = &desc->columns[c];
		uint32_t n;
		size_t need;

		if (column->count_column < 0)
			continue;
		/* List lengths are 32-bit columns in every kind. */
		memcpy(&n, row + desc->columns[column->count_column].row_offset, sizeof(n));
		need = (size_t)n * column_type_size(column->type);
		if (need > bytes)
			return -EBADMSG;
		memcpy(row + column->row_offset, &lists, sizeof(lists));
		need = (need + 7) & ~(size_t)7;
		need = need > bytes ? bytes : need;
		lists += need;
		bytes -= need;
	}
	return 0;
}

/* One load of its single word. */
static struct ring_record header_at(const uint8_t *at)
{
	struct ring_record header;
	uint64_t word = __atomic_load_n((const uint64_t *)at, __ATOMIC_RELAXED);

	_Static_assert(sizeof(header) == sizeof(word), "the header of a record is one word");
	memcpy(&header, &word, sizeof(header));
	return header;
}

/* A copy that the compiler does not replace with further reads of the original. */
static void copy_once(void *to, const uint8_t *from, size_t bytes)
{
	memcpy(to, from, bytes);
	atomic_signal_fence(memory_order_seq_cst);
}

/* Rows only grow: a shorter one is from an older version, and its missing columns are 0, as in a
 * file. It has at least its times. If lists follow the row, its length cannot be determined. */
static size_t least_of_row(const struct kind_desc *desc)
{
	int last = desc->duration_column > desc->time_column ? desc->duration_column
							     : desc->time_column;

	return last < 0 ? sizeof(uint64_t) : desc->columns[last].row_offset + sizeof(int64_t);
}

static int take_record(struct sink *sink, struct ring_record header, const uint8_t *at,
		       size_t bytes)
{
	const struct kind_desc *desc = kind_desc(header.kind);
	union any_row row;
	size_t given;
	int r;

	if (!desc)
		return -EBADMSG;
	if (header.kind == RECORD_RANGE || header.kind == RECORD_OP) {
		struct ring_op op;

		if (bytes != (header.kind == RECORD_OP ? sizeof(op) : sizeof(op.range)))
			return -EBADMSG;
		op.range.record = header;
		copy_once(&op.range.record + 1, at + sizeof(header), bytes - sizeof(header));
		return take_range(sink, &op.range, 0);
	}
	at += sizeof(header);
	bytes -= sizeof(header);
	given = bytes < desc->row_size ? bytes : desc->row_size;
	if (given < desc->row_size && (desc->n_lists || given < least_of_row(desc)))
		return -EBADMSG;
	memset(&row, 0, desc->row_size);
	copy_once(&row, at, given);
	r = fix_lists(desc, (char *)&row, at + given, bytes - given);
	if (r < 0)
		return r;
	if (!(header.depth & RING_TIMES_NS))
		fix_times(sink, desc, (char *)&row);
	return encoder_append(sink->encoder, header.kind, &row);
}

/* Walks [position, head) of one ring. -EBADMSG if a record makes no sense. */
static int take_ring(struct sink *sink, const uint8_t *data, uint64_t size, uint64_t position,
		     uint64_t head)
{
	while (position < head) {
		uint64_t at = position & (size - 1);
		struct ring_record header = header_at(data + at);
		uint64_t bytes = (uint64_t)header.words * 8;
		int r;

		if (!bytes || bytes > size - at || bytes > head - position)
			return -EBADMSG;
		if (header.kind) {
			r = take_record(sink, header, data + at, bytes);
			if (r < 0)
				return r;
		}
		position += bytes;
	}
	return 0;
}

static int take_strings(struct encoder *encoder, const uint8_t *data, uint64_t position,
			uint64_t used)
{
	while (position < used) {
		struct ring_string entry;
		struct row_string row;
		uint64_t bytes;
		int r;

		if (used - position < sizeof(entry))
			return -EBADMSG;
		copy_once(&entry, data + position, sizeof(entry));
		bytes = sizeof(entry) + (((uint64_t)entry.length + 7) & ~UINT64_C(7));
		if (bytes > used - position)
			return -EBADMSG;
		row = (struct row_string){ .id = entry.id,
					   .length = entry.length,
					   .text = (const char *)data + position + sizeof(entry) };
		r = encoder_append(encoder, RECORD_STRING, &row);
		if (r < 0)
			return r;
		position += bytes;
	}
	return 0;
}

/* One region; *position moves to its end. */
static int take_region(const struct rings *rings, uint32_t i, struct sink *sink, uint64_t *position)
{
	uint32_t bytes = rings->regions[i].bytes;
	uint64_t from = *position;

	if (rings->regions[i].type == REGION_STRINGS) {
		struct strings_control *control = rings->mapped[i];
		uint64_t used = atomic_load_explicit(&control->used, memory_order_acquire);

		*position = used;
		if (from == used)
			return 0;
		if (from > used || used > bytes)
			return -EBADMSG;
		return take_strings(sink->encoder, rings_data(rings, i), from, used);
	} else {
		struct ring_control *control = rings_control(rings, i);
		uint64_t head = atomic_load_explicit(&control->head, memory_order_acquire);

		*position = head;
		if (from == head)
			return 0;
		if (from > head || head - from > bytes || from % 8)
			return -EBADMSG;
		sink->thread = atomic_load_explicit(&control->thread, memory_order_relaxed);
		return take_ring(sink, rings_data(rings, i), bytes, from, head);
	}
}

int drain_collect(const struct rings *rings, const struct tick_map *map,
		  const struct drain_positions *from, struct encoder *encoder,
		  struct drain_result *ret_result)
{
	uint32_t n = atomic_load_explicit(&rings->n_regions, memory_order_acquire);
	struct sink sink = { .encoder = encoder, .map = map };
	struct drain_result result = { .to = *from };

	/* Strings last: a name is logged before any record that uses it. */
	for (int type = REGION_RING; type <= REGION_STRINGS; type++) {
		for (uint32_t i = 0; i < n; i++) {
			int r = 0;

			if (rings->mapped[i] && rings->regions[i].type == (uint32_t)type)
				r = take_region(rings, i, &sink, &result.to.at[i]);
			if (r == -EBADMSG)
				result.damaged++;
			else if (r < 0)
				return r;
		}
	}
	result.to.n = n;
	result.last_ticks = sink.last_ticks;
	*ret_result = result;
	return 0;
}

static int take_frame(struct sink *sink, const struct ring_frame *frame, uint32_t depth,
		      uint64_t end_ticks)
{
	uint64_t bits = atomic_load_explicit(&frame->bits, memory_order_relaxed);
	uint64_t name = atomic_load_explicit(&frame->name_layer, memory_order_relaxed);
	uint64_t expert = atomic_load_explicit(&frame->expert_shape, memory_order_relaxed);
	uint64_t start = atomic_load_explicit(&frame->start_ticks, memory_order_relaxed);
	struct ring_op op = { 0 };

	if (bits & FRAME_SILENT || start > end_ticks)
		return 0;
	op.range.record.kind = bits & FRAME_OP ? RECORD_OP : RECORD_RANGE;
	op.range.record.depth = (uint8_t)depth;
	op.range.record.name = (uint32_t)name;
	op.range.layer = (int32_t)(name >> 32);
	op.range.expert = (int32_t)expert;
	op.range.start_ticks = start;
	op.range.duration_phase = (end_ticks - start) << 8 | (bits & 0xff);
	op.shape = expert >> 32;
	return take_range(sink, &op.range, 1);
}

static int take_open_step(const struct rings *rings, const struct tick_map *map, uint64_t end_ticks,
			  struct encoder *encoder)
{
	const struct open_step *step = &rings->header->step;
	uint64_t start = atomic_load_explicit(&step->start_ticks, memory_order_relaxed);
	uint64_t flags = atomic_load_explicit(&step->flags, memory_order_relaxed);
	struct row_step row = { .unfinished = 1 };

	if (!atomic_load_explicit(&step->open, memory_order_acquire) || start > end_ticks)
		return 0;
	row.step = atomic_load_explicit(&step->step, memory_order_relaxed);
	row.start_ns = tick_map_ns(map, start);
	row.duration_ns = tick_map_ns(map, end_ticks) - row.start_ns;
	row.recorded = flags & 1;
	row.probe = (uint8_t)(flags >> 8);
	return encoder_append(encoder, RECORD_STEP, &row);
}

int drain_unfinished(const struct rings *rings, const struct tick_map *map, uint64_t end_ticks,
		     struct encoder *encoder)
{
	uint32_t n = atomic_load_explicit(&rings->n_regions, memory_order_acquire);
	struct sink sink = { .encoder = encoder, .map = map };

	for (uint32_t i = 0; i < n; i++) {
		struct ring_control *control = rings_control(rings, i);
		uint32_t depth;

		if (!control || rings->regions[i].type != REGION_RING)
			continue;
		sink.thread = atomic_load_explicit(&control->thread, memory_order_relaxed);
		depth = atomic_load_explicit(&control->depth, memory_order_acquire);
		for (depth = depth > RING_MAX_DEPTH ? RING_MAX_DEPTH : depth; depth-- > 0;) {
			int r = take_frame(&sink, &control->frames[depth], depth, end_ticks);

			if (r < 0)
				return r;
		}
	}
	return take_open_step(rings, map, end_ticks, encoder);
}

int drain_checkpoint(struct encoder *encoder, const struct drain_positions *positions)
{
	struct checkpoint_entry entries[RING_REGIONS];

	for (uint32_t i = 0; i < positions->n; i++)
		entries[i] = (struct checkpoint_entry){ .ring = i, .position = positions->at[i] };
	return encoder_raw_chunk(encoder, CHUNK_CHECKPOINT, entries,
				 positions->n * sizeof(entries[0]), positions->n);
}

void drain_release(struct rings *rings, const struct drain_positions *positions)
{
	for (uint32_t i = 0; i < positions->n; i++) {
		struct ring_control *control = rings_control(rings, i);

		if (!control || rings->regions[i].type != REGION_RING)
			continue;
		atomic_store_explicit(&control->tail, positions->at[i], memory_order_release);
		if (atomic_load_explicit(&control->state, memory_order_acquire) == RING_RELEASED &&
		    atomic_load_explicit(&control->head, memory_order_relaxed) == positions->at[i])
			atomic_store_explicit(&control->state, RING_FREE, memory_order_release);
	}
}

/* Records in [position, head) of one ring, up to the first that makes no sense. */
static uint64_t count_ring(const uint8_t *data, uint64_t size, uint64_t position, uint64_t head)
{
	uint64_t records = 0, bytes;

	if (position > head || head - position > size || position % 8)
		return 0;
	for (; position < head; position += bytes) {
		uint64_t at = position & (size - 1);
		struct ring_record header = header_at(data + at);

		bytes = (uint64_t)header.words * 8;
		if (!bytes || bytes > size - at || bytes > head - position)
			break;
		records += header.kind != 0;
	}
	return records;
}

uint64_t drain_unsalvageable(const struct rings *rings, const struct drain_positions *from)
{
	uint32_t n = atomic_load_explicit(&rings->n_regions, memory_order_acquire);
	uint64_t records = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct ring_region *region = &rings->regions[i];

		if (!rings->mapped[i] || region->type != REGION_RING || region->offset)
			continue;
		records += count_ring(
			rings_data(rings, i), region->bytes, from->at[i],
			atomic_load_explicit(&rings_control(rings, i)->head, memory_order_acquire));
	}
	return records;
}

uint64_t drain_pending(const struct rings *rings, const struct drain_positions *from)
{
	uint32_t n = atomic_load_explicit(&rings->n_regions, memory_order_acquire);
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < n; i++)
		if (rings->mapped[i] && rings->regions[i].type == REGION_RING)
			bytes += atomic_load_explicit(&rings_control(rings, i)->head,
						      memory_order_relaxed) -
				 from->at[i];
	return bytes;
}
