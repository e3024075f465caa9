/* SPDX-License-Identifier: Apache-2.0
 *
 * The SQLite file that a run is exported to. Two views of the same run are in it: the tables of Nsight
 * Systems (sqlite_nsight.c), for queries that exist, and MOESCOPE_* (sqlite_own.c), which lose nothing
 * and are read back. One thread.
 */
#ifndef EXPORTS_SQLITE_FILE_H
#define EXPORTS_SQLITE_FILE_H

#include <sqlite3.h>

#include "exports/columns/store.h"
#include "tables/tables.h"

struct sqlite_file {
	sqlite3 *db;
	const struct run *run;
	uint32_t n_strings; /* ids of dictionaries are below these */
	uint32_t n_sites, n_launches;
	/* Of each shard: the number of its process above the bits of the thread. Ranks of several
	 * hosts may have the same one: what Nsight keeps for the machine, above it, tells them apart. */
	int64_t *global_pids;
};

/* These return an SQLite code. */
int file_exec(struct sqlite_file *file, const char *format, ...);
/* Makes a table (columns: "a INTEGER, b TEXT") and a statement that inserts n values into it. */
int file_table(struct sqlite_file *file, const char *name, const char *columns, int n,
	       sqlite3_stmt **ret_insert);
/* Steps and clears an insertion. */
int file_insert(sqlite3_stmt *insert);

int file_write_own(struct sqlite_file *file);
int file_write_nsight(struct sqlite_file *file);
int file_write_nsight_info(struct sqlite_file *file);

/* Numbers of Nsight's. */
enum { NVTX_MARK = 34, NVTX_PUSH_POP = 59, NVTX_START_END = 60 };

#endif
