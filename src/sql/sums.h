/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums by name: of a table whose rows refer to a dictionary (kernels to launches, calls to names), a
 * table of SQLite with one row of each id and process that occurs, which has how many rows there are
 * and of each number the sum, the smallest and the largest. A statement that groups by what the
 * dictionary tells is answered from these few rows instead of all.
 */
#ifndef SQL_SUMS_H
#define SQL_SUMS_H

#include "sql/schema.h"

#define SUMS_SUFFIX "__sums"
#define SUMS_ROWS "rows__"

/* Of a table its column whose id is summed by, or -1: it has no sums. */
int sums_key(const struct sql_table *table);
/* Whether a column is the same in all rows that are summed together. */
bool sums_is_key(const struct sql_table *table, size_t column);
/* Whether a column can be summed: a number that every row has. */
bool sums_is_summed(const struct sql_table *table, size_t column);

/* A statement over sums that says the same as this one, if it can be. *ret_text is NULL when it
 * cannot; free() it. 0 or -ENOMEM. */
int sums_rewrite(const struct schema *schema, const char *text, size_t length, char **ret_text);

#endif
