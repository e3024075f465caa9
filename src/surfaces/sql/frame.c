/* SPDX-License-Identifier: Apache-2.0
 *
 * See frame.h. One thread.
 */
#include "surfaces/sql/frame.h"

#include <stdlib.h>

int frame_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
		  sqlite3_vtab **ret_vtab, char **error)
{
	const struct sql_module *module = aux;
	struct frame_table *table = calloc(1, module->frame->table_size);
	sqlite3_str *text;
	int r;

	(void)argc;
	(void)argv;
	(void)error;
	if (!table)
		return SQLITE_NOMEM;
	table->sql = module->sql;
	table->frame = module->frame;
	table->table = module->table;
	table->function = module->function;
	text = sqlite3_str_new(db);
	sqlite3_str_appendall(text, "CREATE TABLE x(");
	r = table->frame->declare(table, text);
	sqlite3_str_appendchar(text, 1, ')');
	if (r == SQLITE_OK)
		r = session_declare(module->sql, text);
	else
		sqlite3_free(sqlite3_str_finish(text));
	if (r == SQLITE_OK)
		*ret_vtab = &table->base;
	else
		free(table);
	return r;
}

int frame_disconnect(sqlite3_vtab *vtab)
{
	free(vtab);
	return SQLITE_OK;
}

int frame_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **ret_cursor)
{
	const struct frame_table *table = (const struct frame_table *)vtab;
	struct frame_cursor *cursor = calloc(1, table->frame->cursor_size);

	if (cursor && table->frame->run_size)
		cursor->of_runs = calloc(table->sql->source.n, table->frame->run_size);
	if (!cursor || (table->frame->run_size && !cursor->of_runs)) {
		free(cursor);
		return SQLITE_NOMEM;
	}
	*ret_cursor = &cursor->base;
	return SQLITE_OK;
}

int frame_close(sqlite3_vtab_cursor *base)
{
	const struct frame_table *table = (const struct frame_table *)base->pVtab;
	struct frame_cursor *cursor = (struct frame_cursor *)base;

	for (size_t i = 0; cursor->of_runs && i < table->sql->source.n; i++)
		table->frame->release_run((char *)cursor->of_runs + i * table->frame->run_size);
	free(cursor->of_runs);
	free(cursor);
	return SQLITE_OK;
}

int frame_eof(sqlite3_vtab_cursor *base)
{
	const struct frame_table *table = (const struct frame_table *)base->pVtab;

	return ((const struct frame_cursor *)base)->run >= table->sql->source.n;
}

/* Over runs that have no rows, or no more. */
static void skip_runs(struct frame_cursor *cursor)
{
	const struct frame_table *table = (const struct frame_table *)cursor->base.pVtab;

	while (!frame_eof(&cursor->base) && cursor->row >= table->frame->count_rows(cursor)) {
		cursor->run++;
		cursor->row = 0;
	}
}

int frame_next(sqlite3_vtab_cursor *base)
{
	struct frame_cursor *cursor = (struct frame_cursor *)base;

	cursor->row++;
	skip_runs(cursor);
	return SQLITE_OK;
}

int frame_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret_rowid)
{
	const struct frame_cursor *cursor = (const struct frame_cursor *)base;

	*ret_rowid = (sqlite3_int64)((uint64_t)cursor->run << 48 | cursor->row);
	return SQLITE_OK;
}

void frame_rewind(struct frame_cursor *cursor)
{
	cursor->run = cursor->row = 0;
	skip_runs(cursor);
}

int frame_register(struct sql *sql, const char *name, const struct sql_module *about)
{
	struct sql_module *module = &sql->modules[sql->n_modules++];

	*module = *about;
	module->sql = sql;
	return sqlite3_create_module(sql->db, name, &module->frame->module, module);
}
