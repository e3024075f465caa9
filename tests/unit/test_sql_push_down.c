/* SPDX-License-Identifier: Apache-2.0
 *
 * Conditions, orders and sums that are pushed down against SQLite's own work on copies of the same
 * tables: random queries, with a fixed seed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "moescope.h"
#include "sql_rows.h"

static uint64_t seed = 88172645463325252ULL;

static uint32_t draw(uint32_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 32) % below;
}

static const char *const names[] = { "gemm_a", "gemm_b", "Gemm_A", "x%y", "reduce", "a_b", "" };

static struct run *random_run(size_t n)
{
	struct run *run = fake_run_new();
	uint16_t shards[] = { 0, fake_shard(run, 3, 4243) };
	uint32_t loads[5];

	for (size_t i = 0; i < n; i++) {
		uint16_t shard = shards[draw(2)];

		fake_add_kernel(run, shard,
				&(struct row_kernel){ .launch = fake_launch(run, names[draw(7)]),
						      .start_ns = draw(500),
						      .duration_ns = draw(50),
						      .stream = draw(3),
						      .device = draw(2),
						      .correlation = draw(40) });
		fake_add_api(run, shard,
			     &(struct row_api){ .name = fake_string(run, names[draw(6)]),
						.start_ns = draw(500),
						.duration_ns = draw(9),
						.thread = draw(3),
						.correlation = draw(40) });
	}
	for (int64_t step = 0; step < 8; step++) {
		fake_add_step(run, 0,
			      &(struct row_step){ .step = step * 2,
						  .start_ns = step * 60,
						  .duration_ns = 55,
						  .tokens = draw(9),
						  .tokens_known = draw(2) != 0,
						  .recorded = 1 });
		for (size_t e = 0; e < 5; e++)
			loads[e] = draw(4);
		loads[0] += (loads[0] + loads[1] + loads[2] + loads[3] + loads[4]) & 1;
		fake_routing(run, step, step * 60, (int32_t)draw(3), 2, 5, loads);
	}
	return run;
}

struct random_table {
	const char *name, *rows;
	struct {
		const char *name;
		bool text;
	} columns[9];
};
static const struct random_table tables[] = {
	{ "kernels",
	  "rank, start_ns, duration_ns, name, device, stream, correlation, step, class",
	  { { "start_ns", false },
	    { "end_ns", false },
	    { "name", true },
	    { "rank", false },
	    { "device", false },
	    { "stream", false },
	    { "step", false },
	    { "correlation", false },
	    { "run", true } } },
	{ "api_calls",
	  "rank, start_ns, duration_ns, name, thread, correlation, step",
	  { { "start_ns", false },
	    { "end_ns", false },
	    { "name", true },
	    { "rank", false },
	    { "thread", false },
	    { "step", false },
	    { "correlation", false },
	    { "duration_ns", false },
	    { "run", true } } },
	{ "routing_load",
	  "step, layer, expert, load",
	  { { "step", false },
	    { "layer", false },
	    { "expert", false },
	    { "load", false },
	    { "time_ns", false },
	    { "phase", true },
	    { "rank", false },
	    { "pid", false },
	    { "run", true } } },
};

/* A value that a condition compares with: mostly one that occurs. */
static void random_value(bool text, char *out, size_t size)
{
	static const char *const odd[] = { "null", "''",   "'12'",  "1.5",
					   "-3",   "1e30", "x'00'", "9223372036854775807" };

	if (draw(8) == 0)
		snprintf(out, size, "%s", odd[draw(8)]);
	else if (text)
		snprintf(out, size, "'%s'", draw(4) ? names[draw(7)] : "a");
	else
		snprintf(out, size, draw(5) ? "%u" : "%u.5", draw(draw(2) ? 8 : 500));
}

static void random_condition(const struct random_table *table, struct buf *query)
{
	static const char *const signs[] = { "=", "<", "<=", ">", ">=", "<>", "is" };
	static const char *const patterns[] = { "'gemm%'", "'%a%'", "'g_mm_a'", "'x\\%y'", "'%'" };
	static const char *const globs[] = { "'gemm*'", "'*[ab]'", "'?_b'" };
	unsigned int c = draw(9), way = draw(10);
	const char *name = table->columns[c].name;
	bool text = table->columns[c].text;
	char one[64], two[64], three[64], rest[256];

	random_value(text, one, sizeof(one));
	random_value(text, two, sizeof(two));
	random_value(text, three, sizeof(three));
	if (way == 0)
		snprintf(rest, sizeof(rest), " in (%s, %s, %s)", one, two, three);
	else if (way == 1)
		snprintf(rest, sizeof(rest), " between %s and %s", one, two);
	else if (way == 2)
		snprintf(rest, sizeof(rest), " like %s", patterns[draw(5)]);
	else if (way == 3)
		snprintf(rest, sizeof(rest), " glob %s", globs[draw(3)]);
	else if (way == 4)
		snprintf(rest, sizeof(rest), " = %s collate nocase", one);
	else
		snprintf(rest, sizeof(rest), " %s %s", signs[draw(7)], one);
	buf_printf(query, "%s%s", name, rest);
}

/* Tables of SQLite's own with the same rows. */
static void make_copies(struct sql_rows *rows)
{
	sql_rows_get(rows, "create temp table copy_of_kernels as select * from kernels");
	sql_rows_get(rows, "create temp table copy_of_api_calls as select * from api_calls");
	sql_rows_get(rows, "create temp table copy_of_routing_load as select * from routing_load");
}

/* query: with "@" before the names of tables. */
static void compare(struct sql_rows *rows, const char *query)
{
	struct buf ours = { 0 }, copies = { 0 };
	char *expected;

	for (const char *at = query; *at; at++) {
		if (*at == '@')
			buf_printf(&copies, "copy_of_");
		else
			buf_append(&copies, at, 1);
		if (*at != '@')
			buf_append(&ours, at, 1);
	}
	buf_append(&ours, "", 1);
	buf_append(&copies, "", 1);
	expected = strdup(sql_rows_get(rows, copies.data));
	if (strcmp(sql_rows_get(rows, ours.data), expected) != 0)
		fail_msg("%s:\n%s\nbut of copies:\n%s", ours.data, rows->text.data, expected);
	free(expected);
	buf_release(&ours);
	buf_release(&copies);
}

static void test_conditions(void **state)
{
	struct run *run = random_run(300), *other = random_run(40);
	struct sql_rows rows[2] = { { .runs = { run }, .labels = { "a" } },
				    { .runs = { run, other }, .labels = { "a", "gemm_a" } } };

	(void)state;
	sql_rows_open(&rows[0], 1);
	sql_rows_open(&rows[1], 2);
	make_copies(&rows[0]);
	make_copies(&rows[1]);
	for (int i = 0; i < 1500; i++) {
		const struct random_table *table = &tables[draw(3)];
		struct buf query = { 0 };
		unsigned int n = 1 + draw(3);

		buf_printf(&query, "select %s from @%s where ", table->rows, table->name);
		for (unsigned int c = 0; c < n; c++) {
			if (c)
				buf_printf(&query, draw(5) ? " and " : " or ");
			random_condition(table, &query);
		}
		buf_printf(&query, " order by %s", table->rows);
		compare(&rows[i % 2], query.data);
		buf_release(&query);
	}
	sql_rows_close(&rows[0]);
	sql_rows_close(&rows[1]);
	fake_run_free(run);
	fake_run_free(other);
}

/* Joins look rows up. */
static void test_random_joins(void **state)
{
	struct run *run = random_run(120);
	struct sql_rows rows = { .runs = { run }, .labels = { "a" } };

	(void)state;
	sql_rows_open(&rows, 1);
	make_copies(&rows);
	compare(&rows, "select k.start_ns, a.start_ns, k.name, a.name from @kernels k join "
		       "@api_calls a on a.correlation = k.correlation and a.rank = k.rank order by "
		       "1, 2, 3, 4");
	compare(&rows, "select a.start_ns, k.start_ns, k.name from @api_calls a join @kernels k on "
		       "k.start_ns between a.start_ns and a.end_ns and k.name = a.name order by 1, "
		       "2, 3");
	compare(&rows, "select a.start_ns, k.start_ns from @api_calls a left join @kernels k on "
		       "k.start_ns = a.end_ns and k.device = a.thread order by 1, 2");
	compare(&rows, "select name, (select count(*) from @kernels k where k.step = a.step) from "
		       "@api_calls a order by 1, 2");
	compare(&rows,
		"select stream, group_concat(x) from (select stream, name || device as x "
		"from @kernels group by stream, name, device order by 1, 2) group by stream");
	sql_rows_close(&rows);
	fake_run_free(run);
}

/* What sums answer is what the rows say. The last ones cannot be answered from sums. */
static void test_sums(void **state)
{
	static const char *const queries[] = {
		"select name, count(*), sum(duration_ns) from kernels group by name",
		"select name, count(*) n, sum(duration_ns) as total from kernels group by name "
		"order by total desc, name limit 3",
		"select class, min(start_ns), max(start_ns), avg(duration_ns), total(duration_ns) "
		"from kernels group by class having count(*) > 3 order by 1",
		"select count(*), sum(duration_ns), max(correlation) from kernels",
		"select count(*), max(duration_ns) from kernels where name = 'nothing'",
		"select rank, name, count(*) from api_calls where name like 'g%' or rank in (0, 3) "
		"group by rank, name order by 1, 2",
		"select distinct name from kernels order by name",
		"select upper(name), 100.0 * sum(duration_ns) / count(*) from kernels group by 1 "
		"order by 1",
		"select run, count(start_ns) from kernels group by run order by 1",
		"select /* all */ count(*) -- of them\n from kernels where name <> 'it''s' ; ",
		"select case when name = 'reduce' then 1 else 0 end, count(*) from kernels group by "
		"1 order by 1",
		"select min(name), max(name), count(*) from api_calls",
		"select name, max(duration_ns) - min(duration_ns) from kernels group by name order "
		"by 2, 1",
		"select stream, device, count(*), avg(duration_ns) from kernels group by stream, "
		"device order by 1, 2",
		"select step, count(*), max(end_ns - 1) from kernels group by step order by 1",
		"select step, phase, range, count(*) from kernels where stream <> 1 group by 1, 2, 3 "
		"order by 1, 2, 3",
		"select thread, name, sum(duration_ns), min(thread) from api_calls where thread in "
		"(0, 2) group by thread, name order by 1, 2",
		"select stream, sum(stream), count(stream) from kernels group by stream order by 1",
		"select layer, sum(tokens), count(*) from routing group by layer order by 1",
		"select tokens, count(*) from steps group by tokens order by 1",
		"select class, symbol, grid_x, block_x, untimed, context, graph, device, stream, rank, "
		"step, count(*) from kernels group by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 order by 1, 2, "
		"3, 4, 5, 6, 7, 8, 9, 10, 11",
		"select pid, rank, run, count(*) from kernels group by 1, 2, 3 order by 1, 2, 3",
		/* Not from sums. */
		"select name, count(*) from kernels where start_ns > 200 group by name order by 1",
		"select correlation, count(*) from kernels group by correlation order by 1",
		"select name, duration_ns from kernels order by 1, 2",
		"select name, sum(duration_ns * 2) from kernels group by name order by 1",
		"select name, count(distinct stream) from kernels group by name order by 1",
		"select count(*) from (select name from kernels group by name)",
		"select count(*), sum(duration_ns) filter (where stream = 1) from kernels",
		"select k.name, count(*) from kernels k group by k.name order by 1",
		"select count(*) as duration_ns from kernels group by name order by duration_ns",
		"select name, group_concat(duration_ns) is null from kernels group by name",
		"select name, sum(duration_ns) over () from api_calls group by name, duration_ns "
		"order by 1, 2",
		"select count(name) from kernels",
		"select rank, sum(rank) from kernels group by rank order by 1",
		"select max(duration_ns, 3), count(*) from kernels group by 1 order by 1",
		"select name, count(*) from kernels group by name union select 'all', count(*) from "
		"kernels order by 1",
		"select count(*) from kernels where rowid > 3",
		"select \"name\", count(*) from kernels group by 1 order by 1",
		"select count(*), count(*) from kernels where exists (select 1 from steps)",
		"select name, count(*) from kernels group by name collate nocase order by 2, 1",
	};
	struct run *run = random_run(400), *other = random_run(50);
	struct sql_rows rows = { .runs = { run, other }, .labels = { "a", "b" } };
	size_t n = sizeof(queries) / sizeof(queries[0]);

	(void)state;
	for (size_t runs = 1; runs <= 2; runs++) {
		sql_rows_open(&rows, runs);
		for (size_t i = 0; i < n; i++) {
			char *expected, *titles;

			sql_use_sums(rows.sql, false);
			expected = strdup(sql_rows_get(&rows, queries[i]));
			titles = strdup(rows.names.data);
			sql_use_sums(rows.sql, true);
			if (strcmp(sql_rows_get(&rows, queries[i]), expected) != 0)
				fail_msg("%s:\n%s\nbut\n%s", queries[i], rows.text.data, expected);
			assert_string_equal(rows.names.data, titles);
			free(expected);
			free(titles);
		}
		sql_rows_close(&rows);
		rows.text = rows.names = (struct buf){ 0 };
	}
	fake_run_free(run);
	fake_run_free(other);
}

/* Sums that no integer holds are SQLite's to fail on. */
static void test_sums_overflow(void **state)
{
	struct run *run = fake_run_new();
	struct sql_rows rows = { .runs = { run }, .labels = { "a" } };
	struct err err = { "" };

	(void)state;
	for (int i = 0; i < 3; i++)
		fake_add_kernel(run, 0,
				&(struct row_kernel){ .launch = fake_launch(run, "k"),
						      .start_ns = INT64_MAX - i,
						      .duration_ns = 1 });
	sql_rows_open(&rows, 1);
	assert_true(sql_rows_try(&rows, "select sum(start_ns) from kernels", &err) < 0);
	assert_string_equal(err.message, "integer overflow");
	assert_rows(&rows, "select count(*), max(start_ns) from kernels",
		    "3|9223372036854775807\n");
	sql_rows_close(&rows);
	fake_run_free(run);
}

/* Groups whose sums are integers, but not their sum: averages and totals are told all the same. */
static void test_sums_of_many_groups(void **state)
{
	struct run *run = fake_run_new();
	struct sql_rows rows = { .runs = { run }, .labels = { "a" } };
	struct err err = { "" };

	(void)state;
	for (int i = 0; i < 4; i++)
		fake_add_kernel(run, 0,
				&(struct row_kernel){ .launch = fake_launch(run, names[i]),
						      .start_ns = INT64_C(3) << 60,
						      .duration_ns = 1,
						      .stream = (uint32_t)i / 2 });
	sql_rows_open(&rows, 1);
	assert_rows(&rows,
		    "select avg(start_ns) = 3458764513820540928.0, total(start_ns) = "
		    "13835058055282163712.0 from kernels where name <> ''",
		    "1|1\n");
	assert_rows(
		&rows,
		"select stream, avg(start_ns) = 3458764513820540928.0 from kernels where name <> "
		"'' group by stream",
		"0|1\n1|1\n");
	assert_rows(&rows, "select avg(start_ns) from kernels where name = 'none'", "-\n");
	assert_true(sql_rows_try(&rows, "select sum(start_ns) from kernels where name <> ''",
				 &err) < 0);
	assert_string_equal(err.message, "integer overflow");
	sql_rows_close(&rows);
	fake_run_free(run);
}

/* Where a statement leaves the order open, groups come as their first rows do, whichever thread has
 * summed them. */
static void test_sums_in_order(void **state)
{
	struct run *run = fake_run_new();
	struct sql_rows rows = { .runs = { run }, .labels = { "a" } };
	char *expected;

	(void)state;
	for (uint32_t i = 0; i < 400000; i++)
		fake_add_copy(run, 0,
			      &(struct row_copy){ .bytes = draw(9), .stream = 100 - i / 50000 });
	sql_rows_open(&rows, 1);
	sql_use_sums(rows.sql, false);
	expected = strdup(sql_rows_get(&rows, "select distinct stream, bytes from copies"));
	sql_use_sums(rows.sql, true);
	for (int i = 0; i < 30; i++)
		assert_rows(&rows, "select distinct stream, bytes from copies", expected);
	free(expected);
	sql_rows_close(&rows);
	fake_run_free(run);
}

/* More combinations than sums are kept for: the rows answer. */
static void test_sums_too_many(void **state)
{
	const uint32_t n = (1 << 20) + 5;
	struct run *run = fake_run_new();
	struct sql_rows rows = { .runs = { run }, .labels = { "a" } };

	(void)state;
	for (uint32_t i = 0; i < n; i++)
		fake_add_copy(run, 0, &(struct row_copy){ .bytes = i, .start_ns = i });
	sql_rows_open(&rows, 1);
	assert_rows(&rows, "select bytes, count(*) from copies group by bytes having bytes < 2",
		    "0|1\n1|1\n");
	sql_rows_close(&rows);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_conditions),
		cmocka_unit_test(test_random_joins),
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_sums_overflow),
		cmocka_unit_test(test_sums_of_many_groups),
		cmocka_unit_test(test_sums_in_order),
		cmocka_unit_test(test_sums_too_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
