/* SPDX-License-Identifier: Apache-2.0
 *
 * Who writes a run. `moescope run` holds a lock on run.lock in the directory until it has recorded
 * how the program ended, and a recording process holds one on its buffer file. Locks cannot outlive
 * their process, so a run that nobody holds is not being written, whatever its run.json says.
 */
#ifndef TRACE_RUN_LOCK_H
#define TRACE_RUN_LOCK_H

#include <stdbool.h>

#define RUN_LOCK_FILE "run.lock"

/* Creates the file if needed. 0, -EBUSY: another process holds it, or -errno. */
int run_lock_take(const char *path, int *ret_fd);
/* `ended`: the run's end is recorded, so the file is removed too. Otherwise the file stays,
 * unlocked, and says that the run was abandoned. fd -1 is fine. */
void run_lock_release(const char *path, int fd, bool ended);

enum run_writer {
	RUN_WRITER_UNKNOWN, /* nothing there that could be held */
	RUN_WRITER_HELD,    /* it is being written */
	RUN_WRITER_GONE,    /* something is there, and nobody holds it */
};

enum run_writer run_writer(const char *path);

/* Likewise join.lock, which `moescope attach` holds in the run of a program that it has joined: whoever records
 * inside leaves when nobody holds it any more. Released, the file is removed. */
#define JOIN_LOCK_FILE "join.lock"
int join_lock_take(const char *path, int *ret_fd);
void join_lock_release(const char *path, int fd);
enum run_writer join_lock_holder(const char *path);

#endif
