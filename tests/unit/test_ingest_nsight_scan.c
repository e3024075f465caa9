/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows from pages are the rows that SQLite gives; what is unusual is left to SQLite; broken pages are
 * counted and break nothing.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "imported.h"
#include "ingest/nsight/nsight_scan.h"
#include "nsight_file.h"

struct rows {
	struct buf text; /* all values, one row a line */
	size_t n_columns, n;
};

static int add_row(void *context, int64_t rowid, const struct scan_value *v)
{
	struct rows *rows = context;

	rows->n++;
	buf_printf(&rows->text, "%lld", (long long)rowid);
	for (size_t i = 0; i < rows->n_columns; i++) {
		switch (v[i].type) {
		case SCAN_NULL:
			buf_printf(&rows->text, " null");
			break;
		case SCAN_INT:
			buf_printf(&rows->text, " %lld", (long long)v[i].i);
			break;
		case SCAN_REAL:
			buf_printf(&rows->text, " %a", v[i].d);
			break;
		case SCAN_TEXT:
			buf_printf(&rows->text, " '%.*s'", (int)v[i].length, v[i].text);
			break;
		}
	}
	buf_printf(&rows->text, "\n");
	return 0;
}

/* All rows of a table; pages: whether they must come from pages, or from SQLite. */
static struct rows read_rows(struct scan_file *file, const char *name, const char *const *columns,
			     size_t n, bool pages)
{
	struct rows rows = { .n_columns = n };
	uint32_t page_bytes = file->page_bytes;
	struct scan_table table;
	uint64_t damaged = 0;

	if (!pages)
		file->page_bytes = 0;
	assert_int_equal(scan_table_open(file, name, columns, n, &table), 1);
	assert_int_equal(table.leaves != NULL, pages);
	for (size_t i = 0; i < scan_chunks(&table); i++)
		assert_int_equal(scan_chunk(&table, i, add_row, &rows, &damaged), 0);
	assert_int_equal(damaged, 0);
	assert_int_equal(table.damaged_pages, 0);
	scan_table_close(&table);
	file->page_bytes = page_bytes;
	buf_append(&rows.text, "", 1);
	assert_false(rows.text.failed);
	return rows;
}

static size_t compare(struct scan_file *file, const char *name, const char *const *columns,
		      size_t n)
{
	struct rows a = read_rows(file, name, columns, n, true);
	struct rows b = read_rows(file, name, columns, n, false);

	assert_int_equal(a.n, b.n);
	assert_string_equal(a.text.data, b.text.data);
	buf_release(&a.text);
	buf_release(&b.text);
	return a.n;
}

static void open_file(struct scan_file *scan, const char *path)
{
	struct err err = { "" };

	if (scan_file_open(scan, path, &err) < 0)
		fail_msg("%s", err.message);
	assert_true(scan->page_bytes > 0);
}

/* Values of every size, in pages of every size, with chains of pages for long texts. */
static void test_values(void **state)
{
	static const char *const columns[] = { "c", "a", "missing", "b", "id" };
	static const int page_bytes[] = { 512, 4096, 65536 };

	(void)state;
	for (size_t p = 0; p < 3; p++) {
		struct nsight_file file = nsight_file_new();
		struct scan_file scan;

		nsight_runf(&file, "pragma page_size = %d", page_bytes[p]);
		nsight_run(
			&file,
			"create table t (id integer primary key, a, b, c);"
			"insert into t values (-5, 0, 1, null), (1, -1, 127, -128), (2, 128, -129,"
			" 32767), (3, 32768, 8388607, -8388608), (4, 8388608, 2147483647,"
			" -2147483648), (5, 2147483648, 140737488355327, -140737488355328),"
			" (6, 140737488355328, 9223372036854775807, -9223372036854775808),"
			" (7, 1.5, -2.25e300, 1e18), (8, '', 'text', x'00ff'),"
			" (9223372036854775807, printf('%.*c', 70, 'x'), printf('%.*c', 5000, 'y'),"
			" printf('%.*c', 200000, 'z'));"
			"with recursive n(i) as (select 10 union all select i + 1 from n where i <"
			" 3000) insert into t select i, i * i, 'row ' || i, i / 7.0 from n;");
		nsight_file_close(&file);
		open_file(&scan, file.path);
		assert_int_equal(compare(&scan, "t", columns, 5), 10 + 2991);
		assert_int_equal(compare(&scan, "T", columns, 1), 10 + 2991);
		scan_file_close(&scan);
		nsight_file_release(&file);
	}
}

/* Rows of many lists of types, in turn and at random: where the values of each are is kept, for as
 * many as there is room. In tables of more columns than are kept as well. */
static void test_layouts(void **state)
{
	static const char *const columns[] = { "f", "a", "b", "c", "d", "e" };
	static const char one[] =
		"(case abs(random()) % 12 when 0 then null when 1 then 0 when 2 then"
		" 1 when 3 then -7 when 4 then 300 when 5 then -70000 when 6 then"
		" 20000000 when 7 then -5000000000 when 8 then 1 << 60 when 9 then"
		" 0.1 when 10 then 'text' else i end)";

	(void)state;
	for (int wide = 0; wide < 2; wide++) {
		struct nsight_file file = nsight_file_new();
		struct scan_file scan;

		nsight_run(&file, "create table t (id integer primary key, a, b, c, d, e, f)");
		for (int i = 0; wide && i < 70; i++)
			nsight_runf(&file, "alter table t add column g%d", i);
		/* Two lists in turn, which differ in what takes no bytes; then any. */
		nsight_run(
			&file,
			"with recursive n(i) as (select 1 union all select i + 1 from n where i <"
			" 999) insert into t (a, b, c, d, e, f) select i % 2, 300,"
			" case i % 2 when 0 then 1 end, i, i % 2 = 0, 7 from n;");
		nsight_runf(
			&file,
			"with recursive n(i) as (select 1 union all select i + 1 from n where i <"
			" 20000) insert into t (a, b, c, d, e, f) select %s, %s, %s, %s, %s, %s"
			" from n;",
			one, one, one, one, one, one);
		if (wide)
			nsight_run(&file, "alter table t add column z; update t set z = 5;");
		nsight_file_close(&file);
		open_file(&scan, file.path);
		assert_int_equal(compare(&scan, "t", columns, 6), 999 + 20000);
		if (wide) {
			static const char *const last[] = { "z", "a" };

			assert_int_equal(compare(&scan, "t", last, 2), 999 + 20000);
		}
		scan_file_close(&scan);
		nsight_file_release(&file);
	}
}

/* Rows that are older than a column, rows deleted, an empty table. */
static void test_history(void **state)
{
	static const char *const columns[] = { "a", "b" };
	struct nsight_file file = nsight_file_new();
	struct scan_file scan;
	struct scan_table none;

	(void)state;
	nsight_run(&file, "create table t (a); insert into t values (1), (2), (3);"
			  "alter table t add column b; insert into t values (4, 5);"
			  "delete from t where a = 2; create table empty (a, b);");
	nsight_file_close(&file);
	open_file(&scan, file.path);
	assert_int_equal(compare(&scan, "t", columns, 2), 3);
	assert_int_equal(compare(&scan, "empty", columns, 2), 0);
	assert_int_equal(scan_table_open(&scan, "nowhere", columns, 2, &none), 0);
	assert_false(scan_has_table(&scan, "nowhere"));
	assert_true(scan_has_table(&scan, "T"));
	scan_file_close(&scan);
	nsight_file_release(&file);
}

/* What pages do not tell is SQLite's to read. */
static void test_unusual(void **state)
{
	static const char *const tables[] = { "keyed", "computed", "defaults", "seen" };
	static const char *const columns[] = { "a", "b" };
	struct nsight_file file = nsight_file_new();
	struct scan_file scan;

	(void)state;
	nsight_run(&file,
		   "create table keyed (a integer primary key, b) without rowid;"
		   "insert into keyed values (1, 2);"
		   "create table computed (a, b as (a + 1)); insert into computed values (1);"
		   "create table defaults (a); insert into defaults values (1);"
		   "alter table defaults add column b default 2;"
		   "create view seen as select 1 as a, 2 as b;");
	nsight_file_close(&file);
	open_file(&scan, file.path);
	for (size_t i = 0; i < 4; i++) {
		struct rows rows = { .n_columns = 2 };
		struct scan_table table;
		uint64_t damaged = 0;

		assert_int_equal(scan_table_open(&scan, tables[i], columns, 2, &table), 1);
		assert_null(table.leaves);
		assert_int_equal(scan_chunk(&table, 0, add_row, &rows, &damaged), 0);
		buf_append(&rows.text, "", 1);
		assert_string_equal(rows.text.data, "1 1 2\n");
		assert_int_equal(damaged, 0);
		scan_table_close(&table);
		buf_release(&rows.text);
	}
	scan_file_close(&scan);
	nsight_file_release(&file);

	file = nsight_file_new();
	nsight_run(&file, "pragma encoding = 'UTF-16'; create table t (a, b);"
			  "insert into t values ('text', 2);");
	nsight_file_close(&file);
	assert_int_equal(scan_file_open(&scan, file.path, NULL), 0);
	assert_int_equal(scan.page_bytes, 0);
	scan_file_close(&scan);
	nsight_file_release(&file);
}

/* A journal beside the file holds rows, too: pages alone would miss them. */
static void test_journal(void **state)
{
	static const char *const columns[] = { "a", "b" };
	struct nsight_file file = nsight_file_new();
	char *elsewhere = temporary_directory(), *link = path_in(elsewhere, "link.sqlite");

	(void)state;
	nsight_run(&file, "pragma journal_mode = wal; pragma wal_autocheckpoint = 0;"
			  "create table t (a, b); insert into t values (1, 2);");
	/* It is not beside a link to the file. */
	assert_int_equal(symlink(file.path, link), 0);
	for (int linked = 0; linked < 2; linked++) {
		struct scan_file scan;
		struct rows rows;

		assert_int_equal(scan_file_open(&scan, linked ? link : file.path, NULL), 0);
		rows = read_rows(&scan, "t", columns, 2, false);
		assert_string_equal(rows.text.data, "1 1 2\n");
		assert_int_equal(scan.page_bytes, 0);
		buf_release(&rows.text);
		scan_file_close(&scan);
	}
	free(link);
	remove_directory(elsewhere);
	nsight_file_release(&file);
}

/* Any byte of a file changed: never more than what is there is read, and nothing fails. */
static void test_broken_bytes(void **state)
{
	static const char *const columns[] = { "a", "b", "c" };
	struct nsight_file file = nsight_file_new();
	char *bytes;
	size_t size;
	FILE *f;
	uint32_t random = 1;

	(void)state;
	nsight_run(&file,
		   "pragma page_size = 512; create table t (a, b, c);"
		   "with recursive n(i) as (select 0 union all select i + 1 from n where i <"
		   " 400) insert into t select i, 'text ' || i, printf('%.*c', i, 'x') from n;");
	nsight_file_close(&file);
	size = (size_t)nsight_file_bytes(&file);
	bytes = malloc(size);
	assert_non_null(bytes);
	f = fopen(file.path, "rb");
	assert_non_null(f);
	assert_int_equal(fread(bytes, 1, size, f), size);
	fclose(f);
	for (int round = 0; round < 2000; round++) {
		size_t at = 1024 + (random = random * 1664525 + 1013904223) % (size - 1024);
		char before = bytes[at];
		struct scan_file scan;
		struct scan_table table;

		bytes[at] = (char)(random >> 24);
		if (scan_file_open_bytes(&scan, bytes, size, NULL) == 0) {
			struct rows rows = { .n_columns = 3 };
			uint64_t damaged = 0;

			assert_int_equal(scan_table_open(&scan, "t", columns, 3, &table), 1);
			for (size_t i = 0; i < scan_chunks(&table); i++)
				assert_int_equal(scan_chunk(&table, i, add_row, &rows, &damaged),
						 0);
			assert_true(rows.n <= size);
			scan_table_close(&table);
			scan_file_close(&scan);
			buf_release(&rows.text);
		}
		bytes[at] = before;
	}
	free(bytes);
	nsight_file_release(&file);
}

static void test_real_files(void **state)
{
	static const char *const files[] = { "nsys-saxpy-old-schema.sqlite",
					     "nsys-3.20-power-iteration.sqlite",
					     "nsys-3.25-h100-2gpu.sqlite" };
	static const char *const tables[] = { "CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS",
					      "StringIds", "PROCESSES" };
	static const char *const columns[] = { "start", "end",	 "globalPid", "demangledName",
					       "gridX", "text",	 "textId",    "graphNodeId",
					       "id",	"value", "name" };

	(void)state;
	if (access(FIXTURES "expected.json", R_OK))
		skip();
	for (size_t i = 0; i < 3; i++) {
		struct scan_file scan;
		char path[512];

		snprintf(path, sizeof(path), FIXTURES "%s", files[i]);
		open_file(&scan, path);
		for (size_t t = 0; t < 4; t++)
			assert_true(compare(&scan, tables[t], columns, 11) > 0);
		scan_file_close(&scan);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),	   cmocka_unit_test(test_layouts),
		cmocka_unit_test(test_history),	   cmocka_unit_test(test_unusual),
		cmocka_unit_test(test_journal),	   cmocka_unit_test(test_broken_bytes),
		cmocka_unit_test(test_real_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
