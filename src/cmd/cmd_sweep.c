/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope sweep: the points of a sweep run one after the other (src/lab/sweep.h), with a line for
 * each, and the comparison at the end.
 */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text/format.h"
#include "base/text/text_table.h"
#include "cmd/options/parameter_options.h"
#include "cmd/summary.h"
#include "cmd/terminal/output.h"
#include "lab/estimate.h"
#include "lab/launcher.h"
#include "lab/point.h"

struct values {
	const char *resume;
	bool json, list, retry_failed;
	struct parameter_values parameters;
};

static const struct option_desc own[] = {
	{ .name = "json",
	  .kind = OPTION_FLAG,
	  .help = "print batch_summary.json; progress goes to standard error",
	  .offset = offsetof(struct values, json) },
	{ .name = "list",
	  .kind = OPTION_FLAG,
	  .help = "show the points and what each needs, and run nothing",
	  .offset = offsetof(struct values, list) },
	{ .name = "resume",
	  .kind = OPTION_STRING,
	  .metavar = "DIR",
	  .help = "continue an interrupted sweep",
	  .offset = offsetof(struct values, resume),
	  .completion = COMPLETE_DIR },
	{ .name = "retry-failed",
	  .kind = OPTION_FLAG,
	  .help = "with --resume: also repeat failed and timed-out points",
	  .offset = offsetof(struct values, retry_failed) },
	{ 0 },
};

static const struct option_group groups[] = {
	{ config_options, offsetof(struct values, parameters) },
	{ own, 0 },
	{ sweep_parameter_options, offsetof(struct values, parameters) },
	{ parameter_options, offsetof(struct values, parameters) },
	{ NULL, 0 },
};

static const struct example examples[] = {
	{ "moescope sweep --preset quick", "Four points of the embedded model, compared." },
	{ "moescope sweep --parameter-sweep \"batch_size:1,2,4;max_tokens:100,200\"",
	  "Six points." },
	{ "moescope sweep --config sweep.yaml --launcher slurm", "As a Slurm job array." },
	{ "moescope sweep --resume results/tinymoe_inference_only_sweep_20260131_140307",
	  "The rest of an interrupted sweep." },
	{ NULL, NULL },
};

/* With --json standard output has the document alone. */
static FILE *progress(const struct invocation *inv)
{
	const struct values *values = inv->values;

	return values->json ? stderr : inv->out->file;
}

static void on_started(void *arg, const struct sweep *sweep, size_t point, const char *where)
{
	const struct invocation *inv = arg;

	fprintf(progress(inv), "[%zu/%zu] %s ...%s%s\n", point + 1, sweep->n,
		sweep->points[point].label, *where ? " on " : "", where);
	out_flush(inv->out);
}

static void on_ended(void *arg, const struct sweep *sweep, size_t point)
{
	const struct sweep_point *p = &sweep->points[point];
	const struct invocation *inv = arg;
	FILE *out = progress(inv);

	fprintf(out, "[%zu/%zu] %s: %s", point + 1, sweep->n, p->label,
		sweep_state_names[p->state]);
	if (!isnan(p->duration_s))
		fprintf(out, " in %.1f s", p->duration_s);
	if (p->error) {
		fputs(": ", out);
		text_put(out, p->error, terminal_look().utf8); /* a program's last words */
	}
	fputc('\n', out);
	out_flush(inv->out);
}

static void on_said(void *arg, const char *sentence)
{
	struct invocation *inv = arg;

	out_flush(inv->out);
	say("%s", sentence);
}

static void say_waiting(void)
{
	say("waiting for a program of the last attempt to end.");
}

static void put_estimate(struct text_table *table, const struct experiment *experiment,
			 const struct lab_tools *tools)
{
	struct estimate estimate;
	struct err err = { "" };

	if (estimate_model(experiment, tools, &estimate, &err) == 0)
		text_table_cell(table, format_bytes(estimate.total_bytes).text, TEXT_PLAIN);
	else
		text_table_cell(table, "n/a", TEXT_DIM);
}

/* --list: each point, what it would need, and of a sweep that was started what became of it. */
static int list_points(struct invocation *inv, const struct sweep *sweep,
		       const struct lab_tools *tools)
{
	static const struct text_column columns[] = {
		{ "point", TEXT_RIGHT, false },	     { "parameters", TEXT_LEFT, true },
		{ "GPUs", TEXT_RIGHT, false },	     { "processes", TEXT_RIGHT, false },
		{ "time limit", TEXT_RIGHT, false }, { "memory (estimated)", TEXT_RIGHT, false },
		{ "state", TEXT_LEFT, false },
	};
	size_t n_columns = sizeof(columns) / sizeof(*columns) - (sweep->directory ? 0 : 1);
	struct text_table *table = text_table_new(columns, n_columns);
	struct terminal terminal = terminal_look();
	struct text_layout layout = { .width = terminal.stdout_is_terminal ? terminal.columns : 0,
				      .color = terminal.color,
				      .utf8 = terminal.utf8 };
	struct err err = { "" };
	int r = table ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < sweep->n; i++) {
		struct experiment experiment;

		r = sweep_experiment(sweep, i, &experiment, &err);
		if (r < 0)
			break;
		text_table_cellf(table, TEXT_PLAIN, "%zu", i + 1);
		text_table_cell(table, sweep->points[i].label, TEXT_PLAIN);
		text_table_cellf(table, TEXT_PLAIN, "%lld", (long long)launcher_gpus(&experiment));
		text_table_cellf(table, TEXT_PLAIN, "%lld",
				 (long long)experiment.nodes * experiment.processes);
		if (experiment.time_limit_s > 0)
			text_table_cellf(table, TEXT_PLAIN, "%g s", experiment.time_limit_s);
		else
			text_table_cell(table, "none", TEXT_DIM);
		put_estimate(table, &experiment, tools);
		if (sweep->directory)
			text_table_cell(table, sweep_state_names[sweep->points[i].state],
					TEXT_PLAIN);
		experiment_release(&experiment);
	}
	if (r == 0)
		r = text_table_print(table, &layout, inv->out->file);
	text_table_free(table);
	return r < 0 ? fail("%s", err.message[0] ? err.message : strerror(-r)) : EXIT_OK;
}

static void show_retries(const struct sweep *sweep, FILE *out)
{
	for (size_t i = 0; i < sweep->n; i++)
		if (sweep->points[i].dead_node && sweep->points[i].state == SWEEP_SUCCESS)
			fprintf(out,
				"Point %zu (%s) was run twice: node %s died under the first try.\n",
				i + 1, sweep->points[i].label, sweep->points[i].dead_node);
}

/* Why is in the comparison above. */
static void show_logs(const struct sweep *sweep, FILE *out)
{
	for (size_t i = 0; i < sweep->n; i++) {
		const struct sweep_point *p = &sweep->points[i];

		if (p->state == SWEEP_FAILED || p->state == SWEEP_TIMEOUT)
			fprintf(out, "log of point %zu, %s: %s/points/%s/" POINT_LOG "\n", i + 1,
				sweep_state_names[p->state], sweep->directory, p->name);
	}
}

static int conclude(struct invocation *inv, const struct sweep *sweep)
{
	size_t bad = sweep_count(sweep, SWEEP_FAILED) + sweep_count(sweep, SWEEP_TIMEOUT);
	const struct values *values = inv->values;
	struct table_values table = table_defaults;
	FILE *out = progress(inv);
	int r;

	table.json = values->json;
	fputc('\n', out);
	r = summary_make(sweep->directory, NULL, &table, inv->out->file);
	fputc('\n', out);
	show_retries(sweep, out);
	show_logs(sweep, out);
	fprintf(out, "%zu of %zu points succeeded. Results: %s\n",
		sweep_count(sweep, SWEEP_SUCCESS), sweep->n, sweep->directory);
	if (bad == 0)
		return r;
	out_flush(inv->out);
	return fail("%zu of %zu points failed; their logs are named above. Again: moescope sweep "
		    "--resume %s --retry-failed",
		    bad, sweep->n, sweep->directory);
}

static int run_points(struct invocation *inv, struct sweep *sweep, const struct lab_tools *tools)
{
	struct sweep_watch watch = { on_started, on_ended, on_said, inv };
	struct err err = { "" };
	int stopped_by = 0, r;

	r = launcher_run(sweep, tools, &watch, &stopped_by, &err);
	if (r == -EINTR) {
		out_flush(inv->out);
		say("stopped by signal %d (%s) with %zu of %zu points done. Go on with: moescope sweep "
		    "--resume %s",
		    stopped_by, strsignal(stopped_by),
		    sweep->n - sweep_count(sweep, SWEEP_WAITING) -
			    sweep_count(sweep, SWEEP_UNDER_WAY),
		    sweep->n, sweep->directory);
		return 128 + stopped_by;
	}
	if (r < 0) {
		out_flush(inv->out);
		fail("%s", err.message);
		say("go on with: moescope sweep --resume %s", sweep->directory);
		return EXIT_FAILED;
	}
	return conclude(inv, sweep);
}

static int plan(struct invocation *inv, struct sweep *sweep)
{
	const struct values *values = inv->values;
	struct experiment base;
	struct err err = { "" };
	int r = parameters_read(inv->command, &values->parameters, &base);

	if (r != EXIT_OK)
		return r;
	r = sweep_plan(sweep, &base, &err);
	experiment_release(&base);
	return r < 0 ? usage_error(inv->command, "%s", err.message) : EXIT_OK;
}

static int begin(struct invocation *inv, const struct lab_tools *tools)
{
	const struct values *values = inv->values;
	struct sweep sweep;
	struct err err = { "" };
	int status = plan(inv, &sweep);

	if (status != EXIT_OK)
		return status;
	if (values->list) {
		status = list_points(inv, &sweep, tools);
	} else if (launcher_check(launcher_find(sweep.base.launcher), &err) < 0 ||
		   sweep_create(&sweep, &err) < 0) {
		status = fail("%s", err.message);
	} else {
		fprintf(progress(inv), "%zu points into %s\n", sweep.n, sweep.directory);
		status = run_points(inv, &sweep, tools);
	}
	sweep_release(&sweep);
	return status;
}

static int resume(struct invocation *inv, const struct lab_tools *tools)
{
	const struct values *values = inv->values;
	struct sweep sweep;
	struct err err = { "" };
	int status = EXIT_OK;

	if (values->parameters.config || values->parameters.words.n)
		return usage_error(
			inv->command, "--resume uses the configuration of the sweep; omit %s%s.",
			values->parameters.config ? "" : "--",
			values->parameters.config ? "--config"
						  : values->parameters.words.v[0].option->name);
	if (sweep_open(&sweep, values->resume, say_waiting, &err) < 0)
		return fail("%s", err.message);
	if (values->list)
		status = list_points(inv, &sweep, tools);
	else if (values->retry_failed && sweep_retry_failed(&sweep, &err) < 0)
		status = fail("%s", err.message);
	else
		status = run_points(inv, &sweep, tools);
	sweep_release(&sweep);
	return status;
}

static int run_sweep(struct invocation *inv)
{
	const struct values *values = inv->values;
	const struct lab_tools *tools = lab_tools_find();

	if (values->list && values->json)
		return usage_error(
			inv->command,
			"--json prints the results of a sweep, and --list runs none; omit one of "
			"them.");
	if (values->resume)
		return resume(inv, tools);
	if (values->retry_failed)
		return usage_error(inv->command, "--retry-failed needs --resume DIR.");
	return begin(inv, tools);
}

const struct command cmd_sweep = {
	.name = "sweep",
	.purpose = PURPOSE_EXPERIMENT,
	.summary = "run many configurations unattended and compare them",
	.words = "",
	.description =
		"Runs an experiment ('moescope bench') for every combination of the values in "
		"--parameter-sweep or a preset: quick, comprehensive or scaling. The first "
		"parameter changes slowest. Each point is its own process: if one crashes, hangs "
		"or runs out of memory, it counts as failed and the sweep continues. --resume "
		"continues an interrupted sweep without repeating points. The exit status is 0 "
		"if all points succeeded and 1 if some failed.",
	.groups = groups,
	.examples = examples,
	.values_size = sizeof(struct values),
	.max_args = 0,
	.run = run_sweep,
};
