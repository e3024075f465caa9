/* SPDX-License-Identifier: Apache-2.0
 *
 * A comparison for people; see compare.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text/format.h"
#include "present/comparison/compare_inside.h"

#define NARROW 100 /* from here on there is room for p */

const enum field_unit compare_grid_units[] = {
	[FIGURE_NS] = UNIT_NS,	 [FIGURE_COUNT] = UNIT_COUNT, [FIGURE_BYTES] = UNIT_BYTES,
	[FIGURE_PCT] = UNIT_PCT, [FIGURE_RATIO] = UNIT_RATIO, [FIGURE_RATE] = UNIT_RATE,
};

int compare_width(const struct compare_scene *scene)
{
	return scene->options->width > 0 ? scene->options->width : 80;
}

static struct text_layout layout_of(const struct compare_scene *scene)
{
	return (struct text_layout){ .width = compare_width(scene),
				     .indent = 2,
				     .color = scene->options->color,
				     .utf8 = scene->options->utf8 };
}

static void title(const struct compare_scene *scene, const char *a, const char *b, const char *c,
		  FILE *out)
{
	bool color = scene->options->color;

	fprintf(out, "\n%s", text_style_on(TEXT_BOLD, color));
	/* Names come from files: no control characters to the terminal. */
	text_fit(out, a, strlen(a), false, scene->options->utf8);
	fputs(b, out);
	text_fit(out, c, strlen(c), false, scene->options->utf8);
	fprintf(out, "%s\n", text_style_off(TEXT_BOLD, color));
}

/* "faster" "slower" where it is about speed, else "better" "worse"; "noise, <1.2%" is made in
 * `work`. */
static const char *verdict_word(const struct difference *d, bool speed, char work[40])
{
	switch (d->verdict) {
	case COMPARE_BETTER:
		return speed ? "faster" : "better";
	case COMPARE_WORSE:
		return speed ? "slower" : "worse";
	case COMPARE_NOISE:
		if (!d->visible_pct.known || d->visible_pct.v >= 1000)
			break;
		snprintf(work, 40, "noise, <%s", format_pct(d->visible_pct.v).text);
		return work;
	case COMPARE_ABSENT:
		return "n/a";
	case COMPARE_SAME:
	case COMPARE_UNTESTED:
		break;
	}
	return compare_verdict_name(d->verdict);
}

enum text_style compare_verdict_style(enum compare_verdict verdict)
{
	return verdict == COMPARE_BETTER  ? TEXT_GREEN
	       : verdict == COMPARE_WORSE ? TEXT_RED
					  : TEXT_DIM;
}

void compare_pct_text(char *out, size_t size, struct value pct)
{
	if (pct.known)
		snprintf(out, size, "%s%s", pct.v > 0 ? "+" : "", format_pct(pct.v).text);
	else
		snprintf(out, size, "n/a");
}

void compare_value_cell(struct text_table *table, struct value value, enum field_unit unit)
{
	struct cell cell = cell_value(value);
	char text[64];

	grid_cell_text(text, sizeof(text), &cell, unit);
	text_table_cell(table, text, value.known ? TEXT_PLAIN : TEXT_DIM);
}

static void interval_cell(struct text_table *table, const struct difference *d)
{
	char low[40], high[40];

	if (!d->low_pct.known || !d->high_pct.known) {
		text_table_cell(table, "n/a", TEXT_DIM);
		return;
	}
	compare_pct_text(low, sizeof(low), d->low_pct);
	compare_pct_text(high, sizeof(high), d->high_pct);
	low[strcspn(low, "%")] = '\0';
	text_table_cellf(table, TEXT_PLAIN, "%s..%s", low, high);
}

static void difference_cells(const struct compare_scene *scene, struct text_table *table,
			     const struct difference *d, enum field_unit unit, const char *verdict)
{
	char text[64];

	compare_value_cell(table, d->a, unit);
	compare_value_cell(table, d->b, unit);
	compare_pct_text(text, sizeof(text), d->pct);
	text_table_cell(table, text, d->pct.known ? TEXT_PLAIN : TEXT_DIM);
	interval_cell(table, d);
	if (compare_width(scene) >= NARROW) {
		if (d->p_adjusted.known && d->p_adjusted.v < 1e-4)
			text_table_cell(table, "<0.0001", TEXT_PLAIN);
		else if (d->p_adjusted.known)
			text_table_cellf(table, TEXT_PLAIN, "%.4f", d->p_adjusted.v);
		else
			text_table_cell(table, "n/a", TEXT_DIM);
	}
	text_table_cell(table, verdict, compare_verdict_style(d->verdict));
}

#define NAME_MAX_COLUMNS 10

/* The title of a group's column; a long name is in the heading above. */
static const char *column_title(const char *name, const char *instead)
{
	return strlen(name) <= NAME_MAX_COLUMNS ? name : instead;
}

/* A table whose rows begin with a name and go on with a difference. */
static struct text_table *difference_table(const struct compare_scene *scene,
					   const struct compare_pair *pair, const char *first)
{
	bool wide = compare_width(scene) >= NARROW;
	const struct text_column columns[] = {
		{ first, TEXT_LEFT, true },
		{ column_title(pair->base->name, "baseline"), TEXT_RIGHT, false },
		{ column_title(pair->other->name, "compared"), TEXT_RIGHT, false },
		{ "diff", TEXT_RIGHT, false },
		{ "95% interval", TEXT_RIGHT, false },
		{ "p", TEXT_RIGHT, false },
		{ "verdict", TEXT_LEFT, false },
	};
	const struct text_column narrow[] = { columns[0], columns[1], columns[2],
					      columns[3], columns[4], columns[6] };

	return wide ? text_table_new(columns, 7) : text_table_new(narrow, 6);
}

int compare_print(const struct compare_scene *scene, struct text_table *table, FILE *out)
{
	struct text_layout layout = layout_of(scene);
	int r = table ? text_table_print(table, &layout, out) : -ENOMEM;

	text_table_free(table);
	return r;
}

void compare_name(char *out, size_t size, const struct compare_figure *f)
{
	const char *name = compare_metrics[f->metric].name;

	if (f->of[0])
		snprintf(out, size, "%s[%s]", name, f->of);
	else
		snprintf(out, size, "%s", name);
}

/* The text of `buf` as a paragraph; releases it. */
static int print_buf(const struct compare_scene *scene, struct buf *text, FILE *out)
{
	bool failed;

	if (text->size) {
		buf_append(text, "", 1);
		if (!text->failed) {
			fputs("  ", out);
			text_wrap(out, text->data, (size_t)compare_width(scene), 2, 2);
		}
	}
	failed = text->failed;
	buf_release(text);
	return failed ? -ENOMEM : 0;
}

/* Metrics that one side lacks, by the reason. */
static int print_absent(const struct compare_scene *scene, const struct compare_pair *pair,
			FILE *out)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < pair->n; i++) {
		const struct compare_figure *first = &pair->figures[i];
		struct buf text = { 0 };
		bool named = false;

		if (first->d.verdict != COMPARE_ABSENT)
			continue;
		for (size_t j = 0; j < i && !named; j++)
			named = pair->figures[j].d.verdict == COMPARE_ABSENT &&
				!strcmp(pair->figures[j].d.diff.reason, first->d.diff.reason);
		for (size_t j = i; j < pair->n && !named; j++) {
			const struct compare_figure *f = &pair->figures[j];
			char name[80];

			if (f->d.verdict != COMPARE_ABSENT ||
			    strcmp(f->d.diff.reason, first->d.diff.reason) != 0)
				continue;
			compare_name(name, sizeof(name), f);
			buf_printf(&text, "%s%s", text.size ? ", " : "not compared: ", name);
		}
		if (text.size)
			buf_printf(&text, "; '%s': %s.",
				   first->d.a.known ? pair->other->name : pair->base->name,
				   first->d.diff.reason);
		r = print_buf(scene, &text, out);
	}
	return r;
}

size_t compare_family_end(const struct compare_pair *pair, size_t first)
{
	size_t end = first;

	while (end < pair->n && pair->figures[end].metric == pair->figures[first].metric)
		end++;
	return end;
}

static bool is_quiet(const struct compare_figure *f)
{
	return f->d.verdict == COMPARE_NOISE || f->d.verdict == COMPARE_SAME;
}

static void add_figure(const struct compare_scene *scene, struct text_table *table,
		       const struct compare_figure *f)
{
	const struct compare_metric *metric = &compare_metrics[f->metric];
	char name[80], word[40];

	compare_name(name, sizeof(name), f);
	text_table_cell(table, name, TEXT_PLAIN);
	difference_cells(scene, table, &f->d, compare_grid_units[metric->unit],
			 verdict_word(&f->d, metric->speed, word));
}

static int print_figures(const struct compare_scene *scene, const struct compare_pair *pair,
			 FILE *out)
{
	struct text_table *table = difference_table(scene, pair, "figure");
	size_t rows = 0, hidden[COMPARE_METRICS] = { 0 };
	int r;

	for (size_t i = 0, end; table && i < pair->n; i = end) {
		end = compare_family_end(pair, i);
		for (size_t j = i; j < end; j++) {
			const struct compare_figure *f = &pair->figures[j];

			if (f->d.verdict == COMPARE_ABSENT)
				continue;
			rows++;
			if (end - i > COMPARE_FAMILY_ROWS && is_quiet(f))
				hidden[f->metric]++;
			else
				add_figure(scene, table, f);
		}
	}
	if (rows || !table) {
		r = compare_print(scene, table, out);
	} else {
		text_table_free(table);
		fputs("  nothing can be compared\n", out);
		r = 0;
	}
	for (int m = 0; m < COMPARE_METRICS; m++)
		if (hidden[m])
			fprintf(out, "  %s: %zu rows of noise are not shown (--json has them)\n",
				compare_metrics[m].name, hidden[m]);
	return r < 0 ? r : print_absent(scene, pair, out);
}

static const struct {
	const char *steps, *whole; /* the title of a table */
} table_titles[] = {
	[COMPARE_KERNELS] = { "kernels: device time a step", "kernels: device time" },
	[COMPARE_CLASSES] = { "classes of kernels: device time a step",
			      "classes of kernels: device time" },
	[COMPARE_RANGES] = { "ranges: time of the kernels that they launch, a step",
			     "ranges: time of the kernels that they launch" },
	[COMPARE_COLLECTIVES] = { "collectives: time a step", "collectives: time" },
	[COMPARE_HOST] = { "host: self time of operations and ranges, a step",
			   "host: self time of operations and ranges" },
};

/* "+1.25 ms" */
static void change_cell(struct text_table *table, struct value diff)
{
	if (diff.known)
		text_table_cellf(table, TEXT_PLAIN, "%s%s", diff.v > 0 ? "+" : "",
				 format_ns(diff.v).text);
	else
		text_table_cell(table, "n/a", TEXT_DIM);
}

static void calls_cell(struct text_table *table, const struct compare_row *row)
{
	struct format a = format_count(row->count_a.v), b = format_count(row->count_b.v);

	if (row->count_a.v == row->count_b.v)
		text_table_cell(table, b.text, TEXT_PLAIN);
	else
		text_table_cellf(table, TEXT_PLAIN, "%s>%s", a.text, b.text);
}

/* Whole runs: the change of the sum, and what it is made of, the number of calls and the time of one.
 * That one has a test. */
static void whole_cells(struct text_table *table, const struct compare_row *row)
{
	char text[64], word[40];

	text_table_cell(table, row->short_name, TEXT_PLAIN);
	compare_value_cell(table, row->d.a, UNIT_NS);
	compare_value_cell(table, row->d.b, UNIT_NS);
	change_cell(table, row->d.diff);
	compare_pct_text(text, sizeof(text), row->d.pct);
	text_table_cell(table, text, row->d.pct.known ? TEXT_PLAIN : TEXT_DIM);
	calls_cell(table, row);
	compare_pct_text(text, sizeof(text), row->call.pct);
	text_table_cell(table, text, row->call.pct.known ? TEXT_PLAIN : TEXT_DIM);
	text_table_cell(table,
			row->is_new    ? "new"
			: row->is_gone ? "gone"
				       : verdict_word(&row->call, true, word),
			row->is_new || row->is_gone ? TEXT_PLAIN
						    : compare_verdict_style(row->call.verdict));
}

static struct text_table *whole_table(const struct compare_pair *pair)
{
	const struct text_column columns[] = {
		{ "name", TEXT_LEFT, true },
		{ column_title(pair->base->name, "baseline"), TEXT_RIGHT, false },
		{ column_title(pair->other->name, "compared"), TEXT_RIGHT, false },
		{ "change", TEXT_RIGHT, false },
		{ "", TEXT_RIGHT, false },
		{ "calls", TEXT_RIGHT, false },
		{ "each", TEXT_RIGHT, false },
		{ "of each", TEXT_LEFT, false },
	};

	return text_table_new(columns, sizeof(columns) / sizeof(columns[0]));
}

static int print_rows(const struct compare_scene *scene, const struct compare_pair *pair,
		      enum compare_table which, FILE *out, struct err *err)
{
	const struct compare_rows *rows = &pair->tables[which];
	size_t limit = scene->options->limit;
	struct text_table *table;
	struct grid grid;
	char word[40];
	int r;

	fprintf(out, "\n  %s\n",
		pair->whole ? table_titles[which].whole : table_titles[which].steps);
	if (rows->reason) {
		fprintf(out, "  not compared: %s\n", rows->reason);
		return 0;
	}
	r = compare_grid_rows(scene, pair, which, &grid, err);
	table = r < 0	      ? NULL
		: pair->whole ? whole_table(pair)
			      : difference_table(scene, pair, "name");
	for (size_t i = 0; table && i < grid.n && (!limit || i < limit); i++) {
		const struct compare_row *row = grid.rows[i].item;

		if (pair->whole) {
			whole_cells(table, row);
			continue;
		}
		text_table_cell(table, row->short_name, TEXT_PLAIN);
		difference_cells(scene, table, &row->d, UNIT_NS,
				 row->is_new	? "new"
				 : row->is_gone ? "gone"
						: verdict_word(&row->d, true, word));
	}
	if (r >= 0) {
		r = compare_print(scene, table, out);
		if (limit && limit < grid.n)
			fprintf(out, "  ... %zu more rows (--limit 0 shows all)\n", grid.n - limit);
	}
	grid_release(&grid);
	return r;
}

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

/* The three rows of each table that explain most of the difference of the step time. */
static int print_explanation(const struct compare_scene *scene, const struct compare_pair *pair,
			     FILE *out)
{
	const struct compare_rows *tables[] = { &pair->tables[COMPARE_KERNELS],
						&pair->tables[COMPARE_HOST] };
	int r = 0;

	for (size_t t = 0; r >= 0 && t < 2; t++) {
		struct buf text = { 0 };
		size_t shown = 0;

		for (size_t i = 0; i < tables[t]->n && shown < 3; i++) {
			const struct compare_row *row = &tables[t]->rows[i];

			if (pair->whole || !row->explains_pct.known ||
			    row->d.verdict == COMPARE_NOISE || row->d.verdict == COMPARE_SAME)
				continue;
			buf_printf(&text, "%s%s %s%s (%s%s)",
				   shown++ ? ", "
				   : t	   ? "Of the step's difference, host: "
					   : "Of the step's difference, kernels: ",
				   row->short_name, row->explains_pct.v > 0 ? "+" : "",
				   format_pct(row->explains_pct.v).text,
				   row->d.diff.v > 0 ? "+" : "", format_ns(row->d.diff.v).text);
		}
		r = print_buf(scene, &text, out);
	}
	return r;
}

int compare_text(const struct compare_scene *scene, FILE *out, struct err *err)
{
	const struct comparison *c = scene->comparison;
	int r;

	r = compare_text_head(scene, out);
	for (size_t i = 0; r >= 0 && i + 1 < c->n_groups; i++) {
		const struct compare_pair *pair = &c->pairs[i];

		title(scene, pair->other->name, " against ", pair->base->name, out);
		r = print_figures(scene, pair, out);
		if (r >= 0)
			r = print_explanation(scene, pair, out);
		for (int t = 0; r >= 0 && t < COMPARE_TABLES; t++)
			if (is_shown(pair, (enum compare_table)t))
				r = print_rows(scene, pair, (enum compare_table)t, out, err);
	}
	if (r < 0)
		return err && err->message[0] ? r : err_sys(err, r, "cannot print the comparison");
	compare_text_notes(scene, out);
	return 0;
}
