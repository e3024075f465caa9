/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of form, and showing one view; see table.h. Main thread.
 */
#include "cmd/results/table.h"

#include <errno.h>
#include <string.h>

#include "base/files/cache.h"
#include "cmd/options/common_options.h"
#include "cmd/runs/run_find.h"
#include "cmd/terminal/output.h"

static const char *const color_choices[] = { "auto", "always", "never", NULL };

const struct option_desc table_format_options[] = {
	JSON_OPTION(struct table_values, json),
	WIDTH_OPTION(struct table_values, width, "the terminal's width, or 80"),
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
	  .help = "sort by this column, given by its key in the JSON rows",
	  .offset = offsetof(struct table_values, sort) },
	{ 0 },
};

const struct option_desc table_page_options[] = {
	MARKDOWN_OPTION(struct table_values, markdown),
	{ 0 },
};

struct view_options table_view_options(const struct table_values *values)
{
	static char peaks[512]; /* outlives the options */
	struct terminal terminal = terminal_look();
	struct view_options options = {
		.json = values->json,
		.csv = values->csv,
		.markdown = values->markdown,
		.color = values->color == 0 ? terminal.color : values->color == 1,
		.utf8 = terminal.utf8,
		.width = values->width ? (int)values->width : terminal.columns,
		.limit = values->limit < 0 ? 0 : (size_t)values->limit,
		.sort = values->sort,
		.question = values->question,
		.peaks = cache_path("peaks", peaks, sizeof(peaks)) < 0 ? NULL : peaks,
	};

	return options;
}

static int show_run(struct invocation *inv, const char *given, const struct section *view,
		    const struct view_options *options)
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

int table_check_forms(const struct invocation *inv, const struct table_values *values)
{
	const struct {
		const char *name;
		bool asked;
	} forms[] = { { "json", values->json },
		      { "csv", values->csv },
		      { "markdown", values->markdown } };
	const char *first = NULL;

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (!forms[i].asked)
			continue;
		if (first)
			return usage_error(inv->command, "'--%s' and '--%s' exclude each other.",
					   first, forms[i].name);
		first = forms[i].name;
	}
	return EXIT_OK;
}

int table_show(struct invocation *inv, const char *view_name, size_t text_limit)
{
	const struct table_values *values = inv->values;
	struct view_options options = table_view_options(values);
	const struct section *view = section_find(view_name);
	bool several = inv->n_args > 1;
	FILE *out = inv->out->file;
	int r = table_check_forms(inv, values);

	if (r != EXIT_OK)
		return r;
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
