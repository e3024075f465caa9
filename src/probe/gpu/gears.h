/* SPDX-License-Identifier: Apache-2.0
 *
 * Device collection as a whole: does what the governor, the schedule, a pause or another client
 * requires, and records each change. The GPU thread calls gears_tick; start, stop and yield come
 * from the program's threads and take the same lock.
 */
#ifndef PROBE_GPU_GEARS_H
#define PROBE_GPU_GEARS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Attaches for a session. words as in cupti_attach. Returns 0, also if another client has CUPTI and
 * it will retry. */
int gears_start(bool full, char *words, size_t size);
/* Returns the most milliseconds to wait before the next call. */
unsigned int gears_tick(void);
/* The session ends; ending: the process ends too. */
void gears_stop(bool ending);
/* Nothing is detached any more. */
void gears_process_ends(void);
void gears_after_fork(void);

/* steps.c: whether the schedule and pauses currently want device records. Turning them on is
 * complete on return; turning them off happens later. Safe without a session. */
void gears_want(bool on);
/* Another client arrives or has left; on its thread. */
void gears_yield(const char *to);
void gears_resume(void);
/* A step of the program ended. */
void gears_step(int64_t start_ns, int64_t end_ns);

#endif
