/* SPDX-License-Identifier: Apache-2.0
 *
 * A comparison for people; see compare.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/format.h"
#include "present/compare_inside.h"

#define NARROW 100 /* from here on there is room for p */
#define SIDE_COLUMN 21

static const enum grid_unit grid_units[] = {
	[FIGURE_NS] = GRID_NS,	 [FIGURE_COUNT] = GRID_COUNT, [FIGURE_BYTES] = GRID_BYTES,
	[FIGURE_PCT] = GRID_PCT, [FIGURE_RATIO] = GRID_RATIO, [FIGURE_RATE] = GRID_RATE,
};

static int width_of(const struct compare_scene *scene)
{
	return scene->options->width > 0 ? scene->options->width : 80;
}

static struct text_layout layout_of(const struct compare_scene *scene)
{
	return (struct text_layout){ .width = width_of(scene),
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

static enum text_style verdict_style(enum compare_verdict verdict)
{
	return verdict == COMPARE_BETTER  ? TEXT_GREEN
	       : verdict == COMPARE_WORSE ? TEXT_RED
					  : TEXT_DIM;
}

static void pct_text(char *out, size_t size, struct value pct)
{
	if (pct.known)
		snprintf(out, size, "%s%s", pct.v > 0 ? "+" : "", format_pct(pct.v).text);
	else
		snprintf(out, size, "n/a");
}

static void value_cell(struct text_table *table, struct value value, enum grid_unit unit)
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
	pct_text(low, sizeof(low), d->low_pct);
	pct_text(high, sizeof(high), d->high_pct);
	low[strcspn(low, "%")] = '\0';
	text_table_cellf(table, TEXT_PLAIN, "%s..%s", low, high);
}

static void difference_cells(const struct compare_scene *scene, struct text_table *table,
			     const struct difference *d, enum grid_unit unit, const char *verdict)
{
	char text[64];

	value_cell(table, d->a, unit);
	value_cell(table, d->b, unit);
	pct_text(text, sizeof(text), d->pct);
	text_table_cell(table, text, d->pct.known ? TEXT_PLAIN : TEXT_DIM);
	interval_cell(table, d);
	if (width_of(scene) >= NARROW) {
		if (d->p_adjusted.known && d->p_adjusted.v < 1e-4)
			text_table_cell(table, "<0.0001", TEXT_PLAIN);
		else if (d->p_adjusted.known)
			text_table_cellf(table, TEXT_PLAIN, "%.4f", d->p_adjusted.v);
		else
			text_table_cell(table, "n/a", TEXT_DIM);
	}
	text_table_cell(table, verdict, verdict_style(d->verdict));
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
	bool wide = width_of(scene) >= NARROW;
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

static int print_table(const struct compare_scene *scene, struct text_table *table, FILE *out)
{
	struct text_layout layout = layout_of(scene);
	int r = table ? text_table_print(table, &layout, out) : -ENOMEM;

	text_table_free(table);
	return r;
}

static void name_figure(char *out, size_t size, const struct compare_figure *f)
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
			text_wrap(out, text->data, (size_t)width_of(scene), 2, 2);
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
			name_figure(name, sizeof(name), f);
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

static int print_figures(const struct compare_scene *scene, const struct compare_pair *pair,
			 FILE *out)
{
	struct text_table *table = difference_table(scene, pair, "figure");
	size_t rows = 0;
	int r;

	for (size_t i = 0; table && i < pair->n; i++) {
		const struct compare_figure *f = &pair->figures[i];
		const struct compare_metric *metric = &compare_metrics[f->metric];
		char name[80], word[40];

		if (f->d.verdict == COMPARE_ABSENT)
			continue;
		name_figure(name, sizeof(name), f);
		text_table_cell(table, name, TEXT_PLAIN);
		difference_cells(scene, table, &f->d, grid_units[metric->unit],
				 verdict_word(&f->d, metric->speed, word));
		rows++;
	}
	if (rows || !table) {
		r = print_table(scene, table, out);
	} else {
		text_table_free(table);
		fputs("  nothing can be compared\n", out);
		r = 0;
	}
	return r < 0 ? r : print_absent(scene, pair, out);
}

static int print_rows(const struct compare_scene *scene, const struct compare_pair *pair, bool host,
		      FILE *out, struct err *err)
{
	const struct compare_rows *rows = host ? &pair->host : &pair->kernels;
	size_t limit = scene->options->limit;
	struct text_table *table;
	struct grid grid;
	char word[40];
	int r;

	fprintf(out, "\n  %s\n",
		host ? "host: self time of operations and ranges, a step"
		     : "kernels: device time a step");
	if (rows->reason) {
		fprintf(out, "  not compared: %s\n", rows->reason);
		return 0;
	}
	r = compare_grid_rows(scene, pair, host, &grid, err);
	table = r >= 0 ? difference_table(scene, pair, "name") : NULL;
	for (size_t i = 0; table && i < grid.n && (!limit || i < limit); i++) {
		const struct compare_row *row = grid.rows[i].item;

		text_table_cell(table, row->short_name, TEXT_PLAIN);
		difference_cells(scene, table, &row->d, GRID_NS,
				 row->is_new	? "new"
				 : row->is_gone ? "gone"
						: verdict_word(&row->d, true, word));
	}
	if (r >= 0) {
		r = print_table(scene, table, out);
		if (limit && limit < grid.n)
			fprintf(out, "  ... %zu more rows (--limit 0 shows all)\n", grid.n - limit);
	}
	grid_release(&grid);
	return r;
}

/* The three rows of each table that explain most of the difference of the step time. */
static int print_explanation(const struct compare_scene *scene, const struct compare_pair *pair,
			     FILE *out)
{
	const struct compare_rows *tables[] = { &pair->kernels, &pair->host };
	int r = 0;

	for (size_t t = 0; r >= 0 && t < 2; t++) {
		struct buf text = { 0 };
		size_t shown = 0;

		for (size_t i = 0; i < tables[t]->n && shown < 3; i++) {
			const struct compare_row *row = &tables[t]->rows[i];

			if (!row->explains_pct.known || row->d.verdict == COMPARE_NOISE ||
			    row->d.verdict == COMPARE_SAME)
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

#define FACT_KEY 16

static bool fits(const struct comparison *c, const struct compare_fact *fact, size_t each)
{
	for (size_t g = 0; g < c->n_groups; g++)
		if (strlen(fact->values[g]) > each)
			return false;
	return true;
}

/* Side by side, or one below the other where the values are long: a value that is cut in its middle
 * would hide the difference. */
static void print_fact(const struct compare_scene *scene, const struct compare_fact *fact,
		       FILE *out)
{
	const struct comparison *c = scene->comparison;
	size_t width = (size_t)width_of(scene);
	size_t each = (width - FACT_KEY - 2) / c->n_groups - 2;
	bool beside = fits(c, fact, each);

	text_fit(out, fact->key, beside ? FACT_KEY : strlen(fact->key), false,
		 scene->options->utf8);
	for (size_t g = 0; g < c->n_groups; g++) {
		const char *value = fact->values[g];

		if (beside) {
			bool last = g + 1 == c->n_groups;

			fputs("  ", out);
			text_fit(out, value, last ? strlen(value) : each, false,
				 scene->options->utf8);
		} else {
			fputs(g ? "    " : "\n    ", out);
			text_fit(out, c->groups[g].name, 12, false, scene->options->utf8);
			fputs("  ", out);
			text_wrap(out, value, width, 18, 18); /* ends the line */
		}
	}
	if (beside)
		fputc('\n', out);
}

static void print_facts(const struct compare_scene *scene, FILE *out)
{
	const struct comparison *c = scene->comparison;
	bool color = scene->options->color;

	if (!c->n_facts)
		return;
	fputs("\n  these differ:\n", out);
	for (size_t i = 0; i < c->n_facts; i++) {
		bool doubtful = c->facts[i].doubtful;

		fprintf(out, "%s%s%s ", text_style_on(doubtful ? TEXT_YELLOW : TEXT_PLAIN, color),
			doubtful ? "!" : " ",
			text_style_off(doubtful ? TEXT_YELLOW : TEXT_PLAIN, color));
		print_fact(scene, &c->facts[i], out);
	}
}

static const struct compare_figure *same_figure(const struct compare_pair *pair,
						const struct compare_figure *f)
{
	for (size_t i = 0; i < pair->n; i++)
		if (pair->figures[i].metric == f->metric && !strcmp(pair->figures[i].of, f->of))
			return &pair->figures[i];
	return NULL;
}

static void side_cell(struct text_table *table, const struct compare_figure *f)
{
	struct cell cell = f ? cell_value(f->d.b) : cell_absent(NULL);
	char value[64], pct[40] = "";

	if (f)
		pct_text(pct, sizeof(pct), f->d.pct);
	grid_cell_text(value, sizeof(value), &cell,
		       f ? grid_units[compare_metrics[f->metric].unit] : GRID_TEXT);
	if (f && f->d.verdict == COMPARE_NOISE)
		text_table_cellf(table, TEXT_DIM, "%s noise", value);
	else
		text_table_cellf(table, f ? verdict_style(f->d.verdict) : TEXT_DIM, "%s%s%s", value,
				 f && f->d.pct.known ? " " : "", f && f->d.pct.known ? pct : "");
}

/* The groups [first, first + n) beside the baseline. */
static int print_side_by_side(const struct compare_scene *scene, size_t first, size_t n, FILE *out)
{
	const struct comparison *c = scene->comparison;
	struct text_column *columns = calloc(n + 2, sizeof(*columns));
	struct text_table *table;

	if (!columns)
		return -ENOMEM;
	columns[0] = (struct text_column){ "figure", TEXT_LEFT, true };
	columns[1] = (struct text_column){ c->groups[0].name, TEXT_RIGHT, false };
	for (size_t g = 0; g < n; g++)
		columns[2 + g] = (struct text_column){ c->groups[first + g].name, TEXT_RIGHT,
						       false };
	table = text_table_new(columns, n + 2);
	for (size_t i = 0; table && i < c->pairs[first - 1].n; i++) {
		const struct compare_figure *f = &c->pairs[first - 1].figures[i];
		char name[80];

		name_figure(name, sizeof(name), f);
		text_table_cell(table, name, TEXT_PLAIN);
		value_cell(table, f->d.a, grid_units[compare_metrics[f->metric].unit]);
		for (size_t g = 0; g < n; g++)
			side_cell(table, same_figure(&c->pairs[first - 1 + g], f));
	}
	free(columns);
	return print_table(scene, table, out);
}

static int print_overview(const struct compare_scene *scene, FILE *out)
{
	size_t others = scene->comparison->n_groups - 1;
	size_t fit = (size_t)(width_of(scene) - 32) / SIDE_COLUMN;
	int r = 0;

	if (others < 2)
		return 0;
	fit = fit ? fit : 1;
	for (size_t first = 1; r >= 0 && first <= others; first += fit) {
		fputc('\n', out);
		r = print_side_by_side(scene, first,
				       others - first + 1 < fit ? others - first + 1 : fit, out);
	}
	return r;
}

static void heading(const struct compare_scene *scene, FILE *out)
{
	const struct comparison *c = scene->comparison;
	bool color = scene->options->color;

	fprintf(out, "%smoescope compare%s\n", text_style_on(TEXT_BOLD, color),
		text_style_off(TEXT_BOLD, color));
	for (size_t g = 0; g < c->n_groups; g++) {
		size_t steps = 0, covered = 0;

		for (size_t i = 0; i < c->groups[g].n; i++) {
			steps += c->groups[g].runs[i].steps;
			covered += c->groups[g].runs[i].covered;
		}
		fputs(g ? "           " : "  baseline ", out);
		text_fit(out, c->groups[g].name,
			 strlen(c->groups[g].name) < 30 ? strlen(c->groups[g].name) : 30, false,
			 scene->options->utf8);
		fprintf(out, ": %zu run%s, %zu steps", c->groups[g].n,
			c->groups[g].n == 1 ? "" : "s", steps);
		if (covered && covered < steps)
			fprintf(out, ", device records of %zu", covered);
		fputc('\n', out);
	}
}

int compare_text(const struct compare_scene *scene, FILE *out, struct err *err)
{
	const struct comparison *c = scene->comparison;
	int r;

	heading(scene, out);
	print_facts(scene, out);
	r = print_overview(scene, out);
	for (size_t i = 0; r >= 0 && i + 1 < c->n_groups; i++) {
		const struct compare_pair *pair = &c->pairs[i];

		title(scene, pair->other->name, " against ", pair->base->name, out);
		r = print_figures(scene, pair, out);
		if (r >= 0)
			r = print_explanation(scene, pair, out);
		if (r >= 0)
			r = print_rows(scene, pair, false, out, err);
		if (r >= 0)
			r = print_rows(scene, pair, true, out, err);
	}
	if (r < 0)
		return err && err->message[0] ? r : err_sys(err, r, "cannot print the comparison");
	compare_text_notes(scene, out);
	return 0;
}
