/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages as text; see page_text.h.
 */
#include "surfaces/text/page_text.h"

#include <math.h>
#include <string.h>

#include "base/text/utf8.h"
#include "surfaces/text/grid_text.h"

#define NARROW 92	   /* columns; below, dense tables have less room between theirs */
#define SHORTEST_REMARK 20 /* columns; less of it says nothing */
#define SERIES_MOST 4096   /* columns */
#define SIDES_LEAD 3	   /* spans before the sides: a mark, a space, the label */
#define SIDE_INDENT 4	   /* columns; of sides below each other */
#define SIDE_NAME 12
#define SIDE_GAP 2

struct printer {
	const struct page *page;
	const struct text_layout *layout;
	FILE *out;
};

static void tone_on(const struct printer *p, enum tone tone)
{
	fputs(text_style_on(text_styles[tone], p->layout->color), p->out);
}

static void tone_off(const struct printer *p, enum tone tone)
{
	fputs(text_style_off(text_styles[tone], p->layout->color), p->out);
}

static void put_mark(const struct printer *p, const char *mark, char letter)
{
	if (p->layout->utf8)
		fputs(mark, p->out);
	else
		fputc(letter, p->out);
}

static void put_bar(const struct printer *p, double share, int width)
{
	static const char *const eighths[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
	int units, whole;

	if (!(share > 0))
		return;
	/* ASCII has whole columns alone. */
	units = p->layout->utf8 ? (int)lround(fmin(share, 1) * width * 8)
				: 8 * (int)lround(fmin(share, 1) * width);
	whole = units / 8;
	for (int i = 0; i < whole; i++)
		put_mark(p, "█", '#');
	fputs(eighths[units % 8], p->out);
}

static void put_stack(const struct printer *p, const struct stack *stack, int width)
{
	double done = 0;
	int column = 0;

	for (size_t i = 0; i < stack->n; i++) {
		const struct stack_part *part = &stack->parts[i];
		int end;

		done += part->pct;
		end = (int)lround(done / 100 * width);
		tone_on(p, part->tone);
		for (; column < end; column++)
			put_mark(p, part->mark, part->letter);
		tone_off(p, part->tone);
	}
}

static void put_series(const struct printer *p, const struct series *series, int width)
{
	static const char *const marks[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	static const char letters[] = "_.,-=+*#";
	unsigned char heights[SERIES_MOST];
	size_t n = width > 0 ? (size_t)width : 0;

	n = series->heights(series, n < SERIES_MOST ? n : SERIES_MOST, 7, heights);
	for (size_t i = 0; i < n; i++)
		put_mark(p, marks[heights[i]], letters[heights[i]]);
}

/* One character for load against the mean: empty, then eight heights; 1 is the middle. */
static void put_load(const struct printer *p, double load_to_mean)
{
	static const char *const marks[] = { "·", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	static const char letters[] = "_.:-=+*%@";
	enum tone tone = load_to_mean > 1.5   ? TONE_BAD
			 : load_to_mean < 0.5 ? TONE_WARNING
					      : TONE_GOOD;
	/* Height 4 of 8 is the mean, 8 is twice it or more; only zero is empty. */
	int level = load_to_mean <= 0 ? 0 : (int)lround(load_to_mean * 4);

	level = load_to_mean > 0 && level < 1 ? 1 : level > 8 ? 8 : level;
	tone_on(p, tone);
	put_mark(p, marks[level], letters[level]);
	tone_off(p, tone);
}

/* Neighbours together by their largest; returns the columns used. */
static int put_heat(const struct printer *p, const struct heat *heat, int width)
{
	uint32_t per_column = (heat->n + (uint32_t)width - 1) / (uint32_t)width;
	int used = 0;

	for (uint32_t e = 0; e < heat->n; e += per_column) {
		uint64_t largest = 0;

		for (uint32_t i = e; i < heat->n && i < e + per_column; i++)
			largest = heat->loads[i] > largest ? heat->loads[i] : largest;
		put_load(p, heat->mean > 0 ? (double)largest / heat->mean : 0);
		used++;
	}
	return used;
}

static void put_text(const struct printer *p, const struct page_span *span, int width)
{
	const char *text = page_span_text(p->page, span);
	size_t columns = span->columns;

	if (span->beside) {
		columns = width > 0 ? (size_t)width : 0;
		if (!span->padded && utf8_width(text) < columns)
			columns = utf8_width(text);
	}
	if (span->columns || span->beside)
		text_fit(p->out, text, columns, false, p->layout->utf8);
	else
		text_put(p->out, text, true);
}

static void put_span(const struct printer *p, const struct page_span *span)
{
	int width = p->layout->width - span->beside, used;

	tone_on(p, span->tone);
	switch (span->kind) {
	case SPAN_TEXT:
		put_text(p, span, width);
		break;
	case SPAN_BAR:
		put_bar(p, span->share, width);
		break;
	case SPAN_STACK:
		put_stack(p, &span->stack, width);
		break;
	case SPAN_SERIES:
		put_series(p, &span->series, width);
		break;
	case SPAN_HEAT:
		used = put_heat(p, &span->heat, width);
		fprintf(p->out, "%*s", span->padded ? width - used : 0, "");
		break;
	}
	tone_off(p, span->tone);
}

/* Columns of the first n spans, which are texts, and of the indent. */
static size_t columns_of(const struct printer *p, const struct block *block, size_t n)
{
	const struct page_span *spans = &p->page->spans[block->spans];
	size_t columns = (size_t)block->indent;

	for (size_t i = 0; i < n; i++)
		columns += spans[i].columns ? spans[i].columns
					    : utf8_width(page_span_text(p->page, &spans[i]));
	return columns;
}

static void print_line(const struct printer *p, const struct block *block)
{
	for (size_t i = 0; i < block->n_spans; i++)
		put_span(p, &p->page->spans[block->spans + i]);
	fputc('\n', p->out);
}

static void print_words(const struct printer *p, const struct block *block)
{
	const struct page_span *spans = &p->page->spans[block->spans];
	size_t last = block->n_spans - 1;

	for (size_t i = 0; i < last; i++)
		put_span(p, &spans[i]);
	tone_on(p, spans[last].tone);
	text_wrap(p->out, page_span_text(p->page, &spans[last]), (size_t)p->layout->width,
		  columns_of(p, block, last), (size_t)block->hang);
	tone_off(p, spans[last].tone);
}

/* Of a long name the end tells most. */
static void print_named(const struct printer *p, const struct block *block)
{
	const struct page_span *spans = &p->page->spans[block->spans];
	const char *name = page_span_text(p->page, &spans[1]);
	const char *words = page_span_text(p->page, &spans[2]);
	size_t width = (size_t)p->layout->width, hang = (size_t)block->hang;
	size_t at = columns_of(p, block, 1), room = width > at + 20 ? width - at : 20;

	put_span(p, &spans[0]);
	if (strcspn(name, " ") > room) {
		text_fit(p->out, name, room, false, p->layout->utf8);
		fprintf(p->out, "\n%*s", block->hang, "");
		text_wrap(p->out, words + strlen(name) + strlen(", "), width, hang, hang);
	} else {
		text_wrap(p->out, words, width, at, hang);
	}
}

/* One column at the right stays free. */
static void print_parts(const struct printer *p, const struct block *block)
{
	const struct page_span *spans = &p->page->spans[block->spans];
	size_t i = 0, width = (size_t)p->layout->width - 1;
	size_t instead = block->instead ? strlen(block->instead) : 0;
	size_t remark = block->remark ? strlen(block->remark) : 0, at, room;

	for (; i < block->n_spans && !spans[i].part; i++)
		put_span(p, &spans[i]);
	at = columns_of(p, block, i);
	for (; i < block->n_spans; i++) {
		size_t columns = strlen(page_span_text(p->page, &spans[i]));

		if (at + columns + instead > width)
			break;
		put_span(p, &spans[i]);
		at += columns;
	}
	if (i < block->n_spans && instead) {
		fputs(block->instead, p->out);
		at += instead;
	}
	room = width > at ? width - at : 0;
	/* Remarks are ours, and plain ASCII. */
	if (remark && remark + 3 <= room)
		fprintf(p->out, " (%s)", block->remark);
	else if (remark && room >= SHORTEST_REMARK)
		fprintf(p->out, " (%.*s...)", (int)room - 6, block->remark);
	fputc('\n', p->out);
}

static void print_legend(const struct printer *p, const struct block *block)
{
	const struct stack *stack = &p->page->spans[block->spans].stack;
	int column = block->indent;

	for (size_t i = 0; i < stack->n; i++) {
		const struct stack_part *part = &stack->parts[i];
		char words[48];
		int n;

		if (!part->name)
			continue;
		n = snprintf(words, sizeof(words), " %s %.*f%%", part->name,
			     fabs(part->pct) < 9.95 ? 1 : 0, part->pct);
		if (column > block->indent && column + 3 + n > p->layout->width) {
			fprintf(p->out, "\n%*s", block->indent, "");
			column = block->indent;
		}
		fputs(column > block->indent ? "  " : "", p->out);
		column += (column > block->indent ? 2 : 0) + 1 + n;
		tone_on(p, part->tone);
		put_mark(p, part->mark, part->letter);
		tone_off(p, part->tone);
		fputs(words, p->out);
	}
	fputc('\n', p->out);
}

/* What each side has beside the others; 0: they do not all fit. */
static size_t side_room(const struct printer *p, const struct block *block)
{
	const struct page_span *spans = &p->page->spans[block->spans];
	size_t lead = columns_of(p, block, SIDES_LEAD), width = (size_t)p->layout->width;
	size_t sides = (block->n_spans - SIDES_LEAD) / 2;
	size_t each = width > lead ? (width - lead) / sides : 0;

	if (each <= SIDE_GAP)
		return 0;
	each -= SIDE_GAP;
	for (size_t i = SIDES_LEAD; i < block->n_spans; i += 2)
		if (strlen(page_span_text(p->page, &spans[i + 1])) > each)
			return 0;
	return each;
}

static void print_sides(const struct printer *p, const struct block *block)
{
	const struct page_span *spans = &p->page->spans[block->spans];
	size_t each = side_room(p, block), at = SIDE_INDENT + SIDE_NAME + SIDE_GAP;
	bool utf8 = p->layout->utf8;

	for (size_t i = 0; i < SIDES_LEAD - (each ? 0 : 1); i++)
		put_span(p, &spans[i]);
	if (!each) {
		text_put(p->out, page_span_text(p->page, &spans[SIDES_LEAD - 1]), utf8);
		fputc('\n', p->out);
	}
	for (size_t i = SIDES_LEAD; i < block->n_spans; i += 2) {
		const char *value = page_span_text(p->page, &spans[i + 1]);

		fprintf(p->out, "%*s", each ? SIDE_GAP : SIDE_INDENT, "");
		if (!each) {
			text_fit(p->out, page_span_text(p->page, &spans[i]), SIDE_NAME, false,
				 utf8);
			fprintf(p->out, "%*s", SIDE_GAP, "");
			text_wrap(p->out, value, (size_t)p->layout->width, at, at);
		} else if (i + 2 < block->n_spans) {
			text_fit(p->out, value, each, false, utf8);
		} else {
			text_put(p->out, value, utf8);
			fputc('\n', p->out);
		}
	}
}

/* With an empty line between them. */
static int print_pieces(const struct printer *p, const struct block *block,
			const struct text_layout *layout)
{
	const struct table_pieces *pieces = &block->pieces;
	int room = layout->width - pieces->beside, r = 0;
	size_t fit = room > pieces->each ? (size_t)(room / pieces->each) : 1;

	for (size_t i = 0; r >= 0 && i < pieces->n; i += fit) {
		struct grid piece = *pieces->tables[i];

		if (piece.n_columns > pieces->repeated + fit)
			piece.n_columns = pieces->repeated + fit;
		if (i)
			fputc('\n', p->out);
		r = grid_print(&piece, block->limit, block->tone, layout, p->out);
	}
	return r;
}

static int print_table(const struct printer *p, const struct block *block)
{
	struct text_layout layout = *p->layout;

	layout.indent = block->indent;
	if (block->dense)
		layout.gap = layout.width < NARROW ? 1 : 2;
	if (block->pieces.n)
		return print_pieces(p, block, &layout);
	return grid_print(block->grid, block->limit, block->tone, &layout, p->out);
}

int page_print(const struct page *page, const struct text_layout *layout, FILE *out)
{
	static void (*const print[])(const struct printer *p, const struct block *block) = {
		[BLOCK_EMPTY] = print_line,  [BLOCK_LINE] = print_line,
		[BLOCK_WORDS] = print_words, [BLOCK_NAMED] = print_named,
		[BLOCK_PARTS] = print_parts, [BLOCK_LEGEND] = print_legend,
		[BLOCK_SIDES] = print_sides,
	};
	struct printer printer = { page, layout, out };
	int r = page->error;

	for (size_t i = 0; r >= 0 && i < page->n; i++) {
		const struct block *block = &page->blocks[i];

		if (block->kind == BLOCK_TABLE) {
			r = print_table(&printer, block);
			continue;
		}
		fprintf(out, "%*s", block->indent, "");
		print[block->kind](&printer, block);
	}
	return r;
}
