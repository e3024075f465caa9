/* SPDX-License-Identifier: Apache-2.0
 *
 * The beginning of a comparison for people: what is compared, what differs in the runs themselves,
 * and several groups side by side. See compare.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "present/comparison/compare_inside.h"

#define SIDE_COLUMN 21

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
	size_t width = (size_t)compare_width(scene);
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
		compare_pct_text(pct, sizeof(pct), f->d.pct);
	grid_cell_text(value, sizeof(value), &cell,
		       f ? compare_grid_units[compare_metrics[f->metric].unit] : UNIT_TEXT);
	if (f && f->d.verdict == COMPARE_NOISE)
		text_table_cellf(table, TEXT_DIM, "%s noise", value);
	else
		text_table_cellf(table, f ? compare_verdict_style(f->d.verdict) : TEXT_DIM,
				 "%s%s%s", value, f && f->d.pct.known ? " " : "",
				 f && f->d.pct.known ? pct : "");
}

static bool is_long(const struct compare_pair *pair, size_t at)
{
	size_t first = at;

	while (first > 0 && pair->figures[first - 1].metric == pair->figures[at].metric)
		first--;
	return compare_family_end(pair, first) - first > COMPARE_FAMILY_ROWS;
}

/* The groups [first, first + n) beside the baseline; metrics of many rows are in the tables of the
 * pairs alone. */
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

		if (is_long(&c->pairs[first - 1], i))
			continue;
		compare_name(name, sizeof(name), f);
		text_table_cell(table, name, TEXT_PLAIN);
		compare_value_cell(table, f->d.a,
				   compare_grid_units[compare_metrics[f->metric].unit]);
		for (size_t g = 0; g < n; g++)
			side_cell(table, same_figure(&c->pairs[first - 1 + g], f));
	}
	free(columns);
	return compare_print(scene, table, out);
}

static int print_overview(const struct compare_scene *scene, FILE *out)
{
	size_t others = scene->comparison->n_groups - 1;
	size_t fit = (size_t)(compare_width(scene) - 32) / SIDE_COLUMN;
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
		fprintf(out, ": %zu run%s", c->groups[g].n, c->groups[g].n == 1 ? "" : "s");
		if (c->groups[g].runs[0].whole)
			fputs(c->groups[g].n == 1 ? " as a whole" : ", each as a whole", out);
		else
			fprintf(out, ", %zu steps", steps);
		if (covered && covered < steps)
			fprintf(out, ", device records of %zu", covered);
		fputc('\n', out);
	}
}

int compare_text_head(const struct compare_scene *scene, FILE *out)
{
	heading(scene, out);
	print_facts(scene, out);
	return print_overview(scene, out);
}
