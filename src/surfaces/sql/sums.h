/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums: of a table of records, a table of SQLite with one row for each combination of the values that
 * a statement groups and chooses by (names, ranks, devices, steps and so on: columns of which there are
 * few different values), which has how many records there are and of each number the sum, the smallest
 * and the largest. A statement that aggregates is answered from these few rows instead of all.
 */
#ifndef SURFACES_SUMS_H
#define SURFACES_SUMS_H

#include "exports/columns/schema.h"

#define SUMS_SUFFIX "__sums"
#define SUMS_ROWS "rows__"

/* Whether records of a table can be summed by a column; whether the column can be summed: it is a
 * number that every row has. Some columns can be both. */
bool sums_is_key(const struct sql_table *table, size_t column);
bool sums_is_summed(const struct sql_table *table, size_t column);

/* A statement over sums that says the same as this one, if it can be, when *ret_table is what the name
 * of it means. *ret_text is NULL when it cannot; free() it. 0 or -ENOMEM. */
int sums_rewrite(const struct schema *schema, const char *text, size_t length, char **ret_text,
		 const struct sql_table **ret_table);

#endif
