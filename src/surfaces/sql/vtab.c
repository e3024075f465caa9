/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of schema.h as virtual tables of SQLite: what it asks for is pushed down to arrays, and
 * rows come in the order that it wants where that is cheap. One thread.
 *
 * A plan is idxNum (0, or the column of the order plus 1, times 2, plus 1 for downwards) and idxStr
 * ("1f;=3;<12;": the columns that are used, in hexadecimal; operator and column of each argument).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "exports/columns/fields.h"
#include "surfaces/sql/filter.h"
#include "surfaces/sql/frame.h"

/* Of each run it keeps the filter: the conditions live only while they are told. */
struct cursor {
	struct frame_cursor frame;
	struct store *store;
	struct store_data *data;
	const struct filter *filter;
	/* Rows are order[at] .. order[end - 1], or at .. end - 1 without an order; from the end with
	 * `down`. */
	const uint32_t *order;
	size_t at, end, parent;
	bool down;
	uint64_t columns;
	int order_column; /* -1: none */
	bool order_down;
};

static int vtab_declare(struct frame_table *table, sqlite3_str *text)
{
	for (size_t c = 0; c < table->table->n; c++)
		sqlite3_str_appendf(text, "%s\"%w\" %s", c ? ", " : "",
				    table->table->columns[c].name,
				    sql_type_name(table->table->columns[c].type));
	return SQLITE_OK;
}

static bool op_of(unsigned char op, enum filter_op *ret)
{
	switch (op) {
	case SQLITE_INDEX_CONSTRAINT_EQ:
		*ret = OP_EQ;
		return true;
	case SQLITE_INDEX_CONSTRAINT_GT:
		*ret = OP_GT;
		return true;
	case SQLITE_INDEX_CONSTRAINT_GE:
		*ret = OP_GE;
		return true;
	case SQLITE_INDEX_CONSTRAINT_LT:
		*ret = OP_LT;
		return true;
	case SQLITE_INDEX_CONSTRAINT_LE:
		*ret = OP_LE;
		return true;
	case SQLITE_INDEX_CONSTRAINT_LIKE:
		*ret = OP_LIKE;
		return true;
	case SQLITE_INDEX_CONSTRAINT_GLOB:
		*ret = OP_GLOB;
		return true;
	default:
		return false;
	}
}

/* Rows of a kind before anything is loaded, and the share of them that a condition leaves. They only
 * have to put tables in a sensible order. */
static double rows_guessed(const struct sql_table *table)
{
	switch (table->kind) {
	case RECORD_KERNEL:
	case RECORD_API:
	case RECORD_OP:
	case RECORD_FRAME:
		return 1e6;
	case RECORD_STEP:
	case RECORD_THREAD:
	case RECORD_DEVICE:
	case RECORD_MOE_LAYER:
	case RECORD_FACT:
		return 1e2;
	default:
		return 1e5;
	}
}

static double share_guessed(const struct sql_table *table, size_t column, enum filter_op op)
{
	if (op != OP_EQ && op != OP_IN)
		return 0.3;
	if (table->columns[column].from == FROM_RANK || table->columns[column].from == FROM_RUN)
		return 0.5;
	return store_is_ids(&table->columns[column]) ? 0.05 : 1e-4;
}

static bool collates(sqlite3_index_info *info, int i, enum filter_op op)
{
	return op == OP_LIKE || op == OP_GLOB ||
	       !sqlite3_stricmp(sqlite3_vtab_collation(info, i), "BINARY");
}

static void plan_order(const struct frame_table *table, sqlite3_index_info *info)
{
	int column = info->nOrderBy == 1 ? info->aOrderBy[0].iColumn : -1;

	/* Of several runs each is in order, but not all together. */
	if (column < 0 || table->sql->source.n > 1 ||
	    !store_can_order(table->table, (size_t)column))
		return;
	info->orderByConsumed = 1;
	info->idxNum = (column + 1) * 2 + (info->aOrderBy[0].desc ? 1 : 0);
}

static int vtab_best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
	struct frame_table *table = (struct frame_table *)vtab;
	double rows = rows_guessed(table->table), cost = rows;
	uint64_t columns = info->colUsed & ~(UINT64_C(1) << 63);
	sqlite3_str *plan = sqlite3_str_new(table->sql->db);
	int n = 0;

	sqlite3_str_appendf(plan, "%llx;", (unsigned long long)columns);
	for (int i = 0; i < info->nConstraint && n < FILTER_TESTS_MAX; i++) {
		int column = info->aConstraint[i].iColumn;
		enum filter_op op;

		if (!info->aConstraint[i].usable || column < 0 ||
		    !op_of(info->aConstraint[i].op, &op) ||
		    !filter_can(table->table, (size_t)column, op) || !collates(info, i, op))
			continue;
		if (op == OP_EQ && sqlite3_vtab_in(info, i, 1))
			op = OP_IN;
		info->aConstraintUsage[i].argvIndex = ++n;
		columns |= UINT64_C(1) << column;
		sqlite3_str_appendf(plan, "%c%d;", op, column);
		rows *= share_guessed(table->table, (size_t)column, op);
		/* Rows of a number are looked up, those of a name are passed over. */
		cost *= store_is_ids(&table->table->columns[column])
				? 0.2
				: share_guessed(table->table, (size_t)column, op);
	}
	plan_order(table, info);
	if (info->idxNum)
		columns |= UINT64_C(1) << (info->idxNum / 2 - 1);
	need_table(&table->sql->asked, table->table, columns);
	info->estimatedCost = cost + rows + 1;
	info->estimatedRows = (sqlite3_int64)rows + 1;
	info->idxStr = sqlite3_str_finish(plan);
	info->needToFreeIdxStr = 1;
	return info->idxStr ? SQLITE_OK : SQLITE_NOMEM;
}

static void release_filter(void *of_run)
{
	filter_release(of_run);
}

static size_t row_at(const struct cursor *cursor)
{
	size_t at = cursor->down ? cursor->end - 1 : cursor->at;

	return cursor->order ? cursor->order[at] : at;
}

static void advance_cursor(struct cursor *cursor)
{
	if (cursor->down)
		cursor->end--;
	else
		cursor->at++;
}

/* To the next row that passes, from this one on. */
static void settle_cursor(struct cursor *cursor)
{
	const struct store_data *data = cursor->data;

	if (!cursor->filter->n)
		return;
	if (data->table->list >= 0) {
		while (cursor->at < cursor->end) {
			size_t record = store_parent(data, cursor->at, &cursor->parent);

			if (filter_passes(cursor->filter, record))
				return;
			cursor->at = data->first[record + 1];
		}
		return;
	}
	while (cursor->at < cursor->end && !filter_passes(cursor->filter, row_at(cursor)))
		advance_cursor(cursor);
}

/* Narrows an order by a column to the rows of a range of it. */
static void slice_order(struct cursor *cursor, const struct test *test)
{
	const uint32_t *order = cursor->order;
	size_t low, high;

	ORDER_FIND(low, cursor->end, 0,
		   field_int(test->array, test->type, order[probe]) < test->low);
	ORDER_FIND(high, cursor->end, low,
		   field_int(test->array, test->type, order[probe]) <= test->high);
	cursor->at = low;
	cursor->end = high > low ? high : low;
}

/* Joins ask for one value after the other: from the second time on, rows are looked up. */
static int look_up(struct cursor *cursor)
{
	for (size_t i = 0; i < cursor->filter->n; i++) {
		const struct test *test = &cursor->filter->tests[i];
		int r;

		if (test->kind != TEST_RANGE || test->low == INT64_MIN || test->high == INT64_MAX ||
		    !store_can_order(cursor->data->table, test->column) ||
		    !cursor->data->columns[test->column].asked++)
			continue;
		r = store_order(cursor->store, cursor->data, test->column, &cursor->order);
		if (r == 0)
			slice_order(cursor, test);
		return r == -EFBIG ? 0 : r;
	}
	return 0;
}

/* Begins with the rows of a run. */
static int enter_run(struct cursor *cursor, struct sql *sql, const struct sql_table *table)
{
	int r;

	cursor->store = &sql->runs[cursor->frame.run].store;
	cursor->filter = (struct filter *)cursor->frame.of_runs + cursor->frame.run;
	r = store_open(cursor->store, &sql->schema, table, cursor->columns, &cursor->data);
	if (r < 0)
		return r;
	cursor->order = NULL;
	cursor->at = cursor->parent = 0;
	cursor->end = cursor->filter->nothing ? 0 : cursor->data->n;
	cursor->down = cursor->order_down;
	if (!cursor->end)
		return 0;
	if (cursor->order_column >= 0)
		r = store_order(cursor->store, cursor->data, (size_t)cursor->order_column,
				&cursor->order);
	else
		r = look_up(cursor);
	if (r == 0)
		settle_cursor(cursor);
	return r;
}

/* To the first row of the next run that has one. */
static int enter_runs(struct cursor *cursor)
{
	struct frame_table *table = (struct frame_table *)cursor->frame.base.pVtab;

	while (cursor->frame.run < table->sql->source.n) {
		int r = enter_run(cursor, table->sql, table->table);

		if (r < 0)
			return session_failed(cursor->frame.base.pVtab, r);
		if (cursor->at < cursor->end)
			return SQLITE_OK;
		cursor->frame.run++;
	}
	return SQLITE_OK;
}

static int vtab_filter(sqlite3_vtab_cursor *base, int plan, const char *text, int argc,
		       sqlite3_value **argv)
{
	struct cursor *cursor = (struct cursor *)base;
	const struct frame_table *table = (const struct frame_table *)base->pVtab;
	struct filter *filters = cursor->frame.of_runs;
	struct filter_condition conditions[FILTER_TESTS_MAX];
	size_t n = 0;

	cursor->frame.run = 0;
	cursor->order_column = plan ? plan / 2 - 1 : -1;
	cursor->order_down = plan & 1;
	cursor->columns = strtoull(text, NULL, 16);
	for (const char *at = strchr(text, ';') + 1; *at && n < (size_t)argc;
	     at = strchr(at, ';') + 1, n++)
		conditions[n] = (struct filter_condition){ .op = (enum filter_op)at[0],
							   .column = strtoul(at + 1, NULL, 10),
							   .value = argv[n] };
	for (size_t c = 0; c < n; c++)
		cursor->columns |= UINT64_C(1) << conditions[c].column;
	if (cursor->order_column >= 0)
		cursor->columns |= UINT64_C(1) << cursor->order_column;
	for (size_t i = 0; i < table->sql->source.n; i++) {
		struct store *store = &table->sql->runs[i].store;
		struct store_data *data;
		int r = store_open(store, &table->sql->schema, table->table, cursor->columns,
				   &data);

		filter_release(&filters[i]);
		if (r == 0)
			r = filter_init(&filters[i], store, data, conditions, n);
		if (r < 0)
			return session_failed(base->pVtab, r);
	}
	return enter_runs(cursor);
}

static int vtab_next(sqlite3_vtab_cursor *base)
{
	struct cursor *cursor = (struct cursor *)base;

	advance_cursor(cursor);
	settle_cursor(cursor);
	if (cursor->at < cursor->end)
		return SQLITE_OK;
	cursor->frame.run++;
	return enter_runs(cursor);
}

static int vtab_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int column)
{
	struct cursor *cursor = (struct cursor *)base;
	const struct sql_column *desc = &cursor->data->table->columns[column];
	bool failed = false;
	struct cell cell;

	if (!cursor->data->columns[column].array && desc->from != FROM_RUN &&
	    desc->from != FROM_END && desc->from != FROM_NUMBER) {
		sqlite3_result_error(context, "a column was not loaded", -1);
		return SQLITE_OK;
	}
	cell = store_cell(cursor->store, cursor->data, (size_t)column, row_at(cursor),
			  &cursor->parent, &failed);
	if (failed)
		sqlite3_result_error_nomem(context);
	else
		session_result(context, &cell);
	return SQLITE_OK;
}

static int vtab_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret_rowid)
{
	const struct cursor *cursor = (const struct cursor *)base;

	*ret_rowid = (sqlite3_int64)((uint64_t)cursor->frame.run << 48 | row_at(cursor));
	return SQLITE_OK;
}

static const struct sql_frame record_frame = {
	.module = {
		FRAME_MODULE,
		.xBestIndex = vtab_best_index,
		.xFilter = vtab_filter,
		.xNext = vtab_next,
		.xColumn = vtab_column,
		.xRowid = vtab_rowid,
	},
	.table_size = sizeof(struct frame_table),
	.cursor_size = sizeof(struct cursor),
	.run_size = sizeof(struct filter),
	.release_run = release_filter,
	.declare = vtab_declare,
};

int vtab_register(struct sql *sql)
{
	int r = SQLITE_OK;

	for (size_t t = 0; r == SQLITE_OK && t < sql->schema.n; t++)
		r = frame_register(sql, sql->schema.tables[t].name,
				   &(struct sql_module){ .frame = &record_frame,
							 .table = &sql->schema.tables[t] });
	return r;
}
