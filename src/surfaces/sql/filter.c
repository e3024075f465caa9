/* SPDX-License-Identifier: Apache-2.0
 *
 * Conditions as tests on arrays; see filter.h.
 */
#include "surfaces/sql/filter.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exports/columns/fields.h"

bool filter_can(const struct sql_table *table, size_t c, enum filter_op op)
{
	const struct sql_column *column = &table->columns[c];
	bool text = op == OP_LIKE || op == OP_GLOB;

	switch ((enum sql_from)column->from) {
	case FROM_NUMBER:
	case FROM_VALUE:
		return false;
	case FROM_RUN:
		return text || op == OP_EQ || op == OP_IN;
	case FROM_END:
		return !text;
	default:
		break;
	}
	if (column->type == SQL_REAL)
		return false;
	if (column->type == SQL_TEXT)
		return text || op == OP_EQ || op == OP_IN;
	return !text;
}

/* The integers that an SQL number leaves; false: it says nothing that is safe to use. */
static bool narrow(enum filter_op op, sqlite3_value *value, int64_t *low, int64_t *high)
{
	int64_t at;
	bool exact = true;

	if (sqlite3_value_type(value) == SQLITE_INTEGER) {
		at = sqlite3_value_int64(value);
	} else if (sqlite3_value_type(value) == SQLITE_FLOAT) {
		double real = sqlite3_value_double(value);

		if (!(fabs(real) < 4e18))
			return false;
		at = (int64_t)floor(real);
		exact = floor(real) == real;
	} else {
		return false;
	}
	*low = INT64_MIN;
	*high = INT64_MAX;
	switch (op) {
	case OP_EQ:
		/* A number between two integers is none of them. */
		*low = exact ? at : INT64_MAX;
		*high = exact ? at : INT64_MIN;
		return true;
	case OP_GT:
		if (at == INT64_MAX)
			return false;
		*low = at + 1;
		return true;
	case OP_GE:
		*low = exact ? at : at + 1;
		return true;
	case OP_LT:
		if (exact && at == INT64_MIN)
			return false;
		*high = exact ? at - 1 : at;
		return true;
	case OP_LE:
		*high = at;
		return true;
	default:
		return false;
	}
}

/* 1: true, 0: false, -1: left to SQLite. */
static int text_matches(enum filter_op op, sqlite3_value *value, const char *text)
{
	const char *given;

	if (sqlite3_value_type(value) != SQLITE_TEXT)
		return -1;
	given = (const char *)sqlite3_value_text(value);
	if (!given)
		return -1;
	switch (op) {
	case OP_LIKE:
		return sqlite3_strlike(given, text, 0) == 0;
	case OP_GLOB:
		return sqlite3_strglob(given, text) == 0;
	default:
		return strcmp(given, text) == 0;
	}
}

static int cell_matches_one(enum filter_op op, sqlite3_value *value, const struct cell *cell)
{
	int64_t low, high;

	if (cell->kind == CELL_TEXT)
		return text_matches(op, value, cell->s);
	if (!narrow(op, value, &low, &high))
		return -1;
	return cell->i >= low && cell->i <= high;
}

static int cell_matches(enum filter_op op, sqlite3_value *value, const struct cell *cell)
{
	sqlite3_value *one;
	int r, any = 0;

	if (cell->kind == CELL_ABSENT)
		return 0; /* no comparison with NULL is true */
	if (op != OP_IN)
		return cell_matches_one(op, value, cell);
	for (r = sqlite3_vtab_in_first(value, &one); r == SQLITE_OK;
	     r = sqlite3_vtab_in_next(value, &one)) {
		int match = cell_matches_one(OP_EQ, one, cell);

		if (match > 0)
			return 1;
		any |= match < 0;
	}
	return r == SQLITE_DONE && !any ? 0 : -1;
}

static int add_ids(struct filter *filter, struct store *store, struct store_data *data,
		   const struct filter_condition *condition)
{
	size_t n = store_ids(data, condition->column);
	uint8_t *allowed = malloc(n + 1);
	bool failed = !allowed;

	for (size_t id = 0; !failed && id < n; id++) {
		struct cell cell = store_id_cell(store, data, condition->column, id, &failed);

		allowed[id] = cell_matches(condition->op, condition->value, &cell) != 0;
	}
	if (failed) {
		free(allowed);
		return -ENOMEM;
	}
	filter->tests[filter->n++] = (struct test){
		.kind = TEST_IDS,
		.array = data->columns[condition->column].array,
		.type = data->columns[condition->column].type,
		.allowed = allowed,
		.column = condition->column,
	};
	return 0;
}

/* The smallest range around a list. */
static bool narrow_list(sqlite3_value *list, int64_t *low, int64_t *high)
{
	sqlite3_value *one;
	int r;

	*low = INT64_MAX;
	*high = INT64_MIN;
	for (r = sqlite3_vtab_in_first(list, &one); r == SQLITE_OK;
	     r = sqlite3_vtab_in_next(list, &one)) {
		int64_t from, to;

		if (!narrow(OP_EQ, one, &from, &to))
			return false;
		if (from > to)
			continue;
		*low = from < *low ? from : *low;
		*high = to > *high ? to : *high;
	}
	return r == SQLITE_DONE;
}

static void add_range(struct filter *filter, struct store *store, struct store_data *data,
		      const struct filter_condition *condition)
{
	const struct kind_desc *desc = kind_desc(data->table->kind);
	const struct store_column *column = &data->columns[condition->column];
	bool end = data->table->columns[condition->column].from == FROM_END;
	struct test *test = NULL;
	int64_t low, high;

	if (condition->op == OP_IN ? !narrow_list(condition->value, &low, &high)
				   : !narrow(condition->op, condition->value, &low, &high))
		return;
	/* Two conditions on a column are one test. */
	for (size_t i = 0; i < filter->n; i++)
		if (filter->tests[i].kind != TEST_IDS &&
		    filter->tests[i].column == condition->column)
			test = &filter->tests[i];
	if (!test) {
		test = &filter->tests[filter->n++];
		*test = (struct test){ .kind = end ? TEST_END : TEST_RANGE,
				       .array = column->array,
				       .type = column->type,
				       .low = low,
				       .high = high,
				       .column = condition->column };
		if (end) {
			test->type = COLUMN_I64;
			test->array = field_array(store->run, data->table->kind,
						  (unsigned int)desc->time_column);
			test->durations = field_array(store->run, data->table->kind,
						      (unsigned int)desc->duration_column);
		}
	}
	test->low = low > test->low ? low : test->low;
	test->high = high < test->high ? high : test->high;
	filter->nothing |= test->low > test->high;
}

int filter_init(struct filter *filter, struct store *store, struct store_data *data,
		const struct filter_condition *conditions, size_t n)
{
	*filter = (struct filter){ 0 };
	for (size_t i = 0; i < n && filter->n < FILTER_TESTS_MAX; i++) {
		const struct sql_column *column = &data->table->columns[conditions[i].column];

		if (column->from == FROM_RUN) {
			struct cell label = cell_text(store->label);

			filter->nothing |= cell_matches(conditions[i].op, conditions[i].value,
							&label) == 0;
		} else if (!data->n) {
			filter->nothing = true;
		} else if (store_is_ids(column)) {
			int r = add_ids(filter, store, data, &conditions[i]);

			if (r < 0) {
				filter_release(filter);
				return r;
			}
		} else {
			add_range(filter, store, data, &conditions[i]);
		}
	}
	return 0;
}

void filter_release(struct filter *filter)
{
	for (size_t i = 0; i < filter->n; i++)
		free(filter->tests[i].allowed);
	*filter = (struct filter){ 0 };
}

bool filter_passes(const struct filter *filter, size_t record)
{
	for (size_t i = 0; i < filter->n; i++) {
		const struct test *test = &filter->tests[i];
		int64_t value = field_int(test->array, test->type, record);

		if (test->kind == TEST_IDS) {
			if (!test->allowed[value])
				return false;
			continue;
		}
		if (test->kind == TEST_END)
			value = (int64_t)((uint64_t)value + (uint64_t)test->durations[record]);
		if (value < test->low || value > test->high)
			return false;
	}
	return true;
}
