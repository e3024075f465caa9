/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of a comparison; see comparison.h.
 */
#include "documents/comparison.h"

#include <errno.h>
#include <stdlib.h>

const struct sheet comparison_sheet = { &comparison_fields, &comparison_rows, comparison_page };

static struct compared_table add_figures(struct compared *compared, const struct compare_pair *pair)
{
	struct compared_table table = { &compared->rows[compared->n], pair->n, 0 };

	for (size_t i = 0; i < pair->n; i++)
		compared->rows[compared->n++] = (struct compared_row){
			.pair = pair, .d = &pair->figures[i].d, .figure = &pair->figures[i]
		};
	return table;
}

/* All rows of a table, then sorted, then those that the limit leaves. */
static int add_table(struct compared *compared, const struct compare_pair *pair,
		     enum compare_table which, const struct compared_choice *choice,
		     struct compared_table *ret_table, struct err *err)
{
	const struct compare_rows *from = &pair->tables[which];
	struct compared_row *all = calloc(from->n + 1, sizeof(*all));
	struct compared_table table = { all, from->n, 0 };
	struct grid grid = { 0 };
	int r = all ? 0 : -ENOMEM;

	for (size_t i = 0; all && i < from->n; i++)
		all[i] = (struct compared_row){
			.pair = pair, .d = &from->rows[i].d, .row = &from->rows[i], .table = which
		};
	if (r >= 0)
		r = grid_fill(&grid, &compared_table_rows, &(struct field_row){ .item = &table });
	if (r < 0)
		err_sys(err, r, "cannot make the table of the comparison");
	else
		r = grid_sort(&grid, choice->sort, err);
	if (r >= 0) {
		table.rows = &compared->rows[compared->n];
		table.n = grid_shown(&grid, choice->limit);
		table.left_out = grid.n - table.n;
		for (size_t i = 0; i < table.n; i++)
			compared->rows[compared->n++] =
				*(const struct compared_row *)grid.rows[i].item;
		*ret_table = table;
	}
	grid_release(&grid);
	free(all);
	return r;
}

static size_t count_rows(const struct comparison *comparison)
{
	size_t n = 0;

	for (size_t i = 0; i + 1 < comparison->n_groups; i++) {
		n += comparison->pairs[i].n;
		for (int t = 0; t < COMPARE_TABLES; t++)
			n += comparison->pairs[i].tables[t].n;
	}
	return n;
}

int compared_make(const struct comparison *comparison, const struct compare_check *checks,
		  size_t n_checks, const struct compared_choice *choice,
		  struct compared *ret_compared, struct err *err)
{
	struct compared made = { .comparison = comparison,
				 .checks = checks,
				 .n_checks = n_checks,
				 .n_pairs = comparison->n_groups - 1 };
	int r = 0;

	made.pairs = calloc(made.n_pairs, sizeof(*made.pairs));
	made.rows = calloc(count_rows(comparison) + 1, sizeof(*made.rows));
	if (!made.pairs || !made.rows)
		r = err_sys(err, -ENOMEM, "cannot make the table of the comparison");
	for (size_t i = 0; r >= 0 && i < made.n_pairs; i++) {
		made.pairs[i].pair = &comparison->pairs[i];
		made.pairs[i].figures = add_figures(&made, &comparison->pairs[i]);
	}
	for (size_t i = 0; r >= 0 && i < made.n_pairs * COMPARE_TABLES; i++)
		r = add_table(&made, &comparison->pairs[i / COMPARE_TABLES],
			      (enum compare_table)(i % COMPARE_TABLES), choice,
			      &made.pairs[i / COMPARE_TABLES].tables[i % COMPARE_TABLES], err);
	if (r < 0) {
		compared_release(&made);
		return r;
	}
	*ret_compared = made;
	return 0;
}

void compared_release(struct compared *compared)
{
	free(compared->pairs);
	free(compared->rows);
	*compared = (struct compared){ 0 };
}
