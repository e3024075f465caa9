/* SPDX-License-Identifier: Apache-2.0
 *
 * The analyses as tables of SQLite: kernel_summary and the like, with the rows and columns that the
 * views of the same name have. Analysed when they are first read, and kept. One thread.
 */
#include "surfaces/sql/functions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "present/book/csv_book.h"
#include "present/frame/scene.h"
#include "subjects/answers/subject.h"
#include "subjects/device/timeline.h"
#include "surfaces/sql/session.h"

struct function_rows {
	struct present_options options;
	const struct subject *reads[SUBJECT_COUNT + 1]; /* of the verdicts */
	struct answers answers;
	struct verdicts verdicts;
	struct grid grid;
	char (*evidence)[CSV_EVIDENCE_SIZE];
};

static int fill_verdicts(const struct run *run, struct function_rows *rows);
static int fill_timeline(const struct run *run, struct function_rows *rows);
static int fill_loss(const struct run *run, struct function_rows *rows);

static const struct grid_column loss_columns[] = {
	{ .key = "rank", .unit = UNIT_INT },
	{ .key = "pid", .unit = UNIT_INT },
	{ .key = "what", .unit = UNIT_TEXT },
	{ .key = "records", .unit = UNIT_INT },
};

/* A section that has a table, or one of the few tables that are no section. */
struct sql_function {
	const char *name;
	const struct section *section;
	/* Of what is not a section: its columns, the records and the answers that it needs. */
	const struct csv_column *csv;
	uint64_t kinds;
	const struct subject *const *reads; /* NULL: none */
	int (*fill)(const struct run *run, struct function_rows *rows);
};

static const struct subject *const timeline_reads[] = { &subject_timeline, NULL };

/* Rules look at records of every kind. */
static const struct sql_function others[] = {
	{ .name = "verdicts", .csv = csv_verdicts, .kinds = WANT_ALL, .fill = fill_verdicts },
	{ .name = "timeline", .csv = csv_timeline, .reads = timeline_reads, .fill = fill_timeline },
	{ .name = "loss", .fill = fill_loss },
};
#define N_OTHERS (sizeof(others) / sizeof(others[0]))

/* The functions in their order, first those of the sections; false: there are no more. They must be
 * at most FUNCTIONS_MAX, as a test checks. */
static bool function_at(size_t number, struct sql_function *ret_function)
{
	for (const struct section *const *s = sections; *s; s++) {
		if ((*s)->sql && !number--) {
			*ret_function = (struct sql_function){ .name = (*s)->sql, .section = *s };
			return true;
		}
	}
	if (number < N_OTHERS)
		*ret_function = others[number];
	return number < N_OTHERS;
}

/* The whole run, all of its rows. */
static const struct present_options everything = {
	.layer = -1, .phase = -1, .step_first = INT64_MIN, .step_last = INT64_MAX
};

/* The columns of a function without a run. csv: the columns of a file, as those of a grid. */
struct function_columns {
	struct grid_column own[GRID_COLUMNS_MAX];
	const struct grid_column *columns;
	size_t n;
};

static enum field_unit csv_unit(const char *key)
{
	static const char *const texts[] = { "id",     "severity", "title", "gain_assumption",
					     "advice", "evidence", NULL };

	for (size_t i = 0; texts[i]; i++)
		if (!strcmp(texts[i], key))
			return UNIT_TEXT;
	return strstr(key, "_pct") ? UNIT_PCT : UNIT_INT;
}

static int columns_of(const struct sql_function *function, struct function_columns *ret)
{
	if (function->section) {
		static const struct run nothing;
		struct reader reader = { function->name, function->section->reads };
		struct present_options options = { .layer = -1, .phase = -1 };
		struct answers answers;
		struct scene scene = { &nothing, &options, &answers };
		struct grid grid;
		int r = answers_empty(reader, &answers);

		if (r < 0)
			return r;
		r = section_grid(function->section, &scene, &grid);
		if (r >= 0)
			memcpy(ret->own, grid.columns, grid.n_columns * sizeof(ret->own[0]));
		ret->columns = ret->own;
		ret->n = grid.n_columns;
		grid_release(&grid);
		answers_release(&answers);
		return r;
	}
	if (!function->csv) {
		ret->columns = loss_columns;
		ret->n = sizeof(loss_columns) / sizeof(loss_columns[0]);
		return 0;
	}
	for (ret->n = 0; function->csv[ret->n].key; ret->n++)
		ret->own[ret->n] =
			(struct grid_column){ .key = function->csv[ret->n].key,
					      .unit = csv_unit(function->csv[ret->n].key) };
	ret->columns = ret->own;
	return 0;
}

static const char *unit_type(enum field_unit unit)
{
	switch (unit) {
	case UNIT_TEXT:
		return "TEXT";
	case UNIT_INT:
	case UNIT_COUNT:
		return "INTEGER";
	default:
		return "NUMERIC";
	}
}

static int fill_verdicts(const struct run *run, struct function_rows *rows)
{
	struct asked asked = { .question = scene_question(&rows->options),
			       .reader = { "verdicts", rows->reads } };
	int r;

	asked.question.routed_tokens = true;
	verdicts_reads(rows->reads);
	r = scene_compute(run, &rows->options, &asked, 1, &rows->answers, NULL);
	if (r >= 0)
		r = verdicts_analyze(run, &rows->answers, &rows->verdicts);
	if (r < 0)
		return r;
	rows->evidence = calloc(rows->verdicts.n + 1, sizeof(*rows->evidence));
	if (!rows->evidence)
		return -ENOMEM;
	for (size_t i = 0; i < rows->verdicts.n; i++) {
		struct cell *cells = grid_add(&rows->grid, NULL);

		if (!cells)
			return -ENOMEM;
		csv_verdict_cells(&rows->verdicts.items[i], rows->evidence[i],
				  sizeof(rows->evidence[i]), cells);
	}
	return 0;
}

static int fill_timeline(const struct run *run, struct function_rows *rows)
{
	struct asked asked = { .question = scene_question(&rows->options),
			       .reader = { "timeline", timeline_reads } };
	const struct timeline *timeline;
	int r = scene_compute(run, &rows->options, &asked, 1, &rows->answers, NULL);

	if (r < 0)
		return r;
	timeline = answer_timeline(&rows->answers);
	for (size_t i = 0; i < timeline->n; i++) {
		struct cell *cells = grid_add(&rows->grid, NULL);

		if (!cells)
			return -ENOMEM;
		csv_timeline_cells(&timeline->devices[i], cells);
	}
	return 0;
}

static int fill_loss(const struct run *run, struct function_rows *rows)
{
	for (size_t s = 0; s < run->n_shards; s++) {
		const struct run_shard *shard = &run->shards[s];
		const struct {
			const char *what;
			uint64_t n;
		} losses[] = {
#define LOSS(field, words) { words, shard->loss.field },
			LOSS_COUNTERS(LOSS)
#undef LOSS
		};

		for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++) {
			struct cell *cells = grid_add(&rows->grid, NULL);

			if (!cells)
				return -ENOMEM;
			cells[0] = cell_uint(shard->rank);
			cells[1] = cell_uint(shard->pid);
			cells[2] = cell_text(losses[i].what);
			cells[3] = cell_uint(losses[i].n);
		}
	}
	return 0;
}

static void rows_free(struct function_rows *rows)
{
	if (!rows)
		return;
	grid_release(&rows->grid);
	answers_release(&rows->answers);
	verdicts_release(&rows->verdicts);
	free(rows->evidence);
	free(rows);
}

void functions_release(struct function_rows **rows)
{
	for (size_t i = 0; i < FUNCTIONS_MAX; i++) {
		rows_free(rows[i]);
		rows[i] = NULL;
	}
}

struct function_table {
	sqlite3_vtab base;
	struct sql *sql;
	size_t number;
	struct sql_function function;
	struct function_columns columns;
};

struct function_cursor {
	sqlite3_vtab_cursor base;
	size_t run, row;
};

static int fill_section(const struct section *section, const struct run *run,
			struct function_rows *rows)
{
	struct asked asked = section_asked(section, &rows->options);
	struct scene scene = { run, &rows->options, &rows->answers };
	int r = scene_compute(run, &rows->options, &asked, 1, &rows->answers, NULL);

	return r < 0 ? r : section_grid(section, &scene, &rows->grid);
}

static int analyse(const struct function_table *table, struct sql_run *run)
{
	const struct sql_function *function = &table->function;
	struct function_rows **slot = &run->functions[table->number];
	struct function_rows *rows;
	int r;

	if (*slot)
		return 0;
	rows = calloc(1, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	rows->options = everything;
	if (function->section) {
		r = fill_section(function->section, run->run, rows);
	} else {
		grid_init(&rows->grid, table->columns.columns, table->columns.n);
		r = function->fill(run->run, rows);
	}
	if (r < 0) {
		rows_free(rows);
		return r;
	}
	*slot = rows;
	return 0;
}

static int function_connect(sqlite3 *db, void *aux, int argc, const char *const *argv,
			    sqlite3_vtab **ret_vtab, char **error)
{
	const struct sql_module *module = aux;
	struct function_table *table = calloc(1, sizeof(*table));
	sqlite3_str *text;
	int r;

	(void)argc;
	(void)argv;
	(void)error;
	if (!table)
		return SQLITE_NOMEM;
	table->sql = module->sql;
	table->number = module->function;
	if (!function_at(table->number, &table->function) ||
	    columns_of(&table->function, &table->columns) < 0) {
		free(table);
		return SQLITE_NOMEM;
	}
	text = sqlite3_str_new(db);
	sqlite3_str_appendall(text, "CREATE TABLE x(run TEXT");
	for (size_t c = 0; c < table->columns.n; c++)
		sqlite3_str_appendf(text, ", \"%w\" %s", table->columns.columns[c].key,
				    unit_type(table->columns.columns[c].unit));
	sqlite3_str_appendchar(text, 1, ')');
	r = session_declare(module->sql, text);
	if (r != SQLITE_OK) {
		free(table);
		return r;
	}
	*ret_vtab = &table->base;
	return SQLITE_OK;
}

static int function_disconnect(sqlite3_vtab *vtab)
{
	free(vtab);
	return SQLITE_OK;
}

static struct run_want function_want(const struct sql_function *function)
{
	struct question question = scene_question(&everything);
	struct plan plan = { 0 };

	if (function->section)
		return section_want(function->section, &everything);
	plan_kinds(&plan, function->kinds);
	plan_subjects(&plan, &question, function->reads);
	return plan.want;
}

static int function_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
	struct function_table *table = (struct function_table *)vtab;
	struct run_want want = function_want(&table->function);

	for (unsigned int k = RECORD_LAUNCH + 1; k < RECORD_KIND_LIMIT; k++) {
		uint64_t all = (UINT64_C(1) << kind_desc(k)->n_columns) - 1;

		if (want.kinds >> k & 1)
			need_add(&table->sql->asked, k, want.columns[k] ? want.columns[k] : all);
	}
	info->estimatedCost = 100;
	info->estimatedRows = 100;
	return SQLITE_OK;
}

static int function_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **ret_cursor)
{
	struct function_cursor *cursor = calloc(1, sizeof(*cursor));

	(void)vtab;
	if (!cursor)
		return SQLITE_NOMEM;
	*ret_cursor = &cursor->base;
	return SQLITE_OK;
}

static int function_close(sqlite3_vtab_cursor *cursor)
{
	free(cursor);
	return SQLITE_OK;
}

static const struct grid *grid_of(const struct function_cursor *cursor)
{
	const struct function_table *table = (const struct function_table *)cursor->base.pVtab;

	return &table->sql->runs[cursor->run].functions[table->number]->grid;
}

static int function_eof(sqlite3_vtab_cursor *base)
{
	const struct function_table *table = (const struct function_table *)base->pVtab;

	return ((const struct function_cursor *)base)->run >= table->sql->source.n;
}

static void skip_empty(struct function_cursor *cursor)
{
	while (!function_eof(&cursor->base) && cursor->row >= grid_of(cursor)->n) {
		cursor->run++;
		cursor->row = 0;
	}
}

static int function_filter(sqlite3_vtab_cursor *base, int plan, const char *text, int argc,
			   sqlite3_value **argv)
{
	const struct function_table *table = (const struct function_table *)base->pVtab;
	struct function_cursor *cursor = (struct function_cursor *)base;

	(void)plan;
	(void)text;
	(void)argc;
	(void)argv;
	for (size_t i = 0; i < table->sql->source.n; i++) {
		int r = analyse(table, &table->sql->runs[i]);

		if (r < 0)
			return session_failed(base->pVtab, r);
	}
	cursor->run = cursor->row = 0;
	skip_empty(cursor);
	return SQLITE_OK;
}

static int function_next(sqlite3_vtab_cursor *base)
{
	struct function_cursor *cursor = (struct function_cursor *)base;

	cursor->row++;
	skip_empty(cursor);
	return SQLITE_OK;
}

static int function_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
	const struct function_table *table = (const struct function_table *)base->pVtab;
	const struct function_cursor *cursor = (const struct function_cursor *)base;
	const struct grid *grid = grid_of(cursor);
	struct cell cell = cell_text(table->sql->source.labels[cursor->run]);

	if (column > 0) {
		const char *key = table->columns.columns[column - 1].key;

		/* A view may have more columns with a run than without one. */
		cell = cell_absent("");
		for (size_t c = 0; c < grid->n_columns; c++)
			if (!strcmp(grid->columns[c].key, key))
				cell = grid->rows[cursor->row].cells[c];
	}
	session_result(context, &cell);
	return SQLITE_OK;
}

static int function_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret_rowid)
{
	const struct function_cursor *cursor = (const struct function_cursor *)base;

	*ret_rowid = (sqlite3_int64)((uint64_t)cursor->run << 48 | cursor->row);
	return SQLITE_OK;
}

static const sqlite3_module module = {
	.iVersion = 1,
	.xConnect = function_connect,
	.xBestIndex = function_best_index,
	.xDisconnect = function_disconnect,
	.xOpen = function_open,
	.xClose = function_close,
	.xFilter = function_filter,
	.xNext = function_next,
	.xEof = function_eof,
	.xColumn = function_column,
	.xRowid = function_rowid,
};

int functions_register(struct sql *sql)
{
	struct sql_function function;
	int r = SQLITE_OK;

	for (size_t i = 0; r == SQLITE_OK && function_at(i, &function); i++)
		r = sqlite3_create_module(sql->db, function.name, &module,
					  session_module(sql, NULL, i));
	return r;
}

int functions_schema(const char *prefix, FILE *out)
{
	struct sql_function function;

	for (size_t i = 0; function_at(i, &function); i++) {
		struct function_columns columns;
		size_t at;

		if (prefix && strncmp(function.name, prefix, strlen(prefix)) != 0)
			continue;
		if (columns_of(&function, &columns) < 0)
			return -ENOMEM;
		at = 0;
		fprintf(out, "CREATE TABLE %s(", function.name);
		session_print_column(out, &at, "run", "TEXT");
		for (size_t c = 0; c < columns.n; c++)
			session_print_column(out, &at, columns.columns[c].key,
					     unit_type(columns.columns[c].unit));
		fputs(");\n", out);
	}
	return 0;
}

void functions_list(FILE *out)
{
	struct sql_function function;

	for (size_t i = 0; function_at(i, &function); i++)
		fprintf(out, "%s\n", function.name);
}
