/* SPDX-License-Identifier: Apache-2.0
 *
 * Markdown; see markdown.h.
 */
#include "surfaces/markdown/markdown.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"
#include "surfaces/text/grid_text.h"
#include "surfaces/text/page_text.h"

#define CODE_INDENT 4 /* columns; so far right, nothing is markup */

/* Underscores inside a word are never markup, and most are there. */
static bool is_markup(const char *at, char before)
{
	if (*at == '_')
		return !isalnum((unsigned char)before) || !isalnum((unsigned char)at[1]);
	return strchr("\\`*[]|#~$", *at);
}

void markdown_text(const char *text, FILE *out)
{
	size_t length = strlen(text);
	char before = ' ';

	while (length) {
		uint32_t point;
		int valid;
		size_t n = utf8_decode(text, length, &point, &valid);

		if (!valid || !utf8_is_harmless(point))
			fputc(*text == '\n' || *text == '\t' ? ' ' : '?', out);
		else if (*text == '<')
			fputs("&lt;", out);
		else if (*text == '&')
			fputs("&amp;", out);
		else if (is_markup(text, before))
			fprintf(out, "\\%c", *text);
		else
			fwrite(text, 1, n, out);
		before = *text;
		text += n;
		length -= n;
	}
}

static void put_cell(const char *text, FILE *out)
{
	fputc(' ', out);
	markdown_text(text, out);
	fputs(" |", out);
}

static void put_head(const struct grid *grid, FILE *out)
{
	fputc('|', out);
	for (size_t c = 0; c < grid->n_columns; c++)
		if (grid->columns[c].title)
			put_cell(grid->columns[c].title, out);
	fputs("\n|", out);
	for (size_t c = 0; c < grid->n_columns; c++)
		if (grid->columns[c].title)
			fputs(grid->columns[c].unit == UNIT_TEXT ? "---|" : "---:|", out);
	fputc('\n', out);
}

void grid_markdown(const struct grid *grid, size_t limit, FILE *out)
{
	size_t rows = grid_shown(grid, limit);

	put_head(grid, out);
	for (size_t i = 0; i < rows; i++) {
		fputc('|', out);
		for (size_t c = 0; c < grid->n_columns; c++) {
			const struct cell *cell = &grid->rows[i].cells[c];
			char text[512];

			if (!grid->columns[c].title)
				continue;
			grid_cell_text(text, sizeof(text), cell, grid->columns[c].unit);
			put_cell(cell->kind == CELL_TEXT ? cell->s : text, out);
		}
		fputc('\n', out);
	}
}

static bool is_title(const struct page *page, const struct block *block)
{
	const struct page_span *span = &page->spans[block->spans];

	return block->kind == BLOCK_LINE && !block->indent && block->n_spans == 1 &&
	       span->kind == SPAN_TEXT && span->tone == TONE_STRONG;
}

static bool is_lines(const struct page *page, const struct block *block)
{
	return block->kind != BLOCK_TABLE && !is_title(page, block);
}

/* As a block of code, which keeps their columns. */
static int put_lines(const struct page *page, size_t first, size_t n,
		     const struct text_layout *layout, FILE *out)
{
	struct page lines = *page;
	char *text = NULL, *line, *rest;
	size_t size;
	FILE *memory = open_memstream(&text, &size);
	int r;

	if (!memory)
		return -ENOMEM;
	lines.blocks = &page->blocks[first];
	lines.n = n;
	r = page_print(&lines, layout, memory);
	if (fclose(memory) != 0 && r >= 0)
		r = -ENOMEM;
	for (rest = text; r >= 0 && (line = strsep(&rest, "\n")) && rest;)
		fprintf(out, "%*s%s\n", *line ? CODE_INDENT : 0, "", line);
	free(text);
	return r;
}

int page_markdown(const struct page *page, const struct text_layout *layout, FILE *out)
{
	struct text_layout inside = *layout;
	int r = page->error;
	bool first = true;

	inside.color = false;
	for (size_t i = 0, n; r >= 0 && i < page->n; i += n) {
		const struct block *block = &page->blocks[i];
		size_t last;

		n = 1;
		/* Empty lines part what stands between them, and so does every change of kind. */
		if (block->kind == BLOCK_EMPTY)
			continue;
		if (!first)
			fputc('\n', out);
		first = false;
		if (block->kind == BLOCK_TABLE) {
			grid_markdown(block->grid, block->limit, out);
		} else if (is_title(page, block)) {
			fputs("### ", out);
			markdown_text(page_span_text(page, &page->spans[block->spans]), out);
			fputc('\n', out);
		} else {
			while (i + n < page->n && is_lines(page, &page->blocks[i + n]))
				n++;
			for (last = n; page->blocks[i + last - 1].kind == BLOCK_EMPTY;)
				last--;
			r = put_lines(page, i, last, &inside, out);
		}
	}
	return r;
}
