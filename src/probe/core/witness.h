/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether threads of the program have left a few lines of somebody else's code. A thread that has
 * used a millisecond of the processor since has left them, and so has one that sleeps or has ended.
 * One that is ready to run but gets no processor shows none of these.
 *
 * Only /proc tells a thread that sleeps from one that waits for a processor, and a descriptor that a
 * thread of the program opened could be closed or taken over by another. So a short-lived thread looks,
 * with a descriptor table of its own.
 */
#ifndef PROBE_CORE_WITNESS_H
#define PROBE_CORE_WITNESS_H

#include <stdbool.h>
#include <stdint.h>

#define WITNESS_THREADS 256

struct witness_thread {
	uint32_t id;
	int64_t cpu_ns; /* used of the processor when it may have been there */
};

/* What a thread has used of the processor; negative: it has ended. */
int64_t witness_cpu_ns(uint32_t thread);
/* All of at most WITNESS_THREADS have left, now or within ms. False: not known; the thread that looks
 * cannot be had, or is still busy with the last question. */
bool witness_left(const struct witness_thread *threads, unsigned int n, int ms);
/* The same, from processor time alone: false for threads that sleep. */
bool witness_left_by_clock(const struct witness_thread *threads, unsigned int n);
void witness_after_fork(void);

#endif
