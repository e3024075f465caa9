/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries and exports while any one allocation fails: a failure or the right result, no crash, and
 * (with the sanitizers) nothing that stays behind. SQLite's own allocations are not among them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <unistd.h>

#include "failing_alloc.h"
#include "exports/csv/csv_kinds.h"
#include "exports/sqlite/sqlite_write.h"
#include "kept_regex.h"
#include "sql_rows.h"

#define MOST_ALLOCATIONS 20000

/* The row of the result, or an empty text when it failed. */
static int query_once(struct run *run, const char *query, char *out, size_t size)
{
	struct sql_rows rows = { .runs = { run, run }, .labels = { "a", "b" } };
	struct sql_source source = { 2, rows.labels, sql_rows_load, sql_rows_unload, &rows };
	struct err err = { "" };
	int r = sql_open(&source, &rows.sql, &err);

	if (r == 0)
		r = sql_rows_try(&rows, query, &err);
	if (r == 0 && rows.text.failed)
		r = -1;
	snprintf(out, size, "%s", r == 0 ? rows.text.data : "");
	countdown = -1;
	assert_true(r == 0 || err.message[0] || rows.text.failed || rows.names.failed);
	sql_rows_close(&rows);
	return r;
}

static void test_queries(void **state)
{
	static const char *const queries[] = {
		"select name, count(*), sum(duration_ns) from kernels group by name order by 1",
		"select range, step, class, short_name from kernels where name like '%e%' and step "
		"in (0, 1) order by start_ns",
		"select step, count(*) from operations group by step",
		"select k.name, a.name from kernels k join api_calls a on a.correlation = "
		"k.correlation and k.run = a.run order by 1, 2",
		"select name, count from kernel_summary union all select title, 1 from verdicts",
	};
	struct run *run = fake_gpu_run();

	(void)state;
	for (size_t q = 0; q < sizeof(queries) / sizeof(queries[0]); q++) {
		static char expected[65536], got[65536];
		long n = 0;

		assert_int_equal(query_once(run, queries[q], expected, sizeof(expected)), 0);
		for (; n < MOST_ALLOCATIONS; n += 1 + n / 50) {
			bool failed_one;

			countdown = n;
			if (query_once(run, queries[q], got, sizeof(got)) == 0)
				assert_string_equal(got, expected);
			failed_one = got[0] == '\0';
			if (!failed_one && n > 200)
				break;
		}
		assert_true(n > 20);
	}
	fake_run_free(run);
}

static void test_exports(void **state)
{
	char directory[] = "/tmp/moescope-test-XXXXXX", path[64];
	struct run *run = fake_gpu_run();
	int succeeded = 0;

	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/a.sqlite", directory);
	for (long n = 0; n < 400 && succeeded < 2; n += 1 + n / 40) {
		struct err err = { "" };
		int r;

		countdown = n;
		r = sqlite_write(run, path, &err);
		countdown = -1;
		assert_true(r == 0 || err.message[0]);
		assert_int_equal(access(path, F_OK) == 0, r == 0);
		succeeded += r == 0;
		if (r == 0)
			unlink(path);
	}
	assert_true(succeeded);
	/* Nothing is left of those that failed. */
	assert_int_equal(rmdir(directory), 0);
	fake_run_free(run);
}

static void remove_tables(const char *path)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -r '%s'", path);
	assert_int_equal(system(command), 0);
}

static void test_csv(void **state)
{
	char directory[] = "/tmp/moescope-test-XXXXXX", path[64];
	struct run *run = fake_gpu_run();
	int succeeded = 0;

	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/a.csv", directory);
	for (long n = 0; n < 400 && succeeded < 2; n += 1 + n / 40) {
		struct err err = { "" };
		int r;

		countdown = n;
		r = csv_kinds_write(run, path, &err);
		countdown = -1;
		assert_true(r == 0 || err.message[0]);
		assert_int_equal(access(path, F_OK) == 0, r == 0);
		succeeded += r == 0;
		if (r == 0)
			remove_tables(path);
	}
	assert_true(succeeded);
	assert_int_equal(rmdir(directory), 0);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_queries),
		cmocka_unit_test(test_exports),
		cmocka_unit_test(test_csv),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
