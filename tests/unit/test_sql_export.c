/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs as SQLite and CSV files: that nothing is lost on the way through SQLite and back, the tables of
 * Nsight Systems by hand, damaged files, and the text of CSV.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>

#include "base/buf.h"
#include "exports/columns/schema.h"
#include "exports/csv/csv_kinds.h"
#include "exports/sqlite/sqlite_write.h"
#include "ingest/nsight/own_sqlite.h"
#include "ingest/shared/intake.h"
#include "surfaces/sql/sql.h"
#include "table_rows.h"

static struct intake *new_intake(void)
{
	struct intake *intake = NULL;

	assert_int_equal(intake_new(WANT_ALL, &intake), 0);
	return intake;
}

static struct run *written(struct intake *intake, const char *path)
{
	struct err err = { "" };

	if (intake_write(intake, "x", path, &err) < 0)
		fail_msg("%s", err.message);
	intake_free(intake);
	return load(path);
}

static struct intake_part *new_part(struct intake *intake, uint32_t rank, uint32_t pid)
{
	struct intake_process *process = intake_process(intake, rank, pid);

	assert_non_null(process);
	process->rank_known = true;
	return intake_part(process);
}

/* Rows of every kind in two processes. */
static struct run *random_run(const char *path)
{
	struct intake *intake = new_intake();
	struct rng rng = { 7 };

	for (uint32_t rank = 0; rank < 2; rank++) {
		struct intake_part *part = new_part(intake, rank, 100 + rank);

		for (uint32_t i = 1; i <= ROW_IDS; i++) {
			char text[32];
			uint32_t name;

			snprintf(text, sizeof(text), "name %u, \"%u\"", rank, i);
			name = part_text(part, text);
			assert_int_equal(name, i);
			assert_int_equal(
				part_place(part, &(struct row_site){ .name = name,
								     .layer = (int32_t)i - 2,
								     .expert = -1,
								     .phase = i % 4 }),
				i);
			assert_int_equal(part_launch(part, &(struct row_launch){ .name = name,
										 .grid_x = i,
										 .block_z = 3 }),
					 i);
		}
		for (unsigned int k = RECORD_LAUNCH + 1; k < RECORD_KIND_LIMIT; k++) {
			for (int i = 0; i < 12; i++) {
				struct random_row row;

				random_row(&rng, k, ROW_IDS, &row);
				assert_int_equal(part_add(part, (enum record_kind)k, &row.row), 0);
			}
		}
	}
	return written(intake, path);
}

struct loaded {
	struct run *run;
	struct buf text;
};

static int load_it(void *context, size_t i, const struct run_want *want, struct run **ret_run,
		   struct err *err)
{
	(void)i;
	(void)want;
	(void)err;
	*ret_run = ((struct loaded *)context)->run;
	return 0;
}

static void keep_it(struct run *run)
{
	(void)run;
}

static int begin(void *context, const char *const *names, size_t n)
{
	(void)context;
	(void)names;
	(void)n;
	return 0;
}

static int end(void *context)
{
	(void)context;
	return 0;
}

static int row(void *context, const struct cell *cells, size_t n)
{
	struct loaded *loaded = context;

	for (size_t i = 0; i < n; i++) {
		if (cells[i].kind == CELL_TEXT)
			buf_printf(&loaded->text, "%s|", cells[i].s);
		else if (cells[i].kind == CELL_REAL)
			/* SQLite keeps no sign of 0. */
			buf_printf(&loaded->text, "%.17g|", cells[i].d + 0.0);
		else if (cells[i].kind == CELL_INT)
			buf_printf(&loaded->text, "%" PRId64 "|", cells[i].i);
		else
			buf_printf(&loaded->text, "-|");
	}
	buf_printf(&loaded->text, "\n");
	return 0;
}

/* All rows of all tables, each table in an order of its own. */
static char *all_rows(struct run *run)
{
	const char *label = "run";
	struct loaded loaded = { .run = run };
	struct sql_source source = { 1, &label, load_it, keep_it, &loaded };
	struct sql_sink sink = { begin, row, end, &loaded };
	struct schema *schema = malloc(sizeof(*schema));
	struct err err = { "" };
	struct sql *sql;

	schema_init(schema);
	assert_int_equal(sql_open(&source, &sql, &err), 0);
	for (size_t t = 0; t < schema->n; t++) {
		const struct sql_table *table = &schema->tables[t];
		struct buf query = { 0 };

		buf_printf(&query, "select '%s', * from %s order by ", table->name, table->name);
		for (size_t c = 0; c < table->n; c++)
			buf_printf(&query, "%s+\"%s\"", c ? ", " : "", table->columns[c].name);
		if (sql_run(sql, query.data, 0, &sink, NULL, &err) < 0)
			fail_msg("%s", err.message);
		buf_release(&query);
	}
	sql_close(sql);
	free(schema);
	assert_false(loaded.text.failed);
	return loaded.text.data;
}

static sqlite3 *opened(const char *path)
{
	sqlite3 *db;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	return db;
}

static struct run *read_back(sqlite3 *db, const char *path)
{
	struct intake *intake = new_intake();
	struct err err = { "" };

	if (own_sqlite_read(db, intake, &err) < 0)
		fail_msg("%s", err.message);
	return written(intake, path);
}

struct fixture {
	char *directory, *first, *second, *file;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->directory = temporary_directory();
	f->first = path_in(f->directory, "first.mscope");
	f->second = path_in(f->directory, "second.mscope");
	f->file = path_in(f->directory, "a.sqlite");
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	free(f->first);
	free(f->second);
	free(f->file);
	remove_directory(f->directory);
	free(f);
	return 0;
}

static void test_nothing_is_lost(void **state)
{
	const struct fixture *f = *state;
	struct run *run = random_run(f->first), *again;
	struct err err = { "" };
	char *before, *after;
	sqlite3 *db;

	if (sqlite_write(run, f->file, &err) < 0)
		fail_msg("%s", err.message);
	db = opened(f->file);
	again = read_back(db, f->second);
	sqlite3_close(db);
	assert_int_equal(again->n_shards, 2);
	for (size_t s = 0; s < 2; s++) {
		assert_int_equal(again->shards[s].rank, run->shards[s].rank);
		assert_int_equal(again->shards[s].pid, run->shards[s].pid);
	}
	for (unsigned int k = RECORD_LAUNCH + 1; k < RECORD_KIND_LIMIT; k++)
		assert_int_equal(table_n(again, k), table_n(run, k));
	before = all_rows(run);
	after = all_rows(again);
	assert_true(strlen(before) > 10000);
	assert_string_equal(after, before);
	free(before);
	free(after);
	run_free(run);
	run_free(again);
}

static void add_kernel(struct intake_part *part, const char *name, int64_t start, int64_t length,
		       bool untimed)
{
	uint32_t launch = part_launch(part, &(struct row_launch){ .name = part_text(part, name),
								  .grid_x = 8,
								  .block_x = 128,
								  .registers = 40 });

	part_add(part, RECORD_KERNEL,
		 &(struct row_kernel){ .launch = launch,
				       .start_ns = start,
				       .duration_ns = length,
				       .stream = 7,
				       .device = 1,
				       .correlation = (uint64_t)start,
				       .untimed = untimed });
}

static struct run *known_run(const char *path)
{
	struct intake *intake = new_intake();
	struct intake_part *part = new_part(intake, 2, 300);

	add_kernel(part, "_Z3addPfi", 1000, 10, false);
	add_kernel(part, "_Z3addPfi", 2000, 30, false);
	add_kernel(part, "mul, \"quoted\"", 3000, 5, false);
	add_kernel(part, "mul, \"quoted\"", 4000, 0, true);
	/* The same kernel in another grid, one of the same short name, and one without a name. */
	part_add(part, RECORD_KERNEL,
		 &(struct row_kernel){
			 .launch = part_launch(
				 part, &(struct row_launch){ .name = part_text(part, "_Z3addPfi"),
							     .grid_x = 9 }),
			 .start_ns = 3100,
			 .duration_ns = 2 });
	add_kernel(part, "_Z3addPdi", 3200, 4, false);
	part_add(part, RECORD_KERNEL, &(struct row_kernel){ .start_ns = 3300, .duration_ns = 1 });
	part_add(part, RECORD_API,
		 &(struct row_api){ .start_ns = 3290, .duration_ns = 3, .status = API_NOT_TOLD });
	part_add(part, RECORD_COPY,
		 &(struct row_copy){ .start_ns = 5000,
				     .duration_ns = 100,
				     .bytes = 4096,
				     .kind = 1,
				     .source_memory = 2,
				     .target_memory = 3,
				     .correlation = 9 });
	part_add(part, RECORD_API,
		 &(struct row_api){ .name = part_text(part, "cudaLaunchKernel"),
				    .start_ns = 900,
				    .duration_ns = 50,
				    .thread = 17,
				    .correlation = 1000 });
	part_add(part, RECORD_RANGE,
		 &(struct row_range){ .site = part_site(part, part_text(part, "forward")),
				      .start_ns = 800,
				      .duration_ns = 300,
				      .thread = 17 });
	part_add(part, RECORD_MARK,
		 &(struct row_mark){ .time_ns = 700, .text = part_text(part, "here") });
	part_add(part, RECORD_SAMPLE,
		 &(struct row_sample){ .time_ns = 600,
				       .device = 1,
				       .metric = part_text(part, "power_w"),
				       .value = 250.5 });
	return written(intake, path);
}

static int take_cells(void *context, int n, char **values, char **names)
{
	(void)names;
	for (int i = 0; i < n; i++)
		buf_printf(context, "%s%s", i ? "|" : "", values[i] ? values[i] : "-");
	buf_printf(context, "\n");
	return 0;
}

static void assert_query(sqlite3 *db, const char *query, const char *expected)
{
	struct buf text = { 0 };
	char *message = NULL;

	if (sqlite3_exec(db, query, take_cells, &text, &message) != SQLITE_OK)
		fail_msg("%s: %s", query, message);
	buf_append(&text, "", 1);
	assert_string_equal(text.data, expected);
	buf_release(&text);
}

/* As queries for exports of Nsight Systems are written: those of its own reports, shortened. */
static void test_nsight_tables(void **state)
{
	const struct fixture *f = *state;
	struct run *run = known_run(f->first);
	struct err err = { "" };
	sqlite3 *db;

	if (sqlite_write(run, f->file, &err) < 0)
		fail_msg("%s", err.message);
	db = opened(f->file);
	/* cuda_gpu_kern_sum; the kernel without times is in MOESCOPE_KERNEL alone. */
	assert_query(db,
		     "WITH summary AS (SELECT coalesce(demangledName, shortName) AS nameId, "
		     "sum(end - start) AS total, count(*) AS num, min(end - start) AS mn, "
		     "max(end - start) AS mx FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY nameId) "
		     "SELECT total, num, mn, mx, value FROM summary JOIN StringIds ON id = nameId "
		     "ORDER BY total DESC",
		     "42|3|2|30|add(float*, int)\n5|1|5|5|mul, \"quoted\"\n4|1|4|4|add(double*, "
		     "int)\n1|1|1|1|[Unknown]\n");
	assert_query(
		db,
		"SELECT value, count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN "
		"StringIds ON id = shortName GROUP BY shortName ORDER BY 1",
		"\"quoted\"|1|5\n[Unknown]|1|1\nadd|4|46\n");
	assert_query(db, "SELECT count(*) - count(DISTINCT value) FROM StringIds", "0\n");
	assert_query(
		db,
		"SELECT m.value, s.value, gridX, blockX, registersPerThread, deviceId, "
		"streamId, (globalPid >> 24) & 0xffffff FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN "
		"StringIds s ON s.id = shortName JOIN StringIds m ON m.id = mangledName "
		"WHERE start = 1000",
		"_Z3addPfi|add|8|128|40|1|7|300\n");
	/* What a launch does not tell. */
	assert_query(db,
		     "SELECT start, gridX, gridY, registersPerThread, staticSharedMemory FROM "
		     "CUPTI_ACTIVITY_KIND_KERNEL WHERE start IN (3100, 3300)",
		     "3100|9|-|-|0\n3300|-|-|-|-\n");
	/* cuda_gpu_mem_size_sum */
	assert_query(db,
		     "SELECT o.label, bytes, s.label, d.label FROM CUPTI_ACTIVITY_KIND_MEMCPY JOIN "
		     "ENUM_CUDA_MEMCPY_OPER o ON o.id = copyKind JOIN ENUM_CUDA_MEM_KIND s ON s.id "
		     "= srcKind JOIN ENUM_CUDA_MEM_KIND d ON d.id = dstKind",
		     "Host-to-Device|4096|Pinned|Device\n");
	/* cuda_api_sum, with the thread */
	assert_query(db,
		     "SELECT value, end - start, globalTid & 0xffffff, correlationId FROM "
		     "CUPTI_ACTIVITY_KIND_RUNTIME JOIN StringIds ON id = nameId ORDER BY 1",
		     "[Unknown]|3|0|0\ncudaLaunchKernel|50|17|1000\n");
	assert_query(db,
		     "SELECT start, returnValue, returnValue <> 0 FROM CUPTI_ACTIVITY_KIND_RUNTIME "
		     "ORDER BY 1",
		     "900|0|0\n3290|-|-\n");
	/* nvtx_sum */
	assert_query(db,
		     "SELECT eventType, coalesce(text, ''), end - start FROM NVTX_EVENTS ORDER BY "
		     "start",
		     "34|here|-\n59|forward|300\n");
	assert_query(db,
		     "SELECT metricName, value, typeId FROM GPU_METRICS JOIN "
		     "TARGET_INFO_GPU_METRICS USING (typeId, metricId)",
		     "power_w|250.5|1\n");
	assert_query(db,
		     "SELECT count(*), sum(untimed) FROM MOESCOPE_KERNEL; SELECT text FROM "
		     "MOESCOPE_LAUNCH l JOIN MOESCOPE_STRING s ON s.id = l.name ORDER BY l.id; "
		     "SELECT rank, pid FROM MOESCOPE_SHARD",
		     "7|1\n_Z3addPfi\nmul, \"quoted\"\n_Z3addPfi\n_Z3addPdi\n2|300\n");
	assert_query(db, "PRAGMA integrity_check", "ok\n");
	sqlite3_close(db);
	run_free(run);
}

/* Ranks of two hosts that have the same pid and the same numbers of calls. */
static void test_nsight_ranks(void **state)
{
	const struct fixture *f = *state;
	struct intake *intake = new_intake();
	struct err err = { "" };
	struct run *run;
	sqlite3 *db;

	for (uint32_t rank = 0; rank < 3; rank++) {
		struct intake_part *part = new_part(intake, rank, 300 + rank / 2);

		add_kernel(part, "k", 1000, 10 + rank, false);
		part_add(part, RECORD_API,
			 &(struct row_api){ .name = part_text(part, "cudaLaunchKernel"),
					    .start_ns = 900 + rank,
					    .duration_ns = 50,
					    .thread = 17,
					    .correlation = 1000 });
	}
	run = written(intake, f->first);
	if (sqlite_write(run, f->file, &err) < 0)
		fail_msg("%s", err.message);
	db = opened(f->file);
	/* As cuda_kern_exec_trace joins them. */
	assert_query(db,
		     "SELECT k.end - k.start, r.start FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN "
		     "CUPTI_ACTIVITY_KIND_RUNTIME r ON k.correlationId = r.correlationId AND "
		     "k.globalPid = (r.globalTid & 0xFFFFFFFFFF000000) ORDER BY 1, 2",
		     "10|900\n11|901\n12|902\n");
	assert_query(db,
		     "SELECT pid, (globalPid >> 24) & 0xffffff FROM PROCESSES ORDER BY 1; SELECT "
		     "count(DISTINCT globalPid) FROM PROCESSES",
		     "300|300\n300|300\n301|301\n3\n");
	sqlite3_close(db);
	run_free(run);
}

/* What a file that somebody has been at still says is kept; nothing in it does harm. */
static void test_damaged(void **state)
{
	static const char *const damages[] = {
		"DROP TABLE MOESCOPE_STRING",
		"DELETE FROM MOESCOPE_SITE",
		"UPDATE MOESCOPE_LAUNCH SET name = 1 << 40",
		"UPDATE MOESCOPE_STRING SET id = id + 4000000000",
		"UPDATE MOESCOPE_KERNEL SET shard = 9",
		"UPDATE MOESCOPE_KERNEL SET launch = 77777777, start_ns = 'soon'",
		"UPDATE MOESCOPE_ROUTING SET load = '[1,2'",
		"UPDATE MOESCOPE_ROUTING SET load = 'x', k_hist = NULL",
		"UPDATE MOESCOPE_ROUTED SET expert = '[1e9, 5]'",
		"ALTER TABLE MOESCOPE_STEP DROP COLUMN tokens",
		"DROP TABLE MOESCOPE_API; CREATE VIEW MOESCOPE_API AS SELECT 1 AS shard",
		"UPDATE MOESCOPE_RUN SET value = x'00ff'",
		"DELETE FROM MOESCOPE_RUN",
	};
	const struct fixture *f = *state;
	struct run *run = random_run(f->first);
	struct err err = { "" };

	for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		char name[32], *path, *message = NULL;
		struct run *again;
		sqlite3 *db;

		if (sqlite_write(run, f->file, &err) < 0)
			fail_msg("%s", err.message);
		snprintf(name, sizeof(name), "%zu.mscope", i);
		path = path_in(f->directory, name);
		db = opened(f->file);
		if (sqlite3_exec(db, damages[i], NULL, NULL, &message) != SQLITE_OK)
			fail_msg("%s: %s", damages[i], message);
		again = read_back(db, path);
		assert_int_equal(table_n(again, RECORD_MEMORY), table_n(run, RECORD_MEMORY));
		/* What could not be read is counted. */
		if (strstr(damages[i], "shard = 9") || strstr(damages[i], "load ="))
			assert_int_equal(again->loss.damaged_events, 24);
		sqlite3_close(db);
		run_free(again);
		free(path);
	}
	run_free(run);
}

static void test_no_processes(void **state)
{
	const struct fixture *f = *state;
	struct intake *intake = new_intake();
	struct err err = { "" };
	sqlite3 *db = opened(f->file);

	assert_int_equal(
		sqlite3_exec(db, "CREATE TABLE MOESCOPE_RUN(key, value)", NULL, NULL, NULL),
		SQLITE_OK);
	assert_int_equal(own_sqlite_read(db, intake, &err), -EBADMSG);
	assert_non_null(strstr(err.message, "MOESCOPE_SHARD"));
	sqlite3_close(db);
	intake_free(intake);
}

static void test_csv(void **state)
{
	const struct fixture *f = *state;
	struct run *run = known_run(f->first);
	char *directory = path_in(f->directory, "a.csv"), *path;
	struct err err = { "" };
	struct bytes bytes;

	if (csv_kinds_write(run, directory, &err) < 0)
		fail_msg("%s", err.message);
	path = path_in(directory, "copies.csv");
	bytes = file_read(path);
	bytes.data[bytes.size] = '\0';
	assert_string_equal(
		bytes.data,
		"run,rank,pid,start_ns,duration_ns,end_ns,bytes,kind,source_memory,"
		"target_memory,device,stream,correlation,source_device,target_device,"
		"asynchronous,untimed,context,graph,graph_node,step,range,layer,expert,"
		"phase\nfirst,2,300,5000,100,5100,4096,1,2,3,0,0,9,0,0,0,0,0,0,0,,,,,\n");
	free(bytes.data);
	free(path);
	path = path_in(directory, "kernels.csv");
	bytes = file_read(path);
	bytes.data[bytes.size] = '\0';
	assert_non_null(strstr(bytes.data, ",\"mul, \"\"quoted\"\"\","));
	free(bytes.data);
	free(path);
	/* Kinds without rows have no file, and what is there is not written over. */
	path = path_in(directory, "steps.csv");
	assert_int_equal(access(path, F_OK), -1);
	free(path);
	path = path_in(directory, "columns.csv");
	bytes = file_read(path);
	bytes.data[bytes.size] = '\0';
	assert_non_null(strstr(bytes.data, "kernels.csv,duration_ns,INTEGER,"));
	free(bytes.data);
	free(path);
	assert_true(csv_kinds_write(run, directory, &err) < 0);
	assert_non_null(strstr(err.message, "a.csv"));
	free(directory);
	run_free(run);
}

static void test_places_that_cannot_be_written(void **state)
{
	const struct fixture *f = *state;
	struct run *run = known_run(f->first);
	char *path = path_in(f->directory, "no/such/place");
	struct err err = { "" };

	assert_int_equal(sqlite_write(run, path, &err), -ENOENT);
	assert_non_null(strstr(err.message, "no/such/place"));
	assert_int_equal(csv_kinds_write(run, path, &err), -ENOENT);
	free(path);
	run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_nothing_is_lost, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_nsight_tables, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_nsight_ranks, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_damaged, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_processes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_csv, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_places_that_cannot_be_written, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
