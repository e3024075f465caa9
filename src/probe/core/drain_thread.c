/* SPDX-License-Identifier: Apache-2.0
 *
 * The recorder's thread: rings to shard, every flush_ms or when a ring is half full. It never makes
 * the program wait; if the file cannot be written, it leaves the records in the rings and retries,
 * and producers count what finds no room. This thread opens, uses and closes all files of a
 * session. If one is no longer ours, or was truncated, nothing more is written to it; the rings
 * fill up and count.
 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "probe/core/calls.h"
#include "probe/core/device_rows.h"
#include "probe/core/probe.h"
#include "trace/bus_guard.h"

_Atomic uint64_t probe_dropped_no_ring, probe_dropped_no_clock;

#define SPACE_WAIT_NS INT64_C(200000000)
#define SPACE_WAITS 10 /* then the drain is not slow but stuck */

/* Signalled when the drain has freed space. */
PROBE_LOCK(space_lock);
PROBE_CONDITION(space);

/* Flushes requested, over all sessions, and how many of them are done. */
static _Atomic uint64_t flushes_asked, flushes_done;

/* Until the drain has freed space, or found a place for `ring`, but not forever. */
static void wait_for_space(const struct ring *ring)
{
	struct timespec until = clock_deadline(SPACE_WAIT_NS);

	if (!probe_lock(&space_lock))
		return;
	if (!ring || !ring_has_place(ring))
		pthread_cond_timedwait(&space, &space_lock, &until);
	probe_unlock(&space_lock);
}

static void wait_for_flush(uint64_t asked)
{
	struct timespec until = clock_deadline(SPACE_WAIT_NS);

	if (!probe_lock(&space_lock))
		return;
	if (atomic_load(&flushes_done) < asked)
		pthread_cond_timedwait(&space, &space_lock, &until);
	probe_unlock(&space_lock);
}

static void signal_space(void)
{
	pthread_mutex_lock(&space_lock);
	pthread_cond_broadcast(&space);
	pthread_mutex_unlock(&space_lock);
}

/* Under the lock, so that nobody checks before and then waits. */
static void tell_flushed(uint64_t asked)
{
	pthread_mutex_lock(&space_lock);
	atomic_store(&flushes_done, asked);
	pthread_cond_broadcast(&space);
	pthread_mutex_unlock(&space_lock);
}

/* The drain makes room and finds places before it signals. */
void probe_wait_for_place(const struct ring *ring)
{
	for (int waits = 0; waits < SPACE_WAITS && !ring_has_place(ring) &&
			    thread_session == atomic_load(&probe_session);
	     waits++)
		wait_for_space(ring);
}

/* A wake-up may have freed only another thread's ring, so it waits more than once. If the drain
 * cannot write, waiting for every record would never end: then no record waits until there is
 * room. */
void probe_wait_for_room(struct ring *ring, uint32_t bytes)
{
	static __thread bool stuck;
	int waits = 0;

	while (!ring_has_room(ring, bytes)) {
		if (stuck || waits++ == SPACE_WAITS) {
			stuck = true;
			return;
		}
		wait_for_space(NULL);
	}
	stuck = false;
}

int probe_flush(void)
{
	uint32_t session = atomic_load(&probe_session);
	uint64_t asked;

	if (!session)
		return 0;
	asked = atomic_fetch_add(&flushes_asked, 1) + 1;
	wake_up(&probe_drain_wake);
	for (int waits = 0; atomic_load(&flushes_done) < asked; waits++) {
		if (atomic_load(&probe_session) != session)
			return 0; /* ended, so it has been written */
		if (waits == SPACE_WAITS)
			return -ETIMEDOUT;
		wait_for_flush(asked);
	}
	return 0;
}

/* Counters go to the header page, where they are safe from anything. */
static void publish_counters(struct recorder *recorder)
{
	struct shard_header *header = &recorder->writer->header;
	uint32_t n = atomic_load_explicit(&recorder->rings->n_regions, memory_order_acquire);
	uint64_t dropped[DROP_SLOTS] = { 0 };

	for (uint32_t i = 0; i < n; i++) {
		struct ring_control *control = rings_control(recorder->rings, i);

		if (recorder->rings->regions[i].type != REGION_RING)
			continue;
		for (int d = 0; d < DROP_SLOTS; d++)
			dropped[d] += atomic_load_explicit(&control->dropped[d],
							   memory_order_relaxed);
	}
	for (int d = 0; d < DROP_SLOTS; d++) {
		uint64_t *known = &recorder->ring_drops[d];

		if (recorder->files == FILES_BUFFERS_CUT)
			dropped[d] += *known; /* the rings have restarted their counts */
		else
			dropped[d] = *known = dropped[d] > *known ? dropped[d] : *known;
	}
	dropped[DROP_DAMAGED] += recorder->damaged;
	dropped[DROP_NO_MEMORY] += atomic_load(&probe_dropped_no_ring);
	dropped[DROP_NO_CLOCK] += atomic_load(&probe_dropped_no_clock);
	dropped[DROP_IN_SIGNAL] += atomic_load(&probe_dropped_in_signal);
	dropped[DROP_IN_CHILD] += life_child_calls();
	dropped[DROP_NAMES] += names_dropped();
	dropped[DROP_DEVICE] += atomic_load(&probe_device_dropped);
	dropped[DROP_DEVICE_UNKNOWN] += atomic_load(&probe_device_unknown);
	for (int d = 0; d < DROP_SLOTS; d++)
		atomic_store_explicit(&header->live.dropped[d], dropped[d], memory_order_relaxed);
	atomic_store_explicit(&header->live.recorded, recorder->recorded, memory_order_relaxed);
	atomic_store_explicit(&header->live.alive_ns, clock_monotonic_ns(), memory_order_relaxed);
	if (recorder->files != FILES_GONE)
		shard_publish(recorder->writer);
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
	atomic_store_explicit(&recorder->writer->header.live.drain_cpu_ns, (uint64_t)cpu,
			      memory_order_relaxed);
	return encoder_append(&recorder->encoder, RECORD_COST, &row);
}

/* 0, or -ESTALE if this session stops writing. */
static int check_files(struct recorder *recorder)
{
	int r = rings_check(recorder->rings);

	if (r == -ESTALE && recorder->files == FILES_WHOLE) {
		rings_let_go(recorder->rings);
		recorder->files = FILES_BUFFERS_CUT;
		recorder->damaged++;
	} else if (r < 0 && r != -ESTALE) {
		recorder->files = FILES_GONE;
	}
	return recorder->files == FILES_WHOLE ? 0 : -ESTALE;
}

/* The rows, followed by the checkpoint. */
static int write_checkpointed_rows(struct recorder *recorder, uint64_t rows,
				   const struct drain_positions *to)
{
	struct encoder *encoder = &recorder->encoder;
	uint64_t bytes;
	int r = append_cost(recorder, rows);

	if (r == 0)
		r = encoder_finish(encoder);
	if (r == 0)
		r = drain_checkpoint(encoder, to);
	bytes = encoder->out.size;
	if (r < 0)
		return r;
	r = shard_write(recorder->writer, encoder);
	if (r == -EBADF || r == -ESTALE)
		recorder->files = FILES_GONE;
	if (r == 0) {
		atomic_fetch_add(&recorder->written_bytes, bytes);
		atomic_fetch_add(&recorder->recorded, rows); /* last: others wait for it */
	}
	return r;
}

/* One flush. `last`: include what is still open, as unfinished. */
static int flush(struct recorder *recorder, bool last)
{
	struct encoder *encoder = &recorder->encoder;
	struct drain_result result;
	uint64_t rows, unfinished = 0;
	int r = check_files(recorder);

	if (r == 0) {
		publish_clock(recorder);
		r = drain_collect(recorder->rings, &recorder->map, &recorder->done, encoder,
				  &result);
	}
	if (r == 0)
		r = calls_append(&recorder->map, encoder, last);
	rows = encoder->rows;
	if (r == 0 && last) {
		r = drain_unfinished(recorder->rings, &recorder->map, clock_ticks(), encoder);
		unfinished = encoder->rows - rows;
	}
	/* Check again: records from a file truncated meanwhile are not what the program wrote. */
	if (r == 0)
		r = check_files(recorder);
	if (r == 0 && encoder->rows)
		r = write_checkpointed_rows(recorder, rows, &result.to);
	if (r == 0) {
		recorder->done = result.to;
		recorder->damaged += result.damaged;
		calls_told();
		atomic_fetch_add(&recorder->writer->header.live.unfinished, unfinished);
		drain_release(recorder->rings, &recorder->done);
		signal_space();
	} else {
		encoder_rollback(encoder);
	}
	if (last)
		atomic_fetch_add(&recorder->writer->header.live.unfinished, recorder->open_spans);
	publish_counters(recorder);
	return r;
}

/* Waits for flush_ms or a half-full ring; true if there is reason to write. Small chunks are mostly
 * header, and records in a buffer file are as safe as in the shard, so few of them wait. */
static bool wait_for_work(struct recorder *recorder, bool failed, uint32_t *waits)
{
	const uint64_t enough_bytes = 64 << 10;
	struct wake never = { 0 };

	/* After a failure wait the full time: the ring may be full and keep waking us. */
	if (wake_wait(failed ? &never : recorder->wake, (int)recorder->flush_ms))
		return true;
	return ++*waits >= recorder->patience ||
	       drain_pending(recorder->rings, &recorder->done) >= enough_bytes;
}

static void *drain_thread(void *arg)
{
	struct recorder *recorder = arg;
	uint32_t waits = 0;
	uint64_t asked;
	int r = 0;

	life_thread_begins("moescope");
	recorder->open_result = held_own_table() || held_numbers_to_spare() ? session_open(recorder)
									    : -EMFILE;
	wake_up(&recorder->opened);
	if (recorder->open_result < 0) {
		held_own_table_ends();
		life_thread_ends();
		return NULL;
	}
	rings_populate(recorder->rings);
	while (!atomic_load_explicit(&recorder->stopping, memory_order_acquire)) {
		bool work = wait_for_work(recorder, r < 0, &waits);

		session_look();
		if (!work)
			continue;
		waits = 0;
		rings_refill(recorder->rings);
		signal_space();
		rings_populate(recorder->rings);
		asked = atomic_load(&flushes_asked); /* later requests are not part of this one */
		r = flush(recorder, false);
		if (r == 0)
			tell_flushed(asked);
	}
	recorder->all_written = flush(recorder, true) == 0;
	session_close(recorder);
	held_own_table_ends();
	life_thread_ends();
	return NULL;
}

int recorder_start(struct recorder *recorder)
{
	int r = life_thread_create(&recorder->thread, drain_thread, recorder);

	if (r < 0)
		return r;
	wake_wait(&recorder->opened, -1);
	if (recorder->open_result < 0)
		pthread_join(recorder->thread, NULL);
	return recorder->open_result;
}

void recorder_stop(struct recorder *recorder)
{
	atomic_store_explicit(&recorder->stopping, true, memory_order_release);
	wake_up(recorder->wake);
	pthread_join(recorder->thread, NULL);
}
