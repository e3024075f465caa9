/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding runs by name. Main thread.
 */
#include "cmd/runs/run_find.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/options/command.h"
#include "cmd/runs/foreign.h"
#include "cmd/runs/run_files.h"
#include "cmd/terminal/output.h"
#include "cmd/terminal/progress.h"
#include "device/sheets/kernel_name.h"
#include "subjects/answers/subject.h"
#include "subjects/shared/iterations.h"

/* Newest by its run.json, which is written when the run begins and again when it ends. */
static bool run_time(const char *dir, const char *name, struct timespec *ret_time)
{
	struct stat st;
	char path[4096];
	int n;

	n = snprintf(path, sizeof(path), "%s/%s/run.json", dir, name);
	if (n < 0 || (size_t)n >= sizeof(path) || stat(path, &st) < 0)
		return false;
	*ret_time = st.st_mtim;
	return true;
}

static bool later(struct timespec a, struct timespec b)
{
	return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec : a.tv_nsec > b.tv_nsec;
}

/* The newest run in a directory, or NULL; the caller frees it. */
static char *newest_run(const char *dir)
{
	struct timespec best_time = { 0 }, time;
	struct dirent *entry;
	char *best = NULL;
	DIR *d = opendir(dir);

	if (!d)
		return NULL;
	while ((entry = readdir(d))) {
		if (!ends_with(entry->d_name, ".mscope") || !run_time(dir, entry->d_name, &time))
			continue;
		if (!best || later(time, best_time)) {
			free(best);
			best = strdup(entry->d_name);
			best_time = time;
		}
	}
	closedir(d);
	return best;
}

static bool holds_a_run(const char *dir)
{
	struct run_files files;

	/* When it cannot be read, the loader says why. */
	return run_files_look(dir, &files) < 0 || files.run;
}

static int no_run_in(const char *dir, struct err *err)
{
	char *inside = newest_run(dir);

	if (inside)
		err_set(err, -EINVAL, "'%s' is a directory of runs, not a run; try '%s%s%s'.", dir,
			dir, ends_with(dir, "/") ? "" : "/", inside);
	else
		err_set(err, -EINVAL,
			"'%s' is not a run: it has no run.json, no shards and no traces of other "
			"profilers; 'moescope run -- COMMAND' records a run.",
			dir);
	free(inside);
	return -EINVAL;
}

static int keep_path(const char *path, char **ret_path)
{
	char *copy = strdup(path);

	if (!copy)
		return -ENOMEM;
	*ret_path = copy;
	return 0;
}

int run_find(const char *given, char **ret_path, struct err *err)
{
	struct stat st;
	char *longer;

	if (!given) {
		*ret_path = newest_run(".");
		if (*ret_path)
			return 0;
		return err_set(err, -ENOENT,
			       "no run (*.mscope) in the current directory; name one, or record "
			       "one with 'moescope run -- COMMAND' or 'moescope demo'.");
	}
	if (stat(given, &st) == 0) {
		if (S_ISDIR(st.st_mode) && !holds_a_run(given) && foreign_is(given, NULL) <= 0)
			return no_run_in(given, err);
		return keep_path(given, ret_path);
	}
	if (errno != ENOENT)
		return err_set(err, -errno, "cannot open the run '%s': %s.", given,
			       strerror(errno));
	if (asprintf(&longer, "%s.mscope", given) < 0)
		return -ENOMEM;
	if (stat(longer, &st) == 0) {
		*ret_path = longer;
		return 0;
	}
	free(longer);
	return err_set(err, -ENOENT,
		       "no run or file '%s'; 'ls -d *.mscope' lists the runs here, and 'moescope "
		       "run -- COMMAND' records one.",
		       given);
}

static bool is_run(const char *path)
{
	struct stat st;

	return stat(path, &st) < 0 || (S_ISDIR(st.st_mode) && holds_a_run(path));
}

static int load_found_run(const char *path, const struct run_want *want, struct run **ret_run,
			  struct err *err)
{
	int r = is_run(path) ? 0 : foreign_is(path, err);

	if (r < 0 || (r == 0 && err->message[0]))
		return r < 0 ? r : -EBADMSG;
	return r ? foreign_load(path, want, ret_run, err) : run_load(path, want, ret_run, err);
}

/* Adds the steps that are found by repetition. */
static int find_steps(struct run *run)
{
	struct iterations found;
	char *brief = NULL, *by = NULL;
	int r = iterations_find(run, &found);

	if (r < 0 || !found.anchor)
		return r;
	r = kernel_short_name(found.anchor, &brief);
	if (r >= 0 &&
	    asprintf(&by, "repetition of %s, %.0f kernels each", brief, found.kernels) < 0)
		r = -ENOMEM;
	if (r >= 0)
		r = run_add_steps(run, found.steps, found.shards, found.n, by);
	free(brief);
	free(by);
	iterations_release(&found);
	return r;
}

/* A run in which nobody marked steps gets those that are found by repetition, if `want` has the kinds
 * of records that this takes. always: it is then loaded again with them, if it has not. */
static int load_with_steps(const char *path, const struct run_want *want, bool always,
			   struct run **ret_run, struct err *err)
{
	bool findable = !(iterations_want.kinds & ~want->kinds);
	struct run_want wider = *want;
	struct run *run;
	int r;

	want_add(&wider, &iterations_want);
	r = load_found_run(path, findable ? &wider : want, &run, err);
	if (r >= 0 && !findable && always && want->kinds & WANT(STEP) && !run->step.n) {
		run_free(run);
		findable = true;
		r = load_found_run(path, &wider, &run, err);
	}
	if (r < 0)
		return r;
	if (findable && !run->step.n && run->kernel.n)
		r = find_steps(run);
	if (r < 0)
		run_free(run);
	else
		*ret_run = run;
	return r;
}

int run_load_quietly(const char *path, const struct run_want *want, struct run **ret_run,
		     struct err *err)
{
	return load_with_steps(path, want, true, ret_run, err);
}

static int open_run(const char *given, const struct run_want *want, bool always_steps,
		    struct run **ret_run)
{
	struct err err = { "" };
	char what[300];
	char *path = NULL;
	int r;

	r = run_find(given, &path, &err);
	if (r < 0)
		return fail("%s", err.message[0] ? err.message : strerror(-r));
	if (!given)
		say("the newest run here is %s.", path);
	snprintf(what, sizeof(what), "reading %s", path);
	progress_begin(what);
	r = load_with_steps(path, want, always_steps, ret_run, &err);
	progress_end();
	if (r < 0)
		fail("%s", err.message[0] ? err.message : strerror(-r));
	free(path);
	return r < 0 ? EXIT_FAILED : EXIT_OK;
}

int run_open_part(const char *given, const struct run_want *want, struct run **ret_run)
{
	return open_run(given, want, false, ret_run);
}

int run_open_with_steps(const char *given, const struct run_want *want, struct run **ret_run)
{
	return open_run(given, want, true, ret_run);
}

int run_open(const char *given, uint64_t kinds, struct run **ret_run)
{
	return run_open_part(given, &(struct run_want){ .kinds = kinds }, ret_run);
}
