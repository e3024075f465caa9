/* SPDX-License-Identifier: Apache-2.0
 *
 * A comparison for people: what is compared, what differs in the runs themselves, several groups side
 * by side, then each group against the baseline. See comparison.h.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text/format.h"
#include "documents/comparison.h"

#define HEADING_NAME 30 /* columns of a name */
#define COLUMN_NAME 10
#define ROOM_FOR_P 100 /* columns of a page */
/* A metric with more rows than this, layers mostly, shows only those that differ. */
#define FAMILY_ROWS 8
#define EXPLAINING_ROWS 3

/* A text that lives as long as the page, in a cell. */
#define WORDS(page, ...) cell_text(page_text(page, __VA_ARGS__))

static struct cell value_cell(struct page *page, struct value value, enum figure_unit unit)
{
	static struct format (*const formats[])(double value) = {
		[FIGURE_NS] = format_ns,       [FIGURE_COUNT] = format_count,
		[FIGURE_BYTES] = format_bytes, [FIGURE_PCT] = format_pct,
		[FIGURE_RATIO] = format_ratio, [FIGURE_RATE] = format_rate,
	};

	return value.known ? WORDS(page, "%s", formats[unit](value.v).text) : cell_absent(NULL);
}

/* "+1.25": more than the baseline. */
static const char *sign(double v)
{
	return v > 0 ? "+" : "";
}

static struct cell pct_cell(struct page *page, struct value pct)
{
	return pct.known ? WORDS(page, "%s%s", sign(pct.v), format_pct(pct.v).text)
			 : cell_absent(NULL);
}

static struct cell interval_cell(struct page *page, const struct difference *d)
{
	struct format low;

	if (!d->low_pct.known || !d->high_pct.known)
		return cell_absent(NULL);
	low = format_pct(d->low_pct.v);
	low.text[strcspn(low.text, "%")] = '\0';
	return WORDS(page, "%s%s..%s%s", sign(d->low_pct.v), low.text, sign(d->high_pct.v),
		     format_pct(d->high_pct.v).text);
}

static struct cell p_cell(struct page *page, struct value p)
{
	if (!p.known)
		return cell_absent(NULL);
	return p.v < 1e-4 ? cell_text("<0.0001") : WORDS(page, "%.4f", p.v);
}

/* "faster" "slower" where it is about speed, else "better" "worse". */
static struct cell verdict_cell(struct page *page, const struct difference *d, bool speed)
{
	switch (d->verdict) {
	case COMPARE_BETTER:
		return cell_text(speed ? "faster" : "better");
	case COMPARE_WORSE:
		return cell_text(speed ? "slower" : "worse");
	case COMPARE_NOISE:
		if (!d->visible_pct.known || d->visible_pct.v >= 1000)
			break;
		return WORDS(page, "noise, <%s", format_pct(d->visible_pct.v).text);
	case COMPARE_ABSENT:
		return cell_absent(NULL);
	case COMPARE_SAME:
	case COMPARE_UNTESTED:
		break;
	}
	return cell_text(compare_verdict_name(d->verdict));
}

static enum tone verdict_tone(enum compare_verdict verdict)
{
	return verdict == COMPARE_BETTER  ? TONE_GOOD
	       : verdict == COMPARE_WORSE ? TONE_BAD
					  : TONE_FAINT;
}

/* A table whose columns, and the tones of whose rows, live as long as the page. NULL: no memory. */
static struct grid *table_of(struct page *page, const struct grid_column *columns, size_t n)
{
	struct grid *grid = page_grid(page);
	struct grid_column *own = page_keep(page, n * sizeof(*own));

	if (!grid || !own)
		return NULL;
	memcpy(own, columns, n * sizeof(*own));
	grid_init(grid, own, n);
	return grid;
}

static struct cell *add_row(struct page *page, struct grid *grid, enum tone **ret_tones)
{
	struct cell *cells;

	*ret_tones = page_keep(page, grid->n_columns * sizeof(**ret_tones));
	cells = *ret_tones ? grid_add(grid, *ret_tones) : NULL;
	if (!cells)
		page->error = -ENOMEM;
	return cells;
}

static enum tone tone_of(const struct grid_row *row, size_t column)
{
	const enum tone *tones = row->item;

	return tones[column];
}

static struct block *put_table(struct page *page, const struct grid *grid)
{
	struct block *block = page_table(page, grid, 0, NULL);

	if (block)
		block->tone = tone_of;
	return block;
}

/* The title of a group's column; a long name is in the heading above. */
static const char *column_title(const char *name, const char *instead)
{
	return strlen(name) <= COLUMN_NAME ? name : instead;
}

enum { NAME, BASELINE, COMPARED, DIFF, INTERVAL, P, VERDICT, DIFFERENCE_COLUMNS };

/* A table whose rows begin with a name and go on with a difference. */
static struct grid *difference_table(struct page *page, const struct compare_pair *pair,
				     const char *first)
{
	const struct grid_column columns[DIFFERENCE_COLUMNS] = {
		[NAME] = { .title = first, .flexible = true },
		[BASELINE] = { .title = column_title(pair->base->name, "baseline"),
			       .unit = UNIT_RATIO },
		[COMPARED] = { .title = column_title(pair->other->name, "compared"),
			       .unit = UNIT_RATIO },
		[DIFF] = { .title = "diff", .unit = UNIT_PCT },
		[INTERVAL] = { .title = "95% interval", .unit = UNIT_PCT },
		[P] = { .title = "p", .unit = UNIT_RATIO, .from_width = ROOM_FOR_P },
		[VERDICT] = { .title = "verdict" },
	};

	return table_of(page, columns, DIFFERENCE_COLUMNS);
}

static void add_difference(struct page *page, struct grid *grid, const char *name,
			   const struct difference *d, enum figure_unit unit, struct cell verdict)
{
	enum tone *tones;
	struct cell *cells = add_row(page, grid, &tones);

	if (!cells)
		return;
	cells[NAME] = cell_text(name);
	cells[BASELINE] = value_cell(page, d->a, unit);
	cells[COMPARED] = value_cell(page, d->b, unit);
	cells[DIFF] = pct_cell(page, d->pct);
	cells[INTERVAL] = interval_cell(page, d);
	cells[P] = p_cell(page, d->p_adjusted);
	cells[VERDICT] = verdict;
	tones[VERDICT] = verdict_tone(d->verdict);
}

/* "metric[of]" */
static const char *figure_name(struct page *page, const struct compare_figure *f)
{
	const char *name = compare_metrics[f->metric].name;

	return f->of[0] ? page_text(page, "%s[%s]", name, f->of) : name;
}

static void heading(const struct comparison *c, struct page *page)
{
	page_line(page, 0, "moescope compare");
	page_set_tone(page, TONE_STRONG);
	for (size_t g = 0; g < c->n_groups; g++) {
		const struct compare_group *group = &c->groups[g];
		size_t steps = 0, covered = 0;

		for (size_t i = 0; i < group->n; i++) {
			steps += group->runs[i].steps;
			covered += group->runs[i].covered;
		}
		page_line(page, 2, g ? "         " : "baseline ");
		if (strlen(group->name) <= HEADING_NAME)
			page_put(page, "%s", group->name);
		else
			page_put_fitted(page, group->name, HEADING_NAME);
		page_put(page, ": %zu run%s", group->n, group->n == 1 ? "" : "s");
		if (group->runs[0].whole)
			page_put(page, group->n == 1 ? " as a whole" : ", each as a whole");
		else
			page_put(page, ", %zu steps", steps);
		if (covered && covered < steps)
			page_put(page, ", device records of %zu", covered);
	}
}

static void facts(const struct comparison *c, struct page *page)
{
	if (!c->n_facts)
		return;
	page_empty_line(page);
	page_line(page, 2, "these differ:");
	for (size_t i = 0; i < c->n_facts; i++) {
		const struct compare_fact *fact = &c->facts[i];

		page_sides(page, fact->doubtful, fact->key);
		for (size_t g = 0; g < c->n_groups; g++)
			page_side(page, c->groups[g].name, fact->values[g]);
	}
}

/* One past the last figure of the metric of the first. */
static size_t family_end(const struct compare_pair *pair, size_t first)
{
	size_t end = first;

	while (end < pair->n && pair->figures[end].metric == pair->figures[first].metric)
		end++;
	return end;
}

static const struct compare_figure *same_figure(const struct compare_pair *pair,
						const struct compare_figure *f)
{
	for (size_t i = 0; i < pair->n; i++)
		if (pair->figures[i].metric == f->metric && !strcmp(pair->figures[i].of, f->of))
			return &pair->figures[i];
	return NULL;
}

/* "1.03 ms +3.0%" */
static struct cell side_cell(struct page *page, const struct compare_figure *f)
{
	struct cell value = f ? value_cell(page, f->d.b, compare_metrics[f->metric].unit)
			      : cell_absent(NULL);

	if (value.kind == CELL_ABSENT)
		return value;
	if (f->d.verdict == COMPARE_NOISE)
		return WORDS(page, "%s noise", value.s);
	return f->d.pct.known ? WORDS(page, "%s %s", value.s, pct_cell(page, f->d.pct).s) : value;
}

static void add_side_row(const struct comparison *c, size_t first, const struct compare_figure *f,
			 struct grid *grid, struct page *page)
{
	enum tone *tones;
	struct cell *cells = add_row(page, grid, &tones);

	if (!cells)
		return;
	cells[NAME] = cell_text(figure_name(page, f));
	cells[BASELINE] = value_cell(page, f->d.a, compare_metrics[f->metric].unit);
	for (size_t i = COMPARED; i < grid->n_columns; i++) {
		const struct compare_figure *other = same_figure(&c->pairs[first + i - COMPARED],
								 f);

		cells[i] = side_cell(page, other);
		if (other)
			tones[i] = verdict_tone(other->d.verdict);
	}
}

/* The groups from that of a pair on beside the baseline, with the figures of that pair; metrics of many
 * rows are in the tables of the pairs alone. NULL: no memory. */
static const struct grid *side_table(const struct comparison *c, size_t first, struct page *page)
{
	const struct compare_pair *pair = &c->pairs[first];
	size_t n = COMPARED + c->n_groups - 1 - first;
	struct grid_column *columns = page_keep(page, n * sizeof(*columns));
	struct grid *grid = page_grid(page);

	if (!columns || !grid)
		return NULL;
	columns[NAME] = (struct grid_column){ .title = "figure", .flexible = true };
	columns[BASELINE] = (struct grid_column){ .title = pair->base->name, .unit = UNIT_RATIO };
	for (size_t i = COMPARED; i < n; i++)
		columns[i] = (struct grid_column){
			.title = c->pairs[first + i - COMPARED].other->name, .unit = UNIT_RATIO
		};
	grid_init(grid, columns, n);
	for (size_t i = 0, end; i < pair->n; i = end) {
		end = family_end(pair, i);
		for (size_t j = i; end - i <= FAMILY_ROWS && j < end; j++)
			add_side_row(c, first, &pair->figures[j], grid, page);
	}
	return grid;
}

static void side_by_side(const struct comparison *c, struct page *page)
{
	size_t n = c->n_groups - 1;
	const struct grid **tables;
	struct block *block;

	if (n < 2)
		return;
	tables = page_keep(page, n * sizeof(*tables));
	for (size_t i = 0; tables && i < n; i++)
		tables[i] = side_table(c, i, page);
	page_empty_line(page);
	block = tables ? put_table(page, tables[0]) : NULL;
	if (block)
		block->pieces = (struct table_pieces){
			.tables = tables, .n = n, .repeated = COMPARED, .beside = 32, .each = 21
		};
}

static bool is_quiet(const struct difference *d)
{
	return d->verdict == COMPARE_NOISE || d->verdict == COMPARE_SAME;
}

/* Metrics that one side lacks, by the reason. */
static void absent_figures(const struct compare_pair *pair, struct page *page)
{
	for (size_t i = 0; i < pair->n; i++) {
		const struct compare_figure *first = &pair->figures[i];
		bool named = first->d.verdict != COMPARE_ABSENT;

		for (size_t j = 0; j < i && !named; j++)
			named = pair->figures[j].d.verdict == COMPARE_ABSENT &&
				!strcmp(pair->figures[j].d.diff.reason, first->d.diff.reason);
		if (named)
			continue;
		page_words(page, 2, 2, "not compared: %s", figure_name(page, first));
		for (size_t j = i + 1; j < pair->n; j++) {
			const struct compare_figure *f = &pair->figures[j];

			if (f->d.verdict == COMPARE_ABSENT &&
			    !strcmp(f->d.diff.reason, first->d.diff.reason))
				page_put(page, ", %s", figure_name(page, f));
		}
		page_put(page, "; '%s': %s.",
			 first->d.a.known ? pair->other->name : pair->base->name,
			 first->d.diff.reason);
	}
}

static void figures(const struct compare_pair *pair, struct page *page)
{
	struct grid *grid = difference_table(page, pair, "figure");
	size_t there = 0, hidden[COMPARE_METRICS] = { 0 };

	for (size_t i = 0, end; grid && i < pair->n; i = end) {
		end = family_end(pair, i);
		for (size_t j = i; j < end; j++) {
			const struct compare_figure *f = &pair->figures[j];
			const struct compare_metric *metric = &compare_metrics[f->metric];

			if (f->d.verdict == COMPARE_ABSENT)
				continue;
			there++;
			if (end - i > FAMILY_ROWS && is_quiet(&f->d))
				hidden[f->metric]++;
			else
				add_difference(page, grid, figure_name(page, f), &f->d,
					       metric->unit,
					       verdict_cell(page, &f->d, metric->speed));
		}
	}
	if (there)
		put_table(page, grid);
	else
		page_line(page, 2, "nothing can be compared");
	for (int m = 0; m < COMPARE_METRICS; m++)
		if (hidden[m])
			page_line(page, 2, "%s: %zu rows of noise are not shown (--json has them)",
				  compare_metrics[m].name, hidden[m]);
	absent_figures(pair, page);
}

/* The rows that explain most of the difference of the step time. */
static void explanation(const struct compare_pair *pair, enum compare_table which, const char *what,
			struct page *page)
{
	const struct compare_rows *rows = &pair->tables[which];
	size_t shown = 0;

	for (size_t i = 0; i < rows->n && shown < EXPLAINING_ROWS; i++) {
		const struct compare_row *row = &rows->rows[i];

		if (pair->whole || !row->explains_pct.known || is_quiet(&row->d))
			continue;
		if (!shown++)
			page_words(page, 2, 2, "Of the step's difference, %s: ", what);
		else
			page_put(page, ", ");
		page_put(page, "%s %s%s (%s%s)", row->short_name, sign(row->explains_pct.v),
			 format_pct(row->explains_pct.v).text, sign(row->d.diff.v),
			 format_ns(row->d.diff.v).text);
	}
}

static struct cell calls_cell(struct page *page, const struct compare_row *row)
{
	struct format a = format_count(row->count_a.v), b = format_count(row->count_b.v);

	return row->count_a.v == row->count_b.v ? WORDS(page, "%s", b.text)
						: WORDS(page, "%s>%s", a.text, b.text);
}

/* "new" and "gone" where one side has no such row. */
static struct cell row_verdict(struct page *page, const struct compare_row *row,
			       const struct difference *d)
{
	return row->is_new    ? cell_text("new")
	       : row->is_gone ? cell_text("gone")
			      : verdict_cell(page, d, true);
}

/* Of whole runs: the change of the sum, and what it is made of, the number of calls and the time of
 * one. That one has a test. */
enum { CHANGE = DIFF, CHANGE_PCT, CALLS, EACH, OF_EACH, WHOLE_COLUMNS };

static struct grid *whole_table(struct page *page, const struct compare_pair *pair)
{
	const struct grid_column columns[WHOLE_COLUMNS] = {
		[NAME] = { .title = "name", .flexible = true },
		[BASELINE] = { .title = column_title(pair->base->name, "baseline"),
			       .unit = UNIT_NS },
		[COMPARED] = { .title = column_title(pair->other->name, "compared"),
			       .unit = UNIT_NS },
		[CHANGE] = { .title = "change", .unit = UNIT_NS },
		[CHANGE_PCT] = { .title = "", .unit = UNIT_PCT },
		[CALLS] = { .title = "calls", .unit = UNIT_COUNT },
		[EACH] = { .title = "each", .unit = UNIT_PCT },
		[OF_EACH] = { .title = "of each" },
	};

	return table_of(page, columns, WHOLE_COLUMNS);
}

static void add_whole(struct page *page, struct grid *grid, const struct compare_row *row)
{
	const struct value *diff = &row->d.diff;
	enum tone *tones;
	struct cell *cells = add_row(page, grid, &tones);

	if (!cells)
		return;
	cells[NAME] = cell_text(row->short_name);
	cells[BASELINE] = value_cell(page, row->d.a, FIGURE_NS);
	cells[COMPARED] = value_cell(page, row->d.b, FIGURE_NS);
	cells[CHANGE] = diff->known ? WORDS(page, "%s%s", sign(diff->v), format_ns(diff->v).text)
				    : cell_absent(NULL);
	cells[CHANGE_PCT] = pct_cell(page, row->d.pct);
	cells[CALLS] = calls_cell(page, row);
	cells[EACH] = pct_cell(page, row->call.pct);
	cells[OF_EACH] = row_verdict(page, row, &row->call);
	if (!row->is_new && !row->is_gone)
		tones[OF_EACH] = verdict_tone(row->call.verdict);
}

static const struct {
	const char *title, *per_step; /* of a table, and what follows where steps are compared */
} titles[] = {
	[COMPARE_KERNELS] = { "kernels: device time", " a step" },
	[COMPARE_CLASSES] = { "classes of kernels: device time", " a step" },
	[COMPARE_RANGES] = { "ranges: time of the kernels that they launch", ", a step" },
	[COMPARE_COLLECTIVES] = { "collectives: time", " a step" },
	[COMPARE_HOST] = { "host: self time of operations and ranges", ", a step" },
};

/* Where steps are compared, kernels and operations say most; the data have all tables. */
static bool is_shown(const struct compare_pair *pair, enum compare_table which)
{
	const struct compare_rows *rows = &pair->tables[which];

	if (which == COMPARE_KERNELS || which == COMPARE_HOST)
		return true;
	if (rows->reason || !rows->n)
		return false;
	/* One row, of what is outside all ranges, says nothing. */
	return which == COMPARE_RANGES ? pair->whole && rows->n > 1
				       : pair->whole || which == COMPARE_COLLECTIVES;
}

static void rows(const struct compared_pair *compared, enum compare_table which, struct page *page)
{
	const struct compared_table *table = &compared->tables[which];
	const struct compare_pair *pair = compared->pair;
	struct grid *grid;

	page_empty_line(page);
	page_line(page, 2, "%s%s", titles[which].title, pair->whole ? "" : titles[which].per_step);
	if (pair->tables[which].reason) {
		page_line(page, 2, "not compared: %s", pair->tables[which].reason);
		return;
	}
	grid = pair->whole ? whole_table(page, pair) : difference_table(page, pair, "name");
	for (size_t i = 0; grid && i < table->n; i++) {
		const struct compare_row *row = table->rows[i].row;

		if (pair->whole)
			add_whole(page, grid, row);
		else
			add_difference(page, grid, row->short_name, &row->d, FIGURE_NS,
				       row_verdict(page, row, &row->d));
	}
	put_table(page, grid);
	page_rest(page, 2, table->n + table->left_out, table->n, PAGE_MORE_ROWS);
}

void comparison_page(const void *about, struct page *page)
{
	const struct compared *compared = about;

	heading(compared->comparison, page);
	facts(compared->comparison, page);
	side_by_side(compared->comparison, page);
	for (size_t i = 0; i < compared->n_pairs; i++) {
		const struct compare_pair *pair = compared->pairs[i].pair;

		page_title(page, "%s against %s", pair->other->name, pair->base->name);
		figures(pair, page);
		explanation(pair, COMPARE_KERNELS, "kernels", page);
		explanation(pair, COMPARE_HOST, "host", page);
		for (int t = 0; t < COMPARE_TABLES; t++)
			if (is_shown(pair, (enum compare_table)t))
				rows(&compared->pairs[i], (enum compare_table)t, page);
	}
	comparison_notes(compared, page);
}
