/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows and columns for text, JSON and CSV; see grid.h.
 */
#include "present/frame/grid.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/csv_write.h"
#include "base/text/format.h"
#include "present/frame/fields_json.h"

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

static bool is_column(const struct field *field, unsigned int form)
{
	return !field->of && !field->detail && field_exists(field, form);
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
		if (is_column(&filling->set->fields[i], row->form))
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

		if (!is_column(field, from->form))
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

static double number(const struct cell *cell)
{
	if (cell->kind == CELL_REAL)
		return cell->d;
	return cell->kind == CELL_INT ? (double)cell->i : (double)cell->u;
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
		order = number(x->cell) > number(y->cell) ? -1 : number(x->cell) < number(y->cell);
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

void grid_cell_text(char *out, size_t size, const struct cell *cell, enum field_unit unit)
{
	double v;

	switch (cell->kind) {
	case CELL_ABSENT:
		snprintf(out, size, "n/a");
		return;
	case CELL_TEXT:
		snprintf(out, size, "%s", cell->s);
		return;
	case CELL_BOOL:
		snprintf(out, size, "%s", cell->u ? "yes" : "no");
		return;
	case CELL_INT:
	case CELL_UINT:
	case CELL_REAL:
		break;
	}
	v = number(cell);
	switch (unit) {
	case UNIT_TEXT:
	case UNIT_INT:
		snprintf(out, size, "%.0f", v);
		break;
	case UNIT_DEVICE:
		snprintf(out, size, v < 0 ? "host" : "%.0f", v);
		break;
	case UNIT_COUNT:
		snprintf(out, size, "%s", format_count(v).text);
		break;
	case UNIT_NS:
		snprintf(out, size, "%s", format_ns(v).text);
		break;
	case UNIT_BYTES:
		snprintf(out, size, "%s", format_bytes(v).text);
		break;
	case UNIT_PCT:
		snprintf(out, size, "%s", format_pct(v).text);
		break;
	case UNIT_RATIO:
		snprintf(out, size, "%s", format_ratio(v).text);
		break;
	case UNIT_FLOPS:
		snprintf(out, size, "%s", format_flops(v).text);
		break;
	case UNIT_RATE:
		snprintf(out, size, "%s", format_rate(v).text);
		break;
	}
}

static size_t shown(const struct grid *grid, size_t limit)
{
	return limit && limit < grid->n ? limit : grid->n;
}

int grid_print(const struct grid *grid, size_t limit, const struct text_layout *layout, FILE *out)
{
	struct text_column columns[GRID_COLUMNS_MAX];
	struct text_table *table;
	size_t n = 0, rows = shown(grid, limit);
	int r;

	for (size_t c = 0; c < grid->n_columns; c++)
		if (grid->columns[c].title)
			columns[n++] = (struct text_column){
				.title = grid->columns[c].title,
				.align = grid->columns[c].unit == UNIT_TEXT ? TEXT_LEFT
									    : TEXT_RIGHT,
				.flexible = grid->columns[c].flexible,
			};
	table = text_table_new(columns, n);
	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < rows; i++)
		for (size_t c = 0; c < grid->n_columns; c++) {
			const struct cell *cell = &grid->rows[i].cells[c];
			char text[512];

			if (!grid->columns[c].title)
				continue;
			grid_cell_text(text, sizeof(text), cell, grid->columns[c].unit);
			/* Names as they are: long ones may differ at their ends. */
			text_table_cell(table, cell->kind == CELL_TEXT ? cell->s : text,
					cell->kind == CELL_ABSENT ? TEXT_DIM : TEXT_PLAIN);
		}
	r = text_table_print(table, layout, out);
	text_table_free(table);
	return r;
}

static void csv_cell(const struct cell *cell, FILE *out)
{
	char text[40];

	switch (cell->kind) {
	case CELL_ABSENT:
		break;
	case CELL_INT:
		fprintf(out, "%" PRId64, cell->i);
		break;
	case CELL_UINT:
		fprintf(out, "%" PRIu64, cell->u);
		break;
	case CELL_REAL:
		if (!isfinite(cell->d))
			break;
		json_format_double(text, sizeof(text), cell->d);
		fputs(text, out);
		break;
	case CELL_TEXT:
		csv_write_text(cell->s, out);
		break;
	case CELL_BOOL:
		fputs(cell->u ? "true" : "false", out);
		break;
	}
}

void grid_csv_cells(const struct cell *cells, size_t n, FILE *out)
{
	for (size_t i = 0; i < n; i++) {
		if (i)
			fputc(',', out);
		csv_cell(&cells[i], out);
	}
}

void grid_csv_row(const struct cell *cells, size_t n, FILE *out)
{
	grid_csv_cells(cells, n, out);
	fputc('\n', out);
}

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
	size_t rows = shown(grid, limit);
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
				csv_cell(&grid->rows[i - 1].cells[c], out);
			else
				fputs(grid->columns[c].key, out);
		}
		fputc('\n', out);
	}
}

void grid_json_plain(struct json *json, const struct cell *cell)
{
	switch (cell->kind) {
	case CELL_ABSENT:
		json_null(json);
		break;
	case CELL_INT:
		json_int(json, cell->i);
		break;
	case CELL_UINT:
		json_uint(json, cell->u);
		break;
	case CELL_REAL:
		json_double(json, cell->d);
		break;
	case CELL_TEXT:
		json_string(json, cell->s);
		break;
	case CELL_BOOL:
		json_bool(json, cell->u);
		break;
	}
}

void grid_json_cell(struct json *json, const char *key, const struct cell *cell)
{
	char reason_key[80];

	json_key(json, key);
	grid_json_plain(json, cell);
	if (cell->kind == CELL_ABSENT) {
		snprintf(reason_key, sizeof(reason_key), "%s_reason", key);
		json_key(json, reason_key);
		json_string(json, cell->reason ? cell->reason : "not known");
	}
}

void grid_json_value(struct json *json, const char *key, struct value value)
{
	struct cell cell = cell_value(value);

	grid_json_cell(json, key, &cell);
}

/* What the fields of a row have besides cells. */
static void groups_json(const struct grid *grid, const struct grid_row *row, struct json *json)
{
	struct field_row at = grid->from;

	at.in = &grid->from;
	at.item = row->item;
	for (size_t i = 0; i < grid->set->n_fields; i++)
		if (grid->set->fields[i].of || grid->set->fields[i].detail)
			field_json(json, &grid->set->fields[i], &at);
}

void grid_json(const struct grid *grid, size_t limit, struct json *json)
{
	size_t rows = shown(grid, limit);

	json_array(json);
	for (size_t i = 0; i < rows; i++) {
		json_object_line(json);
		for (size_t c = 0; c < grid->n_columns; c++) {
			const struct cell *cell = &grid->rows[i].cells[c];

			if (cell->kind != CELL_ABSENT || !grid->columns[c].data_only_when_set)
				grid_json_cell(json, grid->columns[c].key, cell);
		}
		if (grid->set)
			groups_json(grid, &grid->rows[i], json);
		json_object_end(json);
	}
	json_array_end(json);
}
