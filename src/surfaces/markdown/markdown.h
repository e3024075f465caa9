/* SPDX-License-Identifier: Apache-2.0
 *
 * Text, grids and pages as Markdown with GitHub's tables.
 */
#ifndef SURFACES_MARKDOWN_H
#define SURFACES_MARKDOWN_H

#include <stdio.h>

#include "base/text/text_table.h"
#include "subjects/pages/page.h"

/* Text in a cell or paragraph: nothing in it is markup. */
void markdown_text(const char *text, FILE *out);

/* The columns that text shows, numbers right-aligned, as wide as they are. limit 0: all rows. */
void grid_markdown(const struct grid *grid, size_t limit, FILE *out);

/* Titles become headings, tables tables; lines stay as text shows them, without colour. 0, or the error of the
 * page, of which nothing is printed then, or -ENOMEM. */
int page_markdown(const struct page *page, const struct text_layout *layout, FILE *out);

#endif
