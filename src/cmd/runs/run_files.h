/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of a run directory as files: what is there, and removing it. Nothing that moescope
 * did not write is ever removed.
 */
#ifndef CMD_RUN_FILES_H
#define CMD_RUN_FILES_H

#include <stdbool.h>

#define PROGRAM_LOG "program.log" /* output of a program whose terminal shows something else */

struct run_files {
	bool run;     /* run.json or a shard */
	bool shards;  /* a shard of a process */
	bool machine; /* that of the machine under it */
	bool foreign; /* something that moescope does not write */
};

/* 0 or -errno. */
int run_files_look(const char *path, struct run_files *ret_files);
/* Removes moescope's files from the directory: with the directory, or for the next run there, whose
 * lock then stays. */
int run_files_remove(const char *path, bool directory_too);

bool ends_with(const char *text, const char *end);

#endif
