/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of the Chrome trace:
 *
 *   chrome.c          the file: processes, names of tracks, what stands around the events
 *   chrome_gpu.c      kernels, copies, sets, waits, and the calls that launched them
 *   chrome_host.c     steps, ranges, operations, frames, arrows
 *   chrome_memory.c   allocations
 *   chrome_records.c  what Kineto has no events for, column by column
 *   chrome_emit.c      JSON text
 *
 * One thread writes; only compression has others.
 */
#ifndef EXPORTS_CHROME_INSIDE_H
#define EXPORTS_CHROME_INSIDE_H

#include "exports/chrome/chrome_emit.h"
#include "subjects/shared/attribution.h"
#include "tables/tables.h"

/* Tracks of a process that are no threads of it. */
#define SYNC_TRACK UINT64_C(2147483645)
#define STEP_TRACK UINT64_C(2147483646)
#define RECORD_TRACK UINT64_C(2147483647)
#define DEVICE_PROCESS UINT64_C(4000000000)
#define DEVICES UINT64_C(1024)	  /* process numbers of the devices of one process */
#define PIDS UINT64_C(4194304)	  /* more than any pid of Linux */
#define FLOWS (UINT64_C(1) << 36) /* numbers of the arrows of one process */

struct process {
	bool on;	  /* in this file */
	uint64_t pid;	  /* as the file has it: unique */
	uint64_t gpu_pid; /* of its device 0 */
};

/* JSON text of dictionary rows, made once. */
struct piece {
	size_t at;
	uint32_t length; /* 0: not made yet */
};
struct pieces {
	struct piece *list; /* by id */
	size_t capacity;
	struct buf text;
};

/* Where work of devices is drawn. */
struct track {
	uint32_t device, stream, context;
	uint16_t shard;
	bool sync; /* waits, not work */
};

struct trace {
	const struct run *run;
	struct emitter out;
	struct process *process; /* by shard */
	size_t n_on;
	struct pieces strings, launches, shapes, stacks;
	struct attribution at;
	uint8_t *call;	    /* CALL_* of each row of run->api */
	uint32_t *external; /* of each row of run->api: range of `at` that it was made in, from 1 */
	struct track *tracks;
	size_t n_tracks, tracks_capacity, last_track;
	uint32_t multiprocessors; /* of every device; 0: not known, or they differ */
	uint8_t *told;		  /* rows of run->sample that are in memory events already */
	bool any_event, filled, extra;
	int failed; /* -ENOMEM */
};

enum {
	CALL_WORKS = 1, /* a device did something for it */
	CALL_JOINED = 2,
};

/* Events begin with these. */
void event_begin(struct trace *t, const char *phase, const char *category);
void event_name(struct trace *t, const char *name);
void event_name_id(struct trace *t, uint32_t string);
void event_place(struct trace *t, uint64_t pid, uint64_t tid);
void event_time(struct trace *t, int64_t time_ns);
void event_duration(struct trace *t, int64_t duration_ns);

/* A key of the arguments, its value follows; extra_: of those that only moescope reads. */
#define ARG(t, name) arg_key(t, "\"" name "\":", sizeof(name) + 2)
#define EXTRA(t, name) extra_key(t, "\"" name "\":", sizeof(name) + 2)

static inline void args_begin(struct trace *t)
{
	EMIT(&t->out, ",\"args\":{");
	t->filled = t->extra = false;
}

static inline void arg_key(struct trace *t, const char *key, size_t n)
{
	if (t->filled)
		EMIT(&t->out, ",");
	t->filled = true;
	emit_bytes(&t->out, key, n);
}

static inline void extra_key(struct trace *t, const char *key, size_t n)
{
	if (!t->extra) {
		ARG(t, "moescope");
		EMIT(&t->out, "{");
		t->extra = true;
		t->filled = false;
	}
	arg_key(t, key, n);
}

/* Ends the arguments and the event. */
static inline void args_end(struct trace *t)
{
	if (t->extra)
		EMIT(&t->out, "}");
	EMIT(&t->out, "}}");
}

/* The piece of an id, or NULL: it has to be made by piece_make. */
static inline const struct piece *piece_find(const struct pieces *pieces, uint32_t id)
{
	return id < pieces->capacity && pieces->list[id].length ? &pieces->list[id] : NULL;
}
/* What was appended to pieces->text since `from`. */
const struct piece *piece_make(struct trace *t, struct pieces *pieces, uint32_t id, size_t from);
void put_piece(struct trace *t, const struct pieces *pieces, const struct piece *piece);
void put_string(struct trace *t, uint32_t string); /* quoted */

static inline bool is_on(const struct trace *t, uint16_t shard)
{
	return shard < t->run->n_shards && t->process[shard].on;
}
/* The track of that work; remembered, so that it gets its name. */
void track_use(struct trace *t, const struct track *track);

/* Each writes the events of its tables. */
int put_gpu(struct trace *t);
void put_calls(struct trace *t);
int put_host(struct trace *t);
int put_allocations(struct trace *t);
void put_records(struct trace *t);
int put_derived(struct trace *t);
/* One row of any kind, and the arguments of such an event, which args_end ends. */
void put_record(struct trace *t, enum record_kind kind, size_t row);
void put_sample(struct trace *t, size_t row);
void put_columns(struct trace *t, enum record_kind kind, size_t row, bool duration_too);

#endif
