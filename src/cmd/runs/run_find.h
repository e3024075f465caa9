/* SPDX-License-Identifier: Apache-2.0
 *
 * Which run a command is about, and reading it with the words a user needs when it is none.
 */
#ifndef CMD_RUN_FIND_H
#define CMD_RUN_FIND_H

#include <stdint.h>

#include "base/err.h"
#include "tables/tables.h"

/* The directory (or shard) for what the user gave; NULL: the newest *.mscope in the current
 * directory. The caller frees *ret_path. */
int run_find(const char *given, char **ret_path, struct err *err);

/* Loads the run at a path that is one, with the steps that are found by repetition where nobody marked
 * any. Prints nothing; any thread. 0 or -errno with a sentence. */
int run_load_quietly(const char *path, const struct run_want *want, struct run **ret_run,
		     struct err *err);

/* run_find and run_load with progress; says on stderr which run was taken when none was given,
 * and what is wrong otherwise. EXIT_OK or EXIT_FAILED. */
int run_open_part(const char *given, const struct run_want *want, struct run **ret_run);
/* The same; where steps are wanted, those found by repetition do not depend on what else is. */
int run_open_with_steps(const char *given, const struct run_want *want, struct run **ret_run);
/* The same, with all columns of some kinds. */
int run_open(const char *given, uint64_t kinds, struct run **ret_run);

#endif
