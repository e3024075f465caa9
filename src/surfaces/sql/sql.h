/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries over runs: the tables of schema.h and the functions of sql_functions.c in SQLite, read-only.
 * Of a run only the kinds and columns that a statement uses are loaded, after it was prepared. One
 * thread at a time, but for sql_interrupt.
 */
#ifndef SURFACES_SQL_H
#define SURFACES_SQL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "subjects/pages/grid.h"
#include "tables/tables.h"

struct sql;

/* Where runs come from. */
struct sql_source {
	size_t n;
	const char *const *labels; /* of each run, each different; outlive the session */
	/* A run with at least what is wanted; 0 or -errno with err filled. */
	int (*load)(void *context, size_t run, const struct run_want *want, struct run **ret_run,
		    struct err *err);
	void (*release)(struct run *run);
	void *context;
};

/* What takes the rows of a statement; 0 or -errno, which ends it. Texts live until the next row. */
struct sql_sink {
	int (*begin)(void *context, const char *const *names, size_t n);
	int (*row)(void *context, const struct cell *cells, size_t n);
	int (*end)(void *context);
	void *context;
};

/* In a build without SQLite all of these fail and say so. */
int sql_open(const struct sql_source *source, struct sql **ret_sql, struct err *err);
void sql_close(struct sql *sql);

/* All statements of a text, one after the other. limit: rows of each; 0: all. *ret_more (may be
 * NULL): whether any had more. -EINTR after sql_interrupt. */
int sql_run(struct sql *sql, const char *text, size_t limit, const struct sql_sink *sink,
	    bool *ret_more, struct err *err);
/* For statements of strangers: nothing is written, not even temporary tables; one that takes longer ends
 * with -ETIME (loading what it reads does not count); no value has more than SQL_GUARDED_BYTES. */
#define SQL_GUARDED_BYTES (1 << 20)
void sql_guard(struct sql *sql, int64_t most_ns);
/* Whether statements are answered from sums where they can be (sums.h), as they are unless this says
 * otherwise; for tests and measurements. */
void sql_use_sums(struct sql *sql, bool use);
/* Whether a text ends with a whole statement. */
bool sql_complete(const char *text);
/* Ends the statement that runs, or is about to. From any thread, or a signal handler. */
void sql_interrupt(struct sql *sql);

/* Called for each column of each table, table after table; -errno ends it. */
typedef int sql_column_function(void *context, const char *table, const char *name,
				const char *type);
int sql_columns(sql_column_function *each, void *context);
/* "CREATE TABLE …" of the tables whose name has this beginning; with what they are in comments. */
int sql_schema(const char *prefix, FILE *out);
void sql_tables(FILE *out);

#endif
