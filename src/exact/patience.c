/* SPDX-License-Identifier: Apache-2.0
 *
 * Locks with a deadline; see patience.h. Any thread.
 */
#include "exact/patience.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

typedef int clocklock_fn(pthread_mutex_t *lock, clockid_t clock, const struct timespec *until);

/* Looked up, not linked: one build serves C libraries without it. */
static clocklock_fn *find_clocklock(void)
{
#ifdef __SANITIZE_THREAD__
	return NULL; /* GCC 12's does not see that this locks */
#else
	static _Atomic(clocklock_fn *) known;
	static _Atomic bool looked;
	clocklock_fn *found = NULL;
	void *symbol;

	if (atomic_load(&looked))
		return atomic_load(&known);
	symbol = dlsym(RTLD_DEFAULT, "pthread_mutex_clocklock");
	memcpy(&found, &symbol, sizeof(found));
	atomic_store(&known, found);
	atomic_store(&looked, true);
	return found;
#endif
}

bool lock_within(pthread_mutex_t *lock, int64_t ms)
{
	clocklock_fn *clocklock;
	struct timespec until;
	clockid_t clock;
	int64_t ns;

	if (pthread_mutex_trylock(lock) == 0)
		return true;
	clocklock = find_clocklock();
	clock = clocklock ? CLOCK_MONOTONIC : CLOCK_REALTIME;
	clock_gettime(clock, &until);
	ns = until.tv_nsec + ms % 1000 * 1000000;
	until.tv_sec += ms / 1000 + ns / 1000000000;
	until.tv_nsec = ns % 1000000000;
	return (clocklock ? clocklock(lock, clock, &until)
			  : pthread_mutex_timedlock(lock, &until)) == 0;
}
