/* SPDX-License-Identifier: Apache-2.0
 *
 * Sheets as text, Markdown, JSON or CSV.
 */
#ifndef SURFACES_SHEET_PRINT_H
#define SURFACES_SHEET_PRINT_H

#include "documents/sheet.h"
#include "surfaces/views/views.h"

/* In the form that the options say. 0 or -errno with err filled; write errors stay in ferror(out). */
int sheet_print(const struct sheet *sheet, const void *about, const struct view_options *options,
		FILE *out, struct err *err);

#endif
