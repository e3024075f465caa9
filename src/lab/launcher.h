/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of launchers: where the points of a sweep run, and what stands before the driver of each.
 * Adding one is one file and one line. A launcher without `run` runs its points as `local` does.
 */
#ifndef LAB_LAUNCHER_H
#define LAB_LAUNCHER_H

#include "lab/engines/engine.h"
#include "lab/sweep.h"

/* What a sweep tells while it goes on. Any may be NULL. */
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
	/* Until no point waits or is under way. -EINTR: a signal ended it (ret_signal), the points
	 * under way have been ended, and the sweep can be resumed. */
	int (*run)(struct sweep *sweep, const struct lab_tools *tools,
		   const struct sweep_watch *watch, int *ret_signal, struct err *err);
};

extern const struct launcher *const launchers[]; /* ends with NULL */
const struct launcher *launcher_find(const char *name);

/* 0, or -ENOENT with a sentence that has the command which installs what is missing. */
int launcher_check(const struct launcher *launcher, struct err *err);
/* Adds the words that an experiment's launcher puts before its driver; none for most. Of several
 * processes the first one alone writes requests.jsonl; others write beside it, with their rank. */
int launcher_prefix(const struct experiment *experiment, struct argv *argv, struct err *err);
/* All points that are left. */
int launcher_run(struct sweep *sweep, const struct lab_tools *tools,
		 const struct sweep_watch *watch, int *ret_signal, struct err *err);

/* GPUs that a point takes on each machine; 0: its engine has no use for them. */
int64_t launcher_gpus(const struct experiment *experiment);

extern const struct launcher launcher_local, launcher_torchrun, launcher_mpirun, launcher_slurm;

#endif
