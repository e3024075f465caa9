/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of a run, from opening it to putting it in its place; see sqlite_file.h.
 */
#include "exports/sqlite/sqlite_write.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/whole_file.h"
#include "exports/columns/fields.h"
#include "exports/sqlite/sqlite_file.h"

int file_exec(struct sqlite_file *file, const char *format, ...)
{
	va_list list;
	char *sql;
	int r;

	va_start(list, format);
	sql = sqlite3_vmprintf(format, list);
	va_end(list);
	if (!sql)
		return SQLITE_NOMEM;
	r = sqlite3_exec(file->db, sql, NULL, NULL, NULL);
	sqlite3_free(sql);
	return r;
}

int file_table(struct sqlite_file *file, const char *name, const char *columns, int n,
	       sqlite3_stmt **ret_insert)
{
	sqlite3_str *text;
	char *sql;
	int r = file_exec(file, "CREATE TABLE %s(%s)", name, columns);

	if (r != SQLITE_OK)
		return r;
	text = sqlite3_str_new(file->db);
	sqlite3_str_appendf(text, "INSERT INTO %s VALUES(", name);
	for (int i = 0; i < n; i++)
		sqlite3_str_appendall(text, i ? ",?" : "?");
	sqlite3_str_appendall(text, ")");
	sql = sqlite3_str_finish(text);
	if (!sql)
		return SQLITE_NOMEM;
	r = sqlite3_prepare_v2(file->db, sql, -1, ret_insert, NULL);
	sqlite3_free(sql);
	return r;
}

int file_insert(sqlite3_stmt *insert)
{
	int r = sqlite3_step(insert);

	sqlite3_reset(insert);
	sqlite3_clear_bindings(insert);
	return r == SQLITE_DONE ? SQLITE_OK : r;
}

static void raise_to(uint32_t *most, int64_t id)
{
	if (id >= *most)
		*most = (uint32_t)id + 1;
}

/* How far the dictionaries go: as far as anything refers to them. */
static void measure_dictionaries(struct sqlite_file *file)
{
	uint32_t *most[] = { [RECORD_STRING] = &file->n_strings,
			     [RECORD_SITE] = &file->n_sites,
			     [RECORD_LAUNCH] = &file->n_launches };

	file->n_strings = file->n_sites = file->n_launches = 1;
	for (unsigned int k = RECORD_LAUNCH + 1; k < RECORD_KIND_LIMIT; k++) {
		const struct kind_desc *desc = kind_desc(k);
		size_t n = field_rows(file->run, k);

		for (unsigned int c = 0; c < desc->n_columns; c++) {
			const void *ids = field_array(file->run, k, c);

			for (size_t i = 0; desc->columns[c].refers && ids && i < n; i++)
				raise_to(most[desc->columns[c].refers],
					 field_int(ids, desc->columns[c].type, i));
		}
	}
	for (uint32_t id = 1; id < file->n_sites; id++)
		raise_to(&file->n_strings, run_site(file->run, id).name);
	for (uint32_t id = 1; id < file->n_launches; id++)
		raise_to(&file->n_strings, run_launch(file->run, id).name);
}

static int number_processes(struct sqlite_file *file)
{
	const struct run *run = file->run;

	file->global_pids = calloc(run->n_shards + 1, sizeof(*file->global_pids));
	if (!file->global_pids)
		return SQLITE_NOMEM;
	for (size_t s = 0; s < run->n_shards; s++) {
		uint64_t pid = run->shards[s].pid & 0xffffff, machine = 0;

		for (size_t i = 0; i < s; i++)
			machine += (run->shards[i].pid & 0xffffff) == pid;
		file->global_pids[s] = (int64_t)((machine & 0x7fff) << 48 | pid << 24);
	}
	return SQLITE_OK;
}

static int write_all(struct sqlite_file *file)
{
	int r = number_processes(file);

	if (r != SQLITE_OK)
		return r;
	measure_dictionaries(file);
	/* Nobody else sees the file before it is complete: nothing has to be undone. */
	r = file_exec(file, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; "
			    "PRAGMA locking_mode=EXCLUSIVE; PRAGMA page_size=16384; BEGIN");
	if (r == SQLITE_OK)
		r = file_write_own(file);
	if (r == SQLITE_OK)
		r = file_write_nsight(file);
	if (r == SQLITE_OK)
		r = file_exec(file, "COMMIT");
	return r;
}

static int write_to(const struct run *run, const char *temporary, const char *path, struct err *err)
{
	struct sqlite_file file = { .run = run };
	int code = sqlite3_open_v2(temporary, &file.db,
				   SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
				   NULL);
	int r = 0;

	if (code == SQLITE_OK)
		code = write_all(&file);
	if (code != SQLITE_OK)
		r = err_set(err, code == SQLITE_NOMEM ? -ENOMEM : -EIO, "cannot write '%s': %s",
			    path, file.db ? sqlite3_errmsg(file.db) : sqlite3_errstr(code));
	sqlite3_close(file.db);
	free(file.global_pids);
	return r;
}

int sqlite_write(const struct run *run, const char *path, struct err *err)
{
	struct whole_file whole;
	struct stat st;
	int r;

	/* Looked at first: to open a pipe is to wait for its reader. */
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "cannot write '%s': a database needs a plain file",
			       path);
	r = whole_file_open(&whole, path);
	if (r < 0)
		return err_sys(err, r, "cannot write '%s'", path);
	return whole_file_close(&whole, write_to(run, whole.temporary, path, err), err);
}
