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
	table->table = module->table;
	table->frame = module->frame;
	text = sqlite3_str_new(db);
	sqlite3_str_appendall(text, "CREATE TABLE x(");
	table->frame->declare(table, text);
	sqlite3_str_appendchar(text, 1, ')');
	r = session_declare(module->sql, text);
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

	if (cursor)
		cursor->of_runs = calloc(table->sql->source.n, table->frame->run_size);
	if (!cursor || !cursor->of_runs) {
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

	for (size_t i = 0; i < table->sql->source.n; i++)
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

int frame_register(struct sql *sql, const char *name, const struct sql_table *table,
		   const struct sql_frame *frame)
{
	struct sql_module *module = session_module(sql, table, 0);

	module->frame = frame;
	return sqlite3_create_module(sql->db, name, &frame->module, module);
}
