/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope top: a run on a whole screen while it grows.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/options/common_options.h"
#include "cmd/recording/watched.h"
#include "cmd/results/table.h"
#include "cmd/runs/run_find.h"
#include "cmd/runs/run_of_process.h"
#include "cmd/terminal/output.h"
#include "documents/panels.h"
#include "surfaces/top/screen.h"
#include "surfaces/top/top.h"

struct values {
	struct table_values table;
	bool once;
	uint64_t height; /* 0: the terminal's */
	const char *interval;
};
/* table_format_options write into the values of a table. */
_Static_assert(offsetof(struct values, table) == 0, "the table's values come first");

static const struct option_desc own[] = {
	{ .name = "once",
	  .kind = OPTION_FLAG,
	  .help = "print one frame as text, for pipes and files",
	  .offset = offsetof(struct values, once) },
	INTERVAL_OPTION(struct values, interval, "", "1s"),
	{ .name = "height",
	  .kind = OPTION_UINT,
	  .metavar = "LINES",
	  .min = 10,
	  .max = 1000,
	  .help = "with --once, lines of the frame",
	  .default_text = "the terminal's height, or 24",
	  .offset = offsetof(struct values, height) },
	{ 0 },
};

static const struct option_group groups[] = { { own, 0 },
					      { table_format_options, 0 },
					      { NULL, 0 } };

static const struct example examples[] = {
	{ "moescope top", "The newest run here; waits for one if there is none." },
	{ "moescope top a.mscope", "A named run, which need not have started yet." },
	{ "moescope top 4711", "The run of a process." },
	{ "moescope top a.mscope --once --width 120 --height 40", "One frame, for a log." },
	{ NULL, NULL },
};

static const struct values defaults = { .table = TABLE_DEFAULTS, .interval = "1s" };

/* The run that is meant. -ENOENT: there is none yet; err: which one is missing. */
static int find(const char *given, char **ret_path, struct err *err)
{
	return given && is_process_number(given) ? run_of_process(given, ret_path, err)
						 : run_find(given, ret_path, err);
}

static int show_json(struct invocation *inv, const char *path, const struct view_options *view)
{
	struct run_want want = section_want(&section_top, view);
	struct err err = { "" };
	struct run *run;
	int r = run_open_part(path, &want, &run);

	if (r != EXIT_OK)
		return r;
	r = section_render(&section_top, run, view, inv->out->file, &err);
	run_free(run);
	return r < 0 ? fail("%s", err.message[0] ? err.message : strerror(-r)) : EXIT_OK;
}

static int show_once(struct invocation *inv, const char *path, const struct top_options *options)
{
	struct lines frame = { 0 };
	struct err err = { "" };
	struct top *top = NULL;
	int r = top_open(path, options, &top, &err);

	if (r == 0)
		r = top_update(top, clock_monotonic_ns(), &err);
	if (r == 0)
		r = top_frame(top, &frame);
	if (r == 0)
		fputs(frame.text, inv->out->file);
	lines_release(&frame);
	top_free(top);
	return r < 0 ? fail("%s", err.message[0] ? err.message : strerror(-r)) : EXIT_OK;
}

static volatile sig_atomic_t ended_by;

static void note_signal(int sig)
{
	ended_by = sig;
}

/* Wakes the wait; the size is looked at each time. */
static void note_resize(int sig)
{
	(void)sig;
}

/* Handlers run in wait_for_key alone. ret_free: the mask with which it waits. */
static void take_signals(sigset_t *ret_free)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	struct sigaction end = { .sa_handler = note_signal };
	struct sigaction resize = { .sa_handler = note_resize };
	sigset_t held;

	sigemptyset(&held);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		struct sigaction given;

		/* What nohup ignores stays ignored. */
		sigaction(ends[i], NULL, &given);
		if (given.sa_handler != SIG_IGN)
			sigaction(ends[i], &end, NULL);
		sigaddset(&held, ends[i]);
	}
	sigaction(SIGWINCH, &resize, NULL);
	sigaddset(&held, SIGWINCH);
	sigaddset(&held, SIGTSTP);
	sigprocmask(SIG_BLOCK, &held, ret_free);
}

static void die_of(int sig)
{
	sigset_t only;

	signal(sig, SIG_DFL);
	sigemptyset(&only);
	sigaddset(&only, sig);
	raise(sig);
	sigprocmask(SIG_UNBLOCK, &only, NULL);
}

struct view {
	const char *given; /* by the user; NULL: the newest run here */
	struct top_options options;
	struct top *top; /* NULL: there is no run yet */
	char *path;
	sigset_t free_mask;
	char waiting[512]; /* what we wait for */
};

static void wait_for_key(struct view *view, int64_t until_ns)
{
	struct pollfd key = { .fd = screen_fd(), .events = POLLIN };
	int64_t left = until_ns - clock_monotonic_ns();
	struct timespec timeout = { left / 1000000000, left % 1000000000 };

	if (left > 0 && !ended_by)
		ppoll(&key, 1, &timeout, &view->free_mask);
	/* A terminal that is gone is always readable. */
	if (key.revents & (POLLHUP | POLLERR | POLLNVAL))
		ended_by = SIGHUP;
}

/* Opens the run as soon as there is one. With no name given, a run that has ended makes way for a newer
 * one. */
static int find_run(struct view *view, struct err *err)
{
	char *path = NULL;
	int r;

	if (view->top && (view->given || !top_ended(view->top)))
		return 0;
	r = find(view->given, &path, err);
	if (r == -ENOENT) {
		if (!view->given)
			snprintf(view->waiting, sizeof(view->waiting),
				 "waiting for a run (*.mscope) to appear in this directory");
		else
			snprintf(view->waiting, sizeof(view->waiting),
				 "waiting for the run %s to appear", view->given);
		return 0;
	}
	if (r < 0)
		return r;
	if (view->path && !strcmp(path, view->path)) {
		free(path);
		return 0;
	}
	top_free(view->top);
	view->top = NULL;
	free(view->path);
	view->path = path;
	return top_open(path, &view->options, &view->top, err);
}

static int draw(struct view *view)
{
	struct lines frame;
	int r = view->top ? top_frame(view->top, &frame)
			  : top_waiting(view->waiting, view->options.view.width, view->options.rows,
					&frame);

	if (r == 0)
		screen_draw(&frame);
	lines_release(&frame);
	return r;
}

/* One look at run, keys and terminal. 1: to quit. */
static int look(struct view *view, struct err *err)
{
	int key, r = find_run(view, err);

	screen_size(&view->options.view.width, &view->options.rows);
	while ((key = screen_key()) >= 0)
		if (view->top ? !top_key(view->top, key) : key == 'q')
			return 1;
	if (r == 0 && view->top) {
		top_resize(view->top, view->options.view.width, view->options.rows);
		r = top_update(view->top, clock_monotonic_ns(), err);
	}
	return r < 0 ? r : draw(view);
}

static int follow(struct view *view)
{
	struct err err = { "" };
	int r;

	take_signals(&view->free_mask);
	r = screen_open(&err);
	while (r == 0) {
		int64_t next_ns = clock_monotonic_ns() + view->options.interval_ns;

		r = look(view, &err);
		if (r == 0)
			wait_for_key(view, next_ns);
		if (ended_by)
			break;
	}
	screen_close();
	top_free(view->top);
	free(view->path);
	if (ended_by)
		die_of(ended_by);
	return r < 0 ? fail("%s", err.message[0] ? err.message : strerror(-r)) : EXIT_OK;
}

/* Why there can be no screen; NULL: there can. */
static const char *no_screen(void)
{
	struct terminal terminal = terminal_look();

	if (screen_unavailable())
		return screen_unavailable();
	if (!terminal.stdout_is_terminal)
		return "standard output is not a terminal";
	return terminal.cursor ? NULL : "the terminal (TERM) cannot be drawn on";
}

static int run_top(struct invocation *inv)
{
	const struct values *values = inv->values;
	const char *given = inv->n_args ? inv->args[0] : NULL;
	struct top_options options = {
		.view = table_view_options(&values->table),
		.rows = values->height ? (int)values->height : terminal_look().rows,
	};
	struct view view = { .given = given };
	struct err err = { "" };
	char *path = NULL;
	int r = watch_interval(values->interval, &options.interval_ns, &err);

	if (r < 0)
		return usage_error(inv->command, "%s", err.message);
	if (values->once && values->table.json)
		return usage_error(inv->command, "'--once' and '--json' exclude each other.");
	if (values->once || values->table.json) {
		r = find(given, &path, &err);
		if (r < 0)
			return fail("%s", err.message[0] ? err.message : strerror(-r));
		r = values->once ? show_once(inv, path, &options)
				 : show_json(inv, path, &options.view);
		free(path);
		return r;
	}
	if (no_screen())
		return usage_error(inv->command, "%s; --once prints one frame, --json the figures.",
				   no_screen());
	view.options = options;
	return follow(&view);
}

const struct command cmd_top = {
	.name = "top",
	.purpose = PURPOSE_WATCH,
	.summary = "full-screen live view of a run",
	.words = "[RUN|PID]",
	.description =
		"Shows devices, steps, experts, memory, kernels, operations, verdicts and the "
		"profiler's own cost, and keeps them up to date while the program runs. It can be "
		"started before the program: it then waits for the run. When the program has "
		"ended, the first line says how. PID is a process of the run, or its 'moescope "
		"run'. Keys: q quits, ? lists the others. " NEWEST_RUN,
	.groups = groups,
	.examples = examples,
	.defaults = &defaults,
	.values_size = sizeof(struct values),
	.max_args = 1,
	.completion = COMPLETE_RUN,
	.run = run_top,
};
