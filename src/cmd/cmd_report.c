/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope report: the whole story of a run, verdicts first.
 */
#include "base/files/whole_file.h"
#include "cmd/results/csv_dir.h"
#include "cmd/results/plot_files.h"
#include "cmd/results/table.h"
#include "cmd/runs/run_find.h"
#include "cmd/terminal/output.h"
#include "surfaces/html/html.h"

struct values {
	struct table_values table;
	struct plot_choices plots;
	const char *html; /* NULL: none */
};

static const struct option_desc own[] = {
	{ .name = "dashboard",
	  .kind = OPTION_FLAG,
	  .help = "one screen instead of the whole report",
	  .offset = offsetof(struct table_values, dashboard) },
	{ .name = "csv",
	  .kind = OPTION_STRING,
	  .metavar = "DIR",
	  .help = "write every table as a file in this directory, instead of a report",
	  .offset = offsetof(struct table_values, csv_directory),
	  .completion = COMPLETE_DIR },
	{ .name = "limit",
	  .short_name = 'n',
	  .kind = OPTION_INT,
	  .metavar = "N",
	  .max = 1e15,
	  .help = "with --json, at most N rows of each table; 0 gives all",
	  .default_text = "0",
	  .offset = offsetof(struct table_values, limit) },
	{ 0 },
};

static const struct option_desc plot_options[] = {
	{ .name = "plots",
	  .kind = OPTION_STRING,
	  .metavar = "DIR",
	  .help = "also draw every plot into this directory; see moescope plot --list",
	  .offset = offsetof(struct plot_choices, directory),
	  .completion = COMPLETE_DIR },
	{ .name = "plot-format",
	  .kind = OPTION_CHOICE,
	  .metavar = "FORMAT",
	  .choices = plot_format_choices,
	  .help = "png, svg or both",
	  .default_text = "png",
	  .offset = offsetof(struct plot_choices, format) },
	{ .name = "plot-theme",
	  .kind = OPTION_CHOICE,
	  .metavar = "THEME",
	  .choices = plot_theme_choices,
	  .help = "light, dark (files end with -dark) or both",
	  .default_text = "light",
	  .offset = offsetof(struct plot_choices, theme) },
	{ .name = "plot-scale",
	  .kind = OPTION_DOUBLE,
	  .metavar = "X",
	  .min = 0.5,
	  .max = 8,
	  .help = "plot size: 2 gives twice as many pixels in each direction",
	  .default_text = "1",
	  .offset = offsetof(struct plot_choices, scale) },
	{ 0 },
};

static const struct option_desc html_options[] = {
	{ .name = "html",
	  .kind = OPTION_STRING,
	  .metavar = "FILE",
	  .help = "write a web page about the run into this file, with its data inside, instead of a "
		  "report",
	  .offset = offsetof(struct values, html),
	  .completion = COMPLETE_FILE },
	{ 0 },
};

/* The table's own values come first, as table_show expects them. */
_Static_assert(offsetof(struct values, table) == 0, "table_show reads struct table_values");

static const struct option_group groups[] = { { own, 0 },
					      { html_options, 0 },
					      { plot_options, offsetof(struct values, plots) },
					      { table_step_options, 0 },
					      { table_page_options, 0 },
					      { table_format_options, 0 },
					      { NULL, 0 } };

static const struct example examples[] = {
	{ "moescope report", "The newest run in this directory." },
	{ "moescope report a.mscope --dashboard", "One screen." },
	{ "moescope report a.mscope --csv tables", "Every table as a file in tables/." },
	{ "moescope report a.mscope --html a.html", "A page to mail: one file, no network." },
	{ "moescope report a.mscope --plots pictures --plot-theme both",
	  "Every plot, light and dark." },
	{ "moescope report a.mscope --json | jq .verdicts", "What a script needs." },
	{ NULL, NULL },
};

static const struct values defaults = { .table = TABLE_DEFAULTS };

static int write_html(struct invocation *inv, const char *path, const struct view_options *options)
{
	struct run_want want = html_want(options);
	struct err err = { "" };
	struct whole_file whole;
	struct run *run;
	int r = run_open_with_steps(inv->n_args ? inv->args[0] : NULL, &want, &run);

	if (r != EXIT_OK)
		return r;
	r = whole_file_open(&whole, path);
	if (r < 0)
		err_sys(&err, r, "cannot write '%s'", path);
	else
		r = whole_file_close(&whole, html_print(run, options, whole.file, &err), &err);
	run_free(run);
	return r < 0 ? fail("%s", err.message) : EXIT_OK;
}

static int run_report(struct invocation *inv)
{
	const struct values *values = inv->values;
	struct view_options options = table_view_options(&values->table);

	if (!values->plots.directory &&
	    (values->plots.format || values->plots.theme || values->plots.scale > 0))
		return usage_error(inv->command, "'--plot-…' needs '--plots DIR'.");
	if (values->plots.directory && inv->n_args > 1)
		return usage_error(inv->command, "'--plots' draws one run at a time.");
	if (values->html && (inv->n_args > 1 || values->table.csv_directory || values->table.json ||
			     values->table.markdown || values->table.dashboard))
		return usage_error(inv->command, "'--html' writes one run, and nothing else.");
	/* First, so that a directory that cannot be written to leaves nothing half done. */
	if (values->plots.directory) {
		int r = plot_files_write(inv->n_args ? inv->args[0] : NULL, &options,
					 &values->plots);

		if (r != EXIT_OK)
			return r;
	}
	if (values->html)
		return write_html(inv, values->html, &options);
	if (values->table.csv_directory)
		return csv_dir_write(inv, values->table.csv_directory);
	return table_show(inv, values->table.dashboard ? "dashboard" : "report", 0);
}

const struct command cmd_report = {
	.name = "report",
	.purpose = PURPOSE_LOOK,
	.summary = "the whole story of a run: verdicts first, then tables",
	.words = "[RUN]...",
	.description = "Shows what was lost while recording (if anything), what is wrong with "
		       "the run and what to do about it, then steps and why slow ones were slow, "
		       "operations, devices, kernels, copies, routing, memory, efficiency, "
		       "inference and the profiler's own overhead. Several runs are shown one "
		       "after the other; with --json, as one array. " NEWEST_RUN,
	.groups = groups,
	.examples = examples,
	.defaults = &defaults,
	.values_size = sizeof(struct values),
	.max_args = -1,
	.completion = COMPLETE_RUN,
	.run = run_report,
};
