/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope demo: `run -- tinymoe`, the live view following the run, and `report`.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/options/common_options.h"
#include "cmd/recording/installed.h"
#include "cmd/recording/record.h"
#include "cmd/results/table.h"
#include "cmd/runs/run_files.h"
#include "cmd/runs/run_find.h"
#include "cmd/terminal/output.h"
#include "live/live.h"

struct values {
	const char *output;
	bool force;
	uint64_t steps, threads; /* 0: tinymoe's own */
};

enum {
	OVERHEAD_PAIRS = 64,
	SCREEN_INTERVAL_MS = 400,
	LINE_INTERVAL_MS = 2000,
	LOG_TAIL_BYTES = 2000,
};

static const struct option_desc own[] = {
	RUN_OUTPUT_OPTION(struct values, output, "DIR", "moescope-DATE-TIME-PID.mscope"),
	{ .name = "keep",
	  .kind = OPTION_STRING,
	  .metavar = "DIR",
	  .help = "the same as --output",
	  .offset = offsetof(struct values, output),
	  .completion = COMPLETE_DIR },
	FORCE_OPTION(struct values, force),
	{ .name = "steps",
	  .kind = OPTION_UINT,
	  .metavar = "N",
	  .min = 1,
	  .max = 1e9,
	  .help = "training steps",
	  .default_text = "tinymoe's, under a minute of them",
	  .offset = offsetof(struct values, steps) },
	{ .name = "threads",
	  .kind = OPTION_UINT,
	  .metavar = "N",
	  .min = 1,
	  .max = 4096,
	  .help = "threads of the model; the result does not depend on them",
	  .default_text = "tinymoe's",
	  .offset = offsetof(struct values, threads) },
	{ 0 },
};

static const struct option_group groups[] = { { own, 0 }, { NULL, 0 } };

static const struct example examples[] = {
	{ "moescope demo", "Train, watch, read the report." },
	{ "moescope demo --steps 60 -o demo.mscope",
	  "Shorter, and into a directory of your choice." },
	{ "moescope demo -- --collapse", "A model whose router has collapsed: see what is found." },
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

static int open_log(const struct recording *recording)
{
	char *path;
	int fd;

	if (asprintf(&path, "%s/" PROGRAM_LOG, recording->path) < 0)
		return -ENOMEM;
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0)
		fd = -errno;
	free(path);
	return fd;
}

/* What the program said last, on our stderr. */
static void show_log_tail(int log_fd)
{
	char text[LOG_TAIL_BYTES + 1];
	off_t end = lseek(log_fd, 0, SEEK_END);
	off_t from = end > LOG_TAIL_BYTES ? end - LOG_TAIL_BYTES : 0;
	ssize_t n = pread(log_fd, text, LOG_TAIL_BYTES, from);
	char *start = text;

	if (n <= 0)
		return;
	text[n] = '\0';
	if (from > 0 && strchr(text, '\n'))
		start = strchr(text, '\n') + 1;
	fputs(start, stderr);
	if (text[n - 1] != '\n')
		fputc('\n', stderr);
}

static struct live_options view_options(void)
{
	struct terminal terminal = terminal_look();
	struct table_values plain = TABLE_DEFAULTS;

	return (struct live_options){
		.fd = STDOUT_FILENO,
		.screen = terminal.cursor,
		.rows = terminal.rows,
		.footer = "Ctrl-C stops the training; the run is kept.",
		.present = table_present_options(&plain),
	};
}

/* Waits for the program's end and shows the run as it grows. A view that fails ends there; the
 * program goes on. */
static void follow(struct recording *recording, struct live *live, struct err *err)
{
	int interval = view_options().screen ? SCREEN_INTERVAL_MS : LINE_INTERVAL_MS;

	for (;;) {
		enum launch_event event = launch_wait(&recording->launch, live ? interval : -1);

		if (event == LAUNCH_STOPPED) {
			if (live)
				live_hide(live);
			launch_suspend(&recording->launch);
			if (live)
				live_show(live);
		} else if (event == LAUNCH_RESIZED && live) {
			struct terminal terminal = terminal_look();

			live_resize(live, terminal.columns, terminal.rows);
		}
		if (live && live_update(live, err) < 0) {
			live_free(live);
			live = NULL;
		}
		if (event == LAUNCH_ENDED)
			break;
	}
	live_free(live);
}

static int render(const struct run *run, const char *view_name, FILE *out)
{
	struct table_values plain = TABLE_DEFAULTS;
	struct present_options options = table_present_options(&plain);
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

static int finish(struct invocation *inv, struct recording *recording, int log_fd)
{
	int status = recording->launch.status;
	bool recorded = recording_end(recording, "tinymoe");

	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return recorded ? show_results(inv, recording->name) : EXIT_FAILED;
	if (!asked_to_end(status))
		show_log_tail(log_fd);
	if (WIFSIGNALED(status))
		say("tinymoe was ended by signal %d (%s); what it had recorded: moescope report %s",
		    WTERMSIG(status), strsignal(WTERMSIG(status)), recording->name);
	else
		say("tinymoe failed with status %d; its output is in %s/" PROGRAM_LOG ".",
		    WEXITSTATUS(status), recording->name);
	launch_die_likewise(&recording->launch);
	return launch_exit_status(&recording->launch);
}

static int train(struct invocation *inv, struct recording *recording, char **argv)
{
	struct live_options options = view_options();
	struct err err = { "" };
	struct live *live = NULL;
	int log_fd = open_log(recording);
	int status;

	if (log_fd < 0)
		return fail("cannot write %s/" PROGRAM_LOG ": %s.", recording->name,
			    strerror(-log_fd));
	if (!options.screen) {
		fprintf(inv->out->file, "Training tinymoe under the profiler, into %s.\n",
			recording->name);
		out_flush(inv->out);
	}
	status = recording_launch(recording, argv, log_fd);
	if (status == EXIT_OK) {
		if (live_open(recording->path, &options, &live, &err) < 0)
			live = NULL;
		follow(recording, live, &err);
		if (err.message[0])
			say("the live view ended early: %s", err.message);
		status = finish(inv, recording, log_fd);
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
	char **argv = calloc((size_t)inv->n_args + 8, sizeof(*argv));
	int status;

	if (!argv)
		return fail("no memory.");
	/* At most half of a short training goes into the check. */
	if (values->steps && values->steps / 4 < plan.overhead_pairs)
		plan.overhead_pairs = values->steps / 4;
	status = tinymoe_arguments(inv, argv, steps, threads);
	if (status == EXIT_OK)
		status = recording_begin(&recording, &plan, argv);
	if (status == EXIT_OK)
		status = recording.path ? train(inv, &recording, argv) : EXIT_FAILED;
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
		"Trains tinymoe, a small mixture-of-experts language model, under the profiler: on "
		"a terminal with a dashboard that follows it, elsewhere with a line every two "
		"seconds. A few dozen steps are recorded and not recorded in turn, to measure what "
		"the profiler costs. At the end it shows the report and what to type next. Words "
		"after -- go to tinymoe ('tinymoe --help').",
	.groups = groups,
	.examples = examples,
	.values_size = sizeof(struct values),
	.max_args = -1,
	.args_after_dashes = true,
	.run = run_demo,
};
