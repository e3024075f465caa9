/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether threads of the program have left a few lines of somebody else's code. A thread that has
 * used a millisecond of the processor since has left them, and so has one that sleeps or has ended.
 * One that is runnable but gets no processor shows none of these.
 *
 * Only /proc distinguishes a sleeping thread from one waiting for a processor, and a descriptor
 * opened by a thread of the program could be closed or taken over by another. So a short-lived
 * thread with a private descriptor table looks.
 */
#ifndef PROBE_CORE_WITNESS_H
#define PROBE_CORE_WITNESS_H

#include <stdbool.h>
#include <stdint.h>

#define WITNESS_THREADS 256

struct witness_thread {
	uint32_t id;
	int64_t cpu_ns; /* processor time used when it may have been there */
};

/* Processor time used by a thread; negative: it has ended. */
int64_t witness_cpu_ns(uint32_t thread);
/* All of at most WITNESS_THREADS have left, now or within ms. False: unknown; the watching thread
 * could not be created, or is still busy with the last question. */
bool witness_left(const struct witness_thread *threads, unsigned int n, int ms);
/* The same, from processor time alone: false for sleeping threads. */
bool witness_left_by_clock(const struct witness_thread *threads, unsigned int n);
void witness_after_fork(void);

#endif
