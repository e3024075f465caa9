/* SPDX-License-Identifier: Apache-2.0
 *
 * The runs that a comparison is about: found, read one after the other, kept as digests. Main
 * thread.
 */
#ifndef CMD_COMPARE_RUNS_H
#define CMD_COMPARE_RUNS_H

#include "cmd/options/command.h"
#include "cmd/options/options.h"
#include "compare/compare.h"

struct compare_runs {
	struct compare_group *groups; /* name and runs of each are owned */
	size_t n, capacity;
	struct selection sel;
};

/* "NAME=RUN,RUN", each RUN a run or a directory of runs. EXIT_OK, or another status after saying
 * why. */
int compare_runs_add_group(struct compare_runs *runs, const struct command *command,
			   const char *text);
/* One run, or a directory of runs, as a group of its own name. */
int compare_runs_add(struct compare_runs *runs, const char *given);
/* Once all are there: all by their steps, or all as a whole. */
int compare_runs_level(struct compare_runs *runs);
void compare_runs_release(struct compare_runs *runs);

#endif
