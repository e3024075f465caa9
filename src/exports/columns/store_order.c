/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows in the order of a column; see store.h. Few different values are counted, many are sorted.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "exports/columns/fields.h"
#include "exports/columns/store.h"

#define COUNT_MOST ((uint64_t)1 << 20) /* different values that are counted */

size_t store_ids(struct store_data *data, size_t c)
{
	struct store_column *column = &data->columns[c];
	size_t rows = data->table->list >= 0 ? data->parents : data->n;

	if (!column->n_ids && column->array) {
		size_t most = 0;

		for (size_t i = 0; i < rows; i++) {
			size_t id = (size_t)field_int(column->array, column->type, i);

			most = id > most ? id : most;
		}
		column->n_ids = most + 1;
	}
	return column->n_ids;
}

bool store_can_order(const struct sql_table *table, size_t c)
{
	const struct sql_column *column = &table->columns[c];

	if (table->list >= 0)
		return false;
	switch ((enum sql_from)column->from) {
	case FROM_RUN:
	case FROM_END:
	case FROM_NUMBER:
	case FROM_VALUE:
		return false;
	case FROM_FIELD:
		return column->type != SQL_REAL && column->absent == ABSENT_NEVER;
	default:
		return true;
	}
}

/* What ids stand for, for comparing. */
struct ranked {
	struct cell cell;
	size_t id;
};

static int compare_cells(const struct cell *a, const struct cell *b)
{
	if (a->kind == CELL_ABSENT || b->kind == CELL_ABSENT)
		return (a->kind != CELL_ABSENT) - (b->kind != CELL_ABSENT);
	if (a->kind == CELL_TEXT)
		return strcmp(a->s, b->s);
	return (a->i > b->i) - (a->i < b->i);
}

static int compare_ranked(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;
	int order = compare_cells(&x->cell, &y->cell);

	return order ? order : (x->id > y->id) - (x->id < y->id);
}

/* Of each id the place of its value among all values; ids of one value have one place. */
static int rank_ids(struct store *store, struct store_data *data, size_t c, uint32_t **ret_ranks,
		    size_t *ret_n)
{
	size_t n = store_ids(data, c), rank = 0;
	struct ranked *ranked = calloc(n, sizeof(*ranked));
	uint32_t *ranks = calloc(n, sizeof(*ranks));
	bool failed = !ranked || !ranks;

	for (size_t id = 0; !failed && id < n; id++)
		ranked[id] = (struct ranked){ store_id_cell(store, data, c, id, &failed), id };
	if (failed) {
		free(ranked);
		free(ranks);
		return -ENOMEM;
	}
	qsort(ranked, n, sizeof(*ranked), compare_ranked);
	for (size_t i = 0; i < n; i++) {
		if (i && compare_cells(&ranked[i - 1].cell, &ranked[i].cell) != 0)
			rank++;
		ranks[ranked[i].id] = (uint32_t)rank;
	}
	free(ranked);
	*ret_ranks = ranks;
	*ret_n = rank + 1;
	return 0;
}

/* ranks NULL: the number minus `least` is its own. */
static int count_order(const struct store_column *column, size_t n, const uint32_t *ranks,
		       size_t n_ranks, int64_t least, uint32_t *order)
{
	uint32_t *at = calloc(n_ranks + 1, sizeof(*at));

	if (!at)
		return -ENOMEM;
#define RANK(i)                                                                                    \
	(ranks ? ranks[field_int(column->array, column->type, i)]                                  \
	       : (size_t)((uint64_t)field_int(column->array, column->type, i) - (uint64_t)least))
	for (size_t i = 0; i < n; i++)
		at[RANK(i) + 1]++;
	for (size_t i = 0; i < n_ranks; i++)
		at[i + 1] += at[i];
	for (size_t i = 0; i < n; i++)
		order[at[RANK(i)]++] = (uint32_t)i;
#undef RANK
	free(at);
	return 0;
}

static int sort_order(const struct store_column *column, size_t n, uint32_t *order)
{
	struct order_keys keys = { .flip = ORDER_SIGNED };
	int64_t *wide = NULL;
	int r;

	if (column->type == COLUMN_I64 || column->type == COLUMN_U64) {
		keys.key = column->array;
	} else {
		wide = array_new(n, sizeof(*wide));
		if (!wide)
			return -ENOMEM;
		for (size_t i = 0; i < n; i++)
			wide[i] = field_int(column->array, column->type, i);
		keys.key = wide;
	}
	r = order_rows(&keys, 0, n, order);
	free(wide);
	return r;
}

static int number_order(const struct store_column *column, size_t n, uint32_t *order)
{
	int64_t least = INT64_MAX, most = INT64_MIN;

	for (size_t i = 0; i < n; i++) {
		int64_t value = field_int(column->array, column->type, i);

		least = value < least ? value : least;
		most = value > most ? value : most;
	}
	if ((uint64_t)most - (uint64_t)least < COUNT_MOST)
		return count_order(column, n, NULL, (size_t)(most - least) + 1, least, order);
	return sort_order(column, n, order);
}

int store_order(struct store *store, struct store_data *data, size_t c, const uint32_t **ret_order)
{
	struct store_column *column = &data->columns[c];
	uint32_t *order, *ranks = NULL;
	size_t n_ranks = 0;
	int r;

	if (column->order) {
		*ret_order = column->order;
		return 0;
	}
	if (data->n >= ORDER_MOST)
		return -EFBIG;
	order = array_new(data->n ? data->n : 1, sizeof(*order));
	if (!order)
		return -ENOMEM;
	if (!data->n) {
		r = 0;
	} else if (store_is_ids(&data->table->columns[c])) {
		r = rank_ids(store, data, c, &ranks, &n_ranks);
		if (r == 0)
			r = count_order(column, data->n, ranks, n_ranks, 0, order);
		free(ranks);
	} else {
		r = number_order(column, data->n, order);
	}
	if (r < 0) {
		free(order);
		return r;
	}
	*ret_order = column->order = order;
	return 0;
}
