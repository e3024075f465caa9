/* SPDX-License-Identifier: Apache-2.0
 *
 * A batch as Markdown, with tables for a paper; see summary.h.
 */
#include <errno.h>
#include <string.h>

#include "base/text/format.h"
#include "lab/shared/experiment.h"
#include "lab/summary/summary_inside.h"
#include "surfaces/markdown/markdown.h"

static void md_cell(const char *text, FILE *out)
{
	fputs(" ", out);
	markdown_text(text, out);
	fputs(" |", out);
}

/* The rule under a table's heads: the first `texts` columns, then `numbers` right-aligned ones,
 * then one more text column if `behind`. */
static void md_rule(size_t texts, size_t numbers, bool behind, FILE *out)
{
	fputs("\n|", out);
	for (size_t i = 0; i < texts; i++)
		fputs("---|", out);
	for (size_t i = 0; i < numbers; i++)
		fputs("---:|", out);
	fputs(behind ? "---|\n" : "\n", out);
}

static void md_parameters(const struct batch *batch, size_t index, FILE *out)
{
	const struct batch_configuration *c = &batch->configurations[index];

	fputc('|', out);
	if (!batch->n_parameters)
		md_cell(c->label, out);
	for (size_t p = 0; p < batch->n_parameters; p++)
		md_cell(c->values[p], out);
}

static size_t md_parameter_heads(const struct batch *batch, FILE *out)
{
	fputc('|', out);
	if (!batch->n_parameters)
		md_cell("configuration", out);
	for (size_t p = 0; p < batch->n_parameters; p++)
		md_cell(batch->parameters[p], out);
	return batch->n_parameters ? batch->n_parameters : 1;
}

/* Server load, sweeps and options that were not given say nothing about these experiments. */
static bool is_worth_telling(const struct batch_constant *constant)
{
	const struct parameter *p = parameter_find(constant->node->key);
	bool usual = p && p->default_text && !strcmp(p->default_text, constant->text);

	return !usual ||
	       ((p->part == PART_WORK || p->part == PART_MEASURE) && p->type != PARAMETER_MAP);
}

static void md_setup(const struct batch *batch, FILE *out)
{
	bool any = false;

	if (!batch->n_configurations)
		return;
	fputs("## Configuration\n\n", out);
	for (size_t p = 0; p < batch->n_parameters; p++) {
		fputs(p ? ", " : "What varies: ", out);
		markdown_text(batch->parameters[p], out);
	}
	fputs(batch->n_parameters ? ". " : "", out);
	for (size_t i = 0; i < batch->n_constants; i++) {
		if (!is_worth_telling(&batch->constants[i]))
			continue;
		fputs(any ? ", " : "The same in all experiments: ", out);
		any = true;
		markdown_text(batch->constants[i].node->key, out);
		fputc(' ', out);
		markdown_text(batch->constants[i].text, out);
	}
	fputs(any ? ". Hardware: " : "Hardware: ", out);
	markdown_text(batch->hardware ? batch->hardware : batch->no_hardware, out);
	fputs(".\n\n", out);
}

/* The figures from one metric to another, one row per configuration that has any. */
static void md_figures(const struct batch *batch, const enum batch_metric_id *metrics, size_t n,
		       bool against_best, FILE *out)
{
	size_t texts = md_parameter_heads(batch, out), numbers = 1, most;
	char text[128];

	md_cell("n", out);
	for (size_t m = 0; m < n; m++) {
		if (!batch_shows(batch, metrics[m]))
			continue;
		batch_metric_heading(metrics[m], text, sizeof(text));
		md_cell(text, out);
		numbers++;
	}
	if (against_best)
		md_cell("tokens/s against the best", out);
	md_rule(texts, numbers + against_best, false, out);
	for (size_t i = 0; i < batch->n_configurations; i++) {
		const struct batch_configuration *c = &batch->configurations[i];

		if (!c->successful)
			continue;
		md_parameters(batch, i, out);
		most = 0;
		for (size_t m = 0; m < n; m++)
			most = c->figures[metrics[m]].n > most ? c->figures[metrics[m]].n : most;
		snprintf(text, sizeof(text), "%zu", most);
		md_cell(text, out);
		for (size_t m = 0; m < n; m++) {
			if (!batch_shows(batch, metrics[m]))
				continue;
			batch_mean_text(metrics[m], &c->figures[metrics[m]], true, text,
					sizeof(text));
			md_cell(text, out);
		}
		batch_verdict_text(batch, i, BATCH_TOKENS_PER_S, text, sizeof(text));
		if (against_best)
			md_cell(text, out);
		fputc('\n', out);
	}
	fputc('\n', out);
}

static void md_results(const struct batch *batch, FILE *out)
{
	static const enum batch_metric_id work[] = { BATCH_TOKENS_PER_S, BATCH_TOKENS_PER_S_PER_GPU,
						     BATCH_INFERENCE_TIME, BATCH_PEAK_MEMORY,
						     BATCH_COST };
	static const enum batch_metric_id latency[] = { BATCH_TTFT_P50, BATCH_TTFT_P99,
							BATCH_TPOT_P50, BATCH_TPOT_P99,
							BATCH_ITL_P50,	BATCH_ITL_P99,
							BATCH_E2EL_P50, BATCH_E2EL_P99 };
	bool latencies = false;

	fputs("## Results\n\n", out);
	md_figures(batch, work, sizeof(work) / sizeof(work[0]), true, out);
	for (size_t i = 0; i < sizeof(latency) / sizeof(latency[0]); i++)
		latencies = latencies || batch_shows(batch, latency[i]);
	if (latencies)
		md_figures(batch, latency, sizeof(latency) / sizeof(latency[0]), false, out);
	fputs("n is the number of repeats, or of experiments where a configuration has several. "
	      "Figures are means over them \u00b1 half of the 95% interval of the mean (Student's t); "
	      "one without \u00b1 was measured fewer than three times, with n = 1 once. Against the "
	      "best: the difference of the means, with Welch's t test and the correction of Benjamini "
	      "and Hochberg where both sides have three; noise: not more than chance may give; "
	      "untested: n is too small.\n\n",
	      out);
}

static void md_best(const struct batch *batch, FILE *out)
{
	char text[128];

	fputs("## Best per metric\n\n| metric | best configuration | value | n | within its noise |",
	      out);
	md_rule(2, 2, true, out);
	for (int m = 0; m < BATCH_METRICS; m++) {
		const struct batch_configuration *best;
		size_t ties = 0, untested = 0;

		if (!batch_shows(batch, (enum batch_metric_id)m))
			continue;
		best = &batch->configurations[batch->best[m]];
		fputc('|', out);
		batch_metric_heading((enum batch_metric_id)m, text, sizeof(text));
		md_cell(text, out);
		md_cell(best->label, out);
		batch_mean_text((enum batch_metric_id)m, &best->figures[m], true, text,
				sizeof(text));
		md_cell(text, out);
		fprintf(out, " %zu | ", best->figures[m].n);
		for (size_t i = 0; i < batch->n_configurations; i++) {
			const struct batch_configuration *c = &batch->configurations[i];
			enum compare_verdict verdict = c->against_best[m].verdict;

			untested += verdict == COMPARE_UNTESTED;
			if (verdict != COMPARE_NOISE && verdict != COMPARE_SAME)
				continue;
			fputs(ties++ ? "; " : "", out);
			markdown_text(c->label, out);
		}
		if (untested)
			fprintf(out, "%s%zu untested", ties ? "; " : "", untested);
		else if (!ties)
			fputs("none", out);
		fputs(" |\n", out);
	}
	fputc('\n', out);
}

static void md_front(const struct batch *batch, FILE *out)
{
	char head[64], text[128];
	size_t texts;

	fputs("## Pareto front\n\n", out);
	if (!batch->n_front) {
		fputs("No experiment has both a throughput and a latency.\n\n", out);
		return;
	}
	batch_metric_heading(batch->latency, head, sizeof(head));
	fprintf(out,
		"Configurations that no other one beats in both tokens/s and %s, by their means.\n\n",
		head);
	texts = md_parameter_heads(batch, out);
	md_cell(head, out);
	md_cell("tokens/s", out);
	md_rule(texts, 2, false, out);
	for (size_t i = 0; i < batch->n_front; i++) {
		const struct batch_configuration *c = &batch->configurations[batch->front[i]];

		md_parameters(batch, batch->front[i], out);
		batch_mean_text(batch->latency, &c->figures[batch->latency], true, text,
				sizeof(text));
		md_cell(text, out);
		batch_mean_text(BATCH_TOKENS_PER_S, &c->figures[BATCH_TOKENS_PER_S], true, text,
				sizeof(text));
		md_cell(text, out);
		fputc('\n', out);
	}
	fputc('\n', out);
}

static void md_efficiency(const struct batch *batch, size_t index, FILE *out)
{
	const struct batch_axis *axis = &batch->axes[index];
	const char *key = batch->parameters[axis->parameter];

	fprintf(out, "Efficiency by ");
	markdown_text(key, out);
	fputs(": 100% * (tokens/s / ", out);
	markdown_text(key, out);
	fputs(") / the same of the smallest ", out);
	markdown_text(key, out);
	fputs(" that succeeded with the other parameters.\n\n", out);
	size_t texts = md_parameter_heads(batch, out);
	md_cell("relative to", out);
	md_cell("efficiency", out);
	md_rule(texts, 2, false, out);
	for (size_t l = 0; l < axis->n; l++) {
		for (size_t i = 0; i < axis->lines[l].n; i++) {
			size_t at = axis->lines[l].at[i];
			const struct batch_efficiency *e =
				&batch->configurations[at].efficiency[index];

			if (!e->pct.known)
				continue;
			md_parameters(batch, at, out);
			md_cell(e->relative_to, out);
			md_cell(format_pct(e->pct.v).text, out);
			fputc('\n', out);
		}
	}
	fputc('\n', out);
}

static void md_laws(const struct batch *batch, FILE *out)
{
	const enum batch_metric_id metrics[] = { BATCH_TOKENS_PER_S, batch->latency };
	size_t n = 0;

	for (size_t a = 0; a < batch->n_axes; a++) {
		const struct batch_axis *axis = &batch->axes[a];

		for (size_t i = 0; i < axis->n * 2; i++) {
			const struct batch_line *line = &axis->lines[i / 2];
			enum batch_metric_id m = metrics[i % 2];

			if (!line->exponent[m].known)
				continue;
			if (!n++) {
				fputs("Power laws: metric = c * parameter^exponent, by least squares "
				      "through the logarithms.\n\n"
				      "| metric | parameter | where | exponent | R\u00b2 |",
				      out);
				md_rule(3, 2, false, out);
			}
			fputc('|', out);
			md_cell(batch_metrics[m].title, out);
			md_cell(batch->parameters[axis->parameter], out);
			md_cell(*line->label ? line->label : "-", out);
			fprintf(out, " %.3f | %.3f |\n", line->exponent[m].v, line->r2[m]);
		}
	}
	if (n)
		fputc('\n', out);
}

static void md_scaling(const struct batch *batch, FILE *out)
{
	if (!batch->n_axes)
		return;
	fputs("## Scaling\n\n", out);
	for (size_t a = 0; a < batch->n_axes; a++)
		if (batch->axes[a].resource)
			md_efficiency(batch, a, out);
	md_laws(batch, out);
}

static void md_failures(const struct batch *batch, FILE *out)
{
	if (batch->counts[BATCH_SUCCESS] == batch->n)
		return;
	fputs("## What failed\n\n| experiment | status | why |", out);
	md_rule(3, 0, false, out);
	for (size_t i = 0; i < batch->n; i++) {
		const struct batch_experiment *e = &batch->experiments[i];

		if (e->status == BATCH_SUCCESS)
			continue;
		fputc('|', out);
		md_cell(e->name, out);
		md_cell(batch_status_names[e->status], out);
		md_cell(e->error, out);
		fputc('\n', out);
	}
	fputs("\nThey have no figures above.\n\n", out);
}

/* The experiments' own notes, such as a node that died in the first attempt. */
static void md_notes(const struct batch *batch, FILE *out)
{
	bool begun = false;

	for (size_t i = 0; i < batch->n; i++) {
		const struct batch_experiment *e = &batch->experiments[i];

		for (const struct json_node *note = batch_note(e, NULL); note;
		     note = batch_note(e, note)) {
			if (!begun) {
				fputs("## Notes\n\n| experiment | note |", out);
				md_rule(2, 0, false, out);
			}
			begun = true;
			fputc('|', out);
			md_cell(e->name, out);
			md_cell(note->text, out);
			fputc('\n', out);
		}
	}
	if (begun)
		fputc('\n', out);
}

static void md_plots(const struct batch *batch, const char *no_plots, FILE *out)
{
	char name[256], title[512];

	if (!batch_plot_name(batch, 0, name, sizeof(name)))
		return;
	fputs("## Plots\n\n", out);
	if (no_plots) {
		markdown_text(no_plots, out);
		fputs("\n\n", out);
		return;
	}
	for (size_t i = 0; batch_plot_name(batch, i, name, sizeof(name)); i++) {
		batch_plot_title(batch, i, title, sizeof(title));
		fputs("![", out);
		markdown_text(title, out);
		fprintf(out, "](" BATCH_PLOTS "/%s.png)\n\n", name);
	}
}

static void md_formulas(const struct batch *batch, FILE *out)
{
	char text[1024];

	fprintf(out, "## Formulas\n\nLatencies of requests are those of %s's dialect.\n\n",
		batch->dialect);
	for (int m = 0; m < BATCH_METRICS; m++) {
		if (!batch_shows(batch, (enum batch_metric_id)m))
			continue;
		fprintf(out, "- %s: ", batch_metrics[m].title);
		batch_formula(batch, (enum batch_metric_id)m, text, sizeof(text));
		markdown_text(text, out);
		fputs(m == BATCH_COST ? ", in the currency of price_per_hour\n" : "\n", out);
	}
}

int batch_write_markdown(const struct batch *batch, const char *no_plots, FILE *out)
{
	char counts[128];

	fputs("# ", out);
	markdown_text(batch->name, out);
	batch_counts_text(batch, counts, sizeof(counts));
	fprintf(out, "\n\n%zu experiment%s in %zu configuration%s: %s.\n\n", batch->n,
		batch->n == 1 ? "" : "s", batch->n_configurations,
		batch->n_configurations == 1 ? "" : "s", counts);
	md_setup(batch, out);
	if (batch->counts[BATCH_SUCCESS]) {
		md_results(batch, out);
		md_best(batch, out);
		md_front(batch, out);
		md_scaling(batch, out);
	}
	md_failures(batch, out);
	md_notes(batch, out);
	if (batch->counts[BATCH_SUCCESS]) {
		md_plots(batch, no_plots, out);
		md_formulas(batch, out);
	}
	return ferror(out) ? -EIO : 0;
}
