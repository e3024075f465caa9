/* SPDX-License-Identifier: Apache-2.0
 *
 * A program under the profiler whose terminal shows the run as it grows, while its own output goes to a
 * file of the run: what `demo` and `run --top` share.
 */
#ifndef CMD_WATCHED_H
#define CMD_WATCHED_H

#include <stdint.h>

#include "base/err.h"
#include "cmd/options/options.h"
#include "cmd/recording/record.h"

/* The file for the program's output, in the run directory: a descriptor, or -errno. */
int program_log_open(const struct recording *recording);
/* What the program said last, on our stderr. */
void program_log_tail(int fd);

/* Time between two looks, as text; const char *. */
#define INTERVAL_OPTION(values, member, words, without)                                            \
	{                                                                                          \
		.name = "interval", .kind = OPTION_STRING, .metavar = "TIME",                      \
		.help = words "time between two refreshes, such as 1s or 500ms, at least "         \
			      "100ms; a bare number is seconds",                                   \
		.default_text = without, .offset = offsetof(values, member)                        \
	}
/* 0, or -EINVAL with a sentence. */
int watch_interval(const char *text, int64_t *ret_ns, struct err *err);

enum watch_form {
	WATCH_SCREEN, /* panels, repainted */
	WATCH_LINES,  /* a line now and then */
};

/* Waits for the end of a program that was launched, and shows its run meanwhile, anew in each interval. A view
 * that fails ends there, after a word; the program goes on. hint: for the last line of the screen, a sentence. */
void watch_program(struct recording *recording, enum watch_form form, int64_t interval_ns,
		   const char *hint);

#endif
