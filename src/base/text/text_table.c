/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables and fitted text for terminals; see text_table.h.
 */
#include "base/text/text_table.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"

#define GAP 2
#define FLEXIBLE_MIN 12 /* a flexible column is never made narrower */

struct table_cell {
	char *text, *shown; /* shown: while it is printed and too long, else NULL */
	enum text_style style;
};

struct text_table {
	struct text_column *columns;
	size_t n_columns;
	struct table_cell *cells;
	size_t n_cells, capacity;
	int failed;
};

const char *text_style_on(enum text_style style, bool color)
{
	static const char *const codes[] = {
		[TEXT_PLAIN] = "",	  [TEXT_BOLD] = "\033[1m",    [TEXT_DIM] = "\033[2m",
		[TEXT_RED] = "\033[31m",  [TEXT_YELLOW] = "\033[33m", [TEXT_GREEN] = "\033[32m",
		[TEXT_CYAN] = "\033[36m",
	};

	return color ? codes[style] : "";
}

const char *text_style_off(enum text_style style, bool color)
{
	return color && style != TEXT_PLAIN ? "\033[0m" : "";
}

/* Prints the code points of text[from, to), unprintable ones as '?'. */
static void put_safe(FILE *out, const char *text, size_t from, size_t to, bool utf8)
{
	while (from < to) {
		uint32_t point;
		int valid;
		size_t n = utf8_decode(text + from, to - from, &point, &valid);

		if (!valid || !utf8_is_harmless(point) || (point >= 0x80 && !utf8))
			fputc('?', out);
		else
			fwrite(text + from, 1, n, out);
		from += n;
	}
}

/* Display width with '?' standing for what put_safe replaces. */
static size_t point_width(uint32_t point, int valid, bool utf8)
{
	if (!valid || !utf8_is_harmless(point) || (point >= 0x80 && !utf8))
		return 1;
	return (size_t)utf8_point_width(point);
}

static size_t safe_width(const char *text, bool utf8)
{
	size_t length = strlen(text), at = 0, width = 0;

	while (at < length) {
		uint32_t point;
		int valid;

		at += utf8_decode(text + at, length - at, &point, &valid);
		width += point_width(point, valid, utf8);
	}
	return width;
}

/* Bytes at the front of text that fill at most `width` columns; *ret_width: those they do. */
static size_t fitting_prefix(const char *text, size_t width, bool utf8, size_t *ret_width)
{
	size_t length = strlen(text), at = 0;

	*ret_width = 0;
	while (at < length) {
		uint32_t point;
		int valid;
		size_t n = utf8_decode(text + at, length - at, &point, &valid);
		size_t w = point_width(point, valid, utf8);

		if (*ret_width + w > width)
			break;
		*ret_width += w;
		at += n;
	}
	return at;
}

static void put_spaces(FILE *out, size_t n)
{
	while (n--)
		fputc(' ', out);
}

static void put_shortened(FILE *out, const char *text, size_t full, size_t width, bool utf8)
{
	const char *dots = utf8 ? "…" : "...";
	size_t n_dots = utf8 ? 1 : 3;
	size_t head, skipped, head_width, skip_width;

	if (width <= n_dots) {
		head = fitting_prefix(text, width, utf8, &head_width);
		put_safe(out, text, 0, head, utf8);
		put_spaces(out, width - head_width);
		return;
	}
	head = fitting_prefix(text, (width - n_dots + 1) / 2, utf8, &head_width);
	/* Skip enough that head, dots and the rest fit; wide characters may leave a gap. */
	skipped = fitting_prefix(text, full - (width - n_dots - head_width), utf8, &skip_width);
	while (text[skipped] && full - skip_width > width - n_dots - head_width) {
		uint32_t point;
		int valid;
		size_t n = utf8_decode(text + skipped, strlen(text + skipped), &point, &valid);

		skip_width += point_width(point, valid, utf8);
		skipped += n;
	}
	put_safe(out, text, 0, head, utf8);
	fputs(dots, out);
	put_safe(out, text, skipped, strlen(text), utf8);
	put_spaces(out, width - n_dots - head_width - (full - skip_width));
}

void text_fit(FILE *out, const char *text, size_t width, bool right, bool utf8)
{
	size_t full = safe_width(text, utf8);

	if (full > width) {
		put_shortened(out, text, full, width, utf8);
		return;
	}
	if (right)
		put_spaces(out, width - full);
	put_safe(out, text, 0, strlen(text), utf8);
	if (!right)
		put_spaces(out, width - full);
}

void text_put(FILE *out, const char *text, bool utf8)
{
	put_safe(out, text, 0, strlen(text), utf8);
}

/* Up to where a line may be broken: a number stays with its unit, as in "1.03 k". */
static size_t word_length(const char *text)
{
	size_t n = strcspn(text, " \n"), unit;

	if (n && text[n] == ' ' && isdigit((unsigned char)text[0]) &&
	    isdigit((unsigned char)text[n - 1])) {
		unit = strcspn(text + n + 1, " \n,.;:)/");
		if (unit && unit <= 3)
			n += 1 + strcspn(text + n + 1, " \n");
	}
	return n;
}

void text_wrap(FILE *out, const char *text, size_t width, size_t at, size_t indent)
{
	bool line_empty = true;

	while (*text) {
		size_t n = word_length(text);
		size_t columns = 0, byte = 0;

		while (byte < n) {
			uint32_t point;
			int valid;

			byte += utf8_decode(text + byte, n - byte, &point, &valid);
			columns += point_width(point, valid, true);
		}
		if (n) {
			if (!line_empty && at + 1 + columns > width) {
				fputc('\n', out);
				put_spaces(out, indent);
				at = indent;
				line_empty = true;
			}
			if (!line_empty) {
				fputc(' ', out);
				at++;
			}
			put_safe(out, text, 0, n, true);
			at += columns;
			line_empty = false;
		}
		text += n;
		text += strspn(text, " \n");
	}
	fputc('\n', out);
}

struct text_table *text_table_new(const struct text_column *columns, size_t n_columns)
{
	struct text_table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->columns = calloc(n_columns ? n_columns : 1, sizeof(*columns));
	if (!table->columns) {
		free(table);
		return NULL;
	}
	memcpy(table->columns, columns, n_columns * sizeof(*columns));
	table->n_columns = n_columns;
	return table;
}

void text_table_free(struct text_table *table)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->n_cells; i++)
		free(table->cells[i].text);
	free(table->cells);
	free(table->columns);
	free(table);
}

void text_table_cell(struct text_table *table, const char *text, enum text_style style)
{
	char *copy;

	if (table->failed)
		return;
	if (table->n_cells == table->capacity) {
		size_t capacity = table->capacity ? table->capacity * 2 : 64;
		struct table_cell *grown = reallocarray(table->cells, capacity, sizeof(*grown));

		if (!grown) {
			table->failed = -ENOMEM;
			return;
		}
		table->cells = grown;
		table->capacity = capacity;
	}
	copy = strdup(text);
	if (!copy) {
		table->failed = -ENOMEM;
		return;
	}
	table->cells[table->n_cells++] = (struct table_cell){ .text = copy, .style = style };
}

void text_table_cellf(struct text_table *table, enum text_style style, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	text_table_cell(table, text, style);
}

static size_t gap_of(const struct text_layout *layout)
{
	return layout->gap > 0 ? (size_t)layout->gap : GAP;
}

static void measure_columns(const struct text_table *table, const struct text_layout *layout,
			    size_t *widths)
{
	size_t total = (size_t)layout->indent;

	for (size_t c = 0; c < table->n_columns; c++) {
		widths[c] = layout->no_header ? 0
					      : safe_width(table->columns[c].title, layout->utf8);
		for (size_t i = c; i < table->n_cells; i += table->n_columns) {
			size_t w = safe_width(table->cells[i].text, layout->utf8);

			if (w > widths[c])
				widths[c] = w;
		}
		total += widths[c] + (c ? gap_of(layout) : 0);
	}
	/* The widest of those that can gives way, as long as there is one. */
	for (; layout->width > 0 && total > (size_t)layout->width; total--) {
		size_t widest = table->n_columns;

		for (size_t c = 0; c < table->n_columns; c++)
			if (table->columns[c].flexible && widths[c] > FLEXIBLE_MIN &&
			    (widest == table->n_columns || widths[c] > widths[widest]))
				widest = c;
		if (widest == table->n_columns)
			break;
		widths[widest]--;
	}
}

/* A cell that does not fit, as it is shown. */
struct cut {
	struct table_cell *cell;
	char *shown;
};

/* `text` in `width` columns: its beginning, and what follows from byte `from` on; 0: its end. */
static char *cut_text(const char *text, size_t width, size_t from, bool utf8)
{
	const char *dots = utf8 ? "…" : "...";
	size_t n_dots = utf8 ? 1 : 3, head_width, rest_width, head, rest, size = 0;
	char *shown = NULL;
	FILE *out = open_memstream(&shown, &size);

	if (!out)
		return NULL;
	if (from) {
		head = fitting_prefix(text, (width - n_dots) / 3, utf8, &head_width);
		put_safe(out, text, 0, head, utf8);
		fputs(dots, out);
		rest = fitting_prefix(text + from, width - head_width - n_dots, utf8, &rest_width);
		put_safe(out, text, from, from + rest, utf8);
	} else {
		text_fit(out, text, width, false, utf8);
	}
	if (fclose(out) != 0) {
		free(shown);
		return NULL;
	}
	return shown;
}

static int by_shown(const void *a, const void *b)
{
	const struct cut *x = a, *y = b;
	int order = strcmp(x->shown, y->shown);

	return order ? order : strcmp(x->cell->text, y->cell->text);
}

/* Where the i-th text begins to differ from the one that is most like it, which is beside it; back to
 * the beginning of the word. */
static size_t difference(const struct cut *cuts, size_t n, size_t i)
{
	const char *text = cuts[i].cell->text;
	size_t most = 0, back = 0, before = i, after = i;

	while (before > 0 && !strcmp(text, cuts[before].cell->text))
		before--;
	while (after + 1 < n && !strcmp(text, cuts[after].cell->text))
		after++;
	for (size_t k = before; k <= after; k += after > before ? after - before : 1) {
		size_t alike = 0;

		while (text[alike] && text[alike] == cuts[k].cell->text[alike])
			alike++;
		if (text[alike] != cuts[k].cell->text[alike] && alike > most)
			most = alike;
	}
	while (back < 6 && most > back + 1 && isalnum((unsigned char)text[most - back - 1]))
		back++;
	/* Not inside a character. */
	while (most > back && ((unsigned char)text[most - back] & 0xc0) == 0x80)
		back++;
	return most - back;
}

/* n cells look alike. *numbers: those given in this column, when they do though they show where they
 * differ; else NULL. */
static int show_apart(struct cut *cuts, size_t n, size_t width, size_t *numbers, bool utf8)
{
	for (size_t i = 0, texts = 0; i < n; i++) {
		bool another = !i || strcmp(cuts[i].cell->text, cuts[i - 1].cell->text) != 0;
		char number[24] = "", *shown, *whole;

		texts += another;
		if (numbers && texts == 1)
			continue;
		if (numbers) {
			*numbers += another;
			snprintf(number, sizeof(number), " #%zu", *numbers);
		}
		if (strlen(number) + FLEXIBLE_MIN / 2 > width)
			continue;
		shown = cut_text(cuts[i].cell->text, width - strlen(number), difference(cuts, n, i),
				 utf8);
		if (!shown || asprintf(&whole, "%s%s", shown, number) < 0) {
			free(shown);
			return -ENOMEM;
		}
		free(shown);
		free(cuts[i].shown);
		cuts[i].shown = whole;
	}
	return 0;
}

/* Cells of a column that differ and would look alike show where they do, or get a number. */
static int tell_cuts_apart(struct cut *cuts, size_t n, size_t width, bool utf8)
{
	size_t numbers = 1;

	for (int pass = 0; pass < 2; pass++) {
		qsort(cuts, n, sizeof(*cuts), by_shown);
		for (size_t i = 0, end; i < n; i = end) {
			for (end = i + 1; end < n && !strcmp(cuts[end].shown, cuts[i].shown);)
				end++;
			if (strcmp(cuts[i].cell->text, cuts[end - 1].cell->text) != 0 &&
			    show_apart(cuts + i, end - i, width, pass ? &numbers : NULL, utf8) < 0)
				return -ENOMEM;
		}
	}
	return 0;
}

/* Cuts the cells of a column that do not fit. */
static int cut_column(struct text_table *table, size_t column, size_t width, bool utf8)
{
	struct cut *cuts = calloc(table->n_cells / table->n_columns + 1, sizeof(*cuts));
	size_t n = 0;
	int r = cuts ? 0 : -ENOMEM;

	for (size_t i = column; r >= 0 && i < table->n_cells; i += table->n_columns) {
		char *shown;

		if (safe_width(table->cells[i].text, utf8) <= width)
			continue;
		shown = cut_text(table->cells[i].text, width, 0, utf8);
		if (shown)
			cuts[n++] = (struct cut){ &table->cells[i], shown };
		else
			r = -ENOMEM;
	}
	if (r >= 0 && n)
		r = tell_cuts_apart(cuts, n, width, utf8);
	for (size_t i = 0; i < n; i++)
		cuts[i].cell->shown = cuts[i].shown;
	free(cuts);
	return r;
}

static void print_row(const struct text_table *table, const struct text_layout *layout,
		      const size_t *widths, const struct table_cell *cells, FILE *out)
{
	put_spaces(out, (size_t)layout->indent);
	for (size_t c = 0; c < table->n_columns; c++) {
		const char *text = !cells	    ? table->columns[c].title
				   : cells[c].shown ? cells[c].shown
						    : cells[c].text;
		enum text_style style = cells ? cells[c].style : TEXT_DIM;
		bool right = table->columns[c].align == TEXT_RIGHT;
		size_t full = safe_width(text, layout->utf8), width = widths[c];

		put_spaces(out, c ? gap_of(layout) : 0);
		/* No blanks at the ends of lines: the last left-aligned cell is not padded. */
		if (c + 1 == table->n_columns && !right && full < width)
			width = full;
		fputs(text_style_on(style, layout->color), out);
		text_fit(out, text, width, right, layout->utf8);
		fputs(text_style_off(style, layout->color), out);
	}
	fputc('\n', out);
}

int text_table_print(struct text_table *table, const struct text_layout *layout, FILE *out)
{
	size_t *widths;
	int r = 0;

	if (table->failed)
		return table->failed;
	if (!table->n_columns || table->n_cells % table->n_columns)
		return -EINVAL;
	widths = calloc(table->n_columns, sizeof(*widths));
	if (!widths)
		return -ENOMEM;
	measure_columns(table, layout, widths);
	for (size_t c = 0; r >= 0 && c < table->n_columns; c++)
		if (table->columns[c].flexible)
			r = cut_column(table, c, widths[c], layout->utf8);
	if (r >= 0 && !layout->no_header)
		print_row(table, layout, widths, NULL, out);
	for (size_t i = 0; r >= 0 && i < table->n_cells; i += table->n_columns)
		print_row(table, layout, widths, table->cells + i, out);
	for (size_t i = 0; i < table->n_cells; i++) {
		free(table->cells[i].shown);
		table->cells[i].shown = NULL;
	}
	free(widths);
	return r;
}
