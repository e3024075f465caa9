/* SPDX-License-Identifier: Apache-2.0
 *
 * The shared half of the table commands. Main thread.
 */
#include "cmd/results/table.h"

#include <errno.h>
#include <string.h>

#include "base/files/cache.h"
#include "cmd/options/common_options.h"
#include "cmd/runs/run_find.h"
#include "cmd/terminal/output.h"

static const char *const color_choices[] = { "auto", "always", "never", NULL };
/* In the order of enum moescope_phase; "all" stands for MOESCOPE_PHASE_NONE. */
static const char *const phase_choices[] = { "all",	   "forward", "backward", "optimizer",
					     "data",	   "prefill", "decode",	  "recompute",
					     "evaluation", NULL };

const struct option_desc table_format_options[] = {
	JSON_OPTION(struct table_values, json),
	WIDTH_OPTION(struct table_values, width, "the terminal's, or 80"),
	{ .name = "color",
	  .kind = OPTION_CHOICE,
	  .metavar = "WHEN",
	  .choices = color_choices,
	  .help = "colour the text: auto (on a terminal, unless NO_COLOR is set), always or never",
	  .default_text = "auto",
	  .offset = offsetof(struct table_values, color) },
	{ 0 },
};

const struct option_desc table_row_options[] = {
	CSV_OPTION(struct table_values, csv),
	LIMIT_OPTION(struct table_values, limit, "20 in text, all with --json or --csv"),
	{ .name = "sort",
	  .short_name = 's',
	  .kind = OPTION_STRING,
	  .metavar = "COLUMN",
	  .help = "sort by this column; the keys are those of the JSON rows",
	  .offset = offsetof(struct table_values, sort) },
	{ 0 },
};

const struct option_desc table_step_options[] = {
	{ .name = "steps",
	  .kind = OPTION_WINDOW,
	  .metavar = "A:B",
	  .help = "only steps A to B, both included; A: and :B leave an end open",
	  .default_text = "all",
	  .offset = offsetof(struct table_values, steps) },
	{ 0 },
};

const struct option_desc table_place_options[] = {
	{ .name = "layer",
	  .short_name = 'l',
	  .kind = OPTION_INT,
	  .metavar = "N",
	  .max = 1e6,
	  .help = "only this layer, counted from 0",
	  .default_text = "all",
	  .offset = offsetof(struct table_values, layer) },
	{ .name = "phase",
	  .short_name = 'p',
	  .kind = OPTION_CHOICE,
	  .metavar = "PHASE",
	  .choices = phase_choices,
	  .help = "only this phase: all, forward, backward, optimizer, data, prefill, decode, "
		  "recompute or evaluation",
	  .default_text = "all",
	  .offset = offsetof(struct table_values, phase) },
	{ 0 },
};

struct present_options table_present_options(const struct table_values *values)
{
	static char peaks[512]; /* outlives the options */
	struct terminal terminal = terminal_look();
	struct present_options options = {
		.json = values->json,
		.csv = values->csv,
		.color = values->color == 0 ? terminal.color : values->color == 1,
		.utf8 = terminal.utf8,
		.width = values->width ? (int)values->width : terminal.columns,
		.limit = values->limit < 0 ? 0 : (size_t)values->limit,
		.sort = values->sort,
		.by_shape = values->by_shape,
		.by_stack = values->by_stack,
		.layer = (int)values->layer,
		.step_first = values->steps.first,
		.step_last = values->steps.last,
		.phase = values->phase ? values->phase : -1,
		.n_capacity_factors = values->capacity_factors.n,
		.tile_rows = (unsigned int)values->tile_rows,
		.kernels_by = values->kernels_by,
		.classes = values->classes,
		.peaks = cache_path("peaks", peaks, sizeof(peaks)) < 0 ? NULL : peaks,
	};

	_Static_assert(sizeof(options.capacity_factors) == sizeof(values->capacity_factors.v),
		       "as many as an option can hold");
	memcpy(options.capacity_factors, values->capacity_factors.v,
	       sizeof(options.capacity_factors));
	return options;
}

static int show_run(struct invocation *inv, const char *given, const struct section *view,
		    const struct present_options *options)
{
	struct run_want want = section_want(view, options);
	struct err err = { "" };
	struct run *run;
	int r = run_open_part(given, &want, &run);

	if (r != EXIT_OK)
		return r;
	r = section_render(view, run, options, inv->out->file, &err);
	run_free(run);
	if (r == -EINVAL)
		return usage_error(inv->command, "%s", err.message);
	if (r < 0)
		return fail("%s", err.message[0] ? err.message : strerror(-r));
	return EXIT_OK;
}

int table_show(struct invocation *inv, const char *view_name, size_t text_limit)
{
	const struct table_values *values = inv->values;
	struct present_options options = table_present_options(values);
	const struct section *view = section_find(view_name);
	bool several = inv->n_args > 1;
	FILE *out = inv->out->file;
	int r = EXIT_OK;

	if (values->json && values->csv)
		return usage_error(inv->command, "'--json' and '--csv' exclude each other.");
	if (values->limit < 0 && !values->json && !values->csv)
		options.limit = text_limit;
	if (inv->n_args == 0)
		return show_run(inv, NULL, view, &options);
	if (several && values->json)
		fputs("[\n", out);
	for (int i = 0; i < inv->n_args && r == EXIT_OK; i++) {
		if (i > 0)
			fputs(values->json ? ",\n" : "\n", out);
		r = show_run(inv, inv->args[i], view, &options);
	}
	if (several && values->json)
		fputs("]\n", out);
	return r;
}

const struct table_values table_defaults = TABLE_DEFAULTS;

int table_run(struct invocation *inv)
{
	return table_show(inv, inv->command->name, 20);
}
