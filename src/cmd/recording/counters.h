/* SPDX-License-Identifier: Apache-2.0
 *
 * Hardware counters of the GPUs while a program runs: a process of their own reads them (src/counters).
 */
#ifndef CMD_COUNTERS_H
#define CMD_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define COUNTERS_KEEP_NS INT64_C(10000000000) /* of "recorder" */

struct counters {
	pid_t pid; /* 0: none */
	int input, output;
	char **environment; /* that of moescope itself; the program's would load the profiler */
};

/* Before the program's environment is made. */
void counters_prepare(struct counters *counters);
/* Returns when they are being read, or nobody may: 0, or -errno with a sentence.
 * keep_ns: only the last so many are kept; 0: all. */
int counters_start(struct counters *counters, const char *run, int64_t interval_ns, int64_t keep_ns,
		   struct err *err);
/* Ends it. 0, or -errno with a sentence: not all is there. */
int counters_stop(struct counters *counters, struct err *err);

/* What the GPUs here can count: a line for each thing, as moescope-counters(src/counters/main.c) tells them. 0, or
 * -errno with a sentence. */
typedef void counters_line(void *context, const char *line);
int counters_describe(counters_line *tell, void *context, struct err *err);

/* What is counted of each kernel: */
struct counting_plan {
	char *groups; /* "A,B;19 C,D": of metrics; those that need several passes, with their number */
	double in_row_ms; /* what a launch takes that is counted in one pass, beside others; 0: not known */
};
/* With replay also what needs several passes. `tell` hears what is left out, and why. words: sets and metrics with commas.
 * Caller frees the groups. 0, or -errno with a sentence. */
int counters_plan(const char *words, bool replay, struct counting_plan *ret_plan,
		  counters_line *tell, void *context, struct err *err);

/* Whether they are read over time, from outside of the program; else of its kernels. */
bool counters_over_time(const char *what);
/* PC sampling: no launches are counted. */
bool counters_of_instructions(const char *what);
/* "timeline" or "recorder", and "1ms". 0, or -EINVAL with a sentence. */
int counters_parse(const char *what, const char *interval, int64_t *ret_interval_ns,
		   int64_t *ret_keep_ns, struct err *err);

#endif
