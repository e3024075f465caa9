/* SPDX-License-Identifier: Apache-2.0
 *
 * Device collection as a whole: carries out what the governor, the schedule, a pause or another
 * client asks for, and writes down each change. The GPU thread calls gears_tick; start, stop and
 * yield come from the program's threads and take the same lock.
 */
#ifndef PROBE_GPU_GEARS_H
#define PROBE_GPU_GEARS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Attaches for a session. words as in cupti_attach. Returns 0, also when another client has CUPTI
 * and it will be tried again. */
int gears_start(bool full, char *words, size_t size);
/* Returns after how many milliseconds to come again at the latest. */
unsigned int gears_tick(void);
/* The session ends; ending: the process does, too. */
void gears_stop(bool ending);
/* Nothing is detached any more. */
void gears_process_ends(void);
void gears_after_fork(void);

/* steps.c: whether the schedule and pauses want device records now. Turning them on is done when
 * it returns; turning them off follows. Safe without a session. */
void gears_want(bool on);
/* Another client comes, or has gone; on its thread. */
void gears_yield(const char *to);
void gears_resume(void);
/* A step of the program ended. */
void gears_step(int64_t start_ns, int64_t end_ns);

#endif
