/* SPDX-License-Identifier: Apache-2.0
 *
 * What launchers need besides child.h: waiting for several programs and signals at once, and the
 * output of batch system commands. One thread.
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

/* Blocks SIGCHLD and those of SIGINT, SIGTERM and SIGHUP that are not ignored, so that none arrives
 * between two waits. */
void process_signals_block(struct process_signals *signals);
/* Discards those that came meanwhile: they requested what has happened. */
void process_signals_restore(const struct process_signals *signals);
/* The next of them, or 0 after timeout_ns (-1: forever). */
int process_signals_wait(const struct process_signals *signals, int64_t timeout_ns);

/* The output of a command, both streams, NUL-terminated, and its wait status. */
int process_capture(char *const *argv, struct buf *ret_output, int *ret_status, struct err *err);

#endif
