/* SPDX-License-Identifier: Apache-2.0
 *
 * A loaded run: the columns of every record kind, all shards (processes) together, ids of
 * strings, sites and launches merged over the shards. Read-only after loading but for
 * run_refresh, which appends what a growing run has gained and, if the run was loaded with a window,
 * lets go of what is old; one thread at a time.
 *
 * Rows of a kind are grouped by shard and, within a shard, in file order: ranges and operations
 * of a thread by their end, everything else by time per thread. Nothing is sorted by start.
 */
#ifndef TABLES_TABLES_H
#define TABLES_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "trace/records.h"

/* struct table_NAME: n rows; shard[i] is the index into run->shards of row i; one array per
 * column (NULL when not asked for); list f of row i is f[f_first[i]] .. f[f_first[i + 1]]. */
#define TABLE_C(id, field, TYPE, CODING) RECORD_CTYPE_##TYPE *field;
#define TABLE_L(id, field, TYPE, count)                                                            \
	RECORD_CTYPE_##TYPE *field;                                                                \
	uint64_t *field##_first;
#define TABLE_B(id, field, count)                                                                  \
	char *field;                                                                               \
	uint64_t *field##_first;
#define KIND(id, NAME, name)                                                                       \
	struct table_##name {                                                                      \
		size_t n;                                                                          \
		uint16_t *shard;                                                                   \
		RECORD_COLUMNS_##name(TABLE_C, TABLE_L, TABLE_B)                                   \
	};
RECORD_KINDS(KIND)
#undef KIND

/* Everything that was dropped, cut or not understood, in one place; all zero: nothing was lost.
 * LOSS(field, "what it means"); the field is the key of the JSON. */
#define LOSS_COUNTERS(LOSS)                                                                        \
	LOSS(dropped_ring_full, "records dropped: buffer full")                                    \
	LOSS(dropped_no_memory, "records dropped: no memory for a buffer")                         \
	LOSS(dropped_too_deep, "ranges dropped: nested too deep or too many open")                 \
	LOSS(dropped_unbalanced, "range ends without a beginning")                                 \
	LOSS(dropped_too_large, "records dropped: larger than the buffer")                         \
	LOSS(dropped_names, "names dropped: name table full")                                      \
	LOSS(dropped_unwritten, "records that could not be written before the end")                \
	LOSS(dropped_device,                                                                       \
	     "device records dropped (CUPTI, full recorders), calls without times")                \
	LOSS(dropped_in_signal,                                                                    \
	     "calls dropped: in the handler of a signal that interrupted another call")            \
	LOSS(dropped_in_child, "calls dropped: in forked children, which record nothing")          \
	LOSS(dropped_no_clock, "calls dropped: the thread may not read the time-stamp counter")    \
	LOSS(unknown_device, "device records of a kind this version does not know")                \
	LOSS(write_errors, "failed writes (retried)")                                              \
	LOSS(unfinished, "ranges and steps cut by the end of the process")                         \
	LOSS(corrupt_chunks, "damaged chunks and buffers skipped")                                 \
	LOSS(cut_bytes, "bytes of an incomplete last chunk")                                       \
	LOSS(unknown_kinds, "chunks of a kind this version does not know")                         \
	LOSS(unknown_columns, "columns this version does not know")                                \
	LOSS(bad_references, "records that refer to a missing name or site")                       \
	LOSS(unreadable_shards, "shards that could not be opened")                                 \
	LOSS(damaged_events, "events of the imported file that could not be read")                 \
	LOSS(unknown_events, "events of the imported file in categories that are not read")        \
	LOSS(salvaged, "records salvaged from the buffers of a killed process (not lost)")

struct loss {
#define LOSS(field, words) uint64_t field;
	LOSS_COUNTERS(LOSS)
#undef LOSS
};
/* The number of things lost. What was salvaged is not, nor what an imported file has beyond the
 * categories that are read: the figures do not miss it. */
uint64_t loss_total(const struct loss *loss);

enum shard_state {
	SHARD_CLOSED,  /* the process stopped recording in order */
	SHARD_LIVE,    /* the process is still recording */
	SHARD_CRASHED, /* the process ended without closing; its buffers were salvaged if present */
};

/* What a shard is about: a process by itself, or something that was seen from outside. */
enum shard_role {
	ROLE_PROCESS,
	ROLE_THREADS,
	ROLE_HEAP,
	ROLE_MARK,
	ROLE_MACHINE,
	ROLE_COUNTERS,
};

struct run_shard {
	char *path;
	uint32_t rank;
	uint32_t pid;
	enum shard_role role;
	enum shard_state state;
	int64_t realtime_offset_ns; /* CLOCK_REALTIME minus the run's clock, at its start */
	int64_t start_ns;	    /* first and last sign of life */
	int64_t end_ns;
	uint64_t file_bytes;
	struct loss loss;
	struct err trouble; /* message not empty: why the shard could not be read, or not wholly */
	struct shard_reader *reader;
};

/* What run.json says; strings are never NULL, numbers carry a _known flag where absence differs. */
struct run_info {
	char *name; /* directory name without .mscope */
	char *path;
	char *source;	 /* file that was imported; "" when recorded */
	char *command;	 /* shell-quoted */
	char *status;	 /* "running", "abandoned", "exited", "killed", "imported", "unknown" */
	int exit_status; /* of the program; valid when status is "exited" */
	int signal;	 /* valid when status is "killed" */
	char *host;
	char *cpu;
	int cpus;
	char *version; /* of moescope that made the run */
	char *level;
	char *notes; /* trouble while recording, one sentence a line; "" when none */
	int64_t started_realtime_ns;
	int64_t duration_ns; /* of the program; 0 and not known while running */
	bool duration_known;
	/* What the profiler was allowed to cost, in percent of wall time; 0 and known: no limit,
	 * the trace is complete. Not known: nobody set one, or the run is older than budgets. */
	double budget_pct;
	bool budget_known;
};

/* What a run that was loaded with a window has let go of: its tables begin at since_ns. State outlives its
 * records: what is allocated now and what was at the peak, the gear of a process, the begin of a request that
 * goes on, the first, least and largest value of a counter. */
struct run_gone {
	bool any;
	int64_t since_ns; /* valid if any */
	uint64_t rows[RECORD_KIND_LIMIT];
	uint64_t durations_ns[RECORD_KIND_LIMIT]; /* of these rows */
	bool has_step;
	int64_t last_step; /* the largest */
};

struct run {
	struct run_info info;
	struct run_shard *shards;
	size_t n_shards;
	struct loss loss; /* sum over the shards */
	int64_t start_ns; /* smallest and largest time over the shards; both 0 when empty */
	int64_t end_ns;
	struct run_gone gone;
	char *steps_found; /* nobody marked steps: by what those of the table were found; or NULL */
#define KIND(id, NAME, name) struct table_##name name;
	RECORD_KINDS(KIND) /* string, site and launch stay empty: use run_string and so on */
#undef KIND
	struct run_internal *internal;
};

/* Which kinds to load. Dictionaries (string, site, launch) always are. */
#define WANT(NAME) (UINT64_C(1) << RECORD_##NAME)
#define WANT_ALL (~UINT64_C(0))
struct run_want {
	uint64_t kinds;
	/* Bit i: the i-th column of the kind in records.h; 0: all of them. Kinds whose bit is not
	 * set in `kinds` only count rows (run_rows). */
	uint64_t columns[RECORD_KIND_LIMIT];
	/* 0: everything is kept. Otherwise about as much of the tables is, the newest, however long the run:
	 * for whoever follows it. */
	size_t window_bytes;
};

/* The bit of one column: WANT_COLUMN(kernel, start_ns). */
#define COLUMN_C(id, field, TYPE, CODING) char field;
#define COLUMN_L(id, field, TYPE, count) char field;
#define COLUMN_B(id, field, count) char field;
#define KIND(id, NAME, name)                                                                       \
	struct columns_##name {                                                                    \
		RECORD_COLUMNS_##name(COLUMN_C, COLUMN_L, COLUMN_B)                                \
	};
RECORD_KINDS(KIND)
#undef KIND
#define WANT_COLUMN(kind, field) (UINT64_C(1) << offsetof(struct columns_##kind, field))

/* `path`: a run directory, or a single shard file. want NULL: everything. Damage inside a run is
 * not a failure: what can be read is, and `loss` says the rest. */
int run_load(const char *path, const struct run_want *want, struct run **ret_run, struct err *err);
void run_free(struct run *run);

/* Follows a run that grows: appends new rows to the tables, opens new shards, reads run.json
 * again. Column pointers may move. *ret_new: rows gained. */
int run_refresh(struct run *run, uint64_t *ret_new, struct err *err);

/* Steps that are not on disk, for a run that has none; by: what they were found by. -ENOMEM. */
int run_add_steps(struct run *run, const struct row_step *steps, const uint16_t *shards, size_t n,
		  const char *by);

/* Visits the rows of a kind that is not loaded, chunk by chunk, in the order that a table would have:
 * in each visit the run's table holds one chunk alone, with these columns (bits as in run_want), so
 * that memory does not follow the size of the run. Damaged chunks are passed over. 0 or -errno, which
 * may be the visitor's. */
typedef int run_visitor(struct run *run, void *context);
int run_stream(struct run *run, enum record_kind kind, uint64_t columns, run_visitor *visit,
	       void *context);

/* Since when the tables have the records of a process: its start, unless they were let go. */
static inline int64_t run_since(const struct run *run, size_t shard)
{
	int64_t start_ns = run->shards[shard].start_ns;

	return run->gone.any && run->gone.since_ns > start_ns ? run->gone.since_ns : start_ns;
}

/* Rows of a kind on disk, loaded or not. */
uint64_t run_rows(const struct run *run, enum record_kind kind);

/* Imported from a file of another profiler: advice on recording does not hold. Files of our own bring
 * the command of their run with them. */
static inline bool run_is_foreign(const struct run *run)
{
	return run->info.source[0] && !run->info.command[0];
}

/* Dictionary look-ups; id 0 gives "" or the zero site. Strings are NUL-terminated. */
const char *run_string(const struct run *run, uint32_t id);
/* Whether a shard is the one that stands for its process, which may have been seen from outside, too. */
static inline bool shard_is_process(const struct run *run, size_t i)
{
	const struct run_shard *shard = &run->shards[i];
	bool again = shard->role == ROLE_MACHINE || shard->role == ROLE_COUNTERS;

	for (size_t k = 0; shard->role != ROLE_PROCESS && k < run->n_shards && !again; k++)
		again = k != i && run->shards[k].pid == shard->pid &&
			run->shards[k].rank == shard->rank &&
			(run->shards[k].role == ROLE_PROCESS || k < i);
	return !again;
}
/* The last value that a process gave a fact; NULL: none did. */
static inline const char *run_fact(const struct run *run, const char *key)
{
	for (size_t i = run->fact.n; i-- > 0;)
		if (strcmp(run_string(run, run->fact.key[i]), key) == 0)
			return run_string(run, run->fact.value[i]);
	return NULL;
}
/* python/moescope/auto records the operations of some steps, and tells of which in this one. */
#define FACT_SAMPLED_OPS "auto operations"
struct site {
	uint32_t name; /* string id */
	int32_t layer, expert;
	uint8_t phase;
};
struct site run_site(const struct run *run, uint32_t id);
struct row_launch run_launch(const struct run *run, uint32_t id);
/* The string of a kernel's name. */
static inline uint32_t run_kernel_name(const struct run *run, size_t row)
{
	return run_launch(run, run->kernel.launch[row]).name;
}

/* "forward", "backward"…; "" for none, "?" for a value this version does not know. */
const char *phase_name(unsigned int phase);
const char *memory_use_name(unsigned int use);

#endif
