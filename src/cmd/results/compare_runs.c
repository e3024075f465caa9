/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading the runs of a comparison; see compare_runs.h.
 */
#include "cmd/results/compare_runs.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cmd/runs/run_files.h"
#include "cmd/runs/run_find.h"
#include "cmd/terminal/output.h"

static int no_memory(void)
{
	return fail("no memory for the comparison.");
}

static int take_run(const struct compare_runs *runs, const char *path, bool whole,
		    struct run_digest *ret_digest)
{
	struct run *run;
	int r = run_open(path, DIGEST_KINDS, &run);

	if (r != EXIT_OK)
		return r;
	r = whole ? digest_take_whole(run, ret_digest) : digest_take(run, &runs->sel, ret_digest);
	run_free(run);
	if (r < 0)
		return fail("cannot analyse the run '%s': %s.", path, strerror(-r));
	return EXIT_OK;
}

static int add_run(struct compare_runs *runs, struct compare_group *group, const char *path)
{
	struct run_digest *grown = reallocarray(group->runs, group->n + 1, sizeof(*grown));
	int r;

	if (!grown)
		return no_memory();
	group->runs = grown;
	r = take_run(runs, path, false, &group->runs[group->n]);
	if (r == EXIT_OK)
		group->n++;
	return r;
}

static int take_whole(void *context, size_t g, size_t i, struct run_digest *ret_whole)
{
	const struct compare_runs *runs = context;

	return take_run(runs, runs->groups[g].runs[i].path, true, ret_whole);
}

int compare_runs_level(struct compare_runs *runs)
{
	return compare_level(runs->groups, runs->n, take_whole, runs);
}

static int is_run_name(const struct dirent *entry)
{
	return ends_with(entry->d_name, ".mscope");
}

/* The runs in a directory that is none itself, by name; 0: it is a run, or has none. */
static int list_directory(const char *path, struct dirent ***ret_names)
{
	struct run_files files;
	int n;

	if (run_files_look(path, &files) < 0 || files.run)
		return 0;
	n = scandir(path, ret_names, is_run_name, alphasort);
	return n < 0 ? 0 : n;
}

static int add_path(struct compare_runs *runs, struct compare_group *group, const char *path)
{
	struct dirent **names = NULL;
	int n = list_directory(path, &names), r = EXIT_OK;

	if (n == 0) {
		free(names);
		return add_run(runs, group, path);
	}
	for (int i = 0; i < n; i++) {
		char *inside = NULL;

		if (r == EXIT_OK && asprintf(&inside, "%s%s%s", path,
					     ends_with(path, "/") ? "" : "/", names[i]->d_name) < 0)
			r = no_memory();
		else if (r == EXIT_OK)
			r = add_run(runs, group, inside);
		free(inside);
		free(names[i]);
	}
	free(names);
	return r;
}

static struct compare_group *new_group(struct compare_runs *runs)
{
	if (array_grow(&runs->groups, &runs->capacity, runs->n + 1, sizeof(*runs->groups)) < 0)
		return NULL;
	runs->groups[runs->n] = (struct compare_group){ 0 };
	return &runs->groups[runs->n++];
}

int compare_runs_add_group(struct compare_runs *runs, const struct command *command,
			   const char *text)
{
	const char *equals = strchr(text, '=');
	struct compare_group *group;
	char *list, *rest, *path;
	int r = EXIT_OK;

	if (!equals || equals == text || !equals[1])
		return usage_error(command, "'--group' needs NAME=RUN,RUN, not '%s'.", text);
	group = new_group(runs);
	if (!group)
		return no_memory();
	group->name = strndup(text, (size_t)(equals - text));
	list = strdup(equals + 1);
	if (!group->name || !list) {
		free(list);
		return no_memory();
	}
	rest = list;
	while (r == EXIT_OK && (path = strsep(&rest, ","))) {
		if (*path)
			r = add_path(runs, group, path);
	}
	free(list);
	if (r == EXIT_OK && !group->n)
		return usage_error(command, "'--group %s' names no run.", text);
	return r;
}

static bool is_taken(const struct compare_runs *runs, const char *name)
{
	for (size_t i = 0; i + 1 < runs->n; i++)
		if (!strcmp(runs->groups[i].name, name))
			return true;
	return false;
}

/* The last part of a path, without slashes at its end. */
static char *last_part(const char *path)
{
	size_t end = strlen(path), begin;

	while (end > 1 && path[end - 1] == '/')
		end--;
	for (begin = end; begin > 0 && path[begin - 1] != '/';)
		begin--;
	return strndup(path + begin, end - begin);
}

int compare_runs_add(struct compare_runs *runs, const char *given)
{
	struct compare_group *group = new_group(runs);
	char *name;
	int r;

	if (!group)
		return no_memory();
	group->name = strdup(given);
	if (!group->name)
		return no_memory();
	r = add_path(runs, group, given);
	if (r != EXIT_OK)
		return r;
	name = group->n == 1 ? strdup(group->runs[0].name) : last_part(given);
	if (!name)
		return no_memory();
	/* Two runs of the same name are told apart as they were given. */
	if (is_taken(runs, name)) {
		free(name);
		return EXIT_OK;
	}
	free((char *)group->name);
	group->name = name;
	return EXIT_OK;
}

void compare_runs_release(struct compare_runs *runs)
{
	for (size_t g = 0; g < runs->n; g++) {
		for (size_t i = 0; i < runs->groups[g].n; i++)
			digest_release(&runs->groups[g].runs[i]);
		free(runs->groups[g].runs);
		free((char *)runs->groups[g].name);
	}
	free(runs->groups);
	*runs = (struct compare_runs){ 0 };
}
