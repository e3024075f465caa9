/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages of blocks; see page.h.
 */
#include "subjects/pages/page.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define SIDES_LABEL 16 /* columns */

void page_release(struct page *page)
{
	for (size_t i = 0; i < page->n_grids; i++) {
		grid_release(page->grids[i]);
		free(page->grids[i]);
	}
	for (size_t i = 0; i < page->n_kept; i++)
		free(page->kept[i]);
	free(page->grids);
	free(page->kept);
	free(page->blocks);
	free(page->spans);
	buf_release(&page->text);
	*page = (struct page){ 0 };
}

static void page_out_of_memory(struct page *page)
{
	page->error = -ENOMEM;
}

void *page_keep(struct page *page, size_t bytes)
{
	void *memory = NULL;

	if (!page->error &&
	    array_grow(&page->kept, &page->kept_capacity, page->n_kept + 1, sizeof(void *)) >= 0)
		memory = calloc(1, bytes);
	if (memory)
		page->kept[page->n_kept++] = memory;
	else
		page_out_of_memory(page);
	return memory;
}

struct grid *page_grid(struct page *page)
{
	struct grid *grid = NULL;

	if (!page->error && array_grow(&page->grids, &page->grids_capacity, page->n_grids + 1,
				       sizeof(struct grid *)) >= 0)
		grid = calloc(1, sizeof(*grid));
	if (grid)
		page->grids[page->n_grids++] = grid;
	else
		page_out_of_memory(page);
	return grid;
}

const char *page_text(struct page *page, const char *format, ...)
{
	char *text;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(NULL, 0, format, args);
	va_end(args);
	text = page_keep(page, n < 0 ? 1 : (size_t)n + 1);
	if (!text)
		return NULL;
	va_start(args, format);
	vsnprintf(text, n < 0 ? 1 : (size_t)n + 1, format, args);
	va_end(args);
	return text;
}

static struct block *add_block(struct page *page, enum block_kind kind, int indent)
{
	struct block *block;

	if (page->error)
		return NULL;
	if (array_grow(&page->blocks, &page->capacity, page->n + 1, sizeof(*block)) < 0) {
		page_out_of_memory(page);
		return NULL;
	}
	block = &page->blocks[page->n++];
	*block = (struct block){ .kind = kind, .indent = indent, .spans = page->n_spans };
	return block;
}

/* To the last block. */
static struct page_span *add_page_span(struct page *page, enum span_kind kind, enum tone tone)
{
	struct page_span *span;

	if (page->error)
		return NULL;
	if (array_grow(&page->spans, &page->spans_capacity, page->n_spans + 1, sizeof(*span)) < 0) {
		page_out_of_memory(page);
		return NULL;
	}
	span = &page->spans[page->n_spans++];
	*span = (struct page_span){ .kind = kind, .tone = tone, .text = page->text.size };
	page->blocks[page->n - 1].n_spans++;
	return span;
}

const char *page_span_text(const struct page *page, const struct page_span *span)
{
	return page->text.data + span->text;
}

/* To the last span. The NUL of what is there gives way. */
static void append(struct page *page, bool first, const char *format, va_list args)
{
	struct buf *text = &page->text;
	va_list again;
	int n;
	char *room;

	if (page->error)
		return;
	va_copy(again, args);
	n = vsnprintf(NULL, 0, format, again);
	va_end(again);
	room = n < 0 ? NULL : buf_reserve(text, (size_t)n + 1);
	if (!room) {
		page_out_of_memory(page);
		return;
	}
	vsnprintf(first ? room : room - 1, (size_t)n + 1, format, args);
	text->size += (size_t)n + (first ? 1 : 0);
}

#define APPEND(page, first, format)                                                                \
	do {                                                                                       \
		va_list args;                                                                      \
		va_start(args, format);                                                            \
		append(page, first, format, args);                                                 \
		va_end(args);                                                                      \
	} while (0)

void page_empty_line(struct page *page)
{
	add_block(page, BLOCK_EMPTY, 0);
}

void page_title(struct page *page, const char *format, ...)
{
	page_empty_line(page);
	add_block(page, BLOCK_LINE, 0);
	add_page_span(page, SPAN_TEXT, TONE_STRONG);
	APPEND(page, true, format);
}

void page_line(struct page *page, int indent, const char *format, ...)
{
	add_block(page, BLOCK_LINE, indent);
	add_page_span(page, SPAN_TEXT, TONE_PLAIN);
	APPEND(page, true, format);
}

void page_words(struct page *page, int indent, int hang, const char *format, ...)
{
	struct block *block = add_block(page, BLOCK_WORDS, indent);

	if (block)
		block->hang = hang;
	add_page_span(page, SPAN_TEXT, TONE_PLAIN);
	APPEND(page, true, format);
}

void page_named(struct page *page, int indent, int hang, const char *text, const char *name,
		const char *words)
{
	page_words(page, indent, hang, "%s", text);
	page_put_in(page, TONE_PLAIN, "%s", name);
	page_put_in(page, TONE_PLAIN, "%s, %s", name, words);
	if (!page->error)
		page->blocks[page->n - 1].kind = BLOCK_NAMED;
}

static void put_mark(struct page *page, bool marked)
{
	page_put_in(page, marked ? TONE_WARNING : TONE_PLAIN, marked ? "!" : " ");
	page_put_in(page, TONE_PLAIN, " ");
}

void page_trouble(struct page *page, const char *format, ...)
{
	page_words(page, 0, 2, "%s", "");
	put_mark(page, true);
	page_put_in(page, TONE_PLAIN, "%s", "");
	APPEND(page, false, format);
}

void page_sides(struct page *page, bool marked, const char *label)
{
	add_block(page, BLOCK_SIDES, 0);
	put_mark(page, marked);
	page_put_fitted(page, label, SIDES_LABEL);
}

void page_side(struct page *page, const char *name, const char *value)
{
	page_put_in(page, TONE_PLAIN, "%s", name);
	page_put_in(page, TONE_PLAIN, "%s", value);
}

void page_parts(struct page *page, int indent)
{
	add_block(page, BLOCK_PARTS, indent);
}

void page_put(struct page *page, const char *format, ...)
{
	const struct page_span *last = page->n && page->blocks[page->n - 1].n_spans
					       ? &page->spans[page->n_spans - 1]
					       : NULL;
	bool more = last && last->kind == SPAN_TEXT && last->tone == TONE_PLAIN && !last->columns &&
		    !last->beside && !last->part;

	if (!more)
		add_page_span(page, SPAN_TEXT, TONE_PLAIN);
	APPEND(page, !more, format);
}

void page_put_in(struct page *page, enum tone tone, const char *format, ...)
{
	add_page_span(page, SPAN_TEXT, tone);
	APPEND(page, true, format);
}

void page_set_tone(struct page *page, enum tone tone)
{
	if (!page->error)
		page->spans[page->n_spans - 1].tone = tone;
}

void page_put_fitted(struct page *page, const char *text, size_t columns)
{
	page_put_in(page, TONE_PLAIN, "%s", text);
	if (!page->error)
		page->spans[page->n_spans - 1].columns = columns;
}

void page_put_filling(struct page *page, const char *text, int beside, bool padded)
{
	page_put_in(page, TONE_PLAIN, "%s", text);
	if (page->error)
		return;
	page->spans[page->n_spans - 1].beside = beside;
	page->spans[page->n_spans - 1].padded = padded;
}

void page_part(struct page *page, const char *format, ...)
{
	struct page_span *span = add_page_span(page, SPAN_TEXT, TONE_PLAIN);

	if (span)
		span->part = true;
	APPEND(page, true, format);
}

void page_parts_end(struct page *page, const char *instead, const char *remark)
{
	if (page->error)
		return;
	page->blocks[page->n - 1].instead = instead;
	page->blocks[page->n - 1].remark = remark;
}

void page_bar(struct page *page, double share, enum tone tone, int beside)
{
	struct page_span *span = add_page_span(page, SPAN_BAR, tone);

	if (!span)
		return;
	span->share = share;
	span->beside = beside;
}

void page_stack(struct page *page, struct stack stack, int beside)
{
	struct page_span *span = add_page_span(page, SPAN_STACK, TONE_PLAIN);

	if (!span)
		return;
	span->stack = stack;
	span->beside = beside;
}

void page_series(struct page *page, struct series series, int beside)
{
	struct page_span *span = add_page_span(page, SPAN_SERIES, TONE_PLAIN);

	if (!span)
		return;
	span->series = series;
	span->beside = beside;
}

void page_heat(struct page *page, struct heat heat, int beside, bool padded)
{
	struct page_span *span = add_page_span(page, SPAN_HEAT, TONE_PLAIN);

	if (!span)
		return;
	span->heat = heat;
	span->beside = beside;
	span->padded = padded;
}

void page_legend(struct page *page, int indent, struct stack stack)
{
	add_block(page, BLOCK_LEGEND, indent);
	page_stack(page, stack, 0);
}

struct block *page_table(struct page *page, const struct grid *grid, size_t limit,
			 const char *where)
{
	struct block *block = add_block(page, BLOCK_TABLE, 2);
	size_t at = page->n - 1;

	if (!block)
		return NULL;
	block->grid = grid;
	block->limit = limit;
	if (where)
		page_rest(page, 2, grid->n, limit, where);
	return page->error ? NULL : &page->blocks[at];
}

void page_rest(struct page *page, int indent, size_t n, size_t limit, const char *where)
{
	if (limit && limit < n)
		page_line(page, indent, "... %zu more%s", n - limit, where);
}
