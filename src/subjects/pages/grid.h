/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows and columns of a view, once, for text, JSON and CSV: a column has a key (with its unit,
 * as in JSON), a cell a value or the reason why there is none.
 */
#ifndef SUBJECTS_GRID_H
#define SUBJECTS_GRID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "subjects/shared/fields.h"

struct grid_column {
	const char *key;
	const char *title; /* in text; NULL: not shown there */
	enum field_unit unit;
	bool flexible;
	bool data_only_when_set; /* left out of JSON and CSV when absent (asked-for columns) */
	int from_width;		 /* in text only on pages of so many columns or more; 0: on all */
};

#define GRID_COLUMNS_MAX 64

struct grid_row {
	struct cell *cells;
	const void *item; /* what the row is about */
};

struct grid {
	const struct grid_column *columns;
	size_t n_columns;
	struct grid_column *own_columns; /* made from fields */
	const struct field_set *set;	 /* these fields; NULL: none */
	struct field_row from;
	struct grid_row *rows;
	size_t n, capacity;
};

/* The rows of a subject, in the form of `from`, which has the answer. What that points to outlives the
 * grid. 0 or -errno; release the grid in both cases. */
int grid_fill(struct grid *grid, const struct field_set *set, const struct field_row *from);

void grid_init(struct grid *grid, const struct grid_column *columns, size_t n_columns);
void grid_release(struct grid *grid);

/* A new row; its cells in the order of the columns. NULL: no memory. */
struct cell *grid_add(struct grid *grid, const void *item);

/* By the column of that key, numbers from large to small, texts from a to z, absent last; rows
 * that are equal keep their order. NULL: no change. -EINVAL with a sentence that lists the keys. */
int grid_sort(struct grid *grid, const char *key, struct err *err);

/* How many rows a limit leaves; 0: all. */
static inline size_t grid_shown(const struct grid *grid, size_t limit)
{
	return limit && limit < grid->n ? limit : grid->n;
}

static inline double cell_number(const struct cell *cell)
{
	double unit = 1;

	if (cell->kind == CELL_REAL)
		return cell->d;
	if (cell->kind == CELL_DECIMAL) {
		for (unsigned int i = 0; i < cell->places; i++)
			unit *= 10;
		return (double)cell->i / unit;
	}
	return cell->kind == CELL_INT ? (double)cell->i : (double)cell->u;
}

#endif
