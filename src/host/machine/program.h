/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes of a program, and those of others that use the processors most, as the kernel counts them. Nothing
 * is stopped. One thread.
 */
#ifndef HOST_MACHINE_PROGRAM_H
#define HOST_MACHINE_PROGRAM_H

#include <sys/types.h>

#include "host/machine/machine.h"

struct program;

struct program *program_new(pid_t pid); /* NULL: no memory */
void program_free(struct program *p);
/* One look at its processes and their threads. */
void program_look(struct program *p, const struct machine *m, struct readings *r, int64_t now_ns);
/* What a thread of each process does just now, any of them: so how many wait for a disk is known from few
 * looks, however many there are; and how much memory the process has. Cheap. */
void program_glance(struct program *p, struct readings *r, int64_t now_ns);
/* At all other processes; dear where there are many. */
void program_look_at_others(struct program *p, const struct machine *m, struct readings *r,
			    int64_t now_ns);

#endif
