/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope plot: one picture of a run.
 */
#include <stdlib.h>
#include <string.h>

#include "base/text/nearest.h"
#include "cmd/results/plot_files.h"
#include "cmd/results/table.h"
#include "cmd/runs/run_find.h"
#include "cmd/terminal/output.h"

struct values {
	struct table_values table;
	const char *output;
	bool list;
	int format; /* 0: by the name of the file, else 1 + PLOT_PNG … */
	int theme;
	double scale;
};

static const char *const formats[] = { "auto", "png", "svg", NULL };
static const char *const themes[] = { "light", "dark", NULL };

static const struct option_desc own[] = {
	{ .name = "list",
	  .kind = OPTION_FLAG,
	  .help = "list the plots and what each shows",
	  .offset = offsetof(struct values, list) },
	{ .name = "output",
	  .short_name = 'o',
	  .kind = OPTION_STRING,
	  .metavar = "FILE",
	  .help = "the file to write; - is standard output",
	  .default_text = "NAME.png",
	  .offset = offsetof(struct values, output),
	  .completion = COMPLETE_FILE },
	{ .name = "format",
	  .kind = OPTION_CHOICE,
	  .metavar = "FORMAT",
	  .choices = formats,
	  .help = "auto (svg if FILE ends with .svg, otherwise png), png or svg",
	  .default_text = "auto",
	  .offset = offsetof(struct values, format) },
	{ .name = "theme",
	  .kind = OPTION_CHOICE,
	  .metavar = "THEME",
	  .choices = themes,
	  .help = "light or dark",
	  .default_text = "light",
	  .offset = offsetof(struct values, theme) },
	{ .name = "scale",
	  .kind = OPTION_DOUBLE,
	  .metavar = "X",
	  .min = 0.5,
	  .max = 8,
	  .help = "picture size: 2 gives twice as many pixels in each direction",
	  .default_text = "1",
	  .offset = offsetof(struct values, scale) },
	{ .name = "layer",
	  .short_name = 'l',
	  .kind = OPTION_SMALL,
	  .metavar = "N",
	  .max = 1e6,
	  .help = "in routing plots, only this layer, counted from 0",
	  .default_text = "all; experts: the most uneven",
	  .offset = offsetof(struct values, table.question.sel.layer) },
	{ 0 },
};

static const struct option_group groups[] = {
	{ own, 0 }, { table_step_options, offsetof(struct values, table) }, { NULL, 0 }
};

static const struct example examples[] = {
	{ "moescope plot --list", "The available plots." },
	{ "moescope plot a.mscope memory", "Writes memory.png." },
	{ "moescope plot a.mscope experts --layer 2 -o layer2.svg --theme dark",
	  "One layer's experts, as SVG with a dark theme." },
	{ NULL, NULL },
};

static const struct values defaults = { .table = TABLE_DEFAULTS, .scale = 1 };

static int list_plots(FILE *out)
{
	for (size_t i = 0; plots[i].name; i++)
		fprintf(out, "%-12s  %s\n", plots[i].name, plots[i].what);
	return EXIT_OK;
}

static bool is_plot(const char *name)
{
	for (size_t i = 0; plots[i].name; i++)
		if (strcmp(plots[i].name, name) == 0)
			return true;
	return false;
}

static int unknown_plot(struct invocation *inv, const char *name)
{
	struct nearest nearest = nearest_to(name);

	for (size_t i = 0; plots[i].name; i++)
		nearest_offer(&nearest, plots[i].name);
	if (nearest.best)
		return usage_error(inv->command, "no plot '%s'; did you mean '%s'?", name,
				   nearest.best);
	return usage_error(inv->command, "no plot '%s'; 'moescope plot --list' lists them.", name);
}

static bool ends_with_svg(const char *path)
{
	size_t length = strlen(path);

	return length >= 4 && strcmp(path + length - 4, ".svg") == 0;
}

static int draw(struct invocation *inv, const char *given, const char *name, const char *path,
		bool svg)
{
	const struct values *values = inv->values;
	struct plot_options options = { .svg = svg,
					.dark = values->theme == PLOT_DARK,
					.scale = values->scale,
					.layer = values->table.question.sel.layer };
	struct view_options view = table_view_options(&values->table);
	struct err err = { "" };
	struct answers answers;
	struct run_want want;
	struct run *run;
	int r;

	view.question.sel.layer = -1; /* other plots show the whole run, whatever the layer */
	options.sel = &view.question.sel;
	want = plot_want(&view);
	r = run_open_part(given, &want, &run);
	if (r != EXIT_OK)
		return r;
	if (plot_compute(run, &view, &answers, &err) < 0) {
		r = fail("%s", err.message);
	} else {
		r = plot_file_write(run, &answers, name, &options, path);
		answers_release(&answers);
	}
	run_free(run);
	if (r == EXIT_OK && plot_trouble())
		say("%s", plot_trouble());
	if (r == EXIT_OK && strcmp(path, "-") != 0)
		say("wrote %s.", path);
	return r;
}

static int run_plot(struct invocation *inv)
{
	const struct values *values = inv->values;
	const char *name = inv->n_args ? inv->args[inv->n_args - 1] : NULL;
	char path[64];
	bool svg;

	if (plot_unavailable())
		return fail("%s", plot_unavailable());
	if (values->list)
		return list_plots(inv->out->file);
	if (!name)
		return usage_error(inv->command, "which plot? 'moescope plot --list' lists them.");
	if (!is_plot(name))
		return unknown_plot(inv, name);
	svg = values->format ? values->format == 1 + PLOT_SVG
			     : values->output && ends_with_svg(values->output);
	snprintf(path, sizeof(path), "%s.%s", name, svg ? "svg" : "png");
	return draw(inv, inv->n_args > 1 ? inv->args[0] : NULL, name,
		    values->output ? values->output : path, svg);
}

const struct command cmd_plot = {
	.name = "plot",
	.purpose = PURPOSE_EXPORT,
	.summary = "draw one picture of a run, as PNG or SVG",
	.words = "[RUN] NAME",
	.description = "Draws the named plot into a file. A plot without data says why. "
		       "'moescope report --plots DIR' draws all plots. " NEWEST_RUN,
	.groups = groups,
	.examples = examples,
	.defaults = &defaults,
	.values_size = sizeof(struct values),
	.max_args = 2,
	.completion = COMPLETE_RUN,
	.run = run_plot,
};
