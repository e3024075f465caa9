/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of a run directory. Main thread.
 */
#include "cmd/runs/run_files.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cmd/recording/joining.h"
#include "cmd/runs/run_notes.h"
#include "timeline/lod.h"
#include "trace/heap_file.h"
#include "trace/run_lock.h"
#include "trace/rundir.h"

bool ends_with(const char *text, const char *end)
{
	size_t a = strlen(text), b = strlen(end);

	return a >= b && strcmp(text + a - b, end) == 0;
}

static bool is_dot(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool is_ours(const char *name)
{
	return strcmp(name, "run.json") == 0 || strcmp(name, PROGRAM_LOG) == 0 ||
	       strcmp(name, RUN_LOCK_FILE) == 0 || strcmp(name, JOIN_LOCK_FILE) == 0 ||
	       strcmp(name, JOIN_STATE_FILE) == 0 ||
	       (strncmp(name, "run.json.", 9) == 0 && ends_with(name, ".tmp")) ||
	       strcmp(name, LOD_FILE) == 0 ||
	       (strncmp(name, LOD_FILE ".", sizeof(LOD_FILE)) == 0 && ends_with(name, ".tmp")) ||
	       ends_with(name, ".mst") || ends_with(name, ".ring") ||
	       ends_with(name, HEAP_SUFFIX) || run_note_is_file(name);
}

int run_files_look(const char *path, struct run_files *ret_files)
{
	struct run_files files = { 0 };
	struct dirent *entry;
	DIR *dir = opendir(path);

	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		if (is_dot(entry->d_name))
			continue;
		if ((strncmp(entry->d_name, RUNDIR_HOST, strlen(RUNDIR_HOST)) == 0 ||
		     strncmp(entry->d_name, RUNDIR_COUNTERS, strlen(RUNDIR_COUNTERS)) == 0) &&
		    ends_with(entry->d_name, ".mst"))
			files.machine = true;
		else
			files.shards |= ends_with(entry->d_name, ".mst");
		files.run |= strcmp(entry->d_name, "run.json") == 0 || files.shards ||
			     files.machine;
		files.foreign |= !is_ours(entry->d_name);
	}
	closedir(dir);
	*ret_files = files;
	return 0;
}

int run_files_remove(const char *path, bool directory_too)
{
	struct dirent *entry;
	DIR *dir = opendir(path);
	int r = 0;

	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		if (!is_ours(entry->d_name) ||
		    (!directory_too && strcmp(entry->d_name, RUN_LOCK_FILE) == 0))
			continue;
		if (unlinkat(dirfd(dir), entry->d_name, 0) < 0 && r == 0)
			r = -errno;
	}
	closedir(dir);
	if (r == 0 && directory_too && rmdir(path) < 0)
		r = -errno;
	return r;
}
