/* SPDX-License-Identifier: Apache-2.0
 *
 * What importers fill: the records of a run's processes, on their way into shards.
 *
 *   intake          the run
 *   intake_process  a process of it; becomes a shard
 *   intake_part     what one thread adds to a process; only that thread touches it
 *
 * Importers add rows in any order, with the times of their file. intake_write then puts right what
 * readers rely on: ranges and operations get their depth and come by their end, operations get the
 * stack of the frames around them, ranks are moved onto one clock. Ranges, operations, frames, steps
 * and collectives are held in memory until then; all other rows are encoded at once (about 8 bytes
 * each), so memory is bounded by the result.
 */
#ifndef INGEST_INTAKE_H
#define INGEST_INTAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "trace/format.h"
#include "trace/records.h"

struct intake;
struct intake_part;

/* May be changed until intake_write. */
struct intake_process {
	uint32_t rank, pid;
	bool rank_known; /* else the rank is a hint */
	/* Added to all its times: the zero of the file's clock, as far as it is known. */
	int64_t shift_ns;
	bool wall_clock; /* times plus shift_ns are nanoseconds since 1970 */
	/* When it was recorded, by the file's own account (to_ns INT64_MIN: not told). For files of
	 * our own also what its clock lacks to the wall clock's, and what was lost then. */
	bool lived;
	int64_t from_ns, to_ns, realtime_offset_ns;
	uint64_t lost[DROP_SLOTS], unfinished;
	struct intake_inside *inside;
};

/* kinds: bit of each record kind that is needed. */
int intake_new(uint64_t kinds, struct intake **ret_intake);
void intake_free(struct intake *intake);

/* Whether rows of a kind are of use; others may be added and are dropped. */
bool intake_wants(const struct intake *intake, enum record_kind kind);

/* Any thread. NULL without memory. A process of a rank and pid is one, however often it is asked for;
 * the intake owns it. */
struct intake_process *intake_process(struct intake *intake, uint32_t rank, uint32_t pid);
struct intake_part *intake_part(struct intake_process *process);

/* Rows added from here on come at this place of the file: rows of all parts are put in the order of
 * their turns. Importers with one thread need none. */
int part_turn(struct intake_part *part, uint64_t order);
/* Forgets what was added since the last turn: rows, damage and unknown events. */
void part_discard(struct intake_part *part);

/* In the column `unknown` of operations: the FLOPs are those that its inputs make. Of operations inside
 * each other, the innermost then counts, and of the others they are unknown. */
#define INTAKE_FLOPS_DERIVED 0x80

/* Ids for the rows of this process; 0 for no bytes, and without memory (part_add then fails). Bytes
 * that are no UTF-8 and control characters are replaced. */
uint32_t part_string(struct intake_part *part, const char *bytes, size_t length);
uint32_t part_text(struct intake_part *part, const char *text);
/* A place of which the name is all that is known; the name may tell its phase. */
uint32_t part_site(struct intake_part *part, uint32_t name);
/* Their id fields are ignored. */
uint32_t part_place(struct intake_part *part, const struct row_site *site);
uint32_t part_launch(struct intake_part *part, const struct row_launch *launch);

/* row: struct row_KIND with ids of this process. depth of ranges, operations and frames is ignored, as
 * is stack of operations unless it is given. 0 or -ENOMEM; the failure sticks, so that one check at
 * the end of many calls is enough. */
int part_add(struct intake_part *part, enum record_kind kind, const void *row);
int part_failed(const struct intake_part *part);

/* An event that could not be read; offset: its byte in the (decompressed) file, or its row. The first
 * few become notes of the run. what: "no number where the duration should be". */
void part_damaged(struct intake_part *part, uint64_t offset, const char *what);
/* Events of a kind that is not known, by its name. */
void part_unknown(struct intake_part *part, const char *category, size_t length, uint64_t n);

/* A sentence for people about the file as a whole: what was left out, and why. Any thread. */
void intake_note(struct intake *intake, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* What the file says about the run itself, for run.json; strings are copied, NULL and 0 leave what is
 * there. Only files of our own say more than a time. */
struct intake_about {
	const char *command, *host, *cpu, *level, *status, *notes;
	int cpus, exit_status, signal;
	int64_t started_realtime_ns, duration_ns;
	double budget_pct;
	bool budget_known;
};
int intake_about(struct intake *intake, const struct intake_about *about);

/* From here on processes are those of another of several files, never those of the files before. */
int intake_next_file(struct intake *intake, const char *path);
/* It could not be read: forgets its processes. */
void intake_drop_file(struct intake *intake);

/* Writes the run directory. source: the file that was imported, for people. */
int intake_write(struct intake *intake, const char *source, const char *run_path, struct err *err);

#endif
