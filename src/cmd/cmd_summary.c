/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope summary: the experiments of a sweep, or of any directory, side by side.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/summary.h"
#include "cmd/terminal/output.h"
#include "lab/summary/summary.h"
#include "surfaces/plot/plot.h"

struct summary_values {
	struct table_values table; /* first: the shared options write into it */
	const char *output;
};

static const struct option_desc own[] = {
	{ .name = "output",
	  .short_name = 'o',
	  .kind = OPTION_STRING,
	  .metavar = "OUT",
	  .help = "directory for the files",
	  .default_text = "DIR itself",
	  .offset = offsetof(struct summary_values, output),
	  .completion = COMPLETE_DIR },
	{ 0 },
};

static const struct option_group groups[] = { { own, 0 },
					      { table_format_options, 0 },
					      { NULL, 0 } };

static const struct example examples[] = {
	{ "moescope summary results/sweep", "Compare the points of a sweep again." },
	{ "moescope summary results -o comparison",
	  "All experiments in a directory, with the files elsewhere." },
	{ NULL, NULL },
};

static const struct summary_values defaults = { .table = TABLE_DEFAULTS };

static int write_files(const struct batch *batch, const char *directory)
{
	const char *no_plots = NULL;
	struct err err = { "" };

	if (mkdir(directory, 0777) < 0 && errno != EEXIST)
		return fail("cannot create the directory '%s': %s.", directory, strerror(errno));
	if (batch_write_files(batch, directory, &no_plots, &err) < 0)
		return fail("%s", err.message);
	if (no_plots)
		say("%s", no_plots);
	else if (plot_trouble())
		say("%s", plot_trouble());
	say("wrote batch_summary.json, .csv and .md%s to %s.",
	    no_plots ? "" : ", and plots in " BATCH_PLOTS "/,", directory);
	return EXIT_OK;
}

int summary_make(const char *directory, const char *output, const struct table_values *table,
		 FILE *out)
{
	struct view_options options = table_view_options(table);
	struct text_layout layout = { .width = options.width,
				      .color = options.color,
				      .utf8 = options.utf8 };
	struct err err = { "" };
	struct batch batch;
	int r;

	if (batch_read(directory, &batch, &err) < 0)
		return fail("%s", err.message);
	r = write_files(&batch, output ? output : directory);
	if (r == EXIT_OK) {
		int code = table->json ? batch_write_json(&batch, out)
				       : batch_print(&batch, &layout, out);

		if (code < 0)
			r = fail("cannot print the summary: %s.", strerror(-code));
	}
	batch_release(&batch);
	return r;
}

static int run_summary(struct invocation *inv)
{
	const struct summary_values *values = inv->values;

	return summary_make(inv->args[0], values->output, &values->table, inv->out->file);
}

const struct command cmd_summary = {
	.name = "summary",
	.purpose = PURPOSE_COMPARE,
	.summary = "experiments of a sweep side by side: tables, Pareto front, plots",
	.words = "DIR",
	.description =
		"Reads every experiment in DIR, the directory of a sweep or any other that holds "
		"'moescope bench' directories, and compares them: what varies, throughput, "
		"latency, memory and cost of each configuration with its 95% interval, the best "
		"of each, the Pareto front, efficiency, and what failed and why. Writes "
		"batch_summary.json, .csv and .md and the plots in visualization/.",
	.groups = groups,
	.examples = examples,
	.defaults = &defaults,
	.values_size = sizeof(struct summary_values),
	.min_args = 1,
	.max_args = 1,
	.completion = COMPLETE_DIR,
	.run = run_summary,
};
