/* SPDX-License-Identifier: Apache-2.0
 *
 * The runs that a server may show: one run, or those that lie in one directory. A name that comes over
 * the network is looked for among them and never becomes a path by itself. Any thread.
 */
#ifndef SURFACES_HTTP_LIBRARY_H
#define SURFACES_HTTP_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct library {
	char *directory; /* that holds the runs */
	char *only;	 /* the file name of the only one; NULL: all in the directory */
};

struct library_run {
	char *name; /* without ".mscope" */
	char *path;
	int64_t changed_ns; /* when its run.json was written last (struct rundir_found), since 1970 */
};

struct library_runs {
	struct library_run *of; /* the newest first */
	size_t n, capacity;
};

/* -errno with a sentence: nothing there, or no directory. Close it in both cases. */
int library_open(struct library *library, const char *path, struct err *err);
void library_close(struct library *library);

/* 0 or -errno; release the list in both cases. */
int library_list(const struct library *library, struct library_runs *ret_runs);
void library_runs_release(struct library_runs *runs);

/* The path of a run of that name, which the caller frees; NULL with a sentence: there is none, or no
 * memory. */
char *library_find(const struct library *library, const char *name, struct err *err);

/* Stays the same as long as no file of the run changes and whoever writes it lives; 0: it is gone.
 * *ret_growing becomes true if somebody writes it. */
uint64_t library_signature(const char *path, bool *ret_growing);

#endif
