/* SPDX-License-Identifier: Apache-2.0
 *
 * MOESCOPE_*: every column of every kind of record as it is, so that nothing is lost. Ids refer to
 * MOESCOPE_STRING, MOESCOPE_SITE and MOESCOPE_LAUNCH; lists are JSON arrays; `shard` is the row of
 * MOESCOPE_SHARD whose process recorded it. MOESCOPE_RUN has what is known of the run as a whole.
 * src/ingest/nsight/own_sqlite.c reads them. One thread.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "exports/columns/fields.h"
#include "exports/sqlite/sqlite_file.h"

static void table_name(unsigned int kind, char *out, size_t size)
{
	snprintf(out, size, "MOESCOPE_%s", kind_desc(kind)->name);
	for (char *at = out; *at; at++)
		*at = (char)toupper((unsigned char)*at);
}

static bool is_list(const struct column_desc *column)
{
	return column->count_column >= 0;
}

static int make_table(struct sqlite_file *file, unsigned int kind, sqlite3_stmt **ret_insert)
{
	const struct kind_desc *desc = kind_desc(kind);
	sqlite3_str *columns = sqlite3_str_new(file->db);
	char name[64], *text;
	int r;

	table_name(kind, name, sizeof(name));
	sqlite3_str_appendall(columns, "shard INTEGER");
	for (unsigned int c = 0; c < desc->n_columns; c++)
		sqlite3_str_appendf(columns, ", \"%w\" %s", desc->columns[c].name,
				    is_list(&desc->columns[c])		  ? "TEXT"
				    : desc->columns[c].type == COLUMN_F64 ? "REAL"
									  : "INTEGER");
	text = sqlite3_str_finish(columns);
	if (!text)
		return SQLITE_NOMEM;
	r = file_table(file, name, text, desc->n_columns + 1, ret_insert);
	sqlite3_free(text);
	return r;
}

static int bind_list(sqlite3_stmt *insert, int at, const struct run *run, unsigned int kind,
		     unsigned int column, size_t row)
{
	const uint64_t *first = field_first(run, kind, column);
	const void *values = field_array(run, kind, column);
	unsigned int type = kind_desc(kind)->columns[column].type;
	struct buf text = { 0 };
	int r;

	buf_append(&text, "[", 1);
	for (uint64_t i = first[row]; i < first[row + 1]; i++)
		buf_printf(&text, "%s%" PRId64, i > first[row] ? "," : "",
			   field_int(values, type, i));
	buf_append(&text, "]", 1);
	r = text.failed ? SQLITE_NOMEM
			: sqlite3_bind_text64(insert, at, text.data, text.size, SQLITE_TRANSIENT,
					      SQLITE_UTF8);
	buf_release(&text);
	return r;
}

static int bind_number(sqlite3_stmt *insert, int at, const struct column_desc *column,
		       const void *array, size_t row)
{
	if (!array)
		return sqlite3_bind_null(insert, at);
	if (column->type == COLUMN_F64)
		return sqlite3_bind_double(insert, at, ((const double *)array)[row]);
	return sqlite3_bind_int64(insert, at, field_int(array, column->type, row));
}

static int write_kind(struct sqlite_file *file, unsigned int kind)
{
	const struct kind_desc *desc = kind_desc(kind);
	const uint16_t *shards = field_shards(file->run, kind);
	size_t n = field_rows(file->run, kind);
	sqlite3_stmt *insert = NULL;
	const void *arrays[64];
	int r;

	if (!n)
		return SQLITE_OK;
	for (unsigned int c = 0; c < desc->n_columns; c++)
		arrays[c] = field_array(file->run, kind, c);
	r = make_table(file, kind, &insert);
	for (size_t i = 0; r == SQLITE_OK && i < n; i++) {
		r = sqlite3_bind_int64(insert, 1, shards[i]);
		for (unsigned int c = 0; r == SQLITE_OK && c < desc->n_columns; c++)
			r = is_list(&desc->columns[c])
				    ? bind_list(insert, (int)c + 2, file->run, kind, c, i)
				    : bind_number(insert, (int)c + 2, &desc->columns[c], arrays[c],
						  i);
		if (r == SQLITE_OK)
			r = file_insert(insert);
	}
	sqlite3_finalize(insert);
	return r;
}

static int write_strings(struct sqlite_file *file)
{
	sqlite3_stmt *insert = NULL;
	int r = file_table(file, "MOESCOPE_STRING", "id INTEGER PRIMARY KEY, text TEXT", 2,
			   &insert);

	for (uint32_t id = 1; r == SQLITE_OK && id < file->n_strings; id++) {
		sqlite3_bind_int64(insert, 1, id);
		sqlite3_bind_text(insert, 2, run_string(file->run, id), -1, SQLITE_STATIC);
		r = file_insert(insert);
	}
	sqlite3_finalize(insert);
	return r;
}

static int write_sites(struct sqlite_file *file)
{
	sqlite3_stmt *insert = NULL;
	int r = file_table(
		file, "MOESCOPE_SITE",
		"id INTEGER PRIMARY KEY, name INTEGER, layer INTEGER, expert INTEGER, phase INTEGER",
		5, &insert);

	for (uint32_t id = 1; r == SQLITE_OK && id < file->n_sites; id++) {
		struct site site = run_site(file->run, id);
		int64_t values[] = { id, site.name, site.layer, site.expert, site.phase };

		for (int v = 0; v < 5; v++)
			sqlite3_bind_int64(insert, v + 1, values[v]);
		r = file_insert(insert);
	}
	sqlite3_finalize(insert);
	return r;
}

static int write_launches(struct sqlite_file *file)
{
	sqlite3_stmt *insert = NULL;
	int r = file_table(file, "MOESCOPE_LAUNCH",
			   "id INTEGER PRIMARY KEY, name INTEGER, grid_x INTEGER, grid_y INTEGER, "
			   "grid_z INTEGER, block_x INTEGER, block_y INTEGER, block_z INTEGER, "
			   "registers INTEGER, static_shared_bytes INTEGER, "
			   "dynamic_shared_bytes INTEGER",
			   11, &insert);

	for (uint32_t id = 1; r == SQLITE_OK && id < file->n_launches; id++) {
		struct row_launch l = run_launch(file->run, id);
		int64_t values[] = { id,
				     l.name,
				     l.grid_x,
				     l.grid_y,
				     l.grid_z,
				     l.block_x,
				     l.block_y,
				     l.block_z,
				     l.registers,
				     l.static_shared_bytes,
				     l.dynamic_shared_bytes };

		for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++)
			sqlite3_bind_int64(insert, (int)v + 1, values[v]);
		r = file_insert(insert);
	}
	sqlite3_finalize(insert);
	return r;
}

static int write_shards(struct sqlite_file *file)
{
	static const char *const states[] = {
		[SHARD_CLOSED] = "closed", [SHARD_LIVE] = "live", [SHARD_CRASHED] = "crashed"
	};
	sqlite3_stmt *insert = NULL;
	int r = file_table(file, "MOESCOPE_SHARD",
			   "shard INTEGER PRIMARY KEY, rank INTEGER, pid INTEGER, state TEXT, "
			   "realtime_offset_ns INTEGER, start_ns INTEGER, end_ns INTEGER, "
			   "file_bytes INTEGER, trouble TEXT"
#define LOSS(field, words) ", " #field " INTEGER"
			   LOSS_COUNTERS(LOSS),
#undef LOSS
#define LOSS(field, words) +1
			   9 LOSS_COUNTERS(LOSS),
#undef LOSS
			   &insert);

	for (size_t s = 0; r == SQLITE_OK && s < file->run->n_shards; s++) {
		const struct run_shard *shard = &file->run->shards[s];
		int at = 10;

		sqlite3_bind_int64(insert, 1, (sqlite3_int64)s);
		sqlite3_bind_int64(insert, 2, shard->rank);
		sqlite3_bind_int64(insert, 3, shard->pid);
		sqlite3_bind_text(insert, 4, states[shard->state], -1, SQLITE_STATIC);
		sqlite3_bind_int64(insert, 5, shard->realtime_offset_ns);
		sqlite3_bind_int64(insert, 6, shard->start_ns);
		sqlite3_bind_int64(insert, 7, shard->end_ns);
		sqlite3_bind_int64(insert, 8, (sqlite3_int64)shard->file_bytes);
		if (shard->trouble.message[0])
			sqlite3_bind_text(insert, 9, shard->trouble.message, -1, SQLITE_STATIC);
#define LOSS(field, words) sqlite3_bind_int64(insert, at++, (sqlite3_int64)shard->loss.field);
		LOSS_COUNTERS(LOSS)
#undef LOSS
		r = file_insert(insert);
	}
	sqlite3_finalize(insert);
	return r;
}

static int write_text(sqlite3_stmt *insert, const char *key, const char *value)
{
	sqlite3_bind_text(insert, 1, key, -1, SQLITE_STATIC);
	sqlite3_bind_text(insert, 2, value ? value : "", -1, SQLITE_STATIC);
	return file_insert(insert);
}

static int write_number(sqlite3_stmt *insert, const char *key, bool known, int64_t value)
{
	sqlite3_bind_text(insert, 1, key, -1, SQLITE_STATIC);
	if (known)
		sqlite3_bind_int64(insert, 2, value);
	return file_insert(insert);
}

static int write_run(struct sqlite_file *file)
{
	const struct run_info *info = &file->run->info;
	const struct {
		const char *key, *value;
	} texts[] = {
		{ "name", info->name },	    { "command", info->command },
		{ "status", info->status }, { "host", info->host },
		{ "cpu", info->cpu },	    { "version", info->version },
		{ "level", info->level },   { "notes", info->notes },
	};
	const struct {
		const char *key;
		bool known;
		int64_t value;
	} numbers[] = {
		{ "exit_status", !strcmp(info->status, "exited"), info->exit_status },
		{ "signal", !strcmp(info->status, "killed"), info->signal },
		{ "cpus", info->cpus > 0, info->cpus },
		{ "started_realtime_ns", info->started_realtime_ns != 0,
		  info->started_realtime_ns },
		{ "duration_ns", info->duration_known, info->duration_ns },
		{ "start_ns", true, file->run->start_ns },
		{ "end_ns", true, file->run->end_ns },
	};
	sqlite3_stmt *insert = NULL;
	int r = file_table(file, "MOESCOPE_RUN", "key TEXT PRIMARY KEY, value", 2, &insert);

	for (size_t i = 0; r == SQLITE_OK && i < sizeof(texts) / sizeof(texts[0]); i++)
		r = write_text(insert, texts[i].key, texts[i].value);
	for (size_t i = 0; r == SQLITE_OK && i < sizeof(numbers) / sizeof(numbers[0]); i++)
		r = write_number(insert, numbers[i].key, numbers[i].known, numbers[i].value);
	if (r == SQLITE_OK) {
		sqlite3_bind_text(insert, 1, "budget_pct", -1, SQLITE_STATIC);
		if (info->budget_known)
			sqlite3_bind_double(insert, 2, info->budget_pct);
		r = file_insert(insert);
	}
	sqlite3_finalize(insert);
	return r;
}

int file_write_own(struct sqlite_file *file)
{
	int r = write_run(file);

	if (r == SQLITE_OK)
		r = write_shards(file);
	if (r == SQLITE_OK)
		r = write_strings(file);
	if (r == SQLITE_OK)
		r = write_sites(file);
	if (r == SQLITE_OK)
		r = write_launches(file);
	for (unsigned int k = RECORD_LAUNCH + 1; r == SQLITE_OK && k < RECORD_KIND_LIMIT; k++)
		r = write_kind(file, k);
	return r;
}
