/* SPDX-License-Identifier: Apache-2.0
 *
 * The inner half of intake.h, for the files that put rows in order and write them.
 */
#ifndef INGEST_INTAKE_INSIDE_H
#define INGEST_INTAKE_INSIDE_H

#include <pthread.h>

#include "ingest/shared/intake.h"
#include "ingest/shared/lexicon.h"
#include "trace/encoder.h"
#include "trace/rundir.h"

/* Kinds that are held until all rows are there. */
enum held { HELD_RANGE, HELD_OP, HELD_FRAME, HELD_STEP, HELD_COLLECTIVE, HELD_KINDS };
extern const enum record_kind held_kinds[HELD_KINDS];

#define NOTED_DAMAGE 5 /* places of damage that are told one by one */

struct damage {
	uint64_t offset;
	char what[120];
};

/* What one part added in one turn. */
struct segment {
	uint64_t order;
	size_t place; /* among those of its process, parts one after the other */
	struct buf chunks;
	struct buf held[HELD_KINDS]; /* rows */
	int64_t time_min_ns, time_max_ns;
	uint64_t rows, damaged, unknown;
	struct damage damage[NOTED_DAMAGE];
};

/* Events by the name of their category, when it is not known. */
struct category {
	char name[64];
	uint64_t n;
};
struct categories {
	struct category *v;
	size_t n, capacity;
};
#define CATEGORIES_MOST 64 /* more are counted without their names */
void categories_add(struct categories *categories, const char *name, size_t length, uint64_t n);

struct intake_part {
	struct intake_process *process;
	struct encoder encoder;
	struct lexicon_cache caches[RECORD_LAUNCH + 1];
	struct segment *segments; /* the last one is being filled */
	size_t n_segments, segments_capacity;
	struct categories settled, fresh; /* until the last turn, and since */
	int failed;
};

struct intake_inside {
	struct intake *intake;
	unsigned int file;
	char *path; /* of it; NULL: there is only one */
	struct lexicon lexicon;
	struct intake_part **parts;
	size_t n_parts, parts_capacity;
};

struct intake {
	pthread_mutex_t lock;
	uint64_t kinds;
	unsigned int file;
	char *path; /* NULL: there is only one */
	struct intake_process **processes;
	size_t n_processes, capacity;
	struct buf notes;
	uint64_t notes_left_out; /* there were too many */
	struct rundir_info about;
};

/* What was encoded goes into its segment. */
int part_close(struct intake_part *part);

/* Rows of a held kind of a process, in the order of the file, as one array. The caller frees it. take:
 * they are held no longer, so that they are not there twice. */
int held_collect(struct intake_process *process, enum held kind, bool take, void **ret_rows,
		 size_t *ret_n);

/* nest.c: depths, stacks and order of what is held; `encoder` gets the rows. */
int nest_encode(struct intake_process *process, struct encoder *encoder);
/* align.c: moves ranks onto one clock by the collectives that they took part in together, and notes
 * how well they fit. */
int align_clocks(struct intake *intake);

#endif
