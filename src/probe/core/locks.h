/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of the probe's locks. These macros declare the mutexes and conditions of src/probe and
 * list them in a section of the library. A forked child reinitialises all of them: another thread
 * may have held any. Conditions wait by CLOCK_MONOTONIC (clock_deadline). tools/check_locks.py finds those
 * declared in another way.
 */
#ifndef PROBE_CORE_LOCKS_H
#define PROBE_CORE_LOCKS_H

#include <pthread.h>
#include <time.h>

struct probe_lock_entry {
	pthread_mutex_t *mutex;
	pthread_cond_t *condition;
};

static inline void condition_begins(pthread_cond_t *condition)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(condition, &attributes);
	pthread_condattr_destroy(&attributes);
}

#define PROBE_LOCK(name)                                                                           \
	static pthread_mutex_t name = PTHREAD_MUTEX_INITIALIZER;                                   \
	static const struct probe_lock_entry name##_entry                                          \
		__attribute__((used, section("probe_locks"))) = { .mutex = &name }
#define PROBE_CONDITION(name)                                                                      \
	static pthread_cond_t name;                                                                \
	/* Before the constructor that may start a session. */                                     \
	__attribute__((constructor(101))) static void name##_begins(void)                          \
	{                                                                                          \
		condition_begins(&name);                                                           \
	}                                                                                          \
	static const struct probe_lock_entry name##_entry                                          \
		__attribute__((used, section("probe_locks"))) = { .condition = &name }

#endif
