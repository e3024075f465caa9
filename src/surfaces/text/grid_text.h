/* SPDX-License-Identifier: Apache-2.0
 *
 * Grids as tables of text, and their cells for people.
 */
#ifndef SURFACES_GRID_TEXT_H
#define SURFACES_GRID_TEXT_H

#include <stdio.h>

#include "base/text/text_table.h"
#include "subjects/pages/page.h"

extern const enum text_style text_styles[]; /* by enum tone */

/* limit 0: all rows. tone: of a cell that is there; NULL: plain. */
int grid_print(const struct grid *grid, size_t limit, grid_tone *tone,
	       const struct text_layout *layout, FILE *out);

/* A value for people; "n/a" when absent. */
void grid_cell_text(char *out, size_t size, const struct cell *cell, enum field_unit unit);

#endif
