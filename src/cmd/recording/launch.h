/* SPDX-License-Identifier: Apache-2.0
 *
 * A program run as if nothing stood between it and the shell: the same terminal and process
 * group, signals passed on, stops and continues followed, its end made our own.
 */
#ifndef CMD_LAUNCH_H
#define CMD_LAUNCH_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "cmd/recording/group_witness.h"

struct launch {
	pid_t pid;
	sigset_t given_mask; /* as we found it, and as the program gets it */
	sigset_t watched;
	struct sigaction given_sigchld;
	struct group_witness witness;
	int stop_signal; /* that stopped the program last */
	int status;	 /* wait status, once ended */
};

enum launch_event {
	LAUNCH_TIMEOUT,
	LAUNCH_ENDED,
	LAUNCH_STOPPED, /* so that we stop too: put the terminal in order, then launch_suspend */
	LAUNCH_RESIZED, /* the terminal has another size */
};

/* 0 when argv[0] names a program that can be executed, -ENOENT or -EACCES. ret_path: its path, of PATH_MAX bytes,
 * or NULL. */
int program_find(const char *name, char *ret_path);

/* Blocks every signal: none interrupts what is prepared for the program, whose they are. */
void launch_prepare(struct launch *launch);

/* 0, or -errno: of fork, or with *ret_exec true of the program's own start. output_fd takes the
 * program's stdout and stderr; -1: it inherits ours. */
int launch_start(struct launch *launch, char **argv, int output_fd, bool *ret_exec);

/* Waits for something to happen, passing signals on meanwhile. timeout_ms -1: for ever. */
enum launch_event launch_wait(struct launch *launch, int timeout_ms);

/* Stops this process as the program was stopped. It goes on when the program does, or when somebody
 * continues it, which then holds for the program too. */
void launch_suspend(struct launch *launch);

/* The exit status to return, or 128 + signal. */
int launch_exit_status(const struct launch *launch);

/* When the program died by a signal: dies by the same one, without a core of our own. */
void launch_die_likewise(const struct launch *launch);

#endif
