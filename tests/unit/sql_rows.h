/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries over runs built by hand, and their rows as text: "a|b\n", "-" for NULL. Include after
 * cmocka.h.
 */
#ifndef TESTS_SQL_ROWS_H
#define TESTS_SQL_ROWS_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/text/json_write.h"
#include "fake_run.h"
#include "surfaces/sql/sql.h"

#define SQL_ROWS_RUNS 4

struct sql_rows {
	struct run *runs[SQL_ROWS_RUNS];
	const char *labels[SQL_ROWS_RUNS];
	struct run_want wanted; /* at the last loading */
	int loads;
	struct sql *sql;
	struct buf text, names;
};

static inline int sql_rows_load(void *context, size_t run, const struct run_want *want,
				struct run **ret_run, struct err *err)
{
	struct sql_rows *rows = context;

	(void)err;
	rows->wanted = *want;
	rows->loads++;
	*ret_run = rows->runs[run];
	return 0;
}

/* They are the test's. */
static inline void sql_rows_unload(struct run *run)
{
	(void)run;
}

static inline void sql_rows_open(struct sql_rows *rows, size_t n)
{
	struct sql_source source = { .n = n,
				     .labels = rows->labels,
				     .load = sql_rows_load,
				     .release = sql_rows_unload,
				     .context = rows };
	struct err err = { "" };

	if (sql_open(&source, &rows->sql, &err) < 0)
		fail_msg("%s", err.message);
}

static inline void sql_rows_close(struct sql_rows *rows)
{
	sql_close(rows->sql);
	buf_release(&rows->text);
	buf_release(&rows->names);
}

static inline int sql_rows_begin(void *context, const char *const *names, size_t n)
{
	struct sql_rows *rows = context;

	for (size_t i = 0; i < n; i++)
		buf_printf(&rows->names, "%s%s", i ? "|" : "", names[i]);
	return 0;
}

static inline int sql_rows_row(void *context, const struct cell *cells, size_t n)
{
	struct sql_rows *rows = context;

	for (size_t i = 0; i < n; i++) {
		char number[40];

		buf_printf(&rows->text, "%s", i ? "|" : "");
		switch (cells[i].kind) {
		case CELL_INT:
			buf_printf(&rows->text, "%" PRId64, cells[i].i);
			break;
		case CELL_REAL:
			json_format_double(number, sizeof(number), cells[i].d);
			buf_printf(&rows->text, "%s", number);
			break;
		case CELL_TEXT:
			buf_printf(&rows->text, "%s", cells[i].s);
			break;
		default:
			buf_printf(&rows->text, "-");
			break;
		}
	}
	buf_printf(&rows->text, "\n");
	return 0;
}

static inline int sql_rows_end(void *context)
{
	(void)context;
	return 0;
}

/* 0 or the failure; the rows are in rows->text. */
static inline int sql_rows_try(struct sql_rows *rows, const char *query, struct err *err)
{
	struct sql_sink sink = { sql_rows_begin, sql_rows_row, sql_rows_end, rows };
	int r;

	rows->text.size = rows->names.size = 0;
	r = sql_run(rows->sql, query, 0, &sink, NULL, err);
	buf_append(&rows->text, "", 1);
	buf_append(&rows->names, "", 1);
	return r;
}

static inline const char *sql_rows_get(struct sql_rows *rows, const char *query)
{
	struct err err = { "" };

	if (sql_rows_try(rows, query, &err) < 0)
		fail_msg("%s: %s", query, err.message);
	return rows->text.data;
}

#define assert_rows(rows, query, expected)                                                         \
	assert_string_equal(sql_rows_get((rows), (query)), (expected))

#endif
