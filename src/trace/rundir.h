/* SPDX-License-Identifier: Apache-2.0
 *
 * The run directory NAME.mscope and its run.json. Written by `moescope run`, or by the library in a
 * program that starts itself; read by everyone. Not thread-safe, not on a hot path.
 */
#ifndef TRACE_RUNDIR_H
#define TRACE_RUNDIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/err.h"
#include "trace/shard.h"

#define RUNDIR_SUFFIX ".mscope"
/* Shards that were made from outside: the ends of the names of those about threads, RANK-PID-stacks.mst,
 * and about allocations, RANK-PID-heap.mst, what is in those of marks, RANK-PID-mark-TIME.mst, and the begin of those
 * about the machine and the counters of its devices, host-PID.mst and counters-PID.mst: PID of who watches. */
#define RUNDIR_STACKS "-stacks.mst"
#define RUNDIR_HEAP "-heap.mst"
#define RUNDIR_MARK "-mark-"
#define RUNDIR_HOST "host-"
#define RUNDIR_COUNTERS "counters-"
#define RUNDIR_FORMAT 1 /* of run.json; a newer one is rejected */

struct rundir_meta {
	int argc;
	char *const *argv;    /* of the program */
	const char *level;    /* "trace" */
	const char *schedule; /* canonical text, or NULL */
	const char *notes;    /* what went wrong while preparing, or NULL */
	double budget_pct;    /* of wall time, for the profiler; 0: off, a complete trace */
	bool budget_known;    /* false: not set */
	const char *kernel;   /* expression that recorded kernels match, or NULL: all */
	const char *ranks;    /* recorded ranks, or NULL: all */
};

struct rundir_end {
	const char *status; /* "left": it goes on; "unknown"; NULL: as the next two say */
	bool exited;	    /* else killed by `signal` */
	int exit_status, signal;
	int64_t duration_ns; /* of the program */
	const char *notes;   /* what is missing and why, one sentence per line, or NULL */
};

/* moescope-YYYYmmdd-HHMMSS-PID.mscope; NULL without memory. Caller frees. */
char *rundir_default_name(void);
/* Creates the directory (one with only run.lock is reused) and its first run.json, status
 * "running". *ret_path: absolute, caller frees. On failure nothing is left behind. */
int rundir_create(const char *path, const struct rundir_meta *meta, char **ret_path,
		  struct err *err);
/* Takes in what killed processes left in their buffers, then records how it ended. */
int rundir_finish(const char *path, const struct rundir_end *end, struct err *err);

struct rundir_info {
	char *source; /* imported file; "" if recorded */
	char *command, *status, *host, *cpu, *version, *level, *schedule, *kernel, *ranks,
		*notes; /* never NULL */
	int cpus, exit_status, signal;
	int64_t started_realtime_ns, duration_ns;
	bool duration_known;
	double budget_pct; /* 0 and known: off */
	bool budget_known;
};
/* Creates the directory of a run that already exists, from another file. */
int rundir_create_from(const char *path, const struct rundir_info *info, char **ret_path,
		       struct err *err);
/* Replaces its run.json. */
int rundir_update(const char *path, const struct rundir_info *info, struct err *err);
/* -ENOENT: no run.json. The status is "abandoned" if it says "running" and nobody writes it. */
int rundir_read(const char *path, struct rundir_info *ret_info, struct err *err);
void rundir_info_release(struct rundir_info *info);

/* The shard files in a run directory, sorted by name; caller frees each and the array. */
int rundir_shards(const char *path, char ***ret_paths, size_t *ret_n, struct err *err);
/* Runs below a directory, for whoever lets others choose among them. Nothing outside the directory is met: a link
 * is neither a run nor a folder, and a directory whose run.json, shards, buffers or index are anything but files
 * is no run. */
struct rundir_found {
	const char *name; /* path below the root */
	const char *path;
	bool is_run;
	bool is_folder; /* a directory that is no run; neither: a file */
	struct timespec
		changed; /* of a run its run.json, which is written when it begins and when it ends */
};
/* 1: a folder is to be looked into; 0: go on; or -errno, which ends it. */
typedef int rundir_visitor(const struct rundir_found *found, void *context);
/* name: an entry of the root, or NULL for all of them. *left: entries that may be looked at, which becomes less;
 * 0 at the end: there may be more. Without order. 0 or -errno. */
int rundir_each(const char *root, const char *name, rundir_visitor *visit, void *context,
		size_t *left);
/* Whether a directory is a run in this sense. */
bool rundir_is_run(const char *path);
/* The process's rank across all hosts, as set by the usual launchers; 0 without one. */
uint32_t rundir_rank(void);
/* The same of another process. */
uint32_t rundir_rank_of(pid_t pid);
/* 1 if the rank is in a list such as "0,2-3", 0 if not, -EINVAL if the list is invalid. */
int rank_in_list(uint32_t rank, const char *list);
/* Creates the shard of this process: RANK-PID.mst, or RANK-PID-2.mst and so on if that exists. */
int rundir_new_shard(const char *path, uint64_t start_ticks, char **ret_shard,
		     struct shard_writer **ret_writer);

#endif
