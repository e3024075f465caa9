/* SPDX-License-Identifier: Apache-2.0
 *
 * What a Perfetto trace has no form of its own for: rows as moments of a track with their columns as
 * annotations. And the notes: what was lost, what the program said, what is not in the file.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "exports/perfetto/perfetto.h"
#include "tables/room.h"

#define NOTE_MOST 1000 /* bytes of a note */

enum fate { FATE_UNKNOWN, FATE_NAMES, FATE_EVENTS, FATE_COUNTERS, FATE_ROWS, FATE_LEFT_OUT };

static const struct {
	enum fate fate;
	const char *text;
} fates[RECORD_KIND_LIMIT] = {
	[RECORD_STRING] = { FATE_NAMES, "names" },
	[RECORD_SITE] = { FATE_NAMES, "names and annotations of ranges and operations" },
	[RECORD_LAUNCH] = { FATE_NAMES, "annotations of kernels" },
	[RECORD_THREAD] = { FATE_NAMES, "names of tracks" },
	[RECORD_KERNEL] = { FATE_EVENTS, "slices" },
	[RECORD_COPY] = { FATE_EVENTS, "slices" },
	[RECORD_SET] = { FATE_EVENTS, "slices" },
	[RECORD_COLLECTIVE] = { FATE_EVENTS, "slices" },
	[RECORD_RANGE] = { FATE_EVENTS, "slices" },
	[RECORD_OP] = { FATE_EVENTS, "slices" },
	[RECORD_FRAME] = { FATE_EVENTS, "slices" },
	[RECORD_API] = { FATE_EVENTS, "slices" },
	[RECORD_OS_CALL] = { FATE_EVENTS, "slices" },
	[RECORD_LIBRARY_CALL] = { FATE_EVENTS, "slices" },
	[RECORD_STEP] = { FATE_EVENTS, "slices" },
	[RECORD_SPAN] = { FATE_EVENTS, "slices" },
	[RECORD_SYNC] = { FATE_EVENTS, "slices" },
	[RECORD_MARK] = { FATE_EVENTS, "moments" },
	[RECORD_PAYLOAD] = { FATE_EVENTS, "moments" },
	[RECORD_FLOW] = { FATE_EVENTS, "flows" },
	[RECORD_COUNTER] = { FATE_COUNTERS, "counters" },
	[RECORD_SAMPLE] = { FATE_COUNTERS, "counters" },
	[RECORD_ROUTING] = { FATE_ROWS, "moments, and counters of each layer" },
	[RECORD_MEMORY] = { FATE_ROWS, "moments, and counters of the sums" },
	[RECORD_MOE_LAYER] = { FATE_ROWS, "moments at the beginning" },
	[RECORD_TOKEN] = { FATE_ROWS, "moments" },
	[RECORD_FACT] = { FATE_ROWS, "moments at the beginning" },
	[RECORD_COST] = { FATE_ROWS, "moments" },
	[RECORD_DEVICE] = { FATE_ROWS, "moments at the beginning" },
	[RECORD_DEVICE_MEMORY] = { FATE_ROWS, "moments" },
	[RECORD_GEAR] = { FATE_ROWS, "moments" },
	[RECORD_GRAPH_NODE] = { FATE_ROWS, "moments" },
	[RECORD_PROCESS] = { FATE_ROWS, "moments" },
	[RECORD_POOL] = { FATE_ROWS, "moments" },
	[RECORD_DEVICE_COST] = { FATE_ROWS, "moments" },
	[RECORD_METRIC] = { FATE_ROWS, "moments at the beginning" },
	[RECORD_COUNTED] = { FATE_ROWS, "moments" },
	[RECORD_PC_SAMPLE] = { FATE_LEFT_OUT, "their sums are in 'moescope counters --by line'" },
	[RECORD_STACK] = { FATE_LEFT_OUT, "whole stacks are in --to folded-host" },
	[RECORD_STACK_SAMPLE] = { FATE_LEFT_OUT, "whole stacks are in --to folded-host" },
	[RECORD_CALL_COUNT] = { FATE_ROWS, "moments" },
	[RECORD_HOST_SAMPLE] = { FATE_COUNTERS, "counters" },
	[RECORD_HEAP_SAMPLE] = { FATE_LEFT_OUT, "whole stacks are in --to folded-heap" },
	[RECORD_ROUTED] = { FATE_LEFT_OUT,
			    "the experts of single tokens have no place in a trace" },
};

const char *perfetto_fate(unsigned int kind, bool *ret_left_out)
{
	if (kind >= RECORD_KIND_LIMIT || fates[kind].fate == FATE_UNKNOWN)
		return NULL;
	*ret_left_out = fates[kind].fate == FATE_LEFT_OUT;
	return fates[kind].text;
}

bool perfetto_is_rows(unsigned int kind)
{
	return fates[kind].fate == FATE_ROWS;
}

static uint8_t *put_cell(uint8_t *at, const struct column_desc *column, uint64_t name,
			 const void *cells, size_t row)
{
	switch ((enum column_type)column->type) {
	case COLUMN_U8:
		return perfetto_annotate(at, name, ANNOTATION_UINT, ((const uint8_t *)cells)[row]);
	case COLUMN_U16:
		return perfetto_annotate(at, name, ANNOTATION_UINT, ((const uint16_t *)cells)[row]);
	case COLUMN_U32:
		if (column->refers == RECORD_STRING && ((const uint32_t *)cells)[row])
			return perfetto_annotate(at, name, ANNOTATION_STRING_IID,
						 ((const uint32_t *)cells)[row]);
		return perfetto_annotate(at, name, ANNOTATION_UINT, ((const uint32_t *)cells)[row]);
	case COLUMN_U64:
		return perfetto_annotate(at, name, ANNOTATION_UINT, ((const uint64_t *)cells)[row]);
	case COLUMN_I32:
		return perfetto_annotate(at, name, ANNOTATION_INT,
					 (uint64_t)(int64_t)((const int32_t *)cells)[row]);
	case COLUMN_I64:
		return perfetto_annotate(at, name, ANNOTATION_INT,
					 (uint64_t)((const int64_t *)cells)[row]);
	case COLUMN_F64:
		if (!isfinite(((const double *)cells)[row]))
			return at;
		return perfetto_annotate_double(at, name, ((const double *)cells)[row]);
	}
	return at;
}

/* Columns without those that a row's place in the trace says. */
static uint8_t *put_cells(const struct perfetto *p, uint8_t *at, unsigned int kind, size_t row)
{
	const struct kind_desc *desc = kind_desc(kind);
	unsigned int slot = 2;

	for (unsigned int c = 0; c < desc->n_columns; c++) {
		const struct column_desc *column = &desc->columns[c];
		const void *cells = *(void **)room_slot((struct run *)p->run, kind, slot);

		slot += column_is_list(column) ? 2 : 1;
		if (cells && !column_is_list(column) && (int)c != desc->time_column)
			at = put_cell(at, column, PERFETTO_COLUMN_IID(kind, c), cells, row);
	}
	return at;
}

static int put_rows(struct perfetto *p, unsigned int kind)
{
	const struct kind_desc *desc = kind_desc(kind);
	struct run *run = (struct run *)p->run;
	size_t n = *room_rows(run, kind);
	const uint16_t *shards = *(uint16_t **)room_slot(run, kind, 1);
	const int64_t *times =
		desc->time_column < 0
			? NULL
			: *(int64_t **)room_slot(run, kind, 2 + (unsigned int)desc->time_column);
	uint64_t track = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t time = perfetto_time(p, times ? times[i] : p->origin_ns);
		struct perfetto_event event;
		uint8_t *at;

		if (!i || shards[i] != shards[i - 1])
			track = perfetto_track(p, desc->name, shards[i] + UINT64_C(1),
					       (int)(100 + kind));
		at = perfetto_room(p, PERFETTO_EVENT_MOST);
		if (!at || !track)
			return -ENOMEM;
		at = perfetto_event(at, &event, time, TYPE_SLICE_BEGIN, track);
		at = proto_uint(at, EVENT_CATEGORY_IID, CATEGORY_ROW + 1);
		at = perfetto_text(at, EVENT_NAME, desc->name, 64);
		at = perfetto_event_end(&event, put_cells(p, at, kind, i));
		perfetto_commit(p, perfetto_slice_end(at, time, track));
	}
	return 0;
}

int perfetto_rows(struct perfetto *p)
{
	int r = 0;

	for (unsigned int kind = 1; r == 0 && kind < RECORD_KIND_LIMIT; kind++)
		if (fates[kind].fate == FATE_ROWS)
			r = put_rows(p, kind);
	return r;
}

static void put_note(struct perfetto *p, uint64_t track, const char *text, size_t length)
{
	uint8_t *at = perfetto_room(p, PERFETTO_EVENT_MOST + 3 * NOTE_MOST);
	struct perfetto_event event;

	if (!at || !length)
		return;
	at = perfetto_event(at, &event, 0, TYPE_SLICE_BEGIN, track);
	at = proto_uint(at, EVENT_CATEGORY_IID, CATEGORY_NOTE + 1);
	at = perfetto_text(at, EVENT_NAME, text, length < NOTE_MOST ? length : NOTE_MOST);
	at = perfetto_event_end(&event, at);
	perfetto_commit(p, perfetto_slice_end(at, 0, track));
}

static void __attribute__((format(printf, 3, 4)))
note(struct perfetto *p, uint64_t track, const char *format, ...)
{
	char text[NOTE_MOST];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	put_note(p, track, text, strlen(text));
}

static void put_losses(struct perfetto *p, uint64_t track)
{
	const struct run *run = p->run;
	const char *line = run->info.notes;

#define LOSS(field, words)                                                                         \
	if (run->loss.field)                                                                       \
		note(p, track, "loss: %" PRIu64 " %s", run->loss.field, words);
	LOSS_COUNTERS(LOSS)
#undef LOSS
	while (*line) {
		size_t length = strcspn(line, "\n");

		put_note(p, track, line, length);
		line += length + (line[length] == '\n');
	}
}

/* Lists have no place in a moment: the loads of experts are counters, where these are not too many. */
static void put_left_out_lists(struct perfetto *p, uint64_t track)
{
	const struct table_routing *routing = &p->run->routing;
	size_t loads = 0, slots = 0;

	for (size_t i = 0; i < routing->n; i++) {
		loads += routing->experts[i] > PERFETTO_EXPERTS_MOST;
		slots += routing->k_slots[i] > 0;
	}
	if (loads)
		note(p, track,
		     "left out: the loads of single experts of %zu routing records, whose layers "
		     "have more than %d",
		     loads, PERFETTO_EXPERTS_MOST);
	if (slots)
		note(p, track,
		     "left out: how many tokens went to how many experts, of %zu routing records",
		     slots);
}

/* A counter has no point for what is not a number. */
static void put_left_out_values(struct perfetto *p, uint64_t track)
{
	const struct table_counter *counter = &p->run->counter;
	const struct table_sample *sample = &p->run->sample;
	size_t n = 0;

	for (size_t i = 0; i < counter->n; i++)
		n += !isfinite(counter->value[i]);
	for (size_t i = 0; i < sample->n; i++)
		n += !isfinite(sample->value[i]);
	if (n)
		note(p, track, "left out: %zu readings that are infinite or no number", n);
}

static void put_left_out(struct perfetto *p, uint64_t track)
{
	static const char *const names[STACK_KINDS] = {
#define KIND(NAME, table, family, moment) #table,
		STACK_KINDS_LIST(KIND)
#undef KIND
	};

	for (int k = 0; k < STACK_KINDS; k++)
		if (p->stacks.untimed[k])
			note(p, track, "left out: %" PRIu64 " %s records without times",
			     p->stacks.untimed[k], names[k]);
	for (unsigned int kind = 1; kind < RECORD_KIND_LIMIT; kind++) {
		size_t n = *room_rows((struct run *)p->run, kind);

		if (n && fates[kind].fate == FATE_LEFT_OUT)
			note(p, track, "left out: %zu %s records; %s", n, kind_desc(kind)->name,
			     fates[kind].text);
	}
}

int perfetto_notes(struct perfetto *p)
{
	const struct run *run = p->run;
	uint64_t track = perfetto_track(p, "moescope", 0, -1);

	if (!track)
		return -ENOMEM;
	note(p, track, "run %s: %s", run->info.name, run->info.command);
	note(p, track, "status: %s; %" PRIu64 " things lost", run->info.status,
	     loss_total(&run->loss));
	put_losses(p, track);
	put_left_out(p, track);
	put_left_out_lists(p, track);
	put_left_out_values(p, track);
	return 0;
}
