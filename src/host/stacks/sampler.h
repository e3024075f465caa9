/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the threads of a program are, many times a second: a thread of ours looks at them from outside
 * and writes a shard for each process. The program is never stopped and runs nothing of ours.
 *
 * What a thread did since it was looked at last goes to the stack that it has now: time on a
 * processor and waiting for one are the kernel's own counts, the rest is waiting.
 */
#ifndef HOST_STACKS_SAMPLER_H
#define HOST_STACKS_SAMPLER_H

#include <sys/types.h>

#include "base/err.h"

#define SAMPLER_HZ 100
#define SAMPLER_HZ_MOST 1000

struct sampler;

/* Of a process and those that it starts. run: path of the run directory. hz: looks a second at most; if they
 * take more than a hundredth of a processor there are fewer. 0 or -errno. */
int sampler_start(struct sampler **ret_sampler, const char *run, pid_t pid, unsigned int hz,
		  struct err *err);
/* Ends it, whether or not the processes have ended, and closes the shards. 0, or -errno with the first trouble
 * there was. NULL is fine. */
int sampler_stop(struct sampler *sampler, struct err *err);

#endif
