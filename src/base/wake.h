/* SPDX-License-Identifier: Apache-2.0
 *
 * Waking a thread of ours without a descriptor, which the program under the profiler could close
 * or take over: a word of our own memory and a futex. Wake-ups do not queue up: one that is pending
 * when the next comes is the same. One thread waits at a time, any number may wake it.
 */
#ifndef BASE_WAKE_H
#define BASE_WAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct wake {
	_Atomic uint32_t state; /* 0: nothing happened */
};

/* A system call only when somebody sleeps. Keeps errno. */
void wake_up(struct wake *wake);
/* Until a wake-up, which it takes, or ms have passed (-1: no limit). True: there was one. */
bool wake_wait(struct wake *wake, int ms);

#endif
