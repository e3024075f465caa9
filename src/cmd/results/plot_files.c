/* SPDX-License-Identifier: Apache-2.0
 *
 * Plots as files; see plot_files.h.
 */
#include "cmd/results/plot_files.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/whole_file.h"
#include "cmd/options/command.h"
#include "cmd/runs/run_find.h"
#include "cmd/terminal/output.h"
#include "cmd/terminal/progress.h"

const char *const plot_format_choices[] = { "png", "svg", "both", NULL };
const char *const plot_theme_choices[] = { "light", "dark", "both", NULL };

static int write_stdout(const struct run *run, const struct answers *answers, const char *name,
			const struct plot_options *options)
{
	struct err err = { "" };
	int r;

	signal(SIGPIPE, SIG_IGN);
	errno = 0;
	r = plot_draw(name, run, answers, options, stdout, &err);
	if (r == 0 && fflush(stdout) != 0)
		r = err_sys(&err, -errno, "cannot write to standard output");
	if (r == -EPIPE)
		return EXIT_FAILED;
	return r < 0 ? fail("%s", err.message) : EXIT_OK;
}

int plot_file_write(const struct run *run, const struct answers *answers, const char *name,
		    const struct plot_options *options, const char *path)
{
	struct err err = { "" };
	struct whole_file whole;
	int r;

	if (strcmp(path, "-") == 0)
		return write_stdout(run, answers, name, options);
	r = whole_file_open(&whole, path);
	if (r < 0)
		return fail("cannot write '%s': %s.", path, strerror(-r));
	r = plot_draw(name, run, answers, options, whole.file, &err);
	r = whole_file_close(&whole, r, &err);
	return r < 0 ? fail("%s", err.message[0] ? err.message : strerror(-r)) : EXIT_OK;
}

static int write_form(const struct run *run, const struct answers *answers,
		      const struct plot_options *options, const char *directory)
{
	int r = EXIT_OK;

	for (size_t i = 0; r == EXIT_OK && plots[i].name; i++) {
		char *path;

		if (asprintf(&path, "%s/%s%s.%s", directory, plots[i].name,
			     options->dark ? "-dark" : "", options->svg ? "svg" : "png") < 0)
			return fail("no memory.");
		r = plot_file_write(run, answers, plots[i].name, options, path);
		free(path);
	}
	return r;
}

static int write_all(const struct run *run, const struct answers *answers,
		     const struct selection *sel, const struct plot_choices *choices,
		     size_t *ret_forms)
{
	struct plot_options options = { .scale = choices->scale > 0 ? choices->scale : 1,
					.layer = -1,
					.sel = sel };
	int r = EXIT_OK;

	for (int svg = 0; svg < 2; svg++) {
		for (int dark = 0; dark < 2; dark++) {
			if ((choices->format != PLOT_BOTH_FORMATS && choices->format != svg) ||
			    (choices->theme != PLOT_BOTH_THEMES && choices->theme != dark))
				continue;
			options.svg = svg;
			options.dark = dark;
			r = write_form(run, answers, &options, choices->directory);
			if (r != EXIT_OK)
				return r;
			++*ret_forms;
		}
	}
	return r;
}

int plot_files_write(const char *given, const struct view_options *options,
		     const struct plot_choices *choices)
{
	size_t n = 0, forms = 0;
	struct err err = { "" };
	struct answers answers;
	struct run_want want;
	struct run *run;
	char *path;
	int r;

	if (plot_unavailable())
		return fail("%s", plot_unavailable());
	/* The report names the run that it takes; once is enough. */
	if (run_find(given, &path, &err) < 0)
		return fail("%s", err.message);
	want = plot_want(options);
	r = run_open_part(path, &want, &run);
	free(path);
	if (r != EXIT_OK)
		return r;
	if (mkdir(choices->directory, 0777) < 0 && errno != EEXIST) {
		r = fail("cannot create the directory '%s': %s.", choices->directory,
			 strerror(errno));
		run_free(run);
		return r;
	}
	progress_begin("drawing");
	if (plot_compute(run, options, &answers, &err) < 0) {
		r = fail("%s", err.message);
	} else {
		r = write_all(run, &answers, &options->question.sel, choices, &forms);
		answers_release(&answers);
	}
	progress_end();
	run_free(run);
	if (r != EXIT_OK)
		return r;
	while (plots[n].name)
		n++;
	if (plot_trouble())
		say("%s", plot_trouble());
	say("wrote %zu plots to %s.", n * forms, choices->directory);
	return r;
}
