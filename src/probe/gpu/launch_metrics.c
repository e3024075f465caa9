/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters of single launches; see launch_metrics.h.
 */
#include "probe/gpu/launch_metrics.h"

#include <pthread.h>

#include "probe/core/device_rows.h"
#include "probe/core/life.h"
#include "probe/core/probe.h"
#include "probe/gpu/cupti/launches.h"

void moescope_launch_begins(const struct row_launch *launch, uint32_t profile)
{
	struct row_counted row = { .profile = profile };
	struct ring *ring;

	_Static_assert(sizeof(row) % 8 == 0, "rows keep the ring aligned");
	if (!atomic_load(&probe_session) || !(ring = probe_ring()))
		return;
	launch_id(launch);
	row.time_ns = (int64_t)clock_ticks();
	row.thread = ring_thread(ring);
	probe_push(RECORD_COUNTED, &row, sizeof(row), NULL, 0);
}

void moescope_launch_metrics(const struct row_launch *launch, struct row_metric *rows, size_t n)
{
	uint32_t id;

	_Static_assert(sizeof(*rows) % 8 == 0, "rows keep the ring aligned");
	if (!atomic_load(&probe_session)) /* there is one while it is paused */
		return;
	id = launch_id(launch);
	for (size_t i = 0; i < n; i++) {
		rows[i].launch = id;
		probe_push_device(RECORD_METRIC, &rows[i], sizeof(rows[i]));
	}
}

void moescope_launches_counted(uint64_t counted, uint64_t wanted, uint32_t groups_seen,
			       uint32_t groups)
{
	struct ring_header *shared = probe_shared();

	if (!shared)
		return;
	atomic_store_explicit(&shared->counting.counted, counted, memory_order_relaxed);
	atomic_store_explicit(&shared->counting.groups_seen, groups_seen, memory_order_relaxed);
	atomic_store_explicit(&shared->counting.groups, groups, memory_order_relaxed);
	atomic_store_explicit(&shared->counting.wanted, wanted, memory_order_release);
}

void moescope_pc_samples(const struct row_pc_sample *rows, size_t n)
{
	_Static_assert(sizeof(*rows) % 8 == 0, "rows keep the ring aligned");
	if (!atomic_load(&probe_session) || GATE_NOW(gate_load()) < MOESCOPE_TRACE)
		return;
	for (size_t i = 0; i < n; i++)
		probe_push_device(RECORD_PC_SAMPLE, &rows[i], sizeof(rows[i]));
}

static void (*own_function)(void);

static void *run_own(void *arg)
{
	(void)arg;
	life_thread_begins("moescope-pc");
	own_function();
	life_thread_ends();
	return NULL;
}

int moescope_own_thread(void (*function)(void))
{
	pthread_t thread;
	int r;

	own_function = function;
	r = life_thread_create(&thread, run_own, NULL);
	if (r == 0)
		pthread_detach(thread);
	return r;
}
