/* SPDX-License-Identifier: Apache-2.0
 *
 * A program under the profiler: the run directory before, the program itself, and the end of the
 * run after. What `run` and `demo` share.
 */
#ifndef CMD_RECORD_H
#define CMD_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/options/command.h"
#include "cmd/recording/launch.h"

struct watch;

struct record_plan {
	const char *output;	 /* run directory; NULL: a name made from the time */
	bool force;		 /* a run that is there may be replaced */
	const char *level;	 /* "trace"… */
	const char *schedule;	 /* canonical text, or NULL: every step */
	uint64_t overhead_pairs; /* 0: no overhead check */
	uint64_t ring_kb;	 /* 0: the library's own */
	bool stays;		 /* CUPTI, between windows */
	bool budget_known;	 /* false: none is set */
	double budget_pct;	 /* 0: off, a complete trace */
	uint64_t device_mb;	 /* of GPU memory for the profiler; 0: the library's own */
	const char *kernel;	 /* expression that names of kernels match, or NULL: all */
	const char *ranks;	 /* "0,2-3", or NULL: all */
	bool finds_steps;	 /* of programs of PyTorch */
	unsigned int preload;	 /* libraries of ours for the program; see preload.h */
	uint64_t heap_bytes;	 /* from sample to sample of allocations */
	const char *exact;	 /* what is counted of each kernel; NULL: they are timed */
	uint64_t launch_skip, launch_count; /* launches that are not counted first, and then are */
	const char *range;     /* expression that a range around them matches, or NULL */
	int64_t layer, expert; /* that they are in; -1: any */
	uint64_t calls_ns;     /* OS calls that are shorter are counted only */
};

struct recording {
	char *path;  /* absolute; NULL: nowhere to record to, the program runs all the same */
	char *name;  /* as to show it: relative when it was given so */
	int lock_fd; /* held while the run is written; -1: it has no lock */
	bool made_directory; /* it was not there before */
	bool some_ranks;     /* not all are wanted */
	int64_t start_ns;
	struct launch launch;
};

/* For the fields of a recording that nothing has begun. */
#define RECORDING_NONE                                                                             \
	{                                                                                          \
		.lock_fd = -1                                                                      \
	}

/* Makes the run directory and sets the environment for the program. EXIT_OK, or the status to
 * exit with after a word on stderr. */
int recording_begin(struct recording *recording, const struct record_plan *plan, char **argv);

/* Starts the program. EXIT_OK, or 126, 127 or EXIT_FAILED: the directory is gone again. */
int recording_launch(struct recording *recording, char **argv, int output_fd);

/* What the machine does while the program runs, from its start to its end. NULL if that cannot be had, which is said on
 * stderr: the program comes first. */
struct watch *recording_watch_machine(const struct recording *recording);
void recording_end_watch(struct watch *watch);

/* After the program's end: finishes run.json. True when something was recorded; says on stderr
 * what went wrong. */
bool recording_end(struct recording *recording, const char *program);

void recording_release(struct recording *recording);

#endif
