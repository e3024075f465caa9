/* SPDX-License-Identifier: Apache-2.0
 *
 * Grids and rows of fields as CSV.
 */
#ifndef SURFACES_GRID_CSV_H
#define SURFACES_GRID_CSV_H

#include <stdio.h>

#include "subjects/pages/grid.h"

/* limit 0: all rows. */
void grid_csv(const struct grid *grid, size_t limit, FILE *out);
/* Rows too many to hold, as they are visited. What the fields of a row have beside them by name are
 * columns, too. 0 or -errno. */
int rows_csv(const struct field_set *set, const struct field_row *from, FILE *out);

#endif
