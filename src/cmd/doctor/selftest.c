/* SPDX-License-Identifier: Apache-2.0
 *
 * The self-test of `doctor`. The recording half runs in a forked child, so that the library
 * starts as in any program and its threads never meet ours.
 */
#include "cmd/doctor/selftest.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/runs/run_files.h"
#include "moescope.h"
#include "tables/tables.h"

enum { BATCHES = 64, BATCH = 64, RANGES = BATCHES * BATCH, LAYERS = 7, EXPERTS = 5 };

static const char range_name[] = "moescope self-test";

/* What the child tells the parent. */
struct told {
	double ns_per_range;
	char message[256]; /* empty: all went well */
};

struct api {
	int (*start)(const char *run_dir);
	void (*stop)(void);
	moescope_name (*intern)(const char *text);
	void (*begin)(moescope_name name, int32_t layer, int32_t expert, enum moescope_phase phase);
	void (*end)(void);
};

/* dlsym returns an object pointer; POSIX promises that it can hold a function. */
static bool symbol(void *library, const char *name, void *ret_function)
{
	void *address = dlsym(library, name);

	memcpy(ret_function, &address, sizeof(address));
	return address != NULL;
}

static bool load_library(const char *path, struct api *api, struct told *told)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		const char *reason = dlerror();

		snprintf(told->message, sizeof(told->message), "cannot load it: %s",
			 reason ? reason : "no reason given");
		return false;
	}
	if (symbol(library, "moescope_start", &api->start) &&
	    symbol(library, "moescope_stop", &api->stop) &&
	    symbol(library, "moescope_intern", &api->intern) &&
	    symbol(library, "moescope_range_begin", &api->begin) &&
	    symbol(library, "moescope_range_end", &api->end))
		return true;
	snprintf(told->message, sizeof(told->message), "'%s' lacks functions of moescope.h", path);
	return false;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void record_known(const char *library, const char *run, struct told *told)
{
	double batch_ns[BATCHES];
	struct api api;
	moescope_name name;
	int r, i = 0;

	if (!load_library(library, &api, told))
		return;
	r = api.start(run);
	if (r < 0) {
		snprintf(told->message, sizeof(told->message), "recording does not start: %s",
			 strerror(-r));
		return;
	}
	name = api.intern(range_name);
	for (int batch = 0; batch < BATCHES; batch++) {
		int64_t start_ns = clock_monotonic_ns();

		for (int end = i + BATCH; i < end; i++) {
			api.begin(name, i % LAYERS, i % EXPERTS, MOESCOPE_FORWARD);
			api.end();
		}
		batch_ns[batch] = (double)(clock_monotonic_ns() - start_ns) / BATCH;
	}
	api.stop();
	qsort(batch_ns, BATCHES, sizeof(*batch_ns), by_value);
	told->ns_per_range = (batch_ns[BATCHES / 2 - 1] + batch_ns[BATCHES / 2]) / 2;
}

static int record_in_child(const char *library, const char *run, struct told *told, struct err *err)
{
	int ends[2], status;
	ssize_t n;
	pid_t pid;

	if (pipe(ends) < 0)
		return err_sys(err, -errno, "cannot create a pipe");
	pid = fork();
	if (pid == 0) {
		/* The variables of an outer `moescope run` would start the library too early. */
		unsetenv("MOESCOPE_RUN");
		unsetenv("MOESCOPE_SCHEDULE");
		unsetenv("MOESCOPE_LEVEL");
		unsetenv("MOESCOPE_OVERHEAD_CHECK");
		record_known(library, run, told);
		n = write(ends[1], told, sizeof(*told));
		_exit(n == (ssize_t)sizeof(*told) ? 0 : 1);
	}
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return err_sys(err, -errno, "cannot start a process");
	}
	do
		n = read(ends[0], told, sizeof(*told));
	while (n < 0 && errno == EINTR);
	close(ends[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (n == (ssize_t)sizeof(*told) && !told->message[0])
		return 0;
	if (n == (ssize_t)sizeof(*told))
		return err_set(err, -EIO, "%s", told->message);
	return err_set(err, -EIO, "the recording process died with wait status 0x%x",
		       (unsigned int)status);
}

static int compare_told(const struct run *run, struct err *err)
{
	if (loss_total(&run->loss))
		return err_set(err, -EIO, "%llu records were lost",
			       (unsigned long long)loss_total(&run->loss));
	if (run->range.n != RANGES)
		return err_set(err, -EIO, "%zu of %d ranges came back", run->range.n, (int)RANGES);
	for (size_t i = 0; i < RANGES; i++) {
		struct site site = run_site(run, run->range.site[i]);

		if (strcmp(run_string(run, site.name), range_name) != 0 ||
		    site.layer != (int32_t)(i % LAYERS) || site.expert != (int32_t)(i % EXPERTS) ||
		    site.phase != MOESCOPE_FORWARD || run->range.depth[i] != run->range.depth[0] ||
		    run->range.duration_ns[i] < 0 ||
		    (i > 0 && run->range.start_ns[i] < run->range.start_ns[i - 1]))
			return err_set(err, -EIO, "range %zu came back different", i);
	}
	return 0;
}

static int read_back(const char *path, struct err *err)
{
	struct run_want want = { .kinds = WANT(RANGE) };
	struct run *run;
	int r = run_load(path, &want, &run, err);

	if (r < 0)
		return r;
	r = compare_told(run, err);
	run_free(run);
	return r;
}

int selftest_run(const char *library, struct selftest *ret_result, struct err *err)
{
	const char *tmp = getenv("TMPDIR");
	struct told told = { 0 };
	char dir[PATH_MAX - 32], run[PATH_MAX];
	int r, removed;

	snprintf(dir, sizeof(dir), "%s/moescope-doctor-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(dir))
		return err_sys(err, -errno, "cannot create '%s'", dir);
	snprintf(run, sizeof(run), "%s/self-test.mscope", dir);
	r = record_in_child(library, run, &told, err);
	if (r == 0)
		r = read_back(run, err);
	removed = run_files_remove(run, true);
	if (rmdir(dir) < 0)
		removed = -errno;
	if (r == 0 && removed < 0)
		r = err_sys(err, removed, "cannot remove '%s'", dir);
	if (r == 0)
		*ret_result = (struct selftest){ RANGES, told.ns_per_range };
	return r;
}
