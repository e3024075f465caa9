/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows and columns; see grid.h.
 */
#include "subjects/pages/grid.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void grid_init(struct grid *grid, const struct grid_column *columns, size_t n_columns)
{
	*grid = (struct grid){ .columns = columns, .n_columns = n_columns };
}

void grid_release(struct grid *grid)
{
	for (size_t i = 0; i < grid->n; i++)
		free(grid->rows[i].cells);
	free(grid->rows);
	free(grid->own_columns);
	grid->rows = NULL;
	grid->own_columns = NULL;
	grid->n = grid->capacity = 0;
}

struct cell *grid_add(struct grid *grid, const void *item)
{
	struct cell *cells = calloc(grid->n_columns, sizeof(*cells));

	if (!cells)
		return NULL;
	if (grid->n == grid->capacity) {
		size_t capacity = grid->capacity ? grid->capacity * 2 : 32;
		struct grid_row *rows = reallocarray(grid->rows, capacity, sizeof(*rows));

		if (!rows) {
			free(cells);
			return NULL;
		}
		grid->rows = rows;
		grid->capacity = capacity;
	}
	grid->rows[grid->n++] = (struct grid_row){ cells, item };
	return cells;
}

struct filling {
	struct grid *grid;
	const struct field_set *set;
};

static int fill_row(const struct field_row *row, void *data)
{
	const struct filling *filling = data;
	struct cell *cell = grid_add(filling->grid, row->item);

	if (!cell)
		return -ENOMEM;
	for (size_t i = 0; i < filling->set->n_fields; i++)
		if (field_is_column(&filling->set->fields[i], row->form))
			*cell++ = field_read(&filling->set->fields[i], row);
	return 0;
}

int grid_fill(struct grid *grid, const struct field_set *set, const struct field_row *from)
{
	struct filling filling = { grid, set };

	*grid = (struct grid){ .own_columns = calloc(set->n_fields, sizeof(*grid->own_columns)),
			       .set = set,
			       .from = *from };
	if (!grid->own_columns)
		return -ENOMEM;
	for (size_t i = 0; i < set->n_fields; i++) {
		const struct field *field = &set->fields[i];

		if (!field_is_column(field, from->form))
			continue;
		if (grid->n_columns == GRID_COLUMNS_MAX)
			return -EOVERFLOW;
		grid->own_columns[grid->n_columns++] = (struct grid_column){
			.key = field->key,
			.title = field_is_titled(field, from->form) ? field->title : NULL,
			.unit = field->unit,
			.flexible = field->flexible,
			.data_only_when_set = field->optional,
		};
	}
	grid->columns = grid->own_columns;
	return field_set_each(set, from, fill_row, &filling);
}

struct sortable {
	const struct cell *cell;
	struct grid_row row;
	size_t at;
};

static int by_cell(const void *a, const void *b)
{
	const struct sortable *x = a, *y = b;
	bool absent_x = x->cell->kind == CELL_ABSENT, absent_y = y->cell->kind == CELL_ABSENT;
	int order = 0;

	if (absent_x || absent_y)
		order = (int)absent_x - (int)absent_y;
	else if (x->cell->kind == CELL_TEXT && y->cell->kind == CELL_TEXT)
		order = strcmp(x->cell->s, y->cell->s);
	else
		order = cell_number(x->cell) > cell_number(y->cell)
				? -1
				: cell_number(x->cell) < cell_number(y->cell);
	return order ? order : x->at < y->at ? -1 : x->at > y->at;
}

static int unknown_key(const struct grid *grid, const char *key, struct err *err)
{
	char keys[512];
	size_t at = 0;

	keys[0] = '\0';
	for (size_t c = 0; c < grid->n_columns && at < sizeof(keys); c++)
		at += (size_t)snprintf(keys + at, sizeof(keys) - at, "%s%s", c ? ", " : "",
				       grid->columns[c].key);
	return err_set(err, -EINVAL, "cannot sort by '%s'; this table has %s", key, keys);
}

int grid_sort(struct grid *grid, const char *key, struct err *err)
{
	struct sortable *rows;
	size_t column = 0;

	if (!key)
		return 0;
	while (column < grid->n_columns && strcmp(grid->columns[column].key, key) != 0)
		column++;
	if (column == grid->n_columns)
		return unknown_key(grid, key, err);
	if (!grid->n)
		return 0;
	rows = calloc(grid->n, sizeof(*rows));
	if (!rows)
		return err_sys(err, -ENOMEM, "cannot sort %zu rows", grid->n);
	for (size_t i = 0; i < grid->n; i++)
		rows[i] = (struct sortable){ &grid->rows[i].cells[column], grid->rows[i], i };
	qsort(rows, grid->n, sizeof(*rows), by_cell);
	for (size_t i = 0; i < grid->n; i++)
		grid->rows[i] = rows[i].row;
	free(rows);
	return 0;
}
