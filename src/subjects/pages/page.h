/* SPDX-License-Identifier: Apache-2.0
 *
 * A page: what a subject tells people, as an ordered list of blocks. A block is a line or a table; a
 * line is made of spans: text, or a picture of figures (bar, stack, series, heat). Nothing here knows
 * how wide a page will be or how it is shown; surfaces do.
 *
 * A lack of memory sticks in `error`, so that a page is checked once, when it is whole. One thread.
 */
#ifndef SUBJECTS_PAGE_H
#define SUBJECTS_PAGE_H

#include "base/buf.h"
#include "subjects/pages/grid.h"

/* What a text means; surfaces have their own means to show it. */
enum tone {
	TONE_PLAIN,
	TONE_STRONG,
	TONE_FAINT,
	TONE_BAD,
	TONE_WARNING,
	TONE_GOOD,
	TONE_COOL,
};

typedef enum tone grid_tone(const struct grid_row *row, size_t column);

/* A part of a whole, in a stack and in its legend. */
struct stack_part {
	const char *name; /* NULL: not in the legend */
	double pct;
	enum tone tone;
	const char *mark; /* what fills its columns */
	char letter;	  /* the same where there is only ASCII */
};

struct stack {
	const struct stack_part *parts;
	size_t n;
};

/* Figures in time. */
struct series {
	const struct run *run;
	const void *of;
	/* Heights of 0 to `top` in at most `columns` columns; how many it has filled. */
	size_t (*heights)(const struct series *series, size_t columns, unsigned int top,
			  unsigned char *ret_heights);
};

/* Loads against their mean. */
struct heat {
	const uint64_t *loads;
	uint32_t n;
	double mean;
};

enum span_kind { SPAN_TEXT, SPAN_BAR, SPAN_STACK, SPAN_SERIES, SPAN_HEAT };

struct page_span {
	enum span_kind kind;
	enum tone tone;
	size_t text;	/* see page_span_text */
	size_t columns; /* text is padded to them and shortened in its middle; 0: as long as it is */
	/* Of pictures, and of text that has the room of one: columns that the rest of the line takes;
	 * padded: what follows begins at the same column everywhere. */
	int beside;
	bool padded;
	bool part; /* of a line of parts: left out where it does not fit */
	union {
		double share; /* of a bar: 0 to 1 */
		struct stack stack;
		struct series series;
		struct heat heat;
	};
};

enum block_kind {
	BLOCK_EMPTY,  /* a line */
	BLOCK_LINE,   /* as it is, even if it is wider than the page */
	BLOCK_WORDS,  /* its last span continues on lines that begin at `hang` */
	BLOCK_NAMED,  /* text, a name, and the name with words; see page_named */
	BLOCK_PARTS,  /* its parts up to the first that does not fit */
	BLOCK_LEGEND, /* of the stack in its only span */
	BLOCK_SIDES,  /* a label, and the names and values of its sides; see page_sides */
	BLOCK_TABLE,
};

/* Of a table with many columns alike, for narrow pages: as many of them as fit, then the next ones. */
struct table_pieces {
	const struct grid *const *tables; /* the table from each of these columns on */
	size_t n;			  /* of them; 0: it is one piece */
	size_t repeated;		  /* columns that stand before them in every piece */
	int beside, each; /* columns of the page that those take, and one of these */
};

struct block {
	enum block_kind kind;
	int indent, hang;
	size_t spans, n_spans; /* first, and how many */
	/* Of a line of parts, in order: what stands in place of parts that are left out; in brackets
	 * at the end, shortened where it must be. NULL: nothing. */
	const char *instead, *remark;
	/* Of a table. */
	const struct grid *grid;
	size_t limit;	 /* rows; 0: all */
	bool dense;	 /* many narrow columns: less room between them on a narrow page */
	grid_tone *tone; /* of a cell that is there; NULL: plain */
	struct table_pieces pieces;
};

struct page {
	struct block *blocks;
	size_t n, capacity;
	struct page_span *spans;
	size_t n_spans, spans_capacity;
	struct buf text;
	void **kept; /* memory that blocks point to */
	size_t n_kept, kept_capacity;
	struct grid **grids;
	size_t n_grids, grids_capacity;
	int error;
};

void page_release(struct page *page);

void page_empty_line(struct page *page);
/* After an empty line. */
void page_title(struct page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* These begin a line, to which page_put and the pictures add. */
void page_line(struct page *page, int indent, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void page_words(struct page *page, int indent, int hang, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* Text and, after it, name and words; a name that is longer than the line is shortened on one of its
 * own. */
void page_named(struct page *page, int indent, int hang, const char *text, const char *name,
		const char *words);
/* What casts doubt on figures. */
void page_trouble(struct page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Sides come by page_side: their values beside each other where all fit, else one below the other with
 * their names, since a value that is cut may hide what differs. marked: this casts doubt on figures. */
void page_sides(struct page *page, bool marked, const char *label);
void page_side(struct page *page, const char *name, const char *value);
/* Parts come by page_part; what is put before them is always there. */
void page_parts(struct page *page, int indent);

/* More of the text before. */
void page_put(struct page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A span of its own. */
void page_put_in(struct page *page, enum tone tone, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Of the last span. */
void page_set_tone(struct page *page, enum tone tone);
/* In exactly so many columns. */
void page_put_fitted(struct page *page, const char *text, size_t columns);
/* In what the rest of the line leaves; see struct page_span. */
void page_put_filling(struct page *page, const char *text, int beside, bool padded);
void page_part(struct page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Texts outlive the page. */
void page_parts_end(struct page *page, const char *instead, const char *remark);

/* beside: see struct page_span. */
void page_bar(struct page *page, double share, enum tone tone, int beside);
void page_stack(struct page *page, struct stack stack, int beside);
void page_series(struct page *page, struct series series, int beside);
void page_heat(struct page *page, struct heat heat, int beside, bool padded);
void page_legend(struct page *page, int indent, struct stack stack);

/* The grid outlives the page. where: of the rows that the limit leaves out, as in
 * "... 3 more: moescope ops"; NULL: no word about them. The block, for what is seldom said of it; NULL:
 * no memory. */
struct block *page_table(struct page *page, const struct grid *grid, size_t limit,
			 const char *where);
/* The line about what is left out, if anything is. */
void page_rest(struct page *page, int indent, size_t n, size_t limit, const char *where);
#define PAGE_MORE_ROWS " rows (--limit 0 shows all)"

/* Memory, a text and an empty grid that live as long as the page; NULL: there is none. */
void *page_keep(struct page *page, size_t bytes);
const char *page_text(struct page *page, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
struct grid *page_grid(struct page *page);

const char *page_span_text(const struct page *page, const struct page_span *span);

#endif
