/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the Perfetto export: a trace of TracePackets, all of one packet sequence, so that they
 * share their interned names and are otherwise independent of each other.
 *
 * Slices are a begin and an end next to each other; the viewer sorts packets by time and keeps the
 * order of the file among equal times. Events of a track come by start, outer first: that makes both
 * neighbours that touch and things that end together come out right.
 *
 * Moments are slices that end where they begin: those of the same time would be taken to lie inside
 * each other, if they were instants.
 *
 * Times in the file are nanoseconds since the earliest of the run. Only perfetto_slices.c uses
 * threads.
 */
#ifndef EXPORTS_PERFETTO_H
#define EXPORTS_PERFETTO_H

#include <stdio.h>

#include "base/buf.h"
#include "base/protobuf.h"
#include "exports/stacks/stacks.h"
#include "subjects/shared/attribution.h"

/* Fields of the format. */
enum {
	TRACE_PACKET = 1,
	PACKET_CLOCK_SNAPSHOT = 6,
	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE = 10,
	PACKET_EVENT = 11,
	PACKET_INTERNED = 12,
	PACKET_FLAGS = 13,
	PACKET_TRACK = 60,
	EVENT_CATEGORY_IID = 3,
	EVENT_ANNOTATION = 4,
	EVENT_TYPE = 9,
	EVENT_NAME_IID = 10,
	EVENT_TRACK = 11,
	EVENT_NAME = 23,
	EVENT_COUNTER_DOUBLE = 44,
	EVENT_FLOW = 47,
	EVENT_FLOW_END = 48,
	ANNOTATION_NAME_IID = 1,
	ANNOTATION_BOOL = 2,
	ANNOTATION_UINT = 3,
	ANNOTATION_INT = 4,
	ANNOTATION_DOUBLE = 5,
	ANNOTATION_STRING = 6,
	ANNOTATION_NAME = 10,
	ANNOTATION_STRING_IID = 17,
	INTERNED_CATEGORIES = 1,
	INTERNED_EVENT_NAMES = 2,
	INTERNED_ANNOTATION_NAMES = 3,
	INTERNED_STRINGS = 29,
	TRACK_UUID = 1,
	TRACK_NAME = 2,
	TRACK_PROCESS = 3,
	TRACK_THREAD = 4,
	TRACK_PARENT = 5,
	TRACK_COUNTER = 8,
	TRACK_CHILD_ORDERING = 11,
	TRACK_ORDER_RANK = 12,
};
enum { TYPE_SLICE_BEGIN = 1, TYPE_SLICE_END = 2, TYPE_COUNTER = 4 };
enum { FLAG_CLEARED = 1, FLAG_NEEDS_STATE = 2 };

/* Categories after those of enum stack_kind. */
enum perfetto_category { CATEGORY_ROW = STACK_KINDS, CATEGORY_NOTE, CATEGORIES };

/* Names of annotations; their iid is the number + 1. Columns of rows have others (perfetto_rows.c). */
#define PERFETTO_ARGS(ARG)                                                                         \
	ARG(grid)                                                                                  \
	ARG(block)                                                                                 \
	ARG(registers)                                                                             \
	ARG(static_shared_bytes)                                                                   \
	ARG(dynamic_shared_bytes)                                                                  \
	ARG(correlation)                                                                           \
	ARG(context)                                                                               \
	ARG(graph)                                                                                 \
	ARG(graph_node)                                                                            \
	ARG(bytes)                                                                                 \
	ARG(source_memory)                                                                         \
	ARG(target_memory)                                                                         \
	ARG(source_device)                                                                         \
	ARG(target_device)                                                                         \
	ARG(asynchronous)                                                                          \
	ARG(memory)                                                                                \
	ARG(driver)                                                                                \
	ARG(status)                                                                                \
	ARG(layer)                                                                                 \
	ARG(expert)                                                                                \
	ARG(phase)                                                                                 \
	ARG(shape)                                                                                 \
	ARG(flops)                                                                                 \
	ARG(stack)                                                                                 \
	ARG(unfinished)                                                                            \
	ARG(tokens)                                                                                \
	ARG(recorded)                                                                              \
	ARG(probe)                                                                                 \
	ARG(stage)                                                                                 \
	ARG(batch)                                                                                 \
	ARG(thread)                                                                                \
	ARG(end_thread)                                                                            \
	ARG(domain)                                                                                \
	ARG(category)                                                                              \
	ARG(payload)                                                                               \
	ARG(group)                                                                                 \
	ARG(sequence)                                                                              \
	ARG(group_size)                                                                            \
	ARG(type)                                                                                  \
	ARG(in_elements)                                                                           \
	ARG(out_elements)                                                                          \
	ARG(stream)                                                                                \
	ARG(id)
enum perfetto_arg {
#define ARG(name) ARG_##name,
	PERFETTO_ARGS(ARG)
#undef ARG
		PERFETTO_ARG_COUNT
};

/* Iids of columns of rows: behind the args. */
#define PERFETTO_COLUMN_IID(kind, column) (UINT64_C(1024) + (kind)*64 + (column))

/* What every packet without lists and texts of its own fits in. */
#define PERFETTO_EVENT_MOST 768
#define PERFETTO_CHUNKS 8

struct perfetto {
	const struct run *run;
	FILE *out;
	int failed; /* first -errno of writing, sticky */
	int64_t origin_ns;
	uint64_t next_uuid; /* 1 .. n_shards are the processes */
	struct stacks stacks;
	struct attribution at; /* calls alone */

	/* Of api row c: the records that it launched are works[first_work[c]] .. ; a work is a row of
	 * kernel, then of copy, then of set. */
	uint32_t *first_work, *works;

	/* Names. used[id]: how a string is used; of launch l, launch_bytes[launch_at[l]] ..
	 * launch_at[l + 1] are name and annotations, ready to be copied. */
	uint8_t *used;
	size_t n_used, used_capacity;
	struct buf launch_bytes;
	uint32_t *launch_at;
	size_t n_launches;

	/* Written later: first `ready`, in order, then `small`. */
	struct buf chunks[2][PERFETTO_CHUNKS];
	unsigned int side;    /* of chunks that are filled next; the other one's are ready */
	unsigned int n_ready; /* of them */
	struct buf small;
};

enum { USED_AS_NAME = 1, USED_AS_VALUE = 2 };
#define NO_NAME_IID 1
static inline uint64_t perfetto_name_iid(uint32_t string)
{
	return string ? string + UINT64_C(1) : NO_NAME_IID;
}

/* Room for that much at the end of the file; NULL: no memory. perfetto_commit says where what was
 * written ends. */
uint8_t *perfetto_room(struct perfetto *p, size_t bytes);
void perfetto_commit(struct perfetto *p, const uint8_t *end);
int perfetto_flush(struct perfetto *p);

/* Packets: open, fill, close. Tracks are described in a sequence of their own, for the viewer would
 * take the last thread described for the thread of all that follows. */
enum { SEQUENCE_EVENTS = 1, SEQUENCE_TRACKS = 2 };
static inline uint8_t *perfetto_packet(uint8_t *at, uint8_t **ret_packet, unsigned int flags)
{
	*ret_packet = proto_open(at, TRACE_PACKET);
	at = proto_uint(*ret_packet, PACKET_SEQUENCE, SEQUENCE_EVENTS);
	return flags ? proto_uint(at, PACKET_FLAGS, flags) : at;
}
struct perfetto_event {
	uint8_t *packet, *event;
};
static inline uint8_t *perfetto_event(uint8_t *at, struct perfetto_event *ret, uint64_t time,
				      unsigned int type, uint64_t track)
{
	at = perfetto_packet(at, &ret->packet, type == TYPE_SLICE_END ? 0 : FLAG_NEEDS_STATE);
	at = proto_uint(at, PACKET_TIMESTAMP, time);
	ret->event = proto_open(at, PACKET_EVENT);
	at = proto_uint(ret->event, EVENT_TYPE, type);
	return proto_uint(at, EVENT_TRACK, track);
}
static inline uint8_t *perfetto_event_end(const struct perfetto_event *event, uint8_t *at)
{
	return proto_close(event->packet, proto_close(event->event, at));
}
/* The end of a slice. */
static inline uint8_t *perfetto_slice_end(uint8_t *at, uint64_t time, uint64_t track)
{
	struct perfetto_event event;

	at = perfetto_event(at, &event, time, TYPE_SLICE_END, track);
	return perfetto_event_end(&event, at);
}
static inline uint64_t perfetto_time(const struct perfetto *p, int64_t time_ns)
{
	return time_ns > p->origin_ns ? (uint64_t)time_ns - (uint64_t)p->origin_ns : 0;
}

/* Annotations. `name`: an iid. */
static inline uint8_t *perfetto_annotate(uint8_t *at, uint64_t name, uint32_t field, uint64_t value)
{
	uint8_t *content = proto_open(at, EVENT_ANNOTATION);

	at = proto_uint(content, ANNOTATION_NAME_IID, name);
	return proto_close(content, proto_uint(at, field, value));
}
static inline uint8_t *perfetto_annotate_double(uint8_t *at, uint64_t name, double value)
{
	uint8_t *content = proto_open(at, EVENT_ANNOTATION);

	at = proto_uint(content, ANNOTATION_NAME_IID, name);
	return proto_close(content, proto_double(at, ANNOTATION_DOUBLE, value));
}
static inline uint8_t *perfetto_arg(uint8_t *at, enum perfetto_arg arg, uint64_t value)
{
	return perfetto_annotate(at, arg + UINT64_C(1), ANNOTATION_UINT, value);
}

/* The text without broken UTF-8, at most `most` bytes of it; where it ends. Needs three times the
 * room. */
uint8_t *perfetto_text(uint8_t *at, uint32_t field, const char *text, size_t most);

/* A track; the names of processes and threads come from the run. parent 0: none. rank: its place
 * among its siblings. */
uint64_t perfetto_track(struct perfetto *p, const char *name, uint64_t parent, int rank);
uint64_t perfetto_counter_track(struct perfetto *p, const char *name, uint64_t parent);

/* The tracks of the lanes of a thread, stream and so on. 0 or -ENOMEM. */
int perfetto_lanes(struct perfetto *p, const struct stack_track *of, size_t lanes, uint64_t *uuids);

int perfetto_names(struct perfetto *p);
int perfetto_slices(struct perfetto *p);
int perfetto_counters(struct perfetto *p);
int perfetto_rows(struct perfetto *p);
/* What was lost, noted or left out, as instants at the beginning. */
int perfetto_notes(struct perfetto *p);

#define PERFETTO_EXPERTS_MOST 64 /* of a layer, with tracks of their own */

/* Whether rows of a kind are moments with their columns as annotations. */
bool perfetto_is_rows(unsigned int kind);
/* How a kind of records gets into the file: in words, for the notes. NULL: not known, which a test
 * forbids. left_out: its rows are not in the file. */
const char *perfetto_fate(unsigned int kind, bool *ret_left_out);

#endif
