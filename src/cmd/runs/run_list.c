/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs below a directory; see run_list.h. Main thread.
 */
#include "cmd/runs/run_list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/text/nearest.h"
#include "cmd/runs/run_files.h"
#include "ingest/ingest.h"
#include "trace/rundir.h"

#define DEPTH_MAX 3 /* folders below the directory: a sweep keeps its runs in folders of points */
#define ENTRIES_MAX 4096 /* that are looked at */

char *run_list_path(const struct run_list *list, const char *name)
{
	char *path;

	return asprintf(&path, "%s/%s", list->root, name) < 0 ? NULL : path;
}

static int add_run(struct run_list *list, const char *name, const char *format,
		   struct timespec changed)
{
	struct listed_run *run;

	if (array_grow(&list->runs, &list->capacity, list->n + 1, sizeof(*list->runs)) < 0)
		return -ENOMEM;
	run = &list->runs[list->n];
	*run = (struct listed_run){ strdup(name), format, changed };
	if (!run->name)
		return -ENOMEM;
	list->n++;
	return 0;
}

static const char *foreign_format(const char *path)
{
	const struct importer *importer;

	return ingest_recognise(path, &importer, NULL) > 0 ? importer->title : NULL;
}

static int take_found(const struct rundir_found *found, void *context)
{
	struct run_list *list = context;
	const char *format = NULL;
	int depth = 0;

	for (const char *c = found->name; *c; c++)
		depth += *c == '/';
	if (!found->is_run && !depth)
		format = foreign_format(found->path);
	if (found->is_run || format)
		return add_run(list, found->name, format, found->changed);
	return found->is_folder && depth < DEPTH_MAX;
}

static int newest_first(const void *a, const void *b)
{
	const struct listed_run *x = a, *y = b;

	if (x->changed.tv_sec != y->changed.tv_sec)
		return x->changed.tv_sec < y->changed.tv_sec ? 1 : -1;
	if (x->changed.tv_nsec != y->changed.tv_nsec)
		return x->changed.tv_nsec < y->changed.tv_nsec ? 1 : -1;
	return strcmp(x->name, y->name);
}

static void forget_runs(struct run_list *list)
{
	while (list->n)
		free(list->runs[--list->n].name);
}

int run_list_read(struct run_list *list)
{
	size_t left = ENTRIES_MAX;
	int r;

	forget_runs(list);
	r = rundir_each(list->root, list->only, take_found, list, &left);
	list->more = !left;
	if (list->n)
		qsort(list->runs, list->n, sizeof(*list->runs), newest_first);
	return r;
}

/* A run or a file in place of a directory: the directory that it is in, and it alone. */
static int take_only(struct run_list *list)
{
	char *slash = strrchr(list->root, '/');
	struct stat st;

	if (stat(list->root, &st) == 0 && S_ISDIR(st.st_mode) && !rundir_is_run(list->root))
		return 0;
	list->only = strdup(slash + 1);
	slash[slash == list->root] = '\0';
	return list->only ? 0 : -ENOMEM;
}

int run_list_open(struct run_list *list, const char *directory, struct err *err)
{
	int r;

	*list = (struct run_list){ .root = realpath(directory, NULL) };
	if (!list->root)
		return err_sys(err, -errno, "cannot open the directory '%s'", directory);
	r = take_only(list);
	return r < 0 ? err_sys(err, r, "cannot open '%s'", directory) : 0;
}

void run_list_release(struct run_list *list)
{
	forget_runs(list);
	free(list->runs);
	free(list->only);
	free(list->root);
	*list = (struct run_list){ 0 };
}

/* -ENOENT: there is no such path. -EACCES: it leads out of the root, or its files do. */
static int check_inside(const struct run_list *list, const char *name)
{
	char *path = run_list_path(list, name), *real = path ? realpath(path, NULL) : NULL;
	size_t length = strlen(list->root);
	struct run_files files = { 0 };
	int r = !path ? -ENOMEM : !real ? -errno : 0;

	if (real && (strncmp(real, list->root, length) != 0 ||
		     (length > 1 && real[length] != '/' && real[length])))
		r = -EACCES;
	if (r == 0 && run_files_look(real, &files) == 0 && files.run && !rundir_is_run(real))
		r = -EACCES;
	free(real);
	free(path);
	return r;
}

static int no_such_run(struct run_list *list, const char *given, struct err *err)
{
	struct nearest nearest = nearest_to(given);
	int r = run_list_read(list);

	if (r < 0)
		return r;
	for (size_t i = 0; i < list->n; i++) {
		nearest_offer(&nearest, list->runs[i].name);
		/* A part of the name is more than a few slips away, and most likely what is meant. */
		if (!nearest.best && strstr(list->runs[i].name, given))
			nearest.best = list->runs[i].name;
	}
	return err_set(err, -ENOENT, "there is no run '%.200s'%s%s%s", given,
		       nearest.best ? "; did you mean '" : "", nearest.best ? nearest.best : "",
		       nearest.best ? "'?" : "; `runs` lists them.");
}

static int newest(struct run_list *list, char **ret_name, struct err *err)
{
	int r = run_list_read(list);

	if (r < 0)
		return r;
	if (!list->n)
		return err_set(err, -ENOENT,
			       "there is no run here; 'moescope run -- COMMAND' records one.");
	*ret_name = strdup(list->runs[0].name);
	return *ret_name ? 0 : -ENOMEM;
}

/* "a" and "a.mscope"; the name that is there. */
static int find_inside(const struct run_list *list, const char *given, char **ret_name)
{
	char *longer = NULL;
	int r = check_inside(list, given);

	if (r == 0) {
		*ret_name = strdup(given);
		return *ret_name ? 0 : -ENOMEM;
	}
	if (r != -ENOENT || asprintf(&longer, "%s" RUNDIR_SUFFIX, given) < 0)
		return r;
	r = check_inside(list, longer);
	if (r == 0)
		*ret_name = longer;
	else
		free(longer);
	return r;
}

int run_list_find(struct run_list *list, const char *given, char **ret_name, struct err *err)
{
	char *name = NULL;
	int r;

	if (!given)
		return newest(list, ret_name, err);
	r = *given ? find_inside(list, given, &name) : -ENOENT;
	if (r == 0 && list->only && strcmp(name, list->only) != 0) {
		free(name);
		r = -ENOENT;
	}
	if (r == -EACCES)
		return err_set(err, r, "'%.200s' is outside the directory of runs.", given);
	if (r == -ENOENT || r == -ENOTDIR || r == -ENAMETOOLONG || r == -ELOOP)
		return no_such_run(list, given, err);
	if (r < 0)
		return err_sys(err, r, "cannot open the run '%.200s'", given);
	*ret_name = name;
	return 0;
}
