/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope demo: `run -- tinymoe`, the live view following the run, and `report`.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/options/common_options.h"
#include "cmd/recording/installed.h"
#include "cmd/recording/watched.h"
#include "cmd/results/table.h"
#include "cmd/runs/run_files.h"
#include "cmd/runs/run_find.h"
#include "cmd/terminal/output.h"
#include "surfaces/top/screen.h"

struct values {
	const char *output;
	bool force;
	uint64_t steps, threads; /* 0: tinymoe's own */
	const char *interval;	 /* NULL: the view's own */
};

enum { OVERHEAD_PAIRS = 64 };
#define SCREEN_NS INT64_C(500000000)
#define LINES_NS INT64_C(2000000000)

static const struct option_desc own[] = {
	RUN_OUTPUT_OPTION(struct values, output, "DIR", "moescope-DATE-TIME-PID.mscope"),
	{ .name = "keep",
	  .kind = OPTION_STRING,
	  .metavar = "DIR",
	  .help = "same as --output",
	  .offset = offsetof(struct values, output),
	  .completion = COMPLETE_DIR },
	FORCE_OPTION(struct values, force),
	{ .name = "steps",
	  .kind = OPTION_UINT,
	  .metavar = "N",
	  .min = 1,
	  .max = 1e9,
	  .help = "training steps",
	  .default_text = "tinymoe's, which take under a minute",
	  .offset = offsetof(struct values, steps) },
	{ .name = "threads",
	  .kind = OPTION_UINT,
	  .metavar = "N",
	  .min = 1,
	  .max = 4096,
	  .help = "threads of the model; they do not affect the result",
	  .default_text = "tinymoe's",
	  .offset = offsetof(struct values, threads) },
	INTERVAL_OPTION(struct values, interval, "", "500ms on a terminal, 2s elsewhere"),
	{ 0 },
};

static const struct option_group groups[] = { { own, 0 }, { NULL, 0 } };

static const struct example examples[] = {
	{ "moescope demo", "Train, watch, read the report." },
	{ "moescope demo --steps 60 -o demo.mscope", "Shorter, into a directory of your choice." },
	{ "moescope demo -- --collapse", "A model with a collapsed router; see what is found." },
	{ NULL, NULL },
};

/* tinymoe's argument vector in `argv`, which has room for n_args + 8; the first is on the heap. */
static int tinymoe_arguments(const struct invocation *inv, char **argv, char *steps, char *threads)
{
	const struct values *values = inv->values;
	int n = 0;

	argv[n] = installed_program("tinymoe");
	if (!argv[n])
		argv[n] = strdup("tinymoe");
	if (!argv[n])
		return fail("no memory.");
	n++;
	if (values->steps) {
		sprintf(steps, "%llu", (unsigned long long)values->steps);
		argv[n++] = (char *)"--steps";
		argv[n++] = steps;
	}
	if (values->threads) {
		sprintf(threads, "%llu", (unsigned long long)values->threads);
		argv[n++] = (char *)"--threads";
		argv[n++] = threads;
	}
	/* Some inference at the end; what the user gives comes later and counts. */
	argv[n++] = (char *)"--generate";
	argv[n++] = (char *)"200";
	for (int i = 0; i < inv->n_args; i++)
		argv[n++] = inv->args[i];
	argv[n] = NULL;
	return EXIT_OK;
}

static int render(const struct run *run, const char *view_name, FILE *out)
{
	struct table_values plain = TABLE_DEFAULTS;
	struct view_options options = table_view_options(&plain);
	struct err err = { "" };
	int r;

	r = section_render(section_find(view_name), run, &options, out, &err);
	return r < 0 ? fail("%s", err.message[0] ? err.message : strerror(-r)) : EXIT_OK;
}

static void show_next(const char *name, FILE *out)
{
	static const struct {
		const char *before, *after, *what;
	} next[] = {
		{ "routing", "--layer 0", "where the tokens of a layer went" },
		{ "ops", "--by-shape", "what the time was spent on" },
		{ "export", "--to chrome", "the timeline, for ui.perfetto.dev" },
	};
	int width = (int)strlen(name) + 19;

	fprintf(out, "\nYour run is in %s. What to type next:\n", name);
	for (size_t i = 0; i < sizeof(next) / sizeof(*next); i++) {
		int used = fprintf(out, "  moescope %s %s %s", next[i].before, name,
				   next[i].after) -
			   (int)strlen("  moescope ");

		fprintf(out, "%*s  %s\n", used < width ? width - used : 0, "", next[i].what);
	}
	fprintf(out, "  moescope %-*s  the same for a program of yours\n", width, "run -- PROGRAM");
}

static int show_results(struct invocation *inv, const char *name)
{
	FILE *out = inv->out->file;
	struct run *run;
	int r = run_open(name, WANT_ALL, &run);

	if (r != EXIT_OK)
		return r;
	r = render(run, "dashboard", out);
	if (r == EXIT_OK) {
		fputc('\n', out);
		r = render(run, "report", out);
	}
	run_free(run);
	if (r == EXIT_OK)
		show_next(name, out);
	return r;
}

/* Ended by somebody who wanted that: its last words explain nothing. */
static bool asked_to_end(int status)
{
	return WIFSIGNALED(status) && (WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGTERM ||
				       WTERMSIG(status) == SIGHUP);
}

static int finish_demo(struct invocation *inv, struct recording *recording, int log_fd)
{
	int status = recording->launch.status;
	bool recorded = recording_end(recording, "tinymoe");

	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return recorded ? show_results(inv, recording->name) : EXIT_FAILED;
	if (!asked_to_end(status))
		program_log_tail(log_fd);
	if (WIFSIGNALED(status))
		say("signal %d (%s) killed tinymoe; for what it had recorded: moescope report %s",
		    WTERMSIG(status), strsignal(WTERMSIG(status)), recording->name);
	else
		say("tinymoe failed with status %d; its output is in %s/" PROGRAM_LOG ".",
		    WEXITSTATUS(status), recording->name);
	launch_die_likewise(&recording->launch);
	return launch_exit_status(&recording->launch);
}

static int train(struct invocation *inv, struct recording *recording, int64_t interval_ns,
		 char **argv)
{
	bool screen = terminal_look().cursor && !screen_unavailable();
	int64_t usual_ns = screen ? SCREEN_NS : LINES_NS;
	int log_fd = program_log_open(recording);
	struct watch *machine;
	int status;

	if (log_fd < 0)
		return fail("cannot write %s/" PROGRAM_LOG ": %s.", recording->name,
			    strerror(-log_fd));
	if (!screen) {
		fprintf(inv->out->file, "Training tinymoe under the profiler, into %s.\n",
			recording->name);
		out_flush(inv->out);
	}
	status = recording_launch(recording, argv, log_fd);
	if (status == EXIT_OK) {
		machine = recording_watch_machine(recording);
		watch_program(recording, screen ? WATCH_SCREEN : WATCH_LINES,
			      interval_ns ? interval_ns : usual_ns,
			      "Ctrl-C stops the training; the run is kept.");
		recording_end_watch(machine);
		status = finish_demo(inv, recording, log_fd);
	}
	close(log_fd);
	return status;
}

static int run_demo(struct invocation *inv)
{
	const struct values *values = inv->values;
	struct record_plan plan = {
		.output = values->output,
		.force = values->force,
		.level = "trace",
		.overhead_pairs = OVERHEAD_PAIRS,
	};
	struct recording recording = RECORDING_NONE;
	char steps[24], threads[24];
	struct err err = { "" };
	int64_t interval_ns = 0;
	char **argv;
	int status;

	if (values->interval && watch_interval(values->interval, &interval_ns, &err) < 0)
		return usage_error(inv->command, "%s", err.message);
	argv = calloc((size_t)inv->n_args + 8, sizeof(*argv));
	if (!argv)
		return fail("no memory.");
	/* At most half of a short training goes into the check. */
	if (values->steps && values->steps / 4 < plan.overhead_pairs)
		plan.overhead_pairs = values->steps / 4;
	status = tinymoe_arguments(inv, argv, steps, threads);
	if (status == EXIT_OK)
		status = recording_begin(&recording, &plan, argv);
	if (status == EXIT_OK)
		status = recording.path ? train(inv, &recording, interval_ns, argv) : EXIT_FAILED;
	recording_release(&recording);
	free(argv[0]);
	free(argv);
	return status;
}

const struct command cmd_demo = {
	.name = "demo",
	.purpose = PURPOSE_RECORD,
	.summary = "train the embedded MoE model under the profiler; show the report",
	.words = "[-- TINYMOE-OPTION...]",
	.description =
		"Trains tinymoe, a small mixture-of-experts language model, under the profiler: "
		"on a terminal with the live view of 'top', elsewhere with a line now and then. A "
		"few dozen steps are alternately recorded and not, to measure the profiler's "
		"overhead. At the end it shows the report and what to type next. Words after -- "
		"go to tinymoe ('tinymoe --help').",
	.groups = groups,
	.examples = examples,
	.values_size = sizeof(struct values),
	.max_args = -1,
	.args_after_dashes = true,
	.run = run_demo,
};
