/* SPDX-License-Identifier: Apache-2.0
 *
 * Grids and rows as CSV; see grid_csv.h.
 */
#include "surfaces/csv/grid_csv.h"

#include "exports/csv/csv_cells.h"

static bool column_is_used(const struct grid *grid, size_t column)
{
	if (!grid->columns[column].data_only_when_set)
		return true;
	for (size_t i = 0; i < grid->n; i++)
		if (grid->rows[i].cells[column].kind != CELL_ABSENT)
			return true;
	return false;
}

void grid_csv(const struct grid *grid, size_t limit, FILE *out)
{
	size_t rows = grid_shown(grid, limit);
	bool used[GRID_COLUMNS_MAX];

	for (size_t c = 0; c < grid->n_columns; c++)
		used[c] = column_is_used(grid, c);
	for (size_t i = 0; i <= rows; i++) {
		bool first = true;

		for (size_t c = 0; c < grid->n_columns; c++) {
			if (!used[c])
				continue;
			if (!first)
				fputc(',', out);
			first = false;
			if (i)
				csv_cells(&grid->rows[i - 1].cells[c], 1, out);
			else
				fputs(grid->columns[c].key, out);
		}
		fputc('\n', out);
	}
}

/* The cells of one line; without a row, of the first one. */
struct csv_line {
	const struct field_set *set;
	FILE *out;
	const struct field_group *beside; /* whose items are being visited */
	size_t n;
	bool titles;
};

static void put_cell(struct csv_line *line, const struct field *field, const struct field_row *row)
{
	struct cell cell = field_read(field, row);

	if (line->n++)
		fputc(',', line->out);
	csv_cells(&cell, 1, line->out);
}

static void put_title(struct csv_line *line, const char *title)
{
	fprintf(line->out, "%s%s", line->n++ ? "," : "", title);
}

static int put_beside(const struct field_row *item, void *data)
{
	struct csv_line *line = data;
	char room[FIELD_NAME_SIZE];

	if (line->titles)
		put_title(line, line->beside->name(item, room, sizeof(room)));
	else
		put_cell(line, line->beside->fields, item);
	return 0;
}

static int put_line(const struct field_row *row, void *data)
{
	struct csv_line *line = data;

	line->n = 0;
	for (size_t i = 0; i < line->set->n_fields; i++) {
		const struct field *field = &line->set->fields[i];
		struct field_row inner;

		line->beside = field->of && field->of->shape == FIELD_BESIDE ? field->of : NULL;
		if (line->beside && !field_enter(field, row, &inner))
			field_items_each(&line->beside->items, &inner, put_beside, line);
		else if (!field_is_column(field, row->form))
			continue;
		else if (line->titles)
			put_title(line, field->key);
		else
			put_cell(line, field, row);
	}
	fputc('\n', line->out);
	return 0;
}

int rows_csv(const struct field_set *set, const struct field_row *from, FILE *out)
{
	struct csv_line line = { .set = set, .out = out, .titles = true };

	put_line(from, &line);
	line.titles = false;
	return field_set_each(set, from, put_line, &line);
}
