/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope bench: one experiment, measured, with its results in a folder.
 */
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/format.h"
#include "base/text/json_write.h"
#include "base/text/nearest.h"
#include "base/text/text_table.h"
#include "cmd/options/parameter_options.h"
#include "cmd/terminal/output.h"
#include "lab/results.h"
#include "lab/serving/figures.h"
#include "lab/serving/serving.h"

struct values {
	bool force, json, formulas, list_parameters, list_engines;
	struct parameter_values parameters;
};

static const struct option_desc own[] = {
	{ .name = "force",
	  .short_name = 'f',
	  .kind = OPTION_FLAG,
	  .help = "replace the results in --experiment-name",
	  .offset = offsetof(struct values, force) },
	{ .name = "json",
	  .kind = OPTION_FLAG,
	  .help = "print summary.json, which has all figures in all dialects",
	  .offset = offsetof(struct values, json) },
	{ .name = "formulas",
	  .kind = OPTION_FLAG,
	  .help = "show how each figure is computed",
	  .offset = offsetof(struct values, formulas) },
	{ .name = "list-parameters",
	  .kind = OPTION_FLAG,
	  .help = "show every parameter with its type and default, and run nothing; with "
		  "--json also its value",
	  .offset = offsetof(struct values, list_parameters) },
	{ .name = "list-engines",
	  .kind = OPTION_FLAG,
	  .help = "show what can run a model, and run nothing",
	  .offset = offsetof(struct values, list_engines) },
	{ 0 },
};

static const struct option_group groups[] = {
	{ config_options, offsetof(struct values, parameters) },
	{ own, 0 },
	{ parameter_options, offsetof(struct values, parameters) },
	{ NULL, 0 },
};

static const struct example examples[] = {
	{ "moescope bench", "The embedded model, on any machine." },
	{ "moescope bench --batch-size 4 --repeats 5 --profile-mode trace",
	  "Four texts at once, five times, under the profiler." },
	{ "moescope bench --config my_experiment.yaml --seed 7",
	  "Parameters from a file, with one override." },
	{ "moescope bench --engine command --command './generate --batch {batch_size}'",
	  "Your own program; docs/experiments.md says what it can report." },
	{ NULL, NULL },
};

static volatile bool stop;

static void put_row(struct json *json, const struct parameter *p, bool given)
{
	json_object_line(json);
	json_key(json, "key");
	json_string(json, p->key);
	json_key(json, "part");
	json_string(json, parameter_parts[p->part]);
	json_key(json, "type");
	json_string(json, parameter_type_name(p->type));
	json_key(json, "default");
	json_string(json, p->default_text ? p->default_text : "");
	json_key(json, "given");
	json_bool(json, given);
	json_key(json, "help");
	json_string(json, p->help);
	json_key(json, "choices");
	json_array(json);
	for (size_t i = 0; p->choices && p->choices[i]; i++)
		json_string(json, p->choices[i]);
	json_array_end(json);
	json_key(json, "aliases");
	json_array(json);
	for (const char *const *alias = parameter_aliases; *alias; alias += 2)
		if (strcmp(alias[1], p->key) == 0)
			json_string(json, alias[0]);
	json_array_end(json);
	json_object_end(json);
}

/* With the values of the file and the options, so that others need not read YAML. */
static int list_json(const struct experiment *e, FILE *out)
{
	struct json json;

	json_init_file(&json, out, 2);
	json_object(&json);
	json_key(&json, "schema");
	json_string(&json, "moescope/parameters/1");
	json_key(&json, "rows");
	json_array(&json);
	for (const struct parameter *p = parameters; p->key; p++)
		put_row(&json, p, e->given[p - parameters]);
	json_array_end(&json);
	json_key(&json, "config");
	results_config(e, &json);
	json_object_end(&json);
	return json_finish(&json, NULL) < 0 ? fail("no memory for the output.") : EXIT_OK;
}

static int list_parameters(struct invocation *inv)
{
	static const struct text_column columns[] = { { "parameter", TEXT_LEFT, false },
						      { "type", TEXT_LEFT, false },
						      { "default", TEXT_LEFT, true },
						      { "meaning", TEXT_LEFT, true } };
	struct terminal terminal = terminal_look();
	struct text_layout layout = { .width = terminal.stdout_is_terminal ? terminal.columns : 0,
				      .color = terminal.color,
				      .utf8 = terminal.utf8 };
	struct text_table *table = text_table_new(columns, 4);

	if (!table)
		return fail("no memory.");
	for (const struct parameter *p = parameters; p->key; p++) {
		text_table_cell(table, p->key, TEXT_PLAIN);
		text_table_cell(table, parameter_type_name(p->type), TEXT_PLAIN);
		text_table_cell(table, p->default_text ? p->default_text : "", TEXT_PLAIN);
		text_table_cell(table, p->help, TEXT_PLAIN);
	}
	text_table_print(table, &layout, inv->out->file);
	text_table_free(table);
	return EXIT_OK;
}

static int check_engine(const struct command *command, const char *name)
{
	struct nearest nearest = nearest_to(name);

	if (engine_find(name))
		return EXIT_OK;
	for (size_t i = 0; engines[i]; i++)
		nearest_offer(&nearest, engines[i]->name);
	if (nearest.best)
		return usage_error(command, "no engine '%s'; did you mean '%s'?", name,
				   nearest.best);
	return usage_error(command, "no engine '%s'; --list-engines lists them.", name);
}

static void print_speed(const struct point *point, const struct figures *f, FILE *out)
{
	const char *unit = point->experiment->task == TASK_TRAINING ? "trained on" : "generated";

	if (!point->measured) {
		fprintf(out, "  speed         n/a: %s\n", point->unmeasured.message);
		return;
	}
	if (isfinite(f->tokens_per_s))
		fprintf(out, "  speed         %s tokens/s: %lld tokens %s in %s\n",
			format_count(f->tokens_per_s).text, (long long)f->all.tokens, unit,
			format_ns(f->all.time_s * 1e9).text);
	else
		fprintf(out, "  speed         n/a: %s\n", f->reason);
	if (f->n > 1) {
		double least = INFINITY, most = 0;

		for (size_t i = 0; i < f->n; i++) {
			double rate = (double)f->repeats[i].tokens / f->repeats[i].time_s;

			least = fmin(least, rate);
			most = fmax(most, rate);
		}
		if (isfinite(least))
			fprintf(out, "  repeats       %zu, from %s to %s tokens/s\n", f->n,
				format_count(least).text, format_count(most).text);
	}
}

static void print_memory(const struct point *point, FILE *out)
{
	bool traced = point->trace_peak_bytes >= 0;
	double measured = traced ? point->trace_peak_bytes : (double)point->peak_rss_bytes;

	if (measured > 0)
		fprintf(out, "  memory        %s at most (%s)", format_bytes(measured).text,
			traced ? "trace" : "resident");
	else
		fputs("  memory        n/a", out);
	if (!point->unestimated.message[0])
		fprintf(out, "; estimated %s", format_bytes(point->estimate.total_bytes).text);
	fputc('\n', out);
}

static int print_serving(const struct point *point, bool formulas, FILE *out)
{
	const struct experiment *e = point->experiment;
	struct terminal terminal = terminal_look();
	struct text_layout layout = { .width = terminal.stdout_is_terminal ? terminal.columns : 0,
				      .indent = 2,
				      .color = terminal.color,
				      .utf8 = terminal.utf8 };
	struct goodput_limit limit = { 0 };
	struct serving serving;
	int r = e->goodput ? goodput_parse(e->goodput, &limit, NULL) : 0;

	if (!point->measured || e->task == TASK_TRAINING)
		return 0;
	if (r == 0)
		r = serving_compute(&point->requests, (enum dialect)dialect_find(e->dialect),
				    &limit, &serving);
	if (r == 0) {
		fputc('\n', out);
		r = serving_print(&serving, &layout, formulas, out);
	}
	return r;
}

static void print_next(const struct point *point, FILE *out)
{
	fprintf(out, "\nThe results are in %s. What to type next:\n", point->directory);
	if (point->status != POINT_SUCCESS)
		fprintf(out, "  less %s/" POINT_LOG "\n", point->directory);
	if (point->trace_peak_bytes >= 0)
		fprintf(out, "  moescope report %s/" POINT_TRACE "\n", point->directory);
	else if (point->status == POINT_SUCCESS && (point->engine->driver || point->engine->server))
		fprintf(out, "  moescope bench --config %s/" POINT_CONFIG " --profile-mode trace\n",
			point->directory);
}

static int print_text(const struct point *point, bool formulas, FILE *out)
{
	const struct experiment *e = point->experiment;
	struct figures f = { 0 };
	int r = point->measured ? figures_compute(e, &point->requests, &f) : 0;

	if (r < 0)
		return r;
	fprintf(out, "%s, engine %s: %s in %s\n", e->model_name, e->engine,
		point_status_names[point->status],
		format_ns((double)(point->end_ns - point->start_ns)).text);
	if (point->status != POINT_SUCCESS) {
		fputs("  ", out);
		text_put(out, point->error.message, terminal_look().utf8);
		fputc('\n', out);
	}
	print_speed(point, &f, out);
	print_memory(point, out);
	r = print_serving(point, formulas, out);
	for (size_t i = 0; i < point->notes.n; i++)
		fprintf(out, "%s  note: %s\n", i ? "" : "\n", point->notes.v[i]);
	print_next(point, out);
	figures_release(&f);
	return r;
}

static int print_json(const struct point *point, FILE *out)
{
	struct json json;
	int r;

	json_init_file(&json, out, 2);
	r = results_summary(point, &json);
	return json_finish(&json, NULL) < 0 || r < 0 ? -ENOMEM : 0;
}

static int run_bench(struct invocation *inv)
{
	const struct values *values = inv->values;
	struct goodput_limit limit;
	struct experiment e;
	struct err err = { "" };
	struct point point;
	int r;

	if (values->list_parameters && !values->json)
		return list_parameters(inv);
	if (values->list_engines) {
		for (size_t i = 0; engines[i]; i++)
			fprintf(inv->out->file, "%-13s %s\n", engines[i]->name,
				engines[i]->summary);
		return EXIT_OK;
	}
	r = parameters_take(inv->command, &values->parameters, &e);
	if (r != EXIT_OK)
		return r;
	if (values->list_parameters) {
		r = list_json(&e, inv->out->file);
		experiment_release(&e);
		return r;
	}
	r = check_engine(inv->command, e.engine);
	if (r == EXIT_OK && e.goodput && goodput_parse(e.goodput, &limit, &err) < 0)
		r = usage_error(inv->command, "%s", err.message);
	if (r != EXIT_OK) {
		experiment_release(&e);
		return r;
	}
	child_signals(&stop);
	r = point_run(&e, lab_tools_find(), values->force, &stop, &point, &err);
	if (r < 0) {
		experiment_release(&e);
		return fail("%s", err.message[0] ? err.message : strerror(-r));
	}
	r = values->json ? print_json(&point, inv->out->file)
			 : print_text(&point, values->formulas, inv->out->file);
	r = r < 0 ? fail("no memory.") : point.status == POINT_SUCCESS ? EXIT_OK : EXIT_FAILED;
	point_release(&point);
	experiment_release(&e);
	return r;
}

const struct command cmd_bench = {
	.name = "bench",
	.purpose = PURPOSE_EXPERIMENT,
	.summary = "measure one configuration of inference or training",
	.words = "",
	.description =
		"Runs a model once with the given parameters, measures it, and writes everything "
		"to one folder: the configuration, the log, the times of every token, metrics as "
		"vLLM's benchmark, GuideLLM and AIPerf define them, and with --profile-mode "
		"trace a run that the other commands read.\n"
		"The same parameters may come from a YAML file, with underscores for dashes.",
	.groups = groups,
	.examples = examples,
	.values_size = sizeof(struct values),
	.max_args = 0,
	.run = run_bench,
};
