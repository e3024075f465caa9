/* SPDX-License-Identifier: Apache-2.0
 *
 * The run directory around a program. One thread.
 *
 * The program comes first: whatever goes wrong with the directory is said, and the program runs.
 * The exceptions are mistakes in the command itself (a program that does not exist, a directory
 * that is in use), which are found before anything is touched.
 */
#include "cmd/recording/record.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "cmd/recording/installed.h"
#include "cmd/recording/preload.h"
#include "cmd/runs/run_files.h"
#include "cmd/runs/run_notes.h"
#include "cmd/runs/run_timeline.h"
#include "cmd/terminal/output.h"
#include "host/machine/watch.h"
#include "trace/run_lock.h"
#include "trace/rundir.h"

/* Events whose index the end of a program may wait for, two seconds or so. */
#define INDEX_MOST 8000000

/* Whether a run may be made at `path`. EXIT_OK (it is not there, or empty, or may be replaced and
 * then is emptied by make_dir), or EXIT_FAILED with a word. */
static int check_output(const char *path, bool force)
{
	struct run_files files;
	struct stat st;

	if (stat(path, &st) < 0)
		return EXIT_OK; /* making it will tell */
	if (!S_ISDIR(st.st_mode))
		return fail("'%s' is a file; choose another directory with --output.", path);
	if (run_files_look(path, &files) < 0)
		return EXIT_OK;
	if (files.foreign)
		return fail("'%s' contains files that are not a run; choose another directory "
			    "with --output.",
			    path);
	if (files.run && !force)
		return fail("'%s' already contains a run; choose another directory, or replace "
			    "it with --force.",
			    path);
	if (run_writer(path) == RUN_WRITER_HELD)
		return fail("'%s' is being written by a running program; wait for it to "
			    "end, or choose another directory with --output.",
			    path);
	return EXIT_OK;
}

static int find_program(const char *program)
{
	switch (program_find(program, NULL)) {
	case 0:
		return EXIT_OK;
	case -ENOENT:
		fail("cannot run '%s': there is no such program%s.", program,
		     strchr(program, '/') ? "" : " in PATH");
		return 127;
	default:
		fail("cannot run '%s': it is not an executable file.", program);
		return 126;
	}
}

static int make_dir(struct recording *recording, const char *path, const struct record_plan *plan,
		    char **argv, const char *note, struct err *err)
{
	struct rundir_meta meta = {
		.argv = argv,
		.level = plan->level,
		.schedule = plan->schedule,
		.notes = note,
		.budget_pct = plan->budget_pct,
		.budget_known = plan->budget_known,
		.kernel = plan->kernel,
		.ranks = plan->ranks,
	};
	int r;

	while (argv[meta.argc])
		meta.argc++;
	/* The lock first: of two that want the same directory, one finds it held. */
	recording->made_directory = mkdir(path, 0755) == 0;
	r = run_lock_take(path, &recording->lock_fd);
	if (r == -EBUSY)
		return err_set(err, r, "%s: another program is writing a run there", path);
	r = 0;
	if (!recording->made_directory && plan->force) {
		r = run_files_remove(path, false);
		if (r < 0 && r != -ENOENT)
			err_sys(err, r, "cannot empty '%s'", path);
		else
			r = 0;
	}
	recording->name = strdup(path);
	if (r == 0)
		r = recording->name ? rundir_create(path, &meta, &recording->path, err) : -ENOMEM;
	if (r < 0) {
		run_lock_release(path, recording->lock_fd, true);
		recording->lock_fd = -1;
		if (recording->made_directory)
			rmdir(path);
		free(recording->name);
		recording->name = NULL;
	}
	return r;
}

/* The directory asked for, else one in TMPDIR, else none; only the latter two say so. */
static void make_some_dir(struct recording *recording, const struct record_plan *plan, char **argv)
{
	struct err first = { "" }, second = { "" };
	const char *tmp = getenv("TMPDIR");
	const char *wanted = plan->output;
	char *name = rundir_default_name(), *note = NULL;
	char fallback[PATH_MAX];
	const char *base;
	int r = name ? 0 : -ENOMEM;

	if (!wanted)
		wanted = name;
	if (r == 0)
		r = make_dir(recording, wanted, plan, argv, NULL, &first);
	if (r == 0)
		goto out;
	if (!name) {
		say("nothing is recorded: no memory for the name of the run.");
		return;
	}
	base = strrchr(wanted, '/') ? strrchr(wanted, '/') + 1 : wanted;
	snprintf(fallback, sizeof(fallback), "%s/%s", tmp && *tmp ? tmp : "/tmp",
		 *base ? base : name);
	/* A fallback never replaces anything. */
	if (access(fallback, F_OK) == 0)
		snprintf(fallback, sizeof(fallback), "%s/%s", tmp && *tmp ? tmp : "/tmp", name);
	if (asprintf(&note, "the run is in %s because it could not be created in %s (%s).",
		     fallback, wanted, first.message[0] ? first.message : strerror(-r)) < 0)
		note = NULL;
	r = note ? make_dir(recording, fallback, plan, argv, note, &second) : -ENOMEM;
	if (r == 0)
		say("%s", note);
	else
		say("nothing is recorded: no run could be created in %s (%s) or in %s (%s).",
		    wanted, first.message, fallback,
		    second.message[0] ? second.message : strerror(-r));
	free(note);
out:
	free(name);
}

static int set_or_unset(const char *name, const char *value)
{
	return value ? setenv(name, value, 1) : unsetenv(name);
}

static int set_number(const char *name, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	return set_or_unset(name, value ? text : NULL);
}

/* The driver and NVTX load the library named here at the first CUDA or NVTX call, so a program
 * that makes none is not touched. A variable that another tool has set is left to it. */
static int set_injection(const char *name, const char *file)
{
	char *library = installed_library(file);
	const char *given = getenv(name);
	int r = 0;

	if (library && given && *given && strcmp(given, library) != 0)
		say("%s is set to '%s' by another tool; unset it to record GPU work.", name, given);
	else if (library)
		r = setenv(name, library, 1);
	free(library);
	return r;
}

/* Counted from 0; -1: it is not set. */
static int set_place(const char *name, int64_t place)
{
	char text[24];

	snprintf(text, sizeof(text), "%lld", (long long)place);
	return set_or_unset(name, place >= 0 ? text : NULL);
}

static int set_counters(const struct record_plan *plan, bool on)
{
	on = on && plan->exact;
	if (set_or_unset("MOESCOPE_EXACT", on ? plan->exact : NULL) < 0 ||
	    set_or_unset("MOESCOPE_RANGE", on ? plan->range : NULL) < 0 ||
	    set_place("MOESCOPE_LAUNCH_LAYER", on ? plan->layer : -1) < 0 ||
	    set_place("MOESCOPE_LAUNCH_EXPERT", on ? plan->expert : -1) < 0 ||
	    set_number("MOESCOPE_LAUNCH_SKIP", on ? plan->launch_skip : 0) < 0)
		return -1;
	return set_number("MOESCOPE_LAUNCH_COUNT", on ? plan->launch_count : 0);
}

static int set_budget(const struct record_plan *plan, bool on)
{
	char text[32] = "off";

	if (plan->budget_pct > 0)
		snprintf(text, sizeof(text), "%.15g", plan->budget_pct);
	return set_or_unset("MOESCOPE_BUDGET", on && plan->budget_known ? text : NULL);
}

/* Python runs the sitecustomize.py of the first folder that has one (python/moescope/auto). It stays there for
 * the program's children, which are recorded like the program. Without the package there is nothing to do. */
static int set_python_path(const char *folder)
{
	const char *given = getenv("PYTHONPATH");
	size_t length = strlen(folder);
	char *path;
	int r;

	if (given && strncmp(given, folder, length) == 0 &&
	    (given[length] == ':' || !given[length]))
		return 0; /* an outer run */
	/* An empty entry would be the current directory. */
	if (asprintf(&path, "%s%s%s", folder, given && *given ? ":" : "", given ? given : "") < 0)
		return -1;
	r = setenv("PYTHONPATH", path, 1);
	free(path);
	return r;
}

static int set_auto(bool wanted)
{
	char *folder = wanted ? installed_auto_path() : NULL;
	int r = set_or_unset("MOESCOPE_AUTO", folder ? "1" : NULL);

	if (r == 0 && folder)
		r = set_python_path(folder);
	free(folder);
	return r;
}

/* The program comes first: without these libraries it runs as it would anyway. */
static int set_preload(const struct record_plan *plan, bool on)
{
	struct err err = { "" };
	char text[24];

	if (preload_set(on ? plan->preload : 0, &err) < 0)
		say("nothing is loaded into the program: %s", err.message);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)plan->calls_ns);
	if (set_or_unset("MOESCOPE_CALLS_NS", on && plan->preload & PRELOAD_CALLS ? text : NULL) <
	    0)
		return -1;
	return set_number("MOESCOPE_HEAP",
			  on && plan->preload & PRELOAD_HEAP ? plan->heap_bytes : 0);
}

/* What an outer run or the user left there must not reach the program: unset is as firm as set. */
static int set_environment(const struct recording *recording, const struct record_plan *plan)
{
	bool on = recording->path != NULL;

	if (set_or_unset("MOESCOPE_RUN", recording->path) < 0 ||
	    set_or_unset("MOESCOPE_LEVEL", on ? plan->level : NULL) < 0 ||
	    set_or_unset("MOESCOPE_SCHEDULE", on ? plan->schedule : NULL) < 0 ||
	    set_number("MOESCOPE_OVERHEAD_CHECK", on ? plan->overhead_pairs : 0) < 0 ||
	    set_number("MOESCOPE_RING_KB", on ? plan->ring_kb : 0) < 0 ||
	    set_budget(plan, on) < 0 ||
	    set_or_unset("MOESCOPE_STAY_ATTACHED", on && plan->stays ? "1" : NULL) < 0 ||
	    set_number("MOESCOPE_DEVICE_MB", on ? plan->device_mb : 0) < 0 ||
	    set_or_unset("MOESCOPE_KERNEL", on ? plan->kernel : NULL) < 0 ||
	    set_or_unset("MOESCOPE_RANKS", on ? plan->ranks : NULL) < 0 ||
	    set_preload(plan, on) < 0 || set_auto(on && plan->finds_steps) < 0 ||
	    set_counters(plan, on) < 0 ||
	    (on && (set_injection("CUDA_INJECTION64_PATH",
				  plan->exact ? "libmoescope-exact.so" : "libmoescope.so") < 0 ||
		    set_injection("NVTX_INJECTION64_PATH", "libmoescope.so") < 0)))
		return fail("cannot set the program's environment: %s.", strerror(errno));
	return EXIT_OK;
}

int recording_begin(struct recording *recording, const struct record_plan *plan, char **argv)
{
	int status = find_program(argv[0]);

	if (status == EXIT_OK && plan->output)
		status = check_output(plan->output, plan->force);
	if (status != EXIT_OK)
		return status;
	launch_prepare(&recording->launch);
	recording->some_ranks = plan->ranks != NULL;
	make_some_dir(recording, plan, argv);
	return set_environment(recording, plan);
}

static void remove_dir(struct recording *recording)
{
	int r = 0;

	if (!recording->path)
		return;
	run_lock_release(recording->path, recording->lock_fd, true);
	recording->lock_fd = -1;
	r = run_files_remove(recording->path, recording->made_directory);
	if (r < 0)
		say("cannot remove '%s': %s.", recording->name, strerror(-r));
}

int recording_launch(struct recording *recording, char **argv, int output_fd)
{
	bool exec;
	int r;

	recording->start_ns = clock_monotonic_ns();
	r = launch_start(&recording->launch, argv, output_fd, &exec);
	if (r == 0)
		return EXIT_OK;
	remove_dir(recording);
	fail("cannot run '%s': %s.", argv[0], strerror(-r));
	if (!exec)
		return EXIT_FAILED;
	return r == -ENOENT ? 127 : 126;
}

struct watch *recording_watch_machine(const struct recording *recording)
{
	struct watch *watch = NULL;
	struct err err = { "" };

	if (recording->path &&
	    watch_start(&watch, recording->path, recording->launch.pid, &err) < 0)
		say("the machine is left out: %s", err.message);
	return watch;
}

void recording_end_watch(struct watch *watch)
{
	struct err err = { "" };

	if (watch_stop(watch, &err) < 0)
		say("not all of the machine is recorded: %s", err.message);
}

bool recording_end(struct recording *recording, const char *program)
{
	int status = recording->launch.status;
	struct rundir_end end = {
		.exited = WIFEXITED(status),
		.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
		.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
		.duration_ns = clock_monotonic_ns() - recording->start_ns,
	};
	struct run_files files = { 0 };
	struct buf notes = { 0 };
	struct err err = { "" };
	int r;

	if (!recording->path)
		return false;
	run_notes_take(recording->path, &notes);
	end.notes = notes.failed ? NULL : notes.data;
	r = rundir_finish(recording->path, &end, &err);
	run_lock_release(recording->path, recording->lock_fd, r == 0);
	recording->lock_fd = -1;
	if (r < 0)
		say("cannot note the end of the run in %s: %s", recording->name,
		    err.message[0] ? err.message : strerror(-r));
	r = run_files_look(recording->path, &files);
	if (r == 0 && files.shards)
		run_index_timeline(recording->path, INDEX_MOST);
	if (r == 0 && !files.shards) {
		if (end.notes)
			say("%s", end.notes);
		say("nothing was recorded%s: no process of '%s' %sran a PyTorch model, used CUDA or NVTX "
		    "or called the functions of moescope.h (run in %s%s); --stacks samples its "
		    "threads.",
		    files.machine ? " but the machine" : "", program,
		    recording->some_ranks ? "with a rank of --ranks " : "", recording->name,
		    files.machine ? "; next: moescope report" : "");
	}
	buf_release(&notes);
	return r == 0 && files.shards;
}

void recording_release(struct recording *recording)
{
	if (recording->path)
		run_lock_release(recording->path, recording->lock_fd, false);
	recording->lock_fd = -1;
	free(recording->path);
	free(recording->name);
	recording->path = NULL;
	recording->name = NULL;
}
