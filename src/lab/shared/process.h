/* SPDX-License-Identifier: Apache-2.0
 *
 * What launchers need around child.h: waiting for several programs and for signals at once, and what
 * a command of a batch system prints. One thread.
 */
#ifndef LAB_PROCESS_H
#define LAB_PROCESS_H

#include <signal.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct process_signals {
	sigset_t before, waited;
};

/* Blocks SIGCHLD and those of SIGINT, SIGTERM and SIGHUP that are not ignored, so that none comes
 * between two waits. */
void process_signals_block(struct process_signals *signals);
/* Those that came meanwhile are forgotten: they asked for what has happened. */
void process_signals_restore(const struct process_signals *signals);
/* The next of them, or 0 after timeout_ns (-1: for ever). */
int process_signals_wait(const struct process_signals *signals, int64_t timeout_ns);

/* What a command prints, both streams, with a NUL after it, and its wait status. */
int process_capture(char *const *argv, struct buf *ret_output, int *ret_status, struct err *err);

#endif
