/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells as CSV; see csv_cells.h.
 */
#include "exports/csv/csv_cells.h"

#include <inttypes.h>
#include <math.h>

#include "base/text/csv_write.h"
#include "base/text/json_write.h"

static void csv_cell(const struct cell *cell, FILE *out)
{
	char text[40];

	switch (cell->kind) {
	case CELL_ABSENT:
		break;
	case CELL_INT:
		fputs(json_format_decimal(text, cell->i, 0), out);
		break;
	case CELL_DECIMAL:
		fputs(json_format_decimal(text, cell->i, cell->places), out);
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

void csv_cells(const struct cell *cells, size_t n, FILE *out)
{
	for (size_t i = 0; i < n; i++) {
		if (i)
			fputc(',', out);
		csv_cell(&cells[i], out);
	}
}

void csv_row(const struct cell *cells, size_t n, FILE *out)
{
	csv_cells(cells, n, out);
	fputc('\n', out);
}
