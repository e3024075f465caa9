/* SPDX-License-Identifier: Apache-2.0
 *
 * Putting in order what importers give in any order: ranges and operations of a thread share one
 * stack, frames have another. Each row gets the number of rows that enclose it as its depth, and rows
 * of a thread go out by their end, inner before outer, as if they had been recorded.
 *
 * Rows that overlap without one enclosing the other do occur (old files have times in whole
 * microseconds): such a row lies in the ones that are open when it begins.
 *
 * A row that lies deeper than its column can say is left out and counted, as in a recording: one that
 * said less would be taken for the child of another.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cmp.h"
#include "ingest/shared/intake_inside.h"
#include "ingest/shared/step_rows.h"

struct entry {
	int64_t start_ns, end_ns;
	uint32_t thread;
	uint32_t row; /* of its kind */
	uint32_t depth;
	uint8_t held; /* enum held */
};

struct entries {
	struct entry *v;
	size_t n;
};

static int64_t end_of_row(int64_t start_ns, int64_t duration_ns)
{
	return (int64_t)((uint64_t)start_ns + (uint64_t)duration_ns);
}

/* By thread, outer before inner; equal ones in the order of the file, ranges first. */
static int entries_by_thread(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return CMP(x->thread, y->thread) ?: CMP(x->start_ns, y->start_ns) ?:
	       CMP(y->end_ns, x->end_ns) ?: CMP(x->held, y->held) ?: CMP(x->row, y->row);
}

static int by_end(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return CMP(x->thread, y->thread) ?: CMP(x->end_ns, y->end_ns) ?: CMP(y->depth, x->depth) ?:
	       CMP(x->start_ns, y->start_ns) ?: CMP(x->row, y->row);
}

static void sort_entries(struct entries *entries, int (*order)(const void *, const void *))
{
	size_t i = 1;

	while (i < entries->n && order(&entries->v[i - 1], &entries->v[i]) <= 0)
		i++;
	if (i < entries->n)
		qsort(entries->v, entries->n, sizeof(*entries->v), order);
}

/* What is open at a moment of a thread. */
struct open_rows {
	size_t *v; /* indexes of entries */
	size_t n, capacity;
};

/* Leaves those that have ended before `entry` begins, or that it is no part of. */
static void close_ended(struct open_rows *open, const struct entries *entries,
			const struct entry *entry)
{
	while (open->n) {
		const struct entry *top = &entries->v[open->v[open->n - 1]];

		if (top->thread == entry->thread && top->end_ns > entry->start_ns)
			return;
		/* Rows without length lie in what begins or goes on where they are. */
		if (top->thread == entry->thread && top->end_ns == entry->start_ns &&
		    entry->end_ns == entry->start_ns && top->start_ns < top->end_ns)
			return;
		open->n--;
	}
}

static int push_open(struct open_rows *open, size_t index)
{
	int r = array_grow(&open->v, &open->capacity, open->n + 1, sizeof(*open->v));

	if (r == 0)
		open->v[open->n++] = index;
	return r;
}

/* Also those below one that goes on: rows that overlap in a chain would pile up. */
static void drop_ended(struct open_rows *open, const struct entries *entries,
		       const struct entry *entry)
{
	size_t kept = 0;

	for (size_t i = 0; i < open->n; i++)
		if (entries->v[open->v[i]].end_ns > entry->start_ns)
			open->v[kept++] = open->v[i];
	open->n = kept;
}

/* An operation that calls another one has no FLOPs beside its. */
static void count_once(const struct open_rows *open, const struct entries *entries,
		       struct row_op *ops, const struct entry *entry)
{
	if (entry->held != HELD_OP || !(ops[entry->row].unknown & INTAKE_FLOPS_DERIVED))
		return;
	for (size_t i = 0; i < open->n; i++) {
		const struct entry *outer = &entries->v[open->v[i]];

		if (outer->held != HELD_OP || outer->end_ns < entry->end_ns ||
		    !(ops[outer->row].unknown & INTAKE_FLOPS_DERIVED))
			continue;
		ops[outer->row].flops = 0;
		ops[outer->row].unknown |= OP_FLOPS_UNKNOWN;
	}
}

static int find_depths(struct entries *entries, uint32_t deepest, struct row_op *ops)
{
	struct open_rows open = { 0 };
	int r = 0;

	sort_entries(entries, entries_by_thread);
	for (size_t i = 0; r == 0 && i < entries->n; i++) {
		close_ended(&open, entries, &entries->v[i]);
		if (open.n > deepest)
			drop_ended(&open, entries, &entries->v[i]);
		count_once(&open, entries, ops, &entries->v[i]);
		entries->v[i].depth = (uint32_t)open.n;
		r = push_open(&open, i);
	}
	free(open.v);
	return r;
}

struct held_rows {
	void *rows[HELD_KINDS];
	size_t n[HELD_KINDS];
};

static int list_entries(const struct held_rows *held, bool frames, struct entries *ret)
{
	size_t n = frames ? held->n[HELD_FRAME] : held->n[HELD_RANGE] + held->n[HELD_OP];
	const struct row_range *ranges = held->rows[HELD_RANGE];
	const struct row_op *ops = held->rows[HELD_OP];
	const struct row_frame *rows = held->rows[HELD_FRAME];
	struct entry *v = array_new(n + 1, sizeof(*v));
	size_t at = 0;

	if (!v)
		return -ENOMEM;
#define ENTRY(table, i, kind)                                                                      \
	v[at++] = (struct entry)                                                                   \
	{                                                                                          \
		(table)[i].start_ns, end_of_row((table)[i].start_ns, (table)[i].duration_ns),      \
			(table)[i].thread, (uint32_t)(i), 0, kind                                  \
	}
	for (size_t i = 0; !frames && i < held->n[HELD_RANGE]; i++)
		ENTRY(ranges, i, HELD_RANGE);
	for (size_t i = 0; !frames && i < held->n[HELD_OP]; i++)
		ENTRY(ops, i, HELD_OP);
	for (size_t i = 0; frames && i < held->n[HELD_FRAME]; i++)
		ENTRY(rows, i, HELD_FRAME);
#undef ENTRY
	*ret = (struct entries){ v, n };
	return 0;
}

/* The paths of frames, as a tree: each place knows the one around it. */
struct place {
	uint32_t parent, name;
	uint32_t string; /* id of the whole path; 0: not needed yet */
};

struct places {
	struct interned known; /* keys: parent and name */
	struct place *v;       /* by id */
	size_t n, capacity;
};

static uint32_t place_in(struct places *places, uint32_t parent, uint32_t name)
{
	uint32_t key[2] = { parent, name };
	uint32_t id = interned_id(&places->known, key, sizeof(key));

	if (!id || array_grow(&places->v, &places->capacity, id + 1, sizeof(*places->v)) < 0)
		return 0;
	if (id > places->n) {
		places->v[id] = (struct place){ parent, name, 0 };
		places->n = id;
	}
	return id;
}

/* "outer;inner"; ';' inside a name would be a border. */
static uint32_t path_string(struct places *places, struct intake_part *part, uint32_t place)
{
	struct lexicon *lexicon = &part->process->inside->lexicon;
	struct buf path = { 0 };
	uint32_t chain[512];
	size_t n = 0;

	if (!place || places->v[place].string)
		return place ? places->v[place].string : 0;
	for (uint32_t p = place; p && n < sizeof(chain) / sizeof(chain[0]); p = places->v[p].parent)
		chain[n++] = places->v[p].name;
	while (n--) {
		const char *name = lexicon_text(lexicon, chain[n]);

		buf_append(&path, name, strlen(name));
		for (size_t i = path.size - strlen(name); !path.failed && i < path.size; i++)
			if (path.data[i] == ';')
				path.data[i] = ',';
		if (n)
			buf_append(&path, ";", 1);
	}
	if (!path.failed)
		places->v[place].string = part_string(part, path.data, path.size);
	buf_release(&path);
	return places->v[place].string;
}

/* Operations without a stack of their own get that of the frames open at their beginning. Both lists
 * are in order of threads and starts. */
static int find_stacks(struct intake_process *process, const struct held_rows *held,
		       const struct entries *frames, const struct entries *host)
{
	struct intake_part *part = process->inside->parts[0];
	const struct row_frame *rows = held->rows[HELD_FRAME];
	struct row_op *ops = held->rows[HELD_OP];
	struct places places = { 0 };
	struct open_rows open = { 0 };
	uint32_t *place_of = calloc(frames->n + 1, sizeof(*place_of));
	size_t next = 0;
	int r = place_of ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < host->n; i++) {
		const struct entry *entry = &host->v[i];

		while (r == 0 && next < frames->n &&
		       (frames->v[next].thread < entry->thread ||
			(frames->v[next].thread == entry->thread &&
			 frames->v[next].start_ns <= entry->start_ns))) {
			const struct entry *frame = &frames->v[next];
			uint32_t parent;

			close_ended(&open, frames, frame);
			parent = open.n ? place_of[open.v[open.n - 1]] : 0;
			place_of[next] = place_in(&places, parent, rows[frame->row].name);
			r = place_of[next] ? push_open(&open, next) : -ENOMEM;
			next++;
		}
		close_ended(&open, frames, entry);
		if (r == 0 && entry->held == HELD_OP && !ops[entry->row].stack && open.n)
			ops[entry->row].stack = path_string(&places, part,
							    place_of[open.v[open.n - 1]]);
	}
	free(place_of);
	free(open.v);
	free(places.v);
	interned_release(&places.known);
	return r < 0 ? r : part_failed(part);
}

/* deepest: that a depth can say; *too_deep: how many rows lie deeper. */
static int encode_entries(const struct held_rows *held, struct entries *entries, uint32_t deepest,
			  struct encoder *encoder, uint64_t *too_deep)
{
	struct row_range *ranges = held->rows[HELD_RANGE];
	struct row_op *ops = held->rows[HELD_OP];
	struct row_frame *frames = held->rows[HELD_FRAME];
	int r = 0;

	sort_entries(entries, by_end);
	for (size_t i = 0; r == 0 && i < entries->n; i++) {
		const struct entry *entry = &entries->v[i];

		if (entry->depth > deepest) {
			++*too_deep;
		} else if (entry->held == HELD_RANGE) {
			ranges[entry->row].depth = (uint8_t)entry->depth;
			r = encoder_append(encoder, RECORD_RANGE, &ranges[entry->row]);
		} else if (entry->held == HELD_OP) {
			ops[entry->row].depth = (uint8_t)entry->depth;
			ops[entry->row].unknown &= (uint8_t)~INTAKE_FLOPS_DERIVED;
			r = encoder_append(encoder, RECORD_OP, &ops[entry->row]);
		} else {
			frames[entry->row].depth = (uint16_t)entry->depth;
			r = encoder_append(encoder, RECORD_FRAME, &frames[entry->row]);
		}
	}
	return r;
}

/* A process does one step after the other. Where several threads tell the same one, each with its own
 * begin and end, the longest counts. */
static void order_steps(struct intake_process *process, struct held_rows *held)
{
	size_t again;

	held->n[HELD_STEP] = steps_settle(held->rows[HELD_STEP], held->n[HELD_STEP], &again);
	if (again)
		intake_note(process->inside->intake,
			    "rank %" PRIu32 ": %zu steps that another thread tells, too, and for "
			    "longer, are left out.",
			    process->rank, again);
}

static int encode_all(const struct held_rows *held, enum held kind, struct encoder *encoder)
{
	size_t size = kind_desc(held_kinds[kind])->row_size;
	int r = 0;

	for (size_t i = 0; r == 0 && i < held->n[kind]; i++)
		r = encoder_append(encoder, held_kinds[kind], (char *)held->rows[kind] + i * size);
	return r;
}

int nest_encode(struct intake_process *process, struct encoder *encoder)
{
	struct held_rows held = { 0 };
	struct entries host = { 0 }, frames = { 0 };
	int r = 0;

	for (int h = 0; r == 0 && h < HELD_KINDS; h++)
		r = held_collect(process, h, true, &held.rows[h], &held.n[h]);
	if (r == 0)
		r = list_entries(&held, false, &host);
	if (r == 0)
		r = list_entries(&held, true, &frames);
	if (r == 0)
		r = find_depths(&host, UINT8_MAX, held.rows[HELD_OP]);
	if (r == 0)
		r = find_depths(&frames, UINT16_MAX, NULL);
	if (r == 0 && frames.n && held.n[HELD_OP])
		r = find_stacks(process, &held, &frames, &host);
	if (r == 0)
		r = encode_entries(&held, &host, UINT8_MAX, encoder, &process->lost[DROP_TOO_DEEP]);
	if (r == 0)
		r = encode_entries(&held, &frames, UINT16_MAX, encoder,
				   &process->lost[DROP_TOO_DEEP]);
	if (r == 0)
		order_steps(process, &held);
	if (r == 0)
		r = encode_all(&held, HELD_STEP, encoder);
	if (r == 0)
		r = encode_all(&held, HELD_COLLECTIVE, encoder);
	free(host.v);
	free(frames.v);
	for (int h = 0; h < HELD_KINDS; h++)
		free(held.rows[h]);
	return r;
}
