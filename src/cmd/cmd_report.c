/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope report: the whole story of a run, verdicts first.
 */
#include "cmd/csv_dir.h"

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

static const struct option_group groups[] = {
	{ own, 0 }, { table_step_options, 0 }, { table_format_options, 0 }, { NULL, 0 }
};

static const struct example examples[] = {
	{ "moescope report", "The newest run in this directory." },
	{ "moescope report a.mscope --dashboard", "One screen of it." },
	{ "moescope report a.mscope --csv tables", "Every table as a file in tables/." },
	{ "moescope report a.mscope --json | jq .verdicts", "What a script needs to know." },
	{ NULL, NULL },
};

static const struct table_values defaults = TABLE_DEFAULTS;

static int run_report(struct invocation *inv)
{
	const struct table_values *values = inv->values;

	if (values->csv_directory)
		return csv_dir_write(inv, values->csv_directory);
	return table_show(inv, values->dashboard ? "dashboard" : "report", 0);
}

const struct command cmd_report = {
	.name = "report",
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
	.values_size = sizeof(struct table_values),
	.max_args = -1,
	.completion = COMPLETE_RUN,
	.run = run_report,
};
