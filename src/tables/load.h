/* SPDX-License-Identifier: Apache-2.0
 *
 * Chunks into the columns of a run; the inner half of tables.c.
 */
#ifndef TABLES_LOAD_H
#define TABLES_LOAD_H

#include "base/interned.h"
#include "base/parallel.h"
#include "tables/clocks.h"
#include "tables/tables.h"
#include "trace/shard.h"

/* Ids of one shard to ids of the run, by local id. */
struct id_map {
	uint32_t *to;
	size_t capacity;
};

struct shard_state_internal {
	struct id_map maps[RECORD_LAUNCH + 1]; /* by dictionary kind */
	size_t loaded_chunks;		       /* of the reader's list */
	bool first_settled;		       /* what came before its first step is in it */
	bool placed;			       /* on the run's clock: shift_ns stays as it is */
	int64_t shift_ns;		       /* added to its times */
	bool has_gone;			       /* chunks that the reader no longer lists, and */
	int64_t gone_min_ns, gone_max_ns;      /* their times, as in the file */
	uint64_t damaged_chunks, unknown_kinds, unknown_columns, bad_references;
};

struct table_capacity {
	size_t rows;	  /* of shard[] and every column */
	size_t values[2]; /* of its lists */
};

/* One for each thread that decodes; counts go to the shard when it is loaded. */
struct load_worker {
	struct shard_scratch scratch;
	uint64_t unknown_columns, bad_references;
	uint64_t durations_ns; /* sum over the chunk that was taken last */
};

struct run_internal {
	struct load_worker workers[PARALLEL_MOST];
	struct interned dictionaries[RECORD_LAUNCH + 1]; /* by kind */
	struct table_capacity capacity[RECORD_KIND_LIMIT];
	uint64_t rows[RECORD_KIND_LIMIT];
	uint64_t durations_ns[RECORD_KIND_LIMIT]; /* sums over the rows that are loaded */
	struct run_want want;
	struct clocks clocks;
	size_t trim_bytes; /* of the tables, from which on old rows are let go (window.h) */
	struct shard_state_internal *shards;
	bool single_file;
};

/* Takes the chunks of shard s that were not loaded yet, and keeps to the window that was asked for. 0 or
 * -ENOMEM, -EIO…; damage is counted. */
int load_shard(struct run *run, size_t s);
/* Takes one chunk of rows into its table, which must be empty. -EBADMSG: it is damaged. */
int load_chunk(struct run *run, size_t s, const struct chunk *chunk, uint64_t *ret_durations_ns);

#endif
