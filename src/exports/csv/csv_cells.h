/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells as CSV, for rows too many to hold in a grid.
 */
#ifndef EXPORTS_CSV_CELLS_H
#define EXPORTS_CSV_CELLS_H

#include <stddef.h>
#include <stdio.h>

#include "subjects/shared/cell.h"

/* With commas between them. */
void csv_cells(const struct cell *cells, size_t n, FILE *out);
/* And the end of the line. */
void csv_row(const struct cell *cells, size_t n, FILE *out);

#endif
