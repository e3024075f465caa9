/* SPDX-License-Identifier: Apache-2.0
 *
 * The runs below a directory, and a run among them by its name. A name is a path below the directory; none
 * leads out of it, neither by dots nor by links.
 */
#ifndef CMD_RUN_LIST_H
#define CMD_RUN_LIST_H

#include <stdbool.h>
#include <time.h>

#include "base/err.h"

struct listed_run {
	char *name;
	const char *
		format; /* of a file of another profiler, which are listed beside the directory's own runs
			     * alone; NULL: recorded */
	struct timespec changed;
};

struct run_list {
	char *root; /* absolute, without links */
	char *only; /* the root was a run itself: its name in the directory that is the root now; else NULL */
	struct listed_run *runs; /* the newest first */
	size_t n, capacity;
	bool more; /* too many files to look at all */
};

/* 0 or -errno with err filled; release the list in both cases. */
int run_list_open(struct run_list *list, const char *directory, struct err *err);
/* Looks again. 0 or -ENOMEM. */
int run_list_read(struct run_list *list);
void run_list_release(struct run_list *list);

/* The name of a run as it was given, with or without ".mscope"; NULL: of the newest. Reads the list where it has
 * to. The caller frees it. */
int run_list_find(struct run_list *list, const char *given, char **ret_name, struct err *err);
/* The path to a name that was found; NULL: no memory. The caller frees it. */
char *run_list_path(const struct run_list *list, const char *name);

#endif
