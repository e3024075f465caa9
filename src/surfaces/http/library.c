/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs in a directory; see library.h.
 */
#include "surfaces/http/library.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/crc32c.h"
#include "base/text/nearest.h"
#include "timeline/lod.h"
#include "trace/run_lock.h"
#include "trace/rundir.h"

static size_t name_length(const char *file)
{
	size_t length = strlen(file), suffix = strlen(RUNDIR_SUFFIX);

	return length > suffix && !strcmp(file + length - suffix, RUNDIR_SUFFIX) ? length - suffix
										 : length;
}

/* A directory is a run, else it may hold some. */
int library_open(struct library *library, const char *path, struct err *err)
{
	char *real = realpath(path, NULL), *slash;
	struct stat st;

	*library = (struct library){ .directory = real };
	if (!real)
		return err_sys(err, -errno, "cannot open '%s'", path);
	if (stat(real, &st) < 0 || !S_ISDIR(st.st_mode))
		return err_set(err, -ENOTDIR,
			       "'%s' is neither a run nor a directory of runs; 'moescope import' "
			       "makes a run of a file of another profiler.",
			       path);
	slash = strrchr(real, '/');
	if (!slash[1] || !rundir_is_run(real))
		return 0;
	library->only = strdup(slash + 1);
	if (!library->only)
		return err_set(err, -ENOMEM, "no memory to serve '%s'.", path);
	slash[slash == real] = '\0';
	return 0;
}

void library_close(struct library *library)
{
	free(library->directory);
	free(library->only);
}

struct listing {
	const struct library *library;
	struct library_runs *runs;
};

static int take_found(const struct rundir_found *found, void *context)
{
	const struct listing *listing = context;
	struct library_runs *runs = listing->runs;
	struct library_run run = { .changed_ns = found->changed.tv_sec * INT64_C(1000000000) +
						 found->changed.tv_nsec };
	size_t length = name_length(found->name);

	if (!found->is_run || (!listing->library->only && !found->name[length]))
		return 0;
	if (array_grow(&runs->of, &runs->capacity, runs->n + 1, sizeof(*runs->of)) < 0)
		return -ENOMEM;
	run.name = strndup(found->name, length);
	run.path = strdup(found->path);
	runs->of[runs->n++] = run;
	return run.name && run.path ? 0 : -ENOMEM;
}

static int newest_first(const void *a, const void *b)
{
	const struct library_run *x = a, *y = b;

	if (x->changed_ns != y->changed_ns)
		return x->changed_ns < y->changed_ns ? 1 : -1;
	return strcmp(x->name, y->name);
}

int library_list(const struct library *library, struct library_runs *ret_runs)
{
	struct listing listing = { library, ret_runs };
	size_t left = SIZE_MAX;
	int r;

	*ret_runs = (struct library_runs){ 0 };
	r = rundir_each(library->directory, library->only, take_found, &listing, &left);
	if (ret_runs->n)
		qsort(ret_runs->of, ret_runs->n, sizeof(*ret_runs->of), newest_first);
	return r;
}

void library_runs_release(struct library_runs *runs)
{
	for (size_t i = 0; i < runs->n; i++) {
		free(runs->of[i].name);
		free(runs->of[i].path);
	}
	free(runs->of);
}

char *library_find(const struct library *library, const char *name, struct err *err)
{
	struct nearest nearest = nearest_to(name);
	struct library_runs runs;
	char *path = NULL;
	int r = library_list(library, &runs);

	for (size_t i = 0; r == 0 && !path && i < runs.n; i++) {
		nearest_offer(&nearest, runs.of[i].name);
		if (!strcmp(runs.of[i].name, name)) {
			path = runs.of[i].path;
			runs.of[i].path = NULL;
		}
	}
	if (r < 0)
		err_sys(err, r, "cannot list the runs");
	else if (!path && nearest.best)
		err_set(err, -ENOENT, "there is no run '%s' here; did you mean '%s'?", name,
			nearest.best);
	else if (!path)
		err_set(err, -ENOENT, "there is no run '%s' here; /api/runs lists the runs.", name);
	library_runs_release(&runs);
	return path;
}

uint64_t library_signature(const char *path, bool *ret_growing)
{
	enum run_writer writer;
	DIR *directory = opendir(path);
	struct dirent *entry;
	uint64_t signature = 1;

	if (!directory)
		return 0;
	while ((entry = readdir(directory))) {
		struct stat st;
		struct {
			int64_t s, ns, bytes;
			uint32_t name;
		} facts = { 0 };

		/* What is made from the run, by us among others, does not change it. */
		if (entry->d_name[0] == '.' ||
		    !strncmp(entry->d_name, LOD_FILE, strlen(LOD_FILE)) ||
		    fstatat(dirfd(directory), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		facts.s = st.st_mtim.tv_sec;
		facts.ns = st.st_mtim.tv_nsec;
		facts.bytes = st.st_size;
		facts.name = crc32c(0, entry->d_name, strlen(entry->d_name));
		/* A sum: the order in which they are listed says nothing. */
		signature += (uint64_t)crc32c(0, &facts, sizeof(facts)) << 20 | facts.name >> 12;
	}
	closedir(directory);
	/* The end of a killed program changes no file. */
	writer = run_writer(path);
	*ret_growing |= writer == RUN_WRITER_HELD;
	signature += (uint64_t)writer;
	return signature ? signature : 1;
}
