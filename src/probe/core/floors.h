/* SPDX-License-Identifier: Apache-2.0
 *
 * The floors of the probe: core (sessions, rings, steps, ranges), above it gpu (CUPTI, NVML, NVTX),
 * and on top routing (the device recorder). A floor calls only those below it. The core notifies
 * the others through this table: each declares its functions with PROBE_FLOOR, in a section of the
 * library, so the core knows none of them by name and works without them.
 *
 * Locks are taken in the same order, from the top down: a function called through here may take its
 * floor's locks, and then those of the floors below. So the core holds none of its own meanwhile,
 * with two exceptions: after_fork, when there is no other thread, and the first `wants` of a
 * session, which is called with the session's lock held and must take none while nothing runs.
 */
#ifndef PROBE_CORE_FLOORS_H
#define PROBE_CORE_FLOORS_H

#include <stdbool.h>
#include <stdint.h>

enum { FLOOR_GPU = 1, FLOOR_ROUTING };

/* Any may be NULL. */
struct probe_floor {
	int level;
	/* A session has started. */
	void (*joins)(void);
	/* It ends: deliver everything, before its last flush. */
	void (*stops)(void);
	void (*after_fork)(void);
	/* The program has ended without exit(). */
	void (*ends)(void);
	/* Whether the schedule and pauses currently want device records. Safe without a session. */
	void (*wants)(bool device);
	/* A step is over; called on the thread that ends it. */
	void (*step)(int64_t start_ns, int64_t end_ns);
};

#define PROBE_FLOOR(name)                                                                          \
	static const struct probe_floor name;                                                      \
	static const struct probe_floor *const name##_entry                                        \
		__attribute__((used, section("probe_floors"))) = &name;                            \
	static const struct probe_floor name

/* Each calls the floors that have such a function, the highest first. */
void floors_join(void);
void floors_stop(void);
void floors_after_fork(void);
void floors_end(void);
void floors_want(bool device);
void floors_step(int64_t start_ns, int64_t end_ns);

#endif
