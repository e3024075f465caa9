/* SPDX-License-Identifier: Apache-2.0
 *
 * Independent tasks on the CPUs of this machine. The threads live as long as the call; which of them
 * takes which task is left to chance, so tasks write places of their own.
 */
#ifndef BASE_PARALLEL_H
#define BASE_PARALLEL_H

#include <stddef.h>

#define PARALLEL_MOST 16

/* How many threads n tasks are worth: the CPUs that this process may use, at most PARALLEL_MOST. */
unsigned int parallel_workers(size_t n);

/* Calls task(context, i, worker) once for each i below n, on that many threads, the caller's among
 * them; worker: below `workers`, one at a time each. Fewer threads when no more can be had. The
 * result is the negative one of the smallest i, else 0; after a failure no new task is begun. */
int parallel_run(size_t n, unsigned int workers, int (*task)(void *, size_t, unsigned int),
		 void *context);

#endif
