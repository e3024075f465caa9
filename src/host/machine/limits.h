/* SPDX-License-Identifier: Apache-2.0
 *
 * The limits of the control groups around a process, of version 1 and 2: of each kind the tightest, and what it
 * does to the program. One thread.
 */
#ifndef HOST_MACHINE_LIMITS_H
#define HOST_MACHINE_LIMITS_H

#include <limits.h>
#include <sys/types.h>

#include "host/machine/readings.h"

struct limits {
	char cpu[PATH_MAX], memory[PATH_MAX]; /* folders of the tightest; "": there is no limit */
	bool cpu_is_v2, memory_is_v2;
};

/* Finds the groups of the process; again now and then, since it may be moved. */
void limits_find(struct limits *limits, struct readings *r, pid_t pid);
void limits_look(const struct limits *limits, struct readings *r);

#endif
