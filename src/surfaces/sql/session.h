/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of sql.h: a connection, its runs and what has been loaded of them.
 */
#ifndef SURFACES_SESSION_H
#define SURFACES_SESSION_H

#include <stdatomic.h>
#include <sqlite3.h>

#include "exports/columns/schema.h"
#include "exports/columns/store.h"
#include "surfaces/sql/functions.h"
#include "surfaces/sql/sql.h"

/* Of each kind the columns that are needed; kinds without a bit in `kinds` are not. */
struct sql_need {
	uint64_t kinds;
	uint64_t columns[RECORD_KIND_LIMIT];
};

struct sql_run {
	struct run *run; /* NULL: nothing loaded yet */
	struct store store;
	struct function_rows *functions[FUNCTIONS_MAX];
};

/* What a module of SQLite is about: a table of records, or the number of an analysis. */
struct sql_module {
	struct sql *sql;
	const struct sql_frame *frame;
	const struct sql_table *table;
	size_t function;
};

#define SQL_MODULES_MAX (2 * SQL_TABLES_MAX + FUNCTIONS_MAX)
struct sql {
	sqlite3 *db;
	/* Asked for as well as sqlite3_interrupt, which does nothing before the first step. */
	atomic_bool interrupted;
	struct sql_source source;
	struct schema schema;
	struct sql_run *runs; /* as many as the source has */
	struct sql_need asked, loaded;
	bool declaring; /* a table of ours: the authoriser is asked about that, too */
	bool denied;	/* the authoriser refused something */
	bool no_sums;
	int64_t most_ns;  /* that a statement may take; 0: as long as it wants; see sql_guard */
	int64_t until_ns; /* for the one that runs; 0: none does */
	bool unsummable;  /* too many names, or too large numbers, for sums.h */
	struct sql_module modules[SQL_MODULES_MAX];
	size_t n_modules;
};

/* Columns of a kind are needed; 0: its number of rows alone. */
void need_add(struct sql_need *need, unsigned int kind, uint64_t columns);
void need_table(struct sql_need *need, const struct sql_table *table, uint64_t columns);

/* Makes the tables and functions known to the connection. An SQLite code. */
int vtab_register(struct sql *sql);
int functions_register(struct sql *sql);
int sums_register(struct sql *sql);
/* sql_columns of the functions. */
int functions_columns(sql_column_function *each, void *context);
void functions_list(FILE *out);

/* sqlite3_declare_vtab of a text of sqlite3_str, which it frees. */
int session_declare(struct sql *sql, sqlite3_str *text);
/* A cell as the result of a column. */
void session_result(sqlite3_context *context, const struct cell *cell);
/* -errno as a failure of a virtual table. */
int session_failed(sqlite3_vtab *vtab, int r);

#endif
