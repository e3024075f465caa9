/* SPDX-License-Identifier: Apache-2.0
 *
 * The run of a process; see run_of_process.h. Main thread.
 */
#include "cmd/runs/run_of_process.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trace/run_lock.h"
#include "trace/rundir.h"

#define VARIABLE "MOESCOPE_RUN="

bool is_process_number(const char *given)
{
	return *given && !given[strspn(given, "0123456789")] && access(given, F_OK) < 0;
}

/* A file of /proc, NUL-terminated; NULL: it is not there or not for us. */
static char *proc_file(const char *pid, const char *name, size_t *ret_size)
{
	char path[128], *text = NULL;
	size_t capacity = 0, size = 0, n;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%.20s/%s", pid, name);
	file = fopen(path, "re");
	if (!file)
		return NULL;
	do {
		char *more = realloc(text, capacity + 4097);

		if (!more)
			break;
		text = more;
		capacity += 4096;
		n = fread(text + size, 1, capacity - size, file);
		size += n;
		text[size] = '\0';
	} while (n > 0 && size == capacity);
	fclose(file);
	*ret_size = size;
	return text;
}

static char *from_environment(const char *pid)
{
	size_t size = 0;
	char *text = proc_file(pid, "environ", &size), *path = NULL;

	for (size_t at = 0; text && !path && at < size; at += strlen(text + at) + 1)
		if (!strncmp(text + at, VARIABLE, strlen(VARIABLE)))
			path = strdup(text + at + strlen(VARIABLE));
	free(text);
	return path;
}

static char *from_children(const char *pid)
{
	char name[64], *save = NULL, *path = NULL, *text;
	size_t size;

	snprintf(name, sizeof(name), "task/%.20s/children", pid);
	text = proc_file(pid, name, &size);
	for (char *child = text ? strtok_r(text, " ", &save) : NULL; child && !path;
	     child = strtok_r(NULL, " ", &save))
		path = from_environment(child);
	free(text);
	return path;
}

/* The process may have ended since: its shard has its number. */
/* One that is being written, if there is one: a process may have been looked at before. */
static char *from_shards(const char *pid)
{
	static const char *const patterns[] = { "*.mscope/*-%.20s.mst",
						"*.mscope/*-%.20s" RUNDIR_STACKS };
	char *path = NULL;
	glob_t found = { 0 };

	for (int i = 0; i < 2; i++) {
		char pattern[64];

		snprintf(pattern, sizeof(pattern), patterns[i], pid); // NOLINT: of the above
		glob(pattern, i ? GLOB_APPEND : 0, NULL, &found);
	}
	for (size_t i = 0; i < found.gl_pathc; i++) {
		char *run = found.gl_pathv[i];

		*strchr(run, '/') = '\0';
		if (path && run_writer(run) != RUN_WRITER_HELD)
			continue;
		free(path);
		path = strdup(run);
	}
	globfree(&found);
	return path;
}

int run_of_process(const char *pid, char **ret_path, struct err *err)
{
	char *path = from_environment(pid);

	if (!path)
		path = from_children(pid);
	if (!path)
		path = from_shards(pid);
	if (!path)
		return err_set(err, -ENOENT,
			       "no run of process %s: it was not started by 'moescope run', and no "
			       "run in this directory has a shard of it.",
			       pid);
	*ret_path = path;
	return 0;
}
