/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of the probe's locks. A mutex or condition of src/probe is declared by these macros and
 * so put into the list (a section of the library), which a forked child makes anew: another thread
 * may have held any of them. tools/check_locks.py finds those that are declared in another way.
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
