/* SPDX-License-Identifier: Apache-2.0
 *
 * Nsight Systems files. An input that begins like an SQLite file is one, however broken. Any other
 * input is the contents of the tables of a sound file: a table, then a value for each column, and so
 * on; its rows from pages must then be those that SQLite gives.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "fuzz.h"
#include "ingest/nsight/nsight_inside.h"

static void import(const void *bytes, size_t size)
{
	struct ingest_file file = { .path = "input", .bytes = size };
	struct nsight ns = { .file = &file };
	struct err err = { "" };

	if (scan_file_open_bytes(&ns.scan, bytes, size, &err) < 0) {
		if (!err.message[0])
			abort();
		return;
	}
	if (intake_new(UINT64_MAX, &ns.intake) < 0)
		abort();
	pthread_mutex_init(&ns.lock, NULL);
	if (nsight_read(&ns, &err) < 0 && !err.message[0])
		abort();
	nsight_release(&ns);
	intake_free(ns.intake);
}

struct rows {
	struct buf text;
	size_t n;
};

static int add_row(void *context, int64_t rowid, const struct scan_value *v)
{
	struct rows *rows = context;

	buf_append(&rows->text, &rowid, sizeof(rowid));
	for (size_t i = 0; i < rows->n; i++) {
		buf_append(&rows->text, &v[i].type, sizeof(v[i].type));
		if (v[i].type == SCAN_TEXT)
			buf_append(&rows->text, v[i].text, v[i].length);
		else if (v[i].type != SCAN_NULL)
			buf_append(&rows->text, &v[i].i, sizeof(v[i].i));
	}
	return 0;
}

static void read_rows(struct scan_file *file, const struct ns_table *table, struct rows *rows)
{
	struct scan_table scan;
	uint64_t damaged = 0;

	rows->n = table->n;
	if (scan_table_open(file, table->name, table->columns, table->n, &scan) != 1)
		abort();
	if (!scan.leaves != !file->page_bytes)
		abort();
	for (size_t i = 0; i < scan_chunks(&scan); i++)
		if (scan_chunk(&scan, i, add_row, rows, &damaged) < 0)
			abort();
	if (damaged || scan.damaged_pages)
		abort();
	scan_table_close(&scan);
}

static void compare(const void *bytes, size_t size)
{
	struct scan_file file;

	if (scan_file_open_bytes(&file, bytes, size, NULL) < 0 || !file.page_bytes)
		abort();
	for (size_t t = 0; t < ns_tables_n; t++) {
		uint32_t page_bytes = file.page_bytes;
		struct rows a = { { 0 } }, b = { { 0 } };

		read_rows(&file, &ns_tables[t], &a);
		file.page_bytes = 0;
		read_rows(&file, &ns_tables[t], &b);
		file.page_bytes = page_bytes;
		if (a.text.size != b.text.size ||
		    (a.text.size && memcmp(a.text.data, b.text.data, a.text.size)))
			abort();
		buf_release(&a.text);
		buf_release(&b.text);
	}
	scan_file_close(&file);
}

struct input {
	const uint8_t *at, *end;
};

static uint8_t byte(struct input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

static void bind(sqlite3_stmt *stmt, int column, struct input *in)
{
	uint8_t kind = byte(in);
	uint64_t bits = 0;
	double real;

	for (int i = kind >> 4 & 7; i >= 0 && (kind & 3) != 3; i--)
		bits = bits << 8 | byte(in);
	switch (kind & 3) {
	case 0:
		if (kind & 4)
			sqlite3_bind_int64(stmt, column, (sqlite3_int64)bits);
		else
			sqlite3_bind_null(stmt, column);
		break;
	case 1:
		sqlite3_bind_int64(stmt, column, (sqlite3_int64)bits);
		break;
	case 2:
		memcpy(&real, &bits, sizeof(real));
		sqlite3_bind_double(stmt, column, real);
		break;
	default: {
		/* Long ones go over several pages. */
		int left = (int)(in->end - in->at), length = (kind >> 2) * (kind & 4 ? 40 : 1);
		char *text = malloc((size_t)length + 1);

		if (!text)
			abort();
		for (int i = 0; i < length; i++)
			text[i] = left ? (char)in->at[i % left] : 'x';
		in->at += left < length ? left : length;
		/* Only UTF-8 without NULs is the same both ways. */
		for (int i = 0; i < length; i++)
			text[i] = (char)((text[i] & 0x3f) + 0x20);
		sqlite3_bind_text(stmt, column, text, length, free);
	}
	}
}

static void fill(sqlite3 *db, struct input *in)
{
	while (in->at < in->end) {
		const struct ns_table *table = &ns_tables[byte(in) % ns_tables_n];
		struct buf sql = { 0 };
		sqlite3_stmt *stmt;

		buf_printf(&sql, "insert into %s values (", table->name);
		for (size_t i = 0; i < table->n; i++)
			buf_printf(&sql, i ? ", ?" : "?");
		buf_printf(&sql, ")");
		buf_append(&sql, "", 1);
		if (sqlite3_prepare_v2(db, sql.data, -1, &stmt, NULL) != SQLITE_OK)
			abort();
		for (size_t i = 0; i < table->n; i++)
			bind(stmt, (int)i + 1, in);
		if (sqlite3_step(stmt) != SQLITE_DONE)
			abort();
		sqlite3_finalize(stmt);
		buf_release(&sql);
	}
}

static void create(sqlite3 *db)
{
	sqlite3_exec(db,
		     "pragma page_size = 512; create table StringIds (id integer primary key, "
		     "value text); insert into StringIds values (1, 'cudaLaunchKernel_v7000'), (2, "
		     "'name'), (3, 'x, op_id = 5');"
		     "create table TARGET_INFO_GPU_METRICS (typeId, metricId, metricName);"
		     "insert into TARGET_INFO_GPU_METRICS values (1, 1, 'SMs Active [%]')",
		     NULL, NULL, NULL);
	for (size_t t = 0; t < ns_tables_n; t++) {
		struct buf sql = { 0 };

		buf_printf(&sql, "create table %s (", ns_tables[t].name);
		for (size_t i = 0; i < ns_tables[t].n; i++)
			buf_printf(&sql, "%s\"%s\"%s", i ? ", " : "", ns_tables[t].columns[i],
				   i % 3 == 0 ? " integer" : "");
		buf_printf(&sql, ")");
		buf_append(&sql, "", 1);
		if (sqlite3_exec(db, sql.data, NULL, NULL, NULL) != SQLITE_OK)
			abort();
		buf_release(&sql);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	sqlite3_int64 bytes;
	unsigned char *file;
	sqlite3 *db;

	if (size >= 16 && !memcmp(data, "SQLite format 3", 16)) {
		void *copy = malloc(size); /* exact: a byte too far is seen */

		if (!copy)
			abort();
		memcpy(copy, data, size);
		import(copy, size);
		free(copy);
		return 0;
	}
	if (sqlite3_open(":memory:", &db) != SQLITE_OK)
		abort();
	create(db);
	fill(db, &in);
	file = sqlite3_serialize(db, "main", &bytes, 0);
	sqlite3_close(db);
	if (!file)
		abort();
	compare(file, (size_t)bytes);
	import(file, (size_t)bytes);
	sqlite3_free(file);
	return 0;
}
