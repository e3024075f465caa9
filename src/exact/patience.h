/* SPDX-License-Identifier: Apache-2.0
 *
 * Locks that a thread of the program waits for, but not forever.
 */
#ifndef EXACT_PATIENCE_H
#define EXACT_PATIENCE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Whether the lock was free within that time. Setting the clock changes nothing, where the C library can wait by the
 * monotonic one (glibc 2.30). */
bool lock_within(pthread_mutex_t *lock, int64_t ms);

#endif
