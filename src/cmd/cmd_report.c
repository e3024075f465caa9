/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope report: the whole story of a run, verdicts first.
 */
#include "cmd/results/csv_dir.h"
#include "cmd/results/plot_files.h"
#include "cmd/results/table.h"
#include "cmd/terminal/output.h"

struct values {
	struct table_values table;
	struct plot_choices plots;
};

static const struct option_desc own[] = {
	{ .name = "dashboard",
	  .kind = OPTION_FLAG,
	  .help = "one screen in place of the whole report",
	  .offset = offsetof(struct table_values, dashboard) },
	{ .name = "csv",
	  .kind = OPTION_STRING,
	  .metavar = "DIR",
	  .help = "write every table as a file in this directory, in place of a report",
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
	  .help = "size of the plots: 2 gives twice as many pixels each way",
	  .default_text = "1",
	  .offset = offsetof(struct plot_choices, scale) },
	{ 0 },
};

/* The table's own values come first, as table_show expects them. */
_Static_assert(offsetof(struct values, table) == 0, "table_show reads struct table_values");

static const struct option_group groups[] = { { own, 0 },
					      { plot_options, offsetof(struct values, plots) },
					      { table_step_options, 0 },
					      { table_format_options, 0 },
					      { NULL, 0 } };

static const struct example examples[] = {
	{ "moescope report", "The newest run in this directory." },
	{ "moescope report a.mscope --dashboard", "One screen of it." },
	{ "moescope report a.mscope --csv tables", "Every table as a file in tables/." },
	{ "moescope report a.mscope --plots pictures --plot-theme both",
	  "And every plot, light and dark." },
	{ "moescope report a.mscope --json | jq .verdicts", "What a script needs to know." },
	{ NULL, NULL },
};

static const struct values defaults = { .table = TABLE_DEFAULTS };

static int run_report(struct invocation *inv)
{
	const struct values *values = inv->values;
	struct present_options options = table_present_options(&values->table);

	if (!values->plots.directory &&
	    (values->plots.format || values->plots.theme || values->plots.scale > 0))
		return usage_error(inv->command, "'--plot-…' needs '--plots DIR'.");
	if (values->plots.directory && inv->n_args > 1)
		return usage_error(inv->command, "'--plots' draws one run at a time.");
	/* First, so that a directory that cannot be written to leaves nothing half done. */
	if (values->plots.directory) {
		int r = plot_files_write(inv->n_args ? inv->args[0] : NULL, &options,
					 &values->plots);

		if (r != EXIT_OK)
			return r;
	}
	if (values->table.csv_directory)
		return csv_dir_write(inv, values->table.csv_directory);
	return table_show(inv, values->table.dashboard ? "dashboard" : "report", 0);
}

const struct command cmd_report = {
	.name = "report",
	.purpose = PURPOSE_LOOK,
	.summary = "the whole story of a run: verdicts first, then tables",
	.words = "[RUN]...",
	.description = "Shows what was lost while recording (if anything was), what is wrong with "
		       "the run and what to do about it, and then step times, operations, routing, "
		       "memory, inference and the profiler's own cost. RUN is a run directory; "
		       "without one it is the newest *.mscope in the current directory. Several "
		       "runs are shown one after the other; with --json as one array.",
	.groups = groups,
	.examples = examples,
	.defaults = &defaults,
	.values_size = sizeof(struct values),
	.max_args = -1,
	.completion = COMPLETE_RUN,
	.run = run_report,
};
