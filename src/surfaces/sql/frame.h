/* SPDX-License-Identifier: Apache-2.0
 *
 * What virtual tables have in common: a session, a list of columns, and cursors that go through the
 * rows of one run after the other. A kind of tables says what it adds in a struct sql_frame.
 */
#ifndef SURFACES_FRAME_H
#define SURFACES_FRAME_H

#include "surfaces/sql/session.h"

/* Every table begins with this. */
struct frame_table {
	sqlite3_vtab base;
	struct sql *sql;
	const struct sql_frame *frame;
	const struct sql_table *table; /* of records, or */
	size_t function;	       /* the number of an analysis */
};

/* Every cursor, too. */
struct frame_cursor {
	sqlite3_vtab_cursor base;
	size_t run;    /* which one; as many as there are: at the end */
	size_t row;    /* of the run, where the kind counts its rows */
	void *of_runs; /* of each run what the kind keeps of it */
};

struct sql_frame {
	sqlite3_module module;
	size_t table_size, cursor_size; /* of the kind's own */
	size_t run_size;		/* of what a cursor keeps of a run; 0: nothing */
	void (*release_run)(void *of_run);
	/* Appends the columns to a "CREATE TABLE x(", with commas between them. An SQLite code. */
	int (*declare)(struct frame_table *table, sqlite3_str *text);
	/* The rows of a cursor's run, for FRAME_ROWS. */
	size_t (*count_rows)(const struct frame_cursor *cursor);
};

/* The callbacks that all kinds share; .xBestIndex, .xFilter and .xColumn are theirs, and .xNext and
 * .xRowid of those that do not count their rows. */
#define FRAME_MODULE                                                                               \
	.iVersion = 1, .xConnect = frame_connect, .xDisconnect = frame_disconnect,                 \
	.xOpen = frame_open, .xClose = frame_close, .xEof = frame_eof
#define FRAME_ROWS .xNext = frame_next, .xRowid = frame_rowid

int frame_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
		  sqlite3_vtab **ret_vtab, char **error);
int frame_disconnect(sqlite3_vtab *vtab);
int frame_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **ret_cursor);
int frame_close(sqlite3_vtab_cursor *base);
int frame_eof(sqlite3_vtab_cursor *base);
int frame_next(sqlite3_vtab_cursor *base);
int frame_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret_rowid);
/* To the first row of all; for .xFilter. */
void frame_rewind(struct frame_cursor *cursor);

/* Makes a table known to the connection under a name. An SQLite code. */
int frame_register(struct sql *sql, const char *name, const struct sql_module *about);

#endif
