/* SPDX-License-Identifier: Apache-2.0
 *
 * A program under the profiler whose terminal shows the run as it grows, while its own output goes to a
 * file of the run: what `demo` and `run --top` share.
 */
#ifndef CMD_WATCHED_H
#define CMD_WATCHED_H

#include "base/err.h"
#include "cmd/recording/record.h"

/* The file for the program's output, in the run directory: a descriptor, or -errno. */
int program_log_open(const struct recording *recording);
/* What the program said last, on our stderr. */
void program_log_tail(int fd);

enum watch_form {
	WATCH_SCREEN, /* panels, repainted */
	WATCH_LINES,  /* a line now and then */
};

/* Waits for the end of a program that was launched, and shows its run meanwhile. A view that fails ends
 * there, after a word; the program goes on. hint: for the last line of the screen, a sentence. */
void watch_program(struct recording *recording, enum watch_form form, const char *hint);

#endif
