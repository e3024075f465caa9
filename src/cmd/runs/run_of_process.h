/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding the run that a process is recorded in.
 */
#ifndef CMD_RUN_OF_PROCESS_H
#define CMD_RUN_OF_PROCESS_H

#include <stdbool.h>

#include "base/err.h"

/* Whether what a user gave is the number of a process, and not a file. */
bool is_process_number(const char *given);
/* Its run, by the environment of the process or of a child (of `moescope run` itself), or by the name of
 * a shard in the runs of the current directory. -ENOENT with a sentence: there is none. The caller
 * frees *ret_path. */
int run_of_process(const char *pid, char **ret_path, struct err *err);

#endif
