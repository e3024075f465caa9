/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of launchers: where the points of a sweep run, and what precedes the driver of each.
 * Adding one is one file and one line. A launcher without `run` runs its points like `local`.
 */
#ifndef LAB_LAUNCHER_H
#define LAB_LAUNCHER_H

#include "lab/engines/engine.h"
#include "lab/sweep.h"

/* Callbacks for a sweep's progress. Any may be NULL. */
struct sweep_watch {
	void (*started)(void *arg, const struct sweep *sweep, size_t point, const char *where);
	void (*ended)(void *arg, const struct sweep *sweep, size_t point);
	void (*said)(void *arg, const char *sentence);
	void *arg;
};

struct launcher {
	const char *name, *summary;  /* one line, no full stop */
	const char *const *programs; /* that must be in PATH, NULL at the end; NULL: none */
	const char *install;	     /* the command that installs them */
	/* The words before the driver's own; NULL: none. */
	int (*prefix)(const struct experiment *experiment, struct argv *argv, struct err *err);
	/* Runs until no point is waiting or in flight. -EINTR: a signal ended it (ret_signal), the
	 * points in flight have been ended, and the sweep can be resumed. */
	int (*run)(struct sweep *sweep, const struct lab_tools *tools,
		   const struct sweep_watch *watch, int *ret_signal, struct err *err);
};

extern const struct launcher *const launchers[]; /* ends with NULL */
const struct launcher *launcher_find(const char *name);

/* 0, or -ENOENT with a sentence that contains the command to install what is missing. */
int launcher_check(const struct launcher *launcher, struct err *err);
/* Adds the words that an experiment's launcher puts before its driver; none for most. Of several
 * processes only the first writes requests.jsonl; the others write next to it, with their rank. */
int launcher_prefix(const struct experiment *experiment, struct argv *argv, struct err *err);
/* All remaining points. */
int launcher_run(struct sweep *sweep, const struct lab_tools *tools,
		 const struct sweep_watch *watch, int *ret_signal, struct err *err);

/* GPUs that a point uses on each machine; 0: its engine uses none. */
int64_t launcher_gpus(const struct experiment *experiment);

extern const struct launcher launcher_local, launcher_torchrun, launcher_mpirun, launcher_slurm;

#endif
