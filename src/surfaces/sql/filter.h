/* SPDX-License-Identifier: Apache-2.0
 *
 * Which rows of a table a query can be about: conditions of SQLite as tests on arrays. Tests never
 * lose a row that SQLite would keep; what they let through, SQLite checks again. One thread.
 */
#ifndef SURFACES_FILTER_H
#define SURFACES_FILTER_H

#include <sqlite3.h>

#include "exports/columns/store.h"

enum filter_op {
	OP_EQ = '=',
	OP_GT = '>',
	OP_GE = 'g',
	OP_LT = '<',
	OP_LE = 'l',
	OP_LIKE = '~',
	OP_GLOB = '*',
	OP_IN = 'i',
};

/* Whether a condition on a column can be made a test. */
bool filter_can(const struct sql_table *table, size_t column, enum filter_op op);

struct filter_condition {
	size_t column;
	enum filter_op op;
	sqlite3_value *value;
};

enum test_kind { TEST_RANGE, TEST_END, TEST_IDS };
struct test {
	enum test_kind kind;
	uint8_t type;	   /* enum column_type of the array */
	const void *array; /* TEST_END: the starts */
	const int64_t *durations;
	int64_t low, high; /* inclusive */
	uint8_t *allowed;  /* by id; free() it */
	size_t column;
};

#define FILTER_TESTS_MAX 32
struct filter {
	struct test tests[FILTER_TESTS_MAX];
	size_t n;
	bool nothing; /* no row can pass */
};

/* 0 or -ENOMEM. */
int filter_init(struct filter *filter, struct store *store, struct store_data *data,
		const struct filter_condition *conditions, size_t n);
void filter_release(struct filter *filter);
bool filter_passes(const struct filter *filter, size_t record);

#endif
