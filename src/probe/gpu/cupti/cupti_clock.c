/* SPDX-License-Identifier: Apache-2.0
 *
 * From CUPTI's clock to CLOCK_MONOTONIC. CUPTI's own is wall-clock nanoseconds; another client may
 * have set its own clock for all records (torch.profiler: the processor's counter), and then the
 * rate is measured too.
 *
 * The control side measures while it holds its lock; translation reads on other threads.
 */
#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "probe/gpu/clients/clients.h"
#include "probe/gpu/cupti/cupti_inside.h"
#include "probe/core/locks.h"

#define READINGS 5
#define BASELINE_NS INT64_C(20000000) /* over which a foreign clock's rate is first measured */

struct pair {
	uint64_t theirs;
	int64_t ours_ns;
};

PROBE_LOCK(lock);
static struct pair now, first;		    /* of the same clock */
static double rate = 1;			    /* our nanoseconds per unit of theirs */
static CUpti_TimestampCallbackFunc foreign; /* NULL: CUPTI's own clock */

static bool read_theirs(uint64_t *ret_theirs)
{
	if (!foreign)
		return cupti_api.cuptiGetTimestamp(ret_theirs) == CUPTI_SUCCESS;
	*ret_theirs = foreign();
	return true;
}

/* The tightest of a few readings; false if CUPTI cannot be queried. */
static bool read_pair(struct pair *ret_pair)
{
	int64_t best = INT64_MAX;

	for (int i = 0; i < READINGS; i++) {
		int64_t before = clock_monotonic_ns(), after;
		uint64_t theirs;

		if (!read_theirs(&theirs))
			return false;
		after = clock_monotonic_ns();
		if (after - before < best) {
			best = after - before;
			*ret_pair = (struct pair){ theirs, before + best / 2 };
		}
	}
	return true;
}

/* If CUPTI cannot be queried, the previous values stay. */
void cupti_clock_measure(void)
{
	struct pair pair;

	if (!read_pair(&pair))
		return;
	pthread_mutex_lock(&lock);
	if (foreign && pair.theirs > first.theirs)
		rate = (double)(pair.ours_ns - first.ours_ns) /
		       (double)(pair.theirs - first.theirs);
	now = pair;
	pthread_mutex_unlock(&lock);
}

void cupti_clock_start(void)
{
	struct timespec baseline = { .tv_nsec = BASELINE_NS };

	pthread_mutex_lock(&lock);
	foreign = clients_clock();
	rate = 1;
	/* The wall clock is CUPTI's default. */
	now = first = (struct pair){ (uint64_t)clock_realtime_ns(), clock_monotonic_ns() };
	pthread_mutex_unlock(&lock);
	if (!foreign) {
		cupti_clock_measure();
	} else if (read_pair(&first)) {
		nanosleep(&baseline, NULL);
		cupti_clock_measure();
	}
}

int64_t cupti_clock_ns(uint64_t theirs)
{
	struct pair at;
	double r;
	bool f;

	pthread_mutex_lock(&lock);
	at = now;
	r = rate;
	f = foreign;
	pthread_mutex_unlock(&lock);
	if (!f)
		return at.ours_ns + (int64_t)(theirs - at.theirs);
	return at.ours_ns + (int64_t)((double)(int64_t)(theirs - at.theirs) * r);
}

int64_t cupti_clock_duration_ns(uint64_t start, uint64_t end)
{
	double r;
	bool f;

	pthread_mutex_lock(&lock);
	r = rate;
	f = foreign;
	pthread_mutex_unlock(&lock);
	return f ? (int64_t)((double)(end - start) * r) : (int64_t)(end - start);
}
