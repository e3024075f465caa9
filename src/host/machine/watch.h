/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine under a program while it runs: a thread of ours reads from outside what processors, memory, disks,
 * networks, control groups and the program's processes do, and writes a shard of it. It takes no more than a
 * thousandth of a processor: where a look is dear there are fewer.
 */
#ifndef HOST_MACHINE_WATCH_H
#define HOST_MACHINE_WATCH_H

#include <sys/types.h>

#include "base/err.h"

struct watch;

/* Of a process and those that it starts. run: path of the run directory. 0 or -errno. */
int watch_start(struct watch **ret_watch, const char *run, pid_t pid, struct err *err);
/* Ends it and closes the shard. 0, or -errno with the first trouble there was. NULL is fine. */
int watch_stop(struct watch *watch, struct err *err);

#endif
