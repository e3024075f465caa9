/* SPDX-License-Identifier: Apache-2.0
 *
 * The analyses as tables of SQLite: kernel_summary and the like, with the rows and columns that the
 * views of the same name have. Analysed when they are first read, and kept. One thread.
 */
#include "surfaces/sql/functions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "subjects/answers/subject.h"
#include "subjects/device/device_fields.h"
#include "surfaces/sql/frame.h"
#include "surfaces/views/scene.h"
#include "verdicts/verdicts_page.h"

struct function_rows {
	struct view_options options;
	const struct subject *reads[SUBJECT_COUNT + 1]; /* of the verdicts */
	struct answers answers;
	struct verdicts verdicts;
	struct grid grid;
};

static int fill_verdicts(const struct run *run, struct function_rows *rows);
static int fill_timeline(const struct run *run, struct function_rows *rows);
static int fill_loss(const struct run *run, struct function_rows *rows);

/* A section that has a table, or one of the few tables that are no section. */
struct sql_function {
	const char *name;
	const struct section *section;
	/* Of what is not a section: its fields, the records and the answers that it needs. */
	const struct field_set *set;
	uint64_t kinds;
	const struct subject *const *reads; /* NULL: none */
	int (*fill)(const struct run *run, struct function_rows *rows);
};

static const struct subject *const timeline_reads[] = { &subject_timeline, NULL };

/* Rules look at records of every kind. */
static const struct sql_function others[] = {
	{ .name = "verdicts", .set = &verdict_rows, .kinds = WANT_ALL, .fill = fill_verdicts },
	{ .name = "timeline",
	  .set = &timeline_rows,
	  .reads = timeline_reads,
	  .fill = fill_timeline },
	{ .name = "loss", .set = &loss_rows, .fill = fill_loss },
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
static const struct view_options everything = { .question = QUESTION_ALL };

/* The columns of a function without a run. */
struct function_columns {
	struct grid_column columns[GRID_COLUMNS_MAX];
	size_t n;
};

/* The form of a section's rows may depend on the answers: here they hold nothing. */
static int form_without_run(const struct section *section, unsigned int *ret_form)
{
	static const struct run nothing;
	struct answers answers = { 0 };
	struct scene scene = scene_of(&nothing, &everything, &answers);
	int r = answers_empty((struct reader){ section->name, section->reads }, &answers);

	if (r < 0)
		return r;
	*ret_form = section_from(section, &scene).form;
	answers_release(&answers);
	return 0;
}

static int columns_of(const struct sql_function *function, struct function_columns *ret)
{
	const struct field_set *set = function->section ? function->section->rows : function->set;
	unsigned int form = 1;
	int r = function->section ? form_without_run(function->section, &form) : 0;

	ret->n = 0;
	for (size_t i = 0; r >= 0 && i < set->n_fields && ret->n < GRID_COLUMNS_MAX; i++)
		if (field_is_column(&set->fields[i], form))
			ret->columns[ret->n++] = (struct grid_column){
				.key = set->fields[i].key, .unit = set->fields[i].unit
			};
	return r;
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

static int fill_rows(const struct run *run, const struct field_set *set, const void *item,
		     struct function_rows *rows)
{
	struct field_row from = { .run = run, .item = item, .form = 1, .answers = &rows->answers };

	return grid_fill(&rows->grid, set, &from);
}

static int fill_verdicts(const struct run *run, struct function_rows *rows)
{
	struct asked asked = { .question = rows->options.question,
			       .reader = { "verdicts", rows->reads } };
	int r;

	asked.question.routed_tokens = true;
	verdicts_reads(rows->reads);
	r = scene_compute(run, &rows->options, &asked, 1, &rows->answers, NULL);
	if (r >= 0)
		r = verdicts_analyze(run, &rows->answers, &rows->verdicts);
	return r < 0 ? r : fill_rows(run, &verdict_rows, &rows->verdicts, rows);
}

static int fill_timeline(const struct run *run, struct function_rows *rows)
{
	struct asked asked = { .question = rows->options.question,
			       .reader = { "timeline", timeline_reads } };
	int r = scene_compute(run, &rows->options, &asked, 1, &rows->answers, NULL);

	return r < 0 ? r : fill_rows(run, &timeline_rows, answer_timeline(&rows->answers), rows);
}

static int fill_loss(const struct run *run, struct function_rows *rows)
{
	return fill_rows(run, &loss_rows, run, rows);
}

static void rows_free(struct function_rows *rows)
{
	if (!rows)
		return;
	grid_release(&rows->grid);
	answers_release(&rows->answers);
	verdicts_release(&rows->verdicts);
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
	struct frame_table frame;
	struct sql_function function;
	struct function_columns columns;
};

static int fill_section(const struct section *section, const struct run *run,
			struct function_rows *rows)
{
	struct asked asked = section_asked(section, &rows->options);
	struct scene scene = scene_of(run, &rows->options, &rows->answers);
	int r = scene_compute(run, &rows->options, &asked, 1, &rows->answers, NULL);

	return r < 0 ? r : section_grid(section, &scene, &rows->grid);
}

static int analyse(const struct function_table *table, struct sql_run *run)
{
	const struct sql_function *function = &table->function;
	struct function_rows **slot = &run->functions[table->frame.function];
	struct function_rows *rows;
	int r;

	if (*slot)
		return 0;
	rows = calloc(1, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	rows->options = everything;
	r = function->section ? fill_section(function->section, run->run, rows)
			      : function->fill(run->run, rows);
	if (r < 0) {
		rows_free(rows);
		return r;
	}
	*slot = rows;
	return 0;
}

static int function_declare(struct frame_table *base, sqlite3_str *text)
{
	struct function_table *table = (struct function_table *)base;

	if (!function_at(base->function, &table->function) ||
	    columns_of(&table->function, &table->columns) < 0)
		return SQLITE_NOMEM;
	sqlite3_str_appendall(text, "run TEXT");
	for (size_t c = 0; c < table->columns.n; c++)
		sqlite3_str_appendf(text, ", \"%w\" %s", table->columns.columns[c].key,
				    unit_type(table->columns.columns[c].unit));
	return SQLITE_OK;
}

static struct run_want function_want(const struct sql_function *function)
{
	struct question question = everything.question;
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
			need_add(&table->frame.sql->asked, k,
				 want.columns[k] ? want.columns[k] : all);
	}
	info->estimatedCost = 100;
	info->estimatedRows = 100;
	return SQLITE_OK;
}

static const struct grid *grid_of(const struct frame_cursor *cursor)
{
	const struct frame_table *table = (const struct frame_table *)cursor->base.pVtab;

	return &table->sql->runs[cursor->run].functions[table->function]->grid;
}

static size_t count_grid_rows(const struct frame_cursor *cursor)
{
	return grid_of(cursor)->n;
}

static int function_filter(sqlite3_vtab_cursor *base, int plan, const char *text, int argc,
			   sqlite3_value **argv)
{
	const struct function_table *table = (const struct function_table *)base->pVtab;

	(void)plan;
	(void)text;
	(void)argc;
	(void)argv;
	for (size_t i = 0; i < table->frame.sql->source.n; i++) {
		int r = analyse(table, &table->frame.sql->runs[i]);

		if (r < 0)
			return session_failed(base->pVtab, r);
	}
	frame_rewind((struct frame_cursor *)base);
	return SQLITE_OK;
}

static int function_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
	const struct function_table *table = (const struct function_table *)base->pVtab;
	const struct frame_cursor *cursor = (const struct frame_cursor *)base;
	const struct grid *grid = grid_of(cursor);
	struct cell cell = cell_text(table->frame.sql->source.labels[cursor->run]);

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

static const struct sql_frame function_frame = {
	.module = {
		FRAME_MODULE,
		FRAME_ROWS,
		.xBestIndex = function_best_index,
		.xFilter = function_filter,
		.xColumn = function_column,
	},
	.table_size = sizeof(struct function_table),
	.cursor_size = sizeof(struct frame_cursor),
	.declare = function_declare,
	.count_rows = count_grid_rows,
};

int functions_register(struct sql *sql)
{
	struct sql_function function;
	int r = SQLITE_OK;

	for (size_t i = 0; r == SQLITE_OK && function_at(i, &function); i++)
		r = frame_register(sql, function.name,
				   &(struct sql_module){ .frame = &function_frame, .function = i });
	return r;
}

int functions_columns(sql_column_function *each, void *context)
{
	struct sql_function function;
	int r = 0;

	for (size_t i = 0; r >= 0 && function_at(i, &function); i++) {
		struct function_columns columns;

		if (columns_of(&function, &columns) < 0)
			return -ENOMEM;
		r = each(context, function.name, "run", "TEXT");
		for (size_t c = 0; r >= 0 && c < columns.n; c++)
			r = each(context, function.name, columns.columns[c].key,
				 unit_type(columns.columns[c].unit));
	}
	return r;
}

void functions_list(FILE *out)
{
	struct sql_function function;

	for (size_t i = 0; function_at(i, &function); i++)
		fprintf(out, "%s\n", function.name);
}
