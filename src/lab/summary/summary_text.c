/* SPDX-License-Identifier: Apache-2.0
 *
 * A batch for people: numbers and words shared by all tables, and the table for terminals. See
 * summary.h.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/format.h"
#include "lab/summary/summary_inside.h"

#define NOTED_MAX 20 /* failed experiments, by name; the files list all */

void batch_metric_heading(enum batch_metric_id metric, char *out, size_t size)
{
	const struct batch_metric *m = &batch_metrics[metric];

	snprintf(out, size, *m->unit ? "%s (%s)" : "%s%s", m->title, m->unit);
}

/* Four significant digits, without an exponent. */
static int decimals_of(double v)
{
	v = fabs(v);
	return v >= 999.95 ? 0 : v >= 99.995 ? 1 : v >= 9.9995 ? 2 : v >= 0.99995 ? 3 : 4;
}

/* In the unit of its column: "1234", "12.34", "n/a". */
static void figure_text(enum batch_metric_id metric, struct value value, char *out, size_t size)
{
	double v = value.v / batch_metrics[metric].divisor;

	if (value.known && isfinite(v))
		snprintf(out, size, "%.*f", decimals_of(v), v);
	else
		snprintf(out, size, "n/a");
}

void batch_mean_text(enum batch_metric_id metric, const struct batch_figure *f, bool utf8,
		     char *out, size_t size)
{
	double mean = f->mean.v / batch_metrics[metric].divisor;
	double half = (f->high.v - f->low.v) / 2 / batch_metrics[metric].divisor;

	figure_text(metric, f->mean, out, size);
	if (f->mean.known && f->low.known)
		snprintf(out, size, "%.*f %s %.*f", decimals_of(mean), mean, utf8 ? "\u00b1" : "+-",
			 decimals_of(mean), half);
}

void batch_verdict_text(const struct batch *batch, size_t index, enum batch_metric_id metric,
			char *out, size_t size)
{
	const struct difference *d = &batch->configurations[index].against_best[metric];
	char pct[40] = "";

	if (index == batch->best[metric]) {
		snprintf(out, size, "best");
		return;
	}
	if (d->pct.known)
		snprintf(pct, sizeof(pct), "%s%s", d->pct.v > 0 ? "+" : "",
			 format_pct(d->pct.v).text);
	if (d->verdict == COMPARE_ABSENT)
		snprintf(out, size, "n/a");
	else if (d->verdict == COMPARE_NOISE)
		snprintf(out, size, "%s (noise)", pct);
	else if (d->verdict == COMPARE_UNTESTED)
		snprintf(out, size, "%s (untested)", pct);
	else
		snprintf(out, size, "%s", *pct ? pct : compare_verdict_name(d->verdict));
}

void batch_counts_text(const struct batch *batch, char *out, size_t size)
{
	size_t at = 0;

	out[0] = '\0';
	for (int s = 0; s < BATCH_STATUSES; s++) {
		const char *word = s == BATCH_SUCCESS	? "successful"
				   : s == BATCH_TIMEOUT ? "timed out"
							: batch_status_names[s];

		if (batch->counts[s] || s == BATCH_SUCCESS)
			at += (size_t)snprintf(out + at, size - at, "%s%zu %s", at ? ", " : "",
					       batch->counts[s], word);
	}
}

/* The figures that fit a terminal. */
static const enum batch_metric_id columns[] = { BATCH_TOKENS_PER_S, BATCH_TTFT_P50,
						BATCH_TPOT_P50,	    BATCH_E2EL_P99,
						BATCH_PEAK_MEMORY,  BATCH_COST };
#define COLUMNS (sizeof(columns) / sizeof(columns[0]))

/* Which of them fit; always throughput. */
static void choose_columns(const struct batch *batch, int width, bool shown[COLUMNS])
{
	size_t used = 3 + 16 + 18; /* n, tokens/s with its interval, the difference */
	char heading[64];

	for (size_t p = 0; p < batch->n_parameters; p++) {
		size_t length = strlen(batch->parameters[p]);

		used += 2 + (length < 12 ? length : 12);
	}
	for (size_t i = 0; i < COLUMNS; i++) {
		batch_metric_heading(columns[i], heading, sizeof(heading));
		shown[i] = batch_shows(batch, columns[i]) &&
			   (i == 0 || width <= 0 || used + strlen(heading) + 2 <= (size_t)width);
		if (i && shown[i])
			used += strlen(heading) + 2;
	}
}

static struct text_table *new_table(const struct batch *batch, const bool *shown,
				    char headings[][64])
{
	struct text_column *heads = calloc(batch->n_parameters + COLUMNS + 4, sizeof(*heads));
	struct text_table *table;
	size_t n = 0;

	if (!heads)
		return NULL;
	if (!batch->n_parameters)
		heads[n++] = (struct text_column){ "configuration", TEXT_LEFT, true };
	for (size_t p = 0; p < batch->n_parameters; p++)
		heads[n++] = (struct text_column){ batch->parameters[p], TEXT_RIGHT, true };
	heads[n++] = (struct text_column){ "n", TEXT_RIGHT, false };
	for (size_t i = 0; i < COLUMNS; i++) {
		if (!shown[i])
			continue;
		batch_metric_heading(columns[i], headings[i], sizeof(headings[i]));
		heads[n++] = (struct text_column){ headings[i], TEXT_RIGHT, false };
	}
	heads[n++] = (struct text_column){ "against best", TEXT_RIGHT, false };
	table = text_table_new(heads, n);
	free(heads);
	return table;
}

static void add_row(const struct batch *batch, size_t index, const bool *shown,
		    struct text_table *table, bool utf8)
{
	const struct batch_configuration *c = &batch->configurations[index];
	bool best = index == batch->best[BATCH_TOKENS_PER_S];
	char text[128];

	if (!batch->n_parameters)
		text_table_cell(table, c->label, TEXT_PLAIN);
	for (size_t p = 0; p < batch->n_parameters; p++)
		text_table_cell(table, c->values[p], TEXT_PLAIN);
	text_table_cellf(table, TEXT_DIM, "%zu", c->figures[BATCH_TOKENS_PER_S].n);
	for (size_t i = 0; i < COLUMNS; i++) {
		if (!shown[i])
			continue;
		if (columns[i] == BATCH_TOKENS_PER_S)
			batch_mean_text(columns[i], &c->figures[columns[i]], utf8, text,
					sizeof(text));
		else
			figure_text(columns[i], c->figures[columns[i]].mean, text, sizeof(text));
		text_table_cell(table, text,
				c->figures[columns[i]].mean.known ? TEXT_PLAIN : TEXT_DIM);
	}
	batch_verdict_text(batch, index, BATCH_TOKENS_PER_S, text, sizeof(text));
	if (!c->successful)
		snprintf(text, sizeof(text), "%s",
			 batch_status_names[batch->experiments[c->first].status]);
	text_table_cell(table, text, best ? TEXT_GREEN : c->successful ? TEXT_DIM : TEXT_RED);
}

static void print_failures(const struct batch *batch, const struct text_layout *layout, FILE *out)
{
	size_t noted = 0, all = batch->n - batch->counts[BATCH_SUCCESS];

	for (size_t i = 0; i < batch->n && noted < NOTED_MAX; i++) {
		const struct batch_experiment *e = &batch->experiments[i];
		size_t width = layout->width > 40 ? (size_t)layout->width : 80;
		char line[4096];

		if (e->status == BATCH_SUCCESS)
			continue;
		fputs(noted++ ? "" : "\n", out);
		snprintf(line, sizeof(line), "%s %s: %s", batch_status_names[e->status], e->name,
			 e->error);
		/* Names and errors come from files: no control characters to the terminal. */
		text_fit(out, line, strlen(line) < width ? strlen(line) : width, false,
			 layout->utf8);
		fputc('\n', out);
	}
	if (noted < all)
		fprintf(out, "and %zu more; batch_summary.md has them all.\n", all - noted);
}

static void print_best(const struct batch *batch, const struct text_layout *layout, FILE *out)
{
	static const enum batch_metric_id told[] = { BATCH_TOKENS_PER_S, BATCH_TTFT_P50,
						     BATCH_TPOT_P50, BATCH_COST };
	char text[256], head[64];

	for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
		const struct batch_configuration *best;
		size_t ties = 0;

		if (!batch_shows(batch, told[i]))
			continue;
		best = &batch->configurations[batch->best[told[i]]];
		for (size_t c = 0; c < batch->n_configurations; c++) {
			enum compare_verdict v =
				batch->configurations[c].against_best[told[i]].verdict;

			ties += v == COMPARE_NOISE || v == COMPARE_SAME;
		}
		batch_metric_heading(told[i], head, sizeof(head));
		batch_mean_text(told[i], &best->figures[told[i]], layout->utf8, text, sizeof(text));
		fprintf(out, "best %s: %s at ", head, text);
		text_put(out, best->label, layout->utf8);
		if (ties)
			fprintf(out, " (%zu more within noise)", ties);
		fputc('\n', out);
	}
}

int batch_print(const struct batch *batch, const struct text_layout *layout, FILE *out)
{
	char headings[COLUMNS][64], counts[128];
	bool shown[COLUMNS];
	struct text_table *table;
	int r = 0;

	batch_counts_text(batch, counts, sizeof(counts));
	fprintf(out, "%zu experiment%s: %s\n", batch->n, batch->n == 1 ? "" : "s", counts);
	if (batch->n_configurations) {
		fputc('\n', out);
		choose_columns(batch, layout->width, shown);
		table = new_table(batch, shown, headings);
		if (!table)
			return -ENOMEM;
		for (size_t i = 0; i < batch->n_configurations; i++)
			add_row(batch, i, shown, table, layout->utf8);
		r = text_table_print(table, layout, out);
		text_table_free(table);
	}
	if (r == 0 && batch->counts[BATCH_SUCCESS]) {
		fputc('\n', out);
		print_best(batch, layout, out);
	}
	if (r == 0)
		print_failures(batch, layout, out);
	return r;
}
