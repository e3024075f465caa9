/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening SQLite files, what their tables have, and tables by SQLite's own hand; see nsight_scan.h.
 */
#include "ingest/nsight/nsight_scan.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"

static int sqlite_failed(sqlite3 *db, int code, const char *path, struct err *err)
{
	if (code == SQLITE_NOMEM)
		return err_sys(err, -ENOMEM, "%s cannot be read", path);
	if (code == SQLITE_INTERRUPT)
		return err_set(err, -EBADMSG,
			       "%s cannot be read: a table or view of it has no end.", path);
	/* Undoing what was begun would be writing. */
	if (code == SQLITE_READONLY)
		return err_set(err, -EINVAL,
			       "%s was not written to its end, and the journal next to it undoes "
			       "what was begun: open it once with sqlite3, or export it again.",
			       path);
	return err_set(err, -EINVAL, "%s cannot be read as an SQLite file: %s.", path,
		       db ? sqlite3_errmsg(db) : sqlite3_errstr(code));
}

/* Whether another file holds a part of the database: beside the file itself, as SQLite puts it, not
 * beside a link to it. */
static bool has_companion(const char *path, const char *suffix)
{
	char *real = realpath(path, NULL), *name;
	struct stat st;
	bool has = true;

	if (asprintf(&name, "%s%s", real ? real : path, suffix) >= 0) {
		has = stat(name, &st) == 0 && st.st_size > 0;
		free(name);
	}
	free(real);
	return has;
}

/* "file:" with what has a meaning in a URI escaped. */
static void uri_of(struct buf *uri, const char *path, bool immutable)
{
	buf_printf(uri, "file:");
	for (; *path; path++) {
		if (strchr("%?#", *path))
			buf_printf(uri, "%%%02x", (unsigned char)*path);
		else
			buf_append(uri, path, 1);
	}
	buf_printf(uri, "?mode=ro%s", immutable ? "&immutable=1" : "");
	buf_append(uri, "", 1);
}

/* For its pages. Read, not mapped: a file that shrinks meanwhile is an error then, not a signal. */
static void open_pages(struct scan_file *file, const char *path)
{
	struct stat st;

	file->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (file->fd >= 0 && fstat(file->fd, &st) == 0 && S_ISREG(st.st_mode))
		file->size = (size_t)st.st_size;
	if (!scan_pages_prepare(file))
		file->page_bytes = 0;
}

/* The first look at the schema says whether it is a database at all. */
static int look_at_schema(sqlite3 *db)
{
	return sqlite3_exec(db, "select 1 from sqlite_master limit 1", NULL, NULL, NULL);
}

/* A row of a table takes about as many instructions as it has bytes, and is read a few times. */
#define BUDGET_STEP 1000
#define BUDGET_LEAST 10000000
#define BUDGET_PER_BYTE 64

static int spend_budget(void *context)
{
	struct scan_file *file = context;

	if (file->budget)
		file->budget--;
	else
		file->endless = true;
	return file->endless;
}

/* A file of others: no code of it runs, and no limit of ours grows with it. */
static int harden(struct scan_file *file, const char *path, uint64_t bytes, struct err *err)
{
	int code;

	file->budget = (BUDGET_LEAST + bytes * BUDGET_PER_BYTE) / BUDGET_STEP;
	sqlite3_progress_handler(file->db, BUDGET_STEP, spend_budget, file);
	sqlite3_db_config(file->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(file->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_db_config(file->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
	sqlite3_limit(file->db, SQLITE_LIMIT_LENGTH, 1 << 26);
	code = look_at_schema(file->db);
	if (code == SQLITE_CORRUPT) {
		/* One that was cut off is refused, unless one says that its schema is to be
		 * repaired. It is open for reading alone, so that nothing changes. */
		sqlite3_db_config(file->db, SQLITE_DBCONFIG_DEFENSIVE, 0, NULL);
		sqlite3_db_config(file->db, SQLITE_DBCONFIG_WRITABLE_SCHEMA, 1, NULL);
		file->damaged = true;
		code = look_at_schema(file->db);
	}
	return code == SQLITE_OK ? 0 : sqlite_failed(file->db, code, path, err);
}

int scan_file_open(struct scan_file *file, const char *path, struct err *err)
{
	bool alone = !has_companion(path, "-wal") && !has_companion(path, "-journal");
	struct buf uri = { 0 };
	struct stat st;
	int code, r;

	*file = (struct scan_file){ .fd = -1 };
	if (stat(path, &st) < 0)
		return err_sys(err, -errno, "%s: cannot open", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "%s: not a regular file", path);
	uri_of(&uri, path, alone);
	if (uri.failed) {
		buf_release(&uri);
		return sqlite_failed(NULL, SQLITE_NOMEM, path, err);
	}
	code = sqlite3_open_v2(uri.data, &file->db,
			       SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_FULLMUTEX,
			       NULL);
	buf_release(&uri);
	r = code == SQLITE_OK ? harden(file, path, (uint64_t)st.st_size, err)
			      : sqlite_failed(file->db, code, path, err);
	if (r < 0)
		scan_file_close(file);
	else if (alone)
		open_pages(file, path);
	return r;
}

int scan_file_open_bytes(struct scan_file *file, const void *bytes, size_t size, struct err *err)
{
	int code, r;

	*file = (struct scan_file){ .fd = -1 };
	code = sqlite3_open_v2(":memory:", &file->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_FULLMUTEX,
			       NULL);
	if (code == SQLITE_OK)
		code = sqlite3_deserialize(file->db, "main", (unsigned char *)bytes,
					   (sqlite3_int64)size, (sqlite3_int64)size,
					   SQLITE_DESERIALIZE_READONLY);
	r = code == SQLITE_OK ? harden(file, "the file", size, err)
			      : sqlite_failed(file->db, code, "the file", err);
	if (r < 0) {
		scan_file_close(file);
		return r;
	}
	file->bytes = bytes;
	file->size = size;
	if (!scan_pages_prepare(file))
		file->page_bytes = 0;
	return 0;
}

void scan_file_close(struct scan_file *file)
{
	sqlite3_close(file->db);
	if (file->fd >= 0)
		close(file->fd);
	*file = (struct scan_file){ .fd = -1 };
}

bool scan_has_table(const struct scan_file *file, const char *name)
{
	return sqlite3_table_column_metadata(file->db, "main", name, NULL, NULL, NULL, NULL, NULL,
					     NULL) == SQLITE_OK;
}

static int prepare_format(const struct scan_file *file, sqlite3_stmt **ret, const char *format,
			  const char *name)
{
	char *sql = sqlite3_mprintf(format, name);
	int code = sql ? sqlite3_prepare_v2(file->db, sql, -1, ret, NULL) : SQLITE_NOMEM;

	sqlite3_free(sql);
	return code == SQLITE_OK ? 0 : code == SQLITE_NOMEM ? -ENOMEM : -EINVAL;
}

/* The page that a table begins on; 0: it is none, or one that SQLite must read. */
static uint32_t root_of(const struct scan_file *file, const char *name)
{
	sqlite3_stmt *stmt;
	uint32_t root = 0;

	if (prepare_format(
		    file, &stmt,
		    "select rootpage from sqlite_master where type = 'table' and name = %Q collate "
		    "nocase",
		    name) < 0)
		return 0;
	if (sqlite3_step(stmt) == SQLITE_ROW && sqlite3_column_int64(stmt, 0) > 1 &&
	    sqlite3_column_int64(stmt, 0) <= UINT32_MAX)
		root = (uint32_t)sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	return root;
}

/* Fills has, slot and rowid from the columns of the table; *ret_plain: none of them is computed or
 * has a value that rows do not hold. The number of columns, or -errno. */
static int read_columns(struct scan_table *t, bool *ret_plain)
{
	size_t capacity = 0, n = 0, keys = 0;
	sqlite3_stmt *stmt;
	int r = prepare_format(t->file, &stmt, "pragma table_xinfo(%Q)", t->name), code;

	if (r < 0)
		return r;
	*ret_plain = true;
	t->rowid = -1;
	while ((code = sqlite3_step(stmt)) == SQLITE_ROW) {
		const char *name = (const char *)sqlite3_column_text(stmt, 1);
		const char *type = (const char *)sqlite3_column_text(stmt, 2);

		if (array_grow(&t->slot, &capacity, n + 1, sizeof(*t->slot)) < 0) {
			sqlite3_finalize(stmt);
			return -ENOMEM;
		}
		t->slot[n] = -1;
		for (size_t i = 0; name && i < t->n; i++) {
			if (t->has[i] || strcasecmp(name, t->columns[i]) != 0)
				continue;
			t->has[i] = true;
			t->slot[n] = (int16_t)i;
			t->n_slots = n + 1;
			if (sqlite3_column_int(stmt, 5) && type && !strcasecmp(type, "INTEGER"))
				t->rowid = (int)i;
		}
		keys += sqlite3_column_int(stmt, 5) != 0;
		if (sqlite3_column_int(stmt, 6) || sqlite3_column_type(stmt, 4) != SQLITE_NULL)
			*ret_plain = false;
		n++;
	}
	sqlite3_finalize(stmt);
	if (keys != 1)
		t->rowid = -1;
	return code == SQLITE_DONE ? (int)n : -EINVAL;
}

int scan_table_open(const struct scan_file *file, const char *name, const char *const *columns,
		    size_t n, struct scan_table *ret_table)
{
	struct scan_table t = { .file = file, .name = name, .columns = columns, .n = n };
	bool plain;
	int r = read_columns(&t, &plain);

	if (r > 0 && plain && file->page_bytes) {
		uint32_t root = root_of(file, name);

		r = root ? scan_pages_leaves(&t, root) : 0;
		r = r < 0 ? r : 1;
	}
	r = r > 0 ? 1 : r;
	if (r <= 0)
		scan_table_close(&t);
	*ret_table = t;
	return r == -EINVAL ? 0 : r;
}

void scan_table_close(struct scan_table *table)
{
	free(table->leaves);
	free(table->slot);
	table->leaves = NULL;
	table->slot = NULL;
}

size_t scan_chunks(const struct scan_table *table)
{
	size_t pages;

	if (!table->leaves)
		return 1;
	pages = SCAN_CHUNK_BYTES / table->file->page_bytes;
	return (table->n_leaves + pages - 1) / pages;
}

static void take_value(struct scan_value *value, sqlite3_stmt *stmt, int column)
{
	switch (sqlite3_column_type(stmt, column)) {
	case SQLITE_INTEGER:
		value->type = SCAN_INT;
		value->i = sqlite3_column_int64(stmt, column);
		break;
	case SQLITE_FLOAT:
		value->type = SCAN_REAL;
		value->d = sqlite3_column_double(stmt, column);
		break;
	case SQLITE_TEXT:
		value->type = SCAN_TEXT;
		value->text = (const char *)sqlite3_column_text(stmt, column);
		value->length = (uint32_t)sqlite3_column_bytes(stmt, column);
		if (!value->text)
			value->type = SCAN_NULL;
		break;
	default:
		value->type = SCAN_NULL;
	}
}

/* "select a, null, c from t", with the row's number where the table has none. */
static int prepare_scan(const struct scan_table *t, sqlite3_stmt **ret)
{
	struct buf sql = { 0 };
	int r = -EINVAL;

	for (int rowid = 1; rowid >= 0 && r == -EINVAL; rowid--) {
		char *tail = sqlite3_mprintf(" from \"%w\"", t->name);

		sql.size = 0;
		buf_printf(&sql, "select %s", rowid ? "rowid" : "null");
		for (size_t i = 0; i < t->n; i++)
			buf_printf(&sql, t->has[i] ? ", \"%s\"" : ", null", t->columns[i]);
		buf_append(&sql, tail ? tail : "", tail ? strlen(tail) + 1 : 1);
		if (!tail || sql.failed)
			r = -ENOMEM;
		else if (sqlite3_prepare_v2(t->file->db, sql.data, -1, ret, NULL) == SQLITE_OK)
			r = 0;
		sqlite3_free(tail);
	}
	buf_release(&sql);
	return r;
}

int scan_chunk(const struct scan_table *table, size_t chunk, scan_row row, void *context,
	       uint64_t *damaged)
{
	struct scan_value values[SCAN_COLUMNS_MAX];
	sqlite3_stmt *stmt;
	int64_t n = 0;
	int r, code = SQLITE_DONE;

	if (table->leaves)
		return scan_pages_chunk(table, chunk, row, context, damaged);
	r = prepare_scan(table, &stmt);
	if (r == -EINVAL) {
		(*damaged)++;
		return 0;
	}
	while (r >= 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
		n++;
		for (size_t i = 0; i < table->n; i++)
			take_value(&values[i], stmt, (int)i + 1);
		r = row(context,
			sqlite3_column_type(stmt, 0) == SQLITE_INTEGER
				? sqlite3_column_int64(stmt, 0)
				: n,
			values);
	}
	sqlite3_finalize(stmt);
	if (r >= 0 && code == SQLITE_NOMEM)
		return -ENOMEM;
	*damaged += r >= 0 && code != SQLITE_DONE;
	return r < 0 ? r : 0;
}

static bool copy_scanned_text(const struct scan_value *value, char *copy, size_t size)
{
	if (value->type != SCAN_TEXT || !value->length || value->length >= size ||
	    memchr(value->text, 0, value->length))
		return false;
	memcpy(copy, value->text, value->length);
	copy[value->length] = 0;
	return true;
}

bool scan_int(const struct scan_value *value, int64_t *ret)
{
	char copy[32], *end;

	if (value->type == SCAN_INT) {
		*ret = value->i;
		return true;
	}
	if (value->type == SCAN_REAL) {
		if (!(value->d >= -0x1p63 && value->d < 0x1p63) || value->d != floor(value->d))
			return false;
		*ret = (int64_t)value->d;
		return true;
	}
	if (!copy_scanned_text(value, copy, sizeof(copy)))
		return false;
	errno = 0;
	*ret = strtoll(copy, &end, 10);
	return !*end && !errno;
}

bool scan_real(const struct scan_value *value, double *ret)
{
	char copy[64], *end;

	if (value->type == SCAN_INT) {
		*ret = (double)value->i;
		return true;
	}
	if (value->type == SCAN_REAL) {
		*ret = value->d;
	} else {
		if (!copy_scanned_text(value, copy, sizeof(copy)))
			return false;
		*ret = strtod(copy, &end);
		if (*end)
			return false;
	}
	return isfinite(*ret);
}
