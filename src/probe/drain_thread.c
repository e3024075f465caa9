/* SPDX-License-Identifier: Apache-2.0
 *
 * The recorder's thread: rings to shard, every flush_ms or when a ring is half full. It never
 * makes the program wait; when the file cannot be written it leaves the records in the rings and
 * tries again, and producers count what finds no room.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "probe/gpu.h"
#include "probe/probe.h"

_Atomic uint64_t probe_dropped_no_ring, probe_dropped_no_clock;

#define SPACE_WAIT_MS 200
#define SPACE_WAITS 10 /* then the drain is not slow but stuck */

/* Signalled when the drain has given space back. */
PROBE_LOCK(space_lock);
PROBE_CONDITION(space);

/* Until the drain has given space back, at most ms. */
static void wait_for_space(unsigned int ms)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += (long)ms * 1000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	if (!probe_lock(&space_lock))
		return;
	pthread_cond_timedwait(&space, &space_lock, &until);
	probe_unlock(&space_lock);
}

/* A wake-up may have freed another thread's ring only, so it waits more than once. When the drain
 * cannot write, waiting for every record would never end: then none waits until there is room. */
void probe_wait_for_room(struct ring *ring, uint32_t bytes)
{
	static __thread bool stuck;
	int waits = 0;

	while (!ring_has_room(ring, bytes)) {
		if (stuck || waits++ == SPACE_WAITS) {
			stuck = true;
			return;
		}
		wait_for_space(SPACE_WAIT_MS);
	}
	stuck = false;
}

/* Counters into the header page, where they are safe from anything that comes. */
static void publish_counters(struct recorder *recorder)
{
	struct shard_header *header = recorder->writer->header;
	uint32_t n = atomic_load_explicit(&recorder->rings->header->n_regions,
					  memory_order_acquire);
	uint64_t dropped[DROP_SLOTS] = { 0 };

	for (uint32_t i = 0; i < n; i++) {
		struct ring_control *control = rings_control(recorder->rings, i);

		if (recorder->rings->header->regions[i].type != REGION_RING)
			continue;
		for (int d = 0; d < DROP_SLOTS; d++)
			dropped[d] += atomic_load_explicit(&control->dropped[d],
							   memory_order_relaxed);
	}
	dropped[DROP_NO_MEMORY] += atomic_load(&probe_dropped_no_ring);
	dropped[DROP_NO_CLOCK] += atomic_load(&probe_dropped_no_clock);
	dropped[DROP_IN_SIGNAL] += atomic_load(&probe_dropped_in_signal);
	dropped[DROP_IN_CHILD] += life_child_calls();
	dropped[DROP_NAMES] += names_dropped();
	dropped[DROP_DEVICE] += atomic_load(&gpu_dropped);
	dropped[DROP_DEVICE_UNKNOWN] += atomic_load(&gpu_unknown);
	for (int d = 0; d < DROP_SLOTS; d++)
		atomic_store_explicit(&header->live.dropped[d], dropped[d], memory_order_relaxed);
	atomic_store_explicit(&header->live.recorded, recorder->recorded, memory_order_relaxed);
	atomic_store_explicit(&header->live.alive_ns, clock_monotonic_ns(), memory_order_relaxed);
}

/* The other copy first, then the switch: a kill in between leaves a whole map. */
static void publish_clock(struct recorder *recorder)
{
	struct ring_header *header = recorder->rings->header;
	uint32_t next = (atomic_load_explicit(&header->map_current, memory_order_relaxed) + 1) & 1;

	tick_map_update(&recorder->map);
	header->maps[next] = recorder->map;
	atomic_store_explicit(&header->map_current, next, memory_order_release);
	atomic_store_explicit(&header->alive_ticks, clock_ticks(), memory_order_relaxed);
}

static int append_cost(struct recorder *recorder, uint64_t rows)
{
	int64_t cpu = clock_thread_cpu_ns();
	struct row_cost row = { .time_ns = clock_monotonic_ns(),
				.drain_cpu_ns = (uint64_t)(cpu - recorder->cpu_ns),
				.records = rows,
				.bytes = recorder->written_bytes - recorder->bytes_told };

	recorder->cpu_ns = cpu;
	recorder->bytes_told = recorder->written_bytes;
	atomic_store_explicit(&recorder->writer->header->live.drain_cpu_ns, (uint64_t)cpu,
			      memory_order_relaxed);
	return encoder_append(&recorder->encoder, RECORD_COST, &row);
}

/* One flush. `last`: also what is still open, as unfinished. */
static int flush(struct recorder *recorder, bool last)
{
	struct encoder *encoder = &recorder->encoder;
	struct drain_result result;
	uint64_t rows, bytes, unfinished = 0;
	int r;

	publish_clock(recorder);
	r = drain_collect(recorder->rings, &recorder->map, &recorder->done, encoder, &result);
	rows = encoder->rows;
	if (r == 0 && last) {
		r = drain_unfinished(recorder->rings, &recorder->map, clock_ticks(), encoder);
		unfinished = encoder->rows - rows;
	}
	if (r == 0 && encoder->rows)
		r = append_cost(recorder, rows);
	if (r == 0 && encoder->rows) {
		r = encoder_finish(encoder);
		if (r == 0)
			r = drain_checkpoint(encoder, &result.to);
		bytes = encoder->out.size;
		if (r == 0)
			r = shard_write(recorder->writer, encoder);
		if (r == 0) {
			atomic_fetch_add(&recorder->written_bytes, bytes);
			atomic_fetch_add(&recorder->recorded, rows); /* last: it is waited for */
			atomic_fetch_add(&recorder->writer->header->live.unfinished, unfinished);
		}
	}
	if (r < 0)
		encoder_rollback(encoder);
	else
		recorder->done = result.to;
	if (r == 0) {
		drain_release(recorder->rings, &recorder->done);
		pthread_mutex_lock(&space_lock);
		pthread_cond_broadcast(&space);
		pthread_mutex_unlock(&space_lock);
	}
	publish_counters(recorder);
	return r;
}

/* Waits for flush_ms or a ring half full; true when there is reason to write. Small chunks are
 * mostly header, and in a buffer file records are as safe as in the shard, so few of them wait. */
static bool wait_for_work(struct recorder *recorder, bool failed, uint32_t *waits)
{
	struct pollfd wake = { .fd = failed ? -1 : recorder->wake_fd, .events = POLLIN };
	const uint64_t enough_bytes = 64 << 10;
	uint64_t count;

	/* After a failure the full time: the ring may be full and keep waking us. */
	if (poll(&wake, 1, (int)recorder->flush_ms) > 0 &&
	    read(recorder->wake_fd, &count, sizeof(count)) == (ssize_t)sizeof(count))
		return true;
	return ++*waits >= recorder->patience ||
	       drain_pending(recorder->rings, &recorder->done) >= enough_bytes;
}

static void *drain_thread(void *arg)
{
	struct recorder *recorder = arg;
	uint32_t waits = 0;
	int r = 0;

	life_thread_begins("moescope");
	while (!atomic_load_explicit(&recorder->stopping, memory_order_acquire)) {
		bool work = wait_for_work(recorder, r < 0, &waits);

		life_watch();
		if (!work)
			continue;
		waits = 0;
		r = flush(recorder, false);
	}
	recorder->all_written = flush(recorder, true) == 0;
	life_thread_ends();
	return NULL;
}

int recorder_start(struct recorder *recorder)
{
	return life_thread_create(&recorder->thread, drain_thread, recorder);
}

void recorder_stop(struct recorder *recorder)
{
	uint64_t one = 1;
	ssize_t n;

	atomic_store_explicit(&recorder->stopping, true, memory_order_release);
	n = write(recorder->wake_fd, &one, sizeof(one));
	(void)n; /* fails only when a wake-up is pending already */
	pthread_join(recorder->thread, NULL);
}
