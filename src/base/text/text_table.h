/* SPDX-License-Identifier: Apache-2.0
 *
 * Text for terminals: styles, fitting into columns, and tables whose column widths come from
 * their cells by display width. One thread at a time per table; no global state.
 */
#ifndef BASE_TEXT_TABLE_H
#define BASE_TEXT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum text_style {
	TEXT_PLAIN,
	TEXT_BOLD,
	TEXT_DIM,
	TEXT_RED,
	TEXT_YELLOW,
	TEXT_GREEN,
	TEXT_CYAN,
};

/* The escape sequences around styled text; "" when color is false. */
const char *text_style_on(enum text_style style, bool color);
const char *text_style_off(enum text_style style, bool color);

/* The text with '?' for what is not to be shown on a terminal (utf8_is_harmless). */
void text_put(FILE *out, const char *text, bool utf8);

/* Prints `text` in exactly `width` columns: padded right (or left when right-aligned), shortened
 * in the middle with an ellipsis ("…", or "..." when not utf8). Control characters and broken
 * UTF-8 come out as '?', so that no input can drive the terminal. */
void text_fit(FILE *out, const char *text, size_t width, bool right, bool utf8);

/* Word-wraps `text` at `width` columns; the first line continues at column `at`, the others
 * begin with `indent` spaces. Ends with a newline. */
void text_wrap(FILE *out, const char *text, size_t width, size_t at, size_t indent);

enum text_align { TEXT_LEFT, TEXT_RIGHT };

struct text_column {
	const char *title;
	enum text_align align;
	bool flexible; /* gives way when the table is too wide, the widest first */
};

struct text_layout {
	int width;  /* columns to fit into; 0: as wide as needed */
	int indent; /* spaces before each line */
	int gap;    /* spaces between columns; 0: 2 */
	bool color, utf8;
	bool no_header;
};

struct text_table;

/* Columns are copied; NULL when there is no memory. */
struct text_table *text_table_new(const struct text_column *columns, size_t n_columns);
void text_table_free(struct text_table *table);

/* Appends the next cell, row by row. A failure (no memory) sticks and comes out of
 * text_table_print. */
void text_table_cell(struct text_table *table, const char *text, enum text_style style);
void text_table_cellf(struct text_table *table, enum text_style style, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* 0, -ENOMEM, or -EINVAL when the last row is not full. Write errors stay in ferror(out). */
int text_table_print(struct text_table *table, const struct text_layout *layout, FILE *out);

#endif
