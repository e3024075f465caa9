/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries over runs built by hand: what columns hold, what is loaded, what is refused, several runs,
 * and the analyses as tables.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "exports/columns/schema.h"
#include "fake_comm.h"
#include "moescope.h"
#include "sql_rows.h"
#include "surfaces/sql/session.h"

#define US INT64_C(1000)
#define MS INT64_C(1000000)

static void open_one(struct sql_rows *rows, struct run *run)
{
	*rows = (struct sql_rows){ .runs = { run }, .labels = { "a" } };
	sql_rows_open(rows, 1);
}

static void test_kernels(void **state)
{
	struct run *run = fake_gpu_run();
	struct sql_rows rows;

	(void)state;
	open_one(&rows, run);
	/* 18 launched in three steps, one without its call, one without times. */
	assert_rows(&rows, "select count(*), sum(untimed), min(rank), max(pid) from kernels",
		    "20|1|0|4242\n");
	assert_rows(&rows, "select sum(end_ns - start_ns) = sum(duration_ns) from kernels", "1\n");
	assert_rows(&rows,
		    "select name, class, start_ns, end_ns, step, range, phase from kernels where "
		    "correlation = 901",
		    "void at::native::vectorized_elementwise_kernel<4, "
		    "at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int, "
		    "at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)|elementwise|"
		    "29010000|29020000|-|-|-\n");
	sql_rows_close(&rows);
	fake_run_free(run);
}

/* The places that SQL tells are those of the attribution. */
static void test_places(void **state)
{
	struct run *run = fake_gpu_run();
	struct sql_rows rows;

	(void)state;
	open_one(&rows, run);
	assert_rows(&rows,
		    "select step, count(*) from kernels where step is not null group by step",
		    "0|6\n1|6\n2|6\n");
	assert_rows(&rows, "select distinct phase from kernels where phase is not null order by 1",
		    "backward\nforward\n");
	assert_rows(&rows,
		    "select count(*) from kernels where range = 'forward/block' and layer = 1 and "
		    "step = 2",
		    "2\n");
	assert_rows(
		&rows,
		"select count(*) from kernels where +range = 'forward/block' and +layer = 1 and "
		"+step = 2",
		"2\n");
	sql_rows_close(&rows);
	fake_run_free(run);
}

/* A query loads what it uses, and no more. */
static void test_what_is_loaded(void **state)
{
	struct run *run = fake_gpu_run();
	struct sql_rows rows;

	(void)state;
	open_one(&rows, run);
	assert_int_equal(rows.loads, 0);
	sql_rows_get(&rows, "select name, sum(duration_ns) from kernels group by name");
	assert_int_equal(rows.loads, 1);
	assert_true(rows.wanted.kinds == WANT(KERNEL));
	assert_true(rows.wanted.columns[RECORD_KERNEL] ==
		    (WANT_COLUMN(kernel, launch) | WANT_COLUMN(kernel, duration_ns)));
	/* The same again needs nothing new. */
	sql_rows_get(&rows, "select max(duration_ns) from kernels where name like 'v%'");
	assert_int_equal(rows.loads, 1);
	sql_rows_get(&rows, "select stream from kernels where start_ns > 5");
	assert_int_equal(rows.loads, 2);
	assert_true(rows.wanted.kinds == WANT(KERNEL));
	sql_rows_get(&rows, "select range from kernels limit 1");
	assert_int_equal(rows.loads, 3);
	assert_true(rows.wanted.kinds & WANT(API) && rows.wanted.kinds & WANT(RANGE));
	assert_false(rows.wanted.kinds & WANT(MEMORY));
	/* Rows alone need one column. */
	sql_rows_get(&rows, "select count(*) from memory_events");
	assert_true(rows.wanted.columns[RECORD_MEMORY] == WANT_COLUMN(memory, time_ns));
	sql_rows_close(&rows);
	fake_run_free(run);
}

/* Unknown is NULL, never 0. */
static void test_absence(void **state)
{
	struct run *run = fake_run_new();
	struct sql_rows rows;

	(void)state;
	fake_add_op(run, 0,
		    &(struct row_op){ .site = fake_site(run, "mm", 3, -1, MOESCOPE_FORWARD),
				      .start_ns = 5,
				      .duration_ns = 10,
				      .flops = 0,
				      .bytes = 7,
				      .unknown = OP_FLOPS_UNKNOWN });
	fake_add_step(run, 0, &(struct row_step){ .step = 4, .start_ns = 0, .duration_ns = 20 });
	fake_add_step(run, 0,
		      &(struct row_step){ .step = 5,
					  .start_ns = 20,
					  .duration_ns = 20,
					  .tokens = 0,
					  .tokens_known = 1 });
	fake_add_device(run, 0, &(struct row_device){ .device = 1, .multiprocessors = 132 });
	fake_add_collective(run, 0, &(struct row_collective){ .start_ns = 3, .in_elements = 8 });
	open_one(&rows, run);
	assert_rows(&rows,
		    "select name, layer, expert, phase, flops, bytes, end_ns, step, shape from "
		    "operations",
		    "mm|3|-|forward|-|7|15|4|-\n");
	assert_rows(&rows, "select step, tokens from steps order by step", "4|-\n5|0\n");
	assert_rows(&rows, "select name, memory_bytes, multiprocessors from devices", "-|-|132\n");
	assert_rows(&rows,
		    "select name, group_name, sequence, in_elements, out_elements from "
		    "collectives",
		    "-|-|-|8|-\n");
	fake_add_kernel(run, 0, &(struct row_kernel){ .launch = fake_launch(run, "bare") });
	assert_rows(&rows,
		    "select name, grid_x, block_z, registers, static_shared_bytes from kernels",
		    "bare|-|-|-|-\n");
	assert_rows(&rows, "select count(*), min(grid_x) from kernels where registers = 0",
		    "0|-\n");
	/* What does not compare with NULL is not found by it, pushed down or not. */
	assert_rows(&rows, "select count(*) from steps where tokens < 5", "1\n");
	assert_rows(&rows, "select count(*) from operations where flops = 0", "0\n");
	assert_rows(&rows, "select count(*) from operations where expert <= 0", "0\n");
	sql_rows_close(&rows);
	fake_run_free(run);
}

static void test_lists(void **state)
{
	struct run *run = fake_run_new();
	const uint32_t first[] = { 3, 0, 5 }, second[] = { 1, 1, 2, 4 };
	struct sql_rows rows;

	(void)state;
	fake_routing(run, 0, 100, 0, 2, 3, first);
	fake_routing(run, 1, 200, 7, 2, 4, second);
	open_one(&rows, run);
	assert_rows(&rows, "select step, layer, expert, load from routing_load",
		    "0|0|0|3\n0|0|1|0\n0|0|2|5\n1|7|0|1\n1|7|1|1\n1|7|2|2\n1|7|3|4\n");
	assert_rows(&rows, "select sum(load) from routing_load where layer = 7", "8\n");
	assert_rows(&rows, "select expert, load from routing_load where step = 0 and load > 0",
		    "0|3\n2|5\n");
	assert_rows(&rows, "select step, tokens, experts from routing order by time_ns desc",
		    "1|4|4\n0|4|3\n");
	assert_rows(&rows, "select step, slots_used, tokens from routing_slots where tokens > 0",
		    "0|2|4\n1|2|4\n");
	sql_rows_close(&rows);
	fake_run_free(run);
}

static void test_several_runs(void **state)
{
	struct run *one = fake_gpu_run(), *two = fake_gpu_run();
	struct sql_rows rows = { .runs = { one, two }, .labels = { "one", "two" } };

	(void)state;
	fake_kernel(two, "only_here", 1, 2, 77);
	sql_rows_open(&rows, 2);
	assert_rows(&rows, "select run, count(*) from kernels group by run", "one|20\ntwo|21\n");
	assert_rows(&rows, "select count(*) from kernels where run = 'two'", "21\n");
	assert_rows(&rows, "select count(*) from kernels where run = 'three'", "0\n");
	/* Names are ids of each run; the texts are compared. */
	assert_rows(&rows,
		    "select name from kernels where run = 'two' and name not in (select name from "
		    "kernels where run = 'one')",
		    "only_here\n");
	assert_rows(&rows, "select run, start_ns from kernels where name in ('only_here', 'no')",
		    "two|1\n");
	assert_rows(&rows,
		    "select a.name, a.count, b.count from kernel_summary a join kernel_summary b "
		    "on a.name = b.name and a.run = 'one' and b.run = 'two' where a.class = "
		    "'attention'",
		    "flash_fwd_kernel|7|7\n");
	sql_rows_close(&rows);
	fake_run_free(one);
	fake_run_free(two);
}

static void test_refused(void **state)
{
	static const char *const queries[] = {
		"delete from kernels",
		"insert into steps(step) values(1)",
		"create table x(a)",
		"create view v as select 1",
		"drop table kernels",
		"attach 'x.db' as y",
		"attach ':memory:' as y",
		"vacuum into 'x.db'",
		"pragma journal_mode = wal",
		"pragma writable_schema = 1",
		"pragma temp_store_directory = '/tmp'",
		"select load_extension('x')",
		"create virtual table f using fts5(a)",
		"create temp trigger t after insert on temp.q begin select 1; end",
	};
	struct run *run = fake_gpu_run();
	struct sql_rows rows;
	struct err err;

	(void)state;
	open_one(&rows, run);
	for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
		err.message[0] = '\0';
		if (sql_rows_try(&rows, queries[i], &err) == 0)
			fail_msg("not refused: %s", queries[i]);
		assert_true(err.message[0] != '\0');
	}
	/* What goes away by itself may be made. */
	assert_rows(&rows,
		    "create temp table t as select name, duration_ns as d from kernels; insert "
		    "into t values('x', 5); update t set d = 6 where name = 'x'; select d from t "
		    "where name = 'x'; select count(*) from t",
		    "6\n21\n");
	assert_rows(&rows, "select count(*) from pragma_table_info('steps') where name = 'tokens'",
		    "1\n");
	assert_rows(&rows, "select value from json_each('[3,4]')", "3\n4\n");
	sql_rows_close(&rows);
	fake_run_free(run);
}

#define ENDLESS "with recursive t(x) as (select 1 union all select x + 1 from t) "

/* Of strangers: nothing is written at all, and what takes too long, or is too long, ends. */
static void test_guarded(void **state)
{
	static const char *const queries[] = {
		"create temp table t as select 1",
		"begin",
		"savepoint x",
		"attach ':memory:' as y",
		"delete from kernels",
		"select load_extension('x')",
		"select zeroblob(2000000)",
	};
	struct run *run = fake_gpu_run();
	struct sql_rows rows;
	struct err err;

	(void)state;
	open_one(&rows, run);
	sql_guard(rows.sql, INT64_C(20000000));
	for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
		err.message[0] = '\0';
		if (sql_rows_try(&rows, queries[i], &err) == 0)
			fail_msg("not refused: %s", queries[i]);
		assert_true(err.message[0] != '\0');
	}
	assert_int_equal(sql_rows_try(&rows, ENDLESS "select count(*) from t", &err), -ETIME);
	assert_string_equal(err.message, "the query was stopped after 0.02 s");
	/* Each has its own time, and what is asked before it runs ends it as ever. */
	assert_int_equal(sql_rows_try(&rows, ENDLESS "select max(x) from t", &err), -ETIME);
	sql_guard(rows.sql, INT64_C(3600000000000));
	sql_interrupt(rows.sql);
	assert_int_equal(sql_rows_try(&rows, ENDLESS "select count(*) from t", &err), -EINTR);
	assert_rows(&rows, "select count(*) from kernels", "20\n");
	sql_rows_close(&rows);
	fake_run_free(run);
}

/* A name means the temporary table or view that has it, whichever way the query is answered. */
static void test_hidden_tables(void **state)
{
	struct run *run = fake_gpu_run();
	struct sql_rows rows;

	(void)state;
	open_one(&rows, run);
	assert_rows(
		&rows,
		"create temp table Kernels as select * from kernels where untimed; select "
		"count(*), sum(duration_ns) is null from kernels; select count(*) from (select * "
		"from kernels)",
		"1|0\n1\n");
	assert_rows(
		&rows,
		"create temp view steps as select 7 as step, 'x' as rank; select rank, count(*) "
		"from steps group by rank",
		"x|1\n");
	assert_rows(&rows, "drop table kernels; select count(*) from kernels", "20\n");
	assert_rows(&rows, "drop view steps; select count(*) from steps", "3\n");
	sql_rows_close(&rows);
	fake_run_free(run);
}

static void test_errors(void **state)
{
	struct run *run = fake_gpu_run();
	struct sql_rows rows;
	struct err err = { "" };

	(void)state;
	open_one(&rows, run);
	assert_int_equal(sql_rows_try(&rows, "select name\nfrom kernles", &err), -EINVAL);
	assert_non_null(strstr(err.message, "no such table: kernles"));
	assert_int_equal(sql_rows_try(&rows, "select nme\nfrom kernels", &err), -EINVAL);
	assert_string_equal(err.message, "no such column: nme, at line 1, column 8 of the query");
	/* Of the text, not of the statement. */
	assert_int_equal(
		sql_rows_try(&rows, "select 1;\n-- two\nselect 'é',\n 'é', nme\nfrom steps", &err),
		-EINVAL);
	assert_string_equal(err.message, "no such column: nme, at line 4, column 7 of the query");
	assert_int_equal(sql_rows_try(&rows, "select 1; select nme", &err), -EINVAL);
	assert_string_equal(err.message, "no such column: nme, at line 1, column 18 of the query");
	assert_int_equal(sql_rows_try(&rows, "select abs(-9223372036854775808)", &err), -EINVAL);
	assert_string_equal(err.message, "integer overflow");
	/* The session goes on. */
	assert_rows(&rows, "; select 1;; -- nothing\n ; select 2 ;", "1\n2\n");
	assert_rows(&rows, "", "");
	sql_rows_close(&rows);
	fake_run_free(run);
}

static void test_empty_run(void **state)
{
	struct run *run = fake_run_new();
	struct schema *schema = malloc(sizeof(*schema));
	struct sql_rows rows;
	char query[200];

	(void)state;
	schema_init(schema);
	open_one(&rows, run);
	for (size_t t = 0; t < schema->n; t++) {
		snprintf(query, sizeof(query), "select * from %s", schema->tables[t].name);
		assert_rows(&rows, query, "");
		snprintf(query, sizeof(query), "select count(*) from %s where rank = 0",
			 schema->tables[t].name);
		assert_rows(&rows, query, "0\n");
	}
	assert_rows(&rows, "select name, count(*), sum(duration_ns) from kernels group by name",
		    "");
	assert_rows(&rows, "select count(*), sum(duration_ns), avg(duration_ns) from kernels",
		    "0|-|-\n");
	sql_rows_close(&rows);
	free(schema);
	fake_run_free(run);
}

/* Every table with every column, of runs that have everything; ordered by each column both ways, which
 * must be the order of SQLite itself. */
static void test_every_column(void **state)
{
	struct run *runs[] = { fake_gpu_run(), fake_training_run() };
	struct schema *schema = malloc(sizeof(*schema));
	struct sql_rows rows;
	size_t with_rows = 0;

	(void)state;
	schema_init(schema);
	for (size_t i = 0; i < 2; i++) {
		open_one(&rows, runs[i]);
		for (size_t t = 0; t < schema->n; t++) {
			const struct sql_table *table = &schema->tables[t];
			char query[300], *expected;

			snprintf(query, sizeof(query), "select * from %s", table->name);
			with_rows += *sql_rows_get(&rows, query) != '\0';
			for (size_t c = 0; c < table->n; c++) {
				const char *name = table->columns[c].name;
				const char *ways[] = { "", " desc" };

				for (int way = 0; way < 2; way++) {
					snprintf(query, sizeof(query),
						 "select +%s as v from %s order by +%s%s", name,
						 table->name, name, ways[way]);
					expected = strdup(sql_rows_get(&rows, query));
					snprintf(query, sizeof(query),
						 "select %s from %s order by %s%s", name,
						 table->name, name, ways[way]);
					assert_rows(&rows, query, expected);
					free(expected);
				}
				snprintf(query, sizeof(query),
					 "select v, count(*) from (select +%s as v from %s) group "
					 "by +v order by 1",
					 name, table->name);
				expected = strdup(sql_rows_get(&rows, query));
				snprintf(query, sizeof(query),
					 "select %s, count(*) from %s group by %s order by 1", name,
					 table->name, name);
				assert_rows(&rows, query, expected);
				free(expected);
			}
		}
		sql_rows_close(&rows);
	}
	assert_true(with_rows > 20);
	free(schema);
	fake_run_free(runs[0]);
	fake_run_free(runs[1]);
}

/* Rows that are looked up one by one are those that a scan finds. */
static void test_joins(void **state)
{
	struct run *run = fake_gpu_run();
	struct sql_rows rows;

	(void)state;
	open_one(&rows, run);
	assert_rows(&rows,
		    "select count(*), sum(k.start_ns - a.start_ns) from kernels k join api_calls a "
		    "on a.correlation = k.correlation and a.rank = k.rank",
		    sql_rows_get(&rows, "select count(*), sum(k.start_ns - a.start_ns) from "
					"kernels k join api_calls a on +a.correlation = "
					"+k.correlation and +a.rank = +k.rank"));
	assert_rows(&rows,
		    "select s.step, count(*) from steps s join kernels k on k.start_ns between "
		    "s.start_ns and s.end_ns group by s.step",
		    sql_rows_get(&rows, "select s.step, count(*) from steps s join kernels k on "
					"+k.start_ns between s.start_ns and s.end_ns group by "
					"+s.step"));
	sql_rows_close(&rows);
	fake_run_free(run);
}

static void test_functions(void **state)
{
	struct run *run = fake_gpu_run();
	struct sql_rows rows;

	(void)state;
	open_one(&rows, run);
	/* By hand: as in test_analyze_gpu_records. */
	assert_rows(&rows,
		    "select name, count, time_ns from api_summary() where name = "
		    "'cudaLaunchKernel'",
		    "cudaLaunchKernel|18|90000\n");
	assert_rows(&rows, "select count(*), sum(count) from kernel_summary",
		    sql_rows_get(&rows, "select count(distinct name), count(*) from kernels"));
	assert_rows(&rows, "select sum(busy_ns) > 0, count(*) from timeline", "1|1\n");
	assert_rows(&rows, "select sum(records) from loss", "0\n");
	assert_rows(&rows, "select count(*) > 0, min(severity) is not null from verdicts", "1|1\n");
	sql_rows_get(&rows, "select * from op_summary");
	sql_rows_get(&rows, "select * from transfer_summary");
	sql_rows_get(&rows, "select * from comm_summary");
	sql_rows_get(&rows, "select * from step_times");
	sql_rows_get(&rows, "select * from request_times");
	sql_rows_get(&rows, "select * from routing_summary");
	sql_rows_get(&rows, "select * from routing_steps");
	sql_rows_get(&rows, "select * from routing_experts");
	sql_rows_get(&rows, "select * from routing_pairs");
	sql_rows_get(&rows, "select * from routing_k");
	sql_rows_get(&rows, "select * from memory_peaks");
	sql_rows_get(&rows, "select * from efficiency_summary");
	sql_rows_close(&rows);
	fake_run_free(run);
}

/* Bytes that are no text are told whole. */
static void test_blobs(void **state)
{
	struct run *run = fake_run_new();
	struct sql_rows rows;

	(void)state;
	open_one(&rows, run);
	assert_rows(&rows, "select x'00ff41', x'', 1 union all select x'41', 'a', zeroblob(2)",
		    "x'00ff41'|x''|1\nx'41'|a|x'0000'\n");
	sql_rows_close(&rows);
	fake_run_free(run);
}

/* A temporary table keeps what a column is declared as: a number in one of text would be compared as a
 * text there. */
static void test_types_of_functions(void **state)
{
	struct run *runs[] = { fake_gpu_run(), fake_training_run(), fake_comm_run() };
	struct sql_rows rows;

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		char *columns, *line, *rest;

		open_one(&rows, runs[i]);
		columns = strdup(sql_rows_get(
			&rows,
			"select f.value, t.name, t.type from json_each('[\"kernel_summary\", "
			"\"op_summary\", \"api_summary\", \"transfer_summary\", \"comm_summary\", \"moe_summary\", "
			"\"step_times\", \"request_times\", \"routing_summary\", \"routing_steps\", \"routing_experts\", "
			"\"routing_pairs\", \"routing_k\", "
			"\"memory_peaks\", \"efficiency_summary\", \"verdicts\", \"timeline\", "
			"\"loss\"]') f join pragma_table_info(f.value) t"));
		assert_true(strlen(columns) > 1000);
		for (line = strtok_r(columns, "\n", &rest); line;
		     line = strtok_r(NULL, "\n", &rest)) {
			char table[64], column[64], type[16], query[600];

			assert_int_equal(sscanf(line, "%63[^|]|%63[^|]|%15s", table, column, type),
					 3);
			snprintf(
				query, sizeof(query),
				"select distinct '%s', typeof(\"%s\") from %s where typeof(\"%s\") "
				"<> 'null' and (typeof(\"%s\") = 'text') <> ('%s' = 'TEXT')",
				line, column, table, column, column, type);
			assert_rows(&rows, query, "");
		}
		free(columns);
		sql_rows_close(&rows);
	}
	open_one(&rows, runs[1]);
	assert_rows(&rows,
		    "create temp table r as select * from routing_summary; select count(*) > 0, "
		    "count(*) = sum(tokens > 9) from r",
		    "1|1\n");
	sql_rows_close(&rows);
	for (size_t i = 0; i < 3; i++)
		fake_run_free(runs[i]);
}

/* Runs have room for the rows of each. */
static void test_room_for_functions(void **state)
{
	char *text = NULL;
	size_t size, n = 0;
	FILE *out = open_memstream(&text, &size);

	(void)state;
	functions_list(out);
	assert_int_equal(fclose(out), 0);
	for (const char *at = text; *at; at++)
		n += *at == '\n';
	assert_true(n > 0 && n <= FUNCTIONS_MAX);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kernels),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_what_is_loaded),
		cmocka_unit_test(test_absence),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_several_runs),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_guarded),
		cmocka_unit_test(test_hidden_tables),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_empty_run),
		cmocka_unit_test(test_every_column),
		cmocka_unit_test(test_joins),
		cmocka_unit_test(test_functions),
		cmocka_unit_test(test_types_of_functions),
		cmocka_unit_test(test_blobs),
		cmocka_unit_test(test_room_for_functions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
