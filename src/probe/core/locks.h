/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of the probe's locks. These macros declare the mutexes and conditions of src/probe and
 * list them in a section of the library. A forked child reinitialises all of them: another thread
 * may have held any. tools/check_locks.py finds those declared in another way.
 */
#ifndef PROBE_CORE_LOCKS_H
#define PROBE_CORE_LOCKS_H

#include <pthread.h>

struct probe_lock_entry {
	pthread_mutex_t *mutex;
	pthread_cond_t *condition;
};

#define PROBE_LOCK(name)                                                                           \
	static pthread_mutex_t name = PTHREAD_MUTEX_INITIALIZER;                                   \
	static const struct probe_lock_entry name##_entry                                          \
		__attribute__((used, section("probe_locks"))) = { .mutex = &name }
#define PROBE_CONDITION(name)                                                                      \
	static pthread_cond_t name = PTHREAD_COND_INITIALIZER;                                     \
	static const struct probe_lock_entry name##_entry                                          \
		__attribute__((used, section("probe_locks"))) = { .condition = &name }

#endif
