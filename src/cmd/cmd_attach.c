/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope attach: looks at the threads of a program that is already running.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/small_file.h"
#include "base/text/format.h"
#include "cmd/options/common_options.h"
#include "cmd/recording/attached.h"
#include "cmd/recording/joining.h"
#include "cmd/runs/run_files.h"
#include "cmd/runs/run_notes.h"
#include "cmd/terminal/output.h"
#include "host/machine/watch.h"
#include "host/peer/peer.h"
#include "host/stacks/sampler.h"
#include "trace/run_lock.h"
#include "trace/rundir.h"

struct values {
	const char *output, *duration;
	uint64_t rate, steps;
	bool inside, quiet;
};

#define COMMAND_MOST 65536
#define ARGUMENTS_MOST 1024

static const struct option_desc own[] = {
	RUN_OUTPUT_OPTION(struct values, output, "DIR", "moescope-DATE-TIME-PID.mscope"),
	{ .name = "duration",
	  .short_name = 'd',
	  .kind = OPTION_STRING,
	  .metavar = "TIME",
	  .help = "how long to record, such as 10s or 2m; a bare number is seconds",
	  .default_text = "until the program ends, or Ctrl-C",
	  .offset = offsetof(struct values, duration) },
	{ .name = "inside",
	  .kind = OPTION_FLAG,
	  .help = "also load the probe into it, for GPU work and the steps of PyTorch",
	  .offset = offsetof(struct values, inside) },
	{ .name = "steps",
	  .kind = OPTION_UINT,
	  .metavar = "N",
	  .min = 1,
	  .max = 1e15,
	  .help = "with --inside: leave after N whole steps of PyTorch",
	  .offset = offsetof(struct values, steps) },
	{ .name = "rate",
	  .kind = OPTION_UINT,
	  .metavar = "N",
	  .min = 1,
	  .max = SAMPLER_HZ_MOST,
	  .help = "samples per second, at most; fewer if sampling takes more than 1% of a processor",
	  .default_text = "100",
	  .offset = offsetof(struct values, rate) },
	{ .name = "quiet",
	  .short_name = 'q',
	  .kind = OPTION_FLAG,
	  .help = "print nothing at the end on success",
	  .offset = offsetof(struct values, quiet) },
	{ 0 },
};

static const struct option_group groups[] = { { own, 0 }, { NULL, 0 } };

static const struct example examples[] = {
	{ "moescope attach 4711 --duration 10s", "Ten seconds of a job; then 'moescope stacks'." },
	{ "moescope attach $(pgrep -of train.py) -o slow.mscope",
	  "Until Ctrl-C, with a name of your choice." },
	{ "moescope attach 4711 --inside --steps 50",
	  "Also kernels, steps and phases, as with 'moescope run'." },
	{ NULL, NULL },
};

static const struct values defaults = { .rate = SAMPLER_HZ };

/* A descriptor that says when it ends; or the status to exit with, below 0, after a word. */
static int open_process(const char *word, pid_t *ret_pid)
{
	char *end;
	long pid = strtol(word, &end, 10);
	int fd, r;

	if (*end || pid <= 0 || pid > INT_MAX)
		return usage_error(NULL, "'%s' is not the number of a process.", word), -EXIT_USAGE;
	*ret_pid = (pid_t)pid;
	if (pid == getpid())
		return usage_error(NULL, "%ld is moescope itself.", pid), -EXIT_USAGE;
	fd = (int)syscall(SYS_pidfd_open, *ret_pid, 0);
	if (fd < 0)
		return -fail(errno == ESRCH    ? "there is no process %ld."
			     : errno == EINVAL ? "%ld is a thread; give the number of its process."
					       : "cannot follow process %ld on this kernel.",
			     pid);
	r = peer_may_look(*ret_pid);
	if (r == 0)
		return fd;
	close(fd);
	return -fail(
		r == -ESRCH
			? "process %ld has ended."
			: "process %ld is not yours to look at: run moescope as its user, "
			  "and see kernel.yama.ptrace_scope; in a container it needs CAP_SYS_PTRACE.",
		pid);
}

/* Its command, as the run tells it. */
static int make_run(pid_t pid, const char *name, const struct values *values, char **ret_path,
		    struct err *err)
{
	char *argv[ARGUMENTS_MOST + 1] = { NULL }, *text = malloc(COMMAND_MOST), path[32];
	struct rundir_meta meta = { .argv = argv, .level = values->inside ? "trace" : "counts" };
	ssize_t n = -1;
	int r;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	if (text)
		n = small_file_text(path, text, COMMAND_MOST);
	for (ssize_t at = 0; at < n && meta.argc < ARGUMENTS_MOST;
	     at += (ssize_t)strnlen(text + at, (size_t)(n - at)) + 1)
		argv[meta.argc++] = text + at;
	r = rundir_create(name, &meta, ret_path, err);
	free(text);
	return r;
}

/* What an attach waits for. */
struct attach {
	int process, asked; /* descriptors: the program's end, and whoever calls 'detach' */
	int asker;	    /* who has; -1: nobody */
	int64_t duration_ns;
	struct joining joining;
};

#define JOINING_LOOK_MS 50

static bool has_left(struct attach *attach, bool all_steps)
{
	return attach->joining.state != JOIN_OFF && joining_look(&attach->joining) == JOIN_ENDED &&
	       all_steps;
}

/* Until the program ends, the time is over, it has made its steps or somebody has seen enough. True: it has
 * ended. */
static bool wait_for_end(struct attach *attach, bool limited)
{
	int64_t duration_ns = attach->duration_ns;
	int64_t until_ns = duration_ns < INT64_MAX - clock_monotonic_ns()
				   ? clock_monotonic_ns() + duration_ns
				   : INT64_MAX;
	struct pollfd ends[] = { { .fd = attach->process, .events = POLLIN },
				 { .events = POLLIN },
				 { .fd = attach->asked, .events = POLLIN } };
	sigset_t signals;
	int64_t left_ms, most_ms = attach->joining.state == JOIN_OFF ? INT_MAX : JOINING_LOOK_MS;
	bool over;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	ends[1].fd = signalfd(-1, &signals, SFD_CLOEXEC);
	do {
		left_ms = (until_ns - clock_monotonic_ns()) / 1000000;
		over = left_ms <= 0 ||
		       poll(ends, 3, (int)(left_ms < most_ms ? left_ms : most_ms)) > 0;
		if (ends[2].revents) {
			attach->asker = attached_accept(attach->asked, 0);
			over = attach->asker >= 0;
		}
	} while (!over && !has_left(attach, limited));
	close(ends[1].fd);
	return ends[0].revents != 0;
}

static int look(struct attach *attach, pid_t pid, const char *name, const struct values *values)
{
	struct rundir_end end = { 0 };
	int64_t start_ns = clock_monotonic_ns();
	struct sampler *sampler = NULL;
	struct watch *watch = NULL;
	struct buf notes = { 0 };
	struct err err = { "" };
	char *path = NULL;
	bool ended = false;
	int lock_fd = -1, r;

	r = make_run(pid, name, values, &path, &err);
	if (r < 0)
		return fail("%s", err.message);
	run_lock_take(path, &lock_fd);
	r = sampler_start(&sampler, path, pid, (unsigned int)values->rate, &err);
	if (r == 0) {
		if (watch_start(&watch, path, pid, &err) < 0)
			say("the machine is left out: %s", err.message);
		if (values->inside)
			joining_begin(&attach->joining, pid, path, values->steps);
		ended = wait_for_end(attach, values->steps > 0);
		joining_end(&attach->joining);
		if (watch_stop(watch, &err) < 0)
			say("not all of the machine is recorded: %s", err.message);
		r = sampler_stop(sampler, &err);
	}
	end.duration_ns = clock_monotonic_ns() - start_ns;
	/* Only its parent learns how it has ended. */
	end.status = ended ? "unknown" : "left";
	if (r < 0)
		say("not all stacks are recorded: %s", err.message);
	run_notes_take(path, &notes);
	end.notes = notes.failed ? NULL : notes.data;
	r = rundir_finish(path, &end, &err);
	buf_release(&notes);
	run_lock_release(path, lock_fd, r == 0);
	free(path);
	if (r < 0)
		return fail("cannot note the end of the run in %s: %s", name, err.message);
	if (!values->quiet) {
		bool joined = attach->joining.state == JOIN_ENDED;
		int64_t stopped_ns = attach->joining.hand_over.stopped_ns;

		say("run in %s%s%s%s; next: moescope %s %s", name,
		    ended ? ", to the program's end" : ", the program continues",
		    !joined	 ? ""
		    : stopped_ns ? "; joining stopped its main thread for "
				 : "; joining stopped nothing",
		    joined && stopped_ns ? format_ns((double)stopped_ns).text : "",
		    joined ? "report" : "stacks", name);
	}
	return EXIT_OK;
}

static int run_attach(struct invocation *inv)
{
	const struct values *values = inv->values;
	struct attach attach = { .asker = -1, .duration_ns = INT64_MAX };
	struct err err = { "" };
	char *name = NULL;
	pid_t pid = 0;
	int status;

	if (values->duration && interval_parse(values->duration, &attach.duration_ns, &err) < 0)
		return usage_error(inv->command, "%s", err.message);
	if (values->steps && !values->inside)
		return usage_error(inv->command,
				   "--steps needs --inside: steps are only visible from inside.");
	attach.process = open_process(inv->args[0], &pid);
	if (attach.process < 0)
		return -attach.process;
	/* Several may look from outside; 'detach' ends the first. */
	attach.asked = attached_listen(ATTACHED_FOR_DETACH, pid);
	if (attach.asked == -EADDRINUSE && values->inside)
		status = fail("another moescope is attached to process %d; end that one with "
			      "'moescope detach %d'.",
			      (int)pid, (int)pid);
	else if (!(name = values->output ? strdup(values->output) : rundir_default_name()))
		status = fail("no memory.");
	else
		status = look(&attach, pid, name, values);
	if (attach.asked >= 0)
		close(attach.asked);
	if (attach.asker >= 0)
		close(attach.asker);
	close(attach.process);
	free(name);
	return status;
}

const struct command cmd_attach = {
	.name = "attach",
	.purpose = PURPOSE_RECORD,
	.summary = "record a program that is already running",
	.words = "PID",
	.description =
		"Samples the threads of a process and its children into a run directory: Python and "
		"native functions, running and waiting ('moescope stacks'), and what the machine does "
		"meanwhile ('moescope host'). Everything is read from outside: the program is not "
		"stopped, runs no code of moescope's and stays as it was. With --inside, a Python 3.9 to 3.14 "
		"process also loads the probe, which records GPU work and, with PyTorch, steps and phases; "
		"before 3.14 it is stopped for a moment for that. At the end the probe is removed again, "
		"except for the idle library in the program's memory.",
	.groups = groups,
	.examples = examples,
	.defaults = &defaults,
	.values_size = sizeof(struct values),
	.max_args = 1,
	.min_args = 1,
	.run = run_attach,
};
