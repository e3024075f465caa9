/* SPDX-License-Identifier: Apache-2.0
 *
 * What happened on each thread and each stream, as one list in the order of time with outer things
 * before inner ones: the walk that the exports for viewers share. The lists of one track are made
 * when it is asked for, so that memory goes by the largest track. One thread.
 *
 * Things that begin inside another and end after it (kernels of a graph, spans, rounded times) cannot
 * lie on one stack: they go to the next lane of the track that has room. Within a lane things are
 * inside each other or apart.
 */
#ifndef EXPORTS_STACKS_H
#define EXPORTS_STACKS_H

#include "base/interned.h"
#include "tables/tables.h"

/* KIND(NAME, table, family, moment): in the order in which things of the same times lie in each
 * other, outermost first. moment: it has a time and no duration. */
#define STACK_KINDS_LIST(KIND)                                                                     \
	KIND(FRAME, frame, THREAD, false)                                                          \
	KIND(RANGE, range, THREAD, false)                                                          \
	KIND(OP, op, THREAD, false)                                                                \
	KIND(LIBRARY_CALL, library_call, THREAD, false)                                            \
	KIND(API, api, THREAD, false)                                                              \
	KIND(OS_CALL, os_call, THREAD, false)                                                      \
	KIND(MARK, mark, THREAD, true)                                                             \
	KIND(PAYLOAD, payload, THREAD, true)                                                       \
	KIND(FLOW_BEGIN, flow, THREAD, true)                                                       \
	KIND(FLOW_END, flow, THREAD, true)                                                         \
	KIND(COLLECTIVE, collective, STREAM, false)                                                \
	KIND(KERNEL, kernel, STREAM, false)                                                        \
	KIND(COPY, copy, STREAM, false)                                                            \
	KIND(SET, set, STREAM, false)                                                              \
	KIND(STEP, step, STEPS, false)                                                             \
	KIND(SPAN, span, SPANS, false)                                                             \
	KIND(SYNC, sync, WAITS, false)

enum stack_kind {
#define KIND(NAME, table, family, moment) STACK_##NAME,
	STACK_KINDS_LIST(KIND)
#undef KIND
		STACK_KINDS
};

enum stack_family {
	STACK_FAMILY_STEPS,
	STACK_FAMILY_THREAD, /* id: the thread */
	STACK_FAMILY_STREAM, /* device; id: the stream */
	STACK_FAMILY_SPANS,
	STACK_FAMILY_WAITS
};

struct stack_track {
	enum stack_family family;
	uint16_t shard;
	uint32_t device, id;
};

struct stack_ref {
	uint32_t row; /* of the kind's table */
	uint16_t lane;
	uint8_t kind; /* enum stack_kind */
};

/* What a kind says of times and places; its arrays are the table's own. */
struct stack_source {
	const int64_t *start_ns, *duration_ns; /* duration_ns NULL: moments */
	const uint32_t *device, *id;
	const uint16_t *shard;
	const uint8_t *untimed;
	size_t n;
};

struct stack_lane;
struct stacks {
	const struct run *run;
	struct stack_track *tracks; /* by process, family, device, id */
	size_t n, capacity;
	struct stack_source sources[STACK_KINDS];
	uint32_t *order[STACK_KINDS]; /* rows by track, then as in a list */
	size_t *first[STACK_KINDS];   /* of track t: first[t] .. first[t + 1] of the order */
	uint64_t untimed[STACK_KINDS];
	int64_t *flow_end_ns;
	/* Of the track that was walked last. */
	struct stack_ref *refs;
	size_t refs_capacity;
	struct stack_lane *lanes;
	size_t n_lanes, lanes_capacity;
};

/* 0 or -errno; -EFBIG: a table of 2^32 rows. */
int stacks_init(struct stacks *stacks, const struct run *run);
void stacks_release(struct stacks *stacks);

/* The list of a track, good until the next call. *ret_lanes: how many lanes it needs. */
int stacks_walk(struct stacks *stacks, size_t track, const struct stack_ref **ret_refs,
		size_t *ret_n, size_t *ret_lanes);

bool stack_kind_is_moment(enum stack_kind kind);
static inline int64_t stack_start(const struct stacks *stacks, const struct stack_ref *ref)
{
	return stacks->sources[ref->kind].start_ns[ref->row];
}
/* Durations below 0 (broken clocks of others) count as none. */
static inline int64_t stack_end(const struct stacks *stacks, const struct stack_ref *ref)
{
	const struct stack_source *source = &stacks->sources[ref->kind];
	int64_t duration = source->duration_ns ? source->duration_ns[ref->row] : 0;

	return source->start_ns[ref->row] + (duration > 0 ? duration : 0);
}

/* The string id of what it is called; 0: it has none, or (copies, sets, steps, waits) another kind
 * of name. Of a kernel the name as the device gave it. */
uint32_t stack_name(const struct run *run, const struct stack_ref *ref);
/* "rank 0, thread 4711" and so on; the thread's own name where it has one. Cut to fit. */
void stack_track_name(const struct run *run, const struct stack_track *track, char *out,
		      size_t size);
/* Names of what has no string: "copy host to device", "set", "step 4", "wait for a stream". */
void stack_row_name(const struct run *run, const struct stack_ref *ref, char *out, size_t size);

/* Names as they are shown, kernels demangled, each text once; ids from 1. */
struct stack_labels {
	const struct run *run;
	struct interned texts;
	uint32_t *of_string, *of_launch; /* 0: not asked for yet */
	size_t string_capacity, launch_capacity;
};

void stack_labels_init(struct stack_labels *labels, const struct run *run);
void stack_labels_release(struct stack_labels *labels);
/* 0 or -ENOMEM. */
int stack_label(struct stack_labels *labels, const struct stack_ref *ref, uint32_t *ret_label);

#endif
