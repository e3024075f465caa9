/* SPDX-License-Identifier: Apache-2.0
 *
 * Grids as text; see grid_text.h.
 */
#include "surfaces/text/grid_text.h"

#include <errno.h>
#include <stdlib.h>

#include "base/text/format.h"

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
	case CELL_DECIMAL:
		break;
	}
	v = cell_number(cell);
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

const enum text_style text_styles[] = {
	[TONE_PLAIN] = TEXT_PLAIN,    [TONE_STRONG] = TEXT_BOLD, [TONE_FAINT] = TEXT_DIM,
	[TONE_BAD] = TEXT_RED,	      [TONE_GOOD] = TEXT_GREEN,	 [TONE_COOL] = TEXT_CYAN,
	[TONE_WARNING] = TEXT_YELLOW,
};

static enum text_style style_of(const struct grid_row *row, size_t column, grid_tone *tone)
{
	if (row->cells[column].kind == CELL_ABSENT)
		return TEXT_DIM;
	return tone ? text_styles[tone(row, column)] : TEXT_PLAIN;
}

static bool is_shown(const struct grid_column *column, const struct text_layout *layout)
{
	return column->title && (!layout->width || layout->width >= column->from_width);
}

int grid_print(const struct grid *grid, size_t limit, grid_tone *tone,
	       const struct text_layout *layout, FILE *out)
{
	struct text_column *columns = calloc(grid->n_columns + 1, sizeof(*columns));
	struct text_table *table;
	size_t n = 0, rows = grid_shown(grid, limit);
	int r;

	for (size_t c = 0; columns && c < grid->n_columns; c++)
		if (is_shown(&grid->columns[c], layout))
			columns[n++] = (struct text_column){
				.title = grid->columns[c].title,
				.align = grid->columns[c].unit == UNIT_TEXT ? TEXT_LEFT
									    : TEXT_RIGHT,
				.flexible = grid->columns[c].flexible,
			};
	table = columns ? text_table_new(columns, n) : NULL;
	free(columns);
	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < rows; i++)
		for (size_t c = 0; c < grid->n_columns; c++) {
			const struct cell *cell = &grid->rows[i].cells[c];
			char text[512];

			if (!is_shown(&grid->columns[c], layout))
				continue;
			grid_cell_text(text, sizeof(text), cell, grid->columns[c].unit);
			/* Names as they are: long ones may differ at their ends. */
			text_table_cell(table, cell->kind == CELL_TEXT ? cell->s : text,
					style_of(&grid->rows[i], c, tone));
		}
	r = text_table_print(table, layout, out);
	text_table_free(table);
	return r;
}
