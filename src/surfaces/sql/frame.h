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
	const struct sql_table *table; /* of records */
	const struct sql_frame *frame;
};

/* Every cursor, too. */
struct frame_cursor {
	sqlite3_vtab_cursor base;
	size_t run;    /* which one; as many as there are: at the end */
	void *of_runs; /* of each run what the kind keeps of it */
};

struct sql_frame {
	sqlite3_module module;
	size_t table_size, cursor_size; /* of the kind's own */
	size_t run_size;		/* of what a cursor keeps of a run */
	void (*release_run)(void *of_run);
	/* Appends the columns to a "CREATE TABLE x(", with commas between them. */
	void (*declare)(struct frame_table *table, sqlite3_str *text);
};

/* The callbacks that all kinds share; .xBestIndex, .xFilter, .xNext, .xColumn and .xRowid are theirs. */
#define FRAME_MODULE                                                                               \
	.iVersion = 1, .xConnect = frame_connect, .xDisconnect = frame_disconnect,                 \
	.xOpen = frame_open, .xClose = frame_close, .xEof = frame_eof

int frame_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
		  sqlite3_vtab **ret_vtab, char **error);
int frame_disconnect(sqlite3_vtab *vtab);
int frame_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **ret_cursor);
int frame_close(sqlite3_vtab_cursor *base);
int frame_eof(sqlite3_vtab_cursor *base);

/* Makes a table known to the connection under a name. An SQLite code. */
int frame_register(struct sql *sql, const char *name, const struct sql_table *table,
		   const struct sql_frame *frame);

#endif
