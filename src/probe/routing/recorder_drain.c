/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread of a recorder: watches the head that the device writes into pinned memory, copies
 * completed slots on its own stream, clears them there, returns them and turns them into rows. It
 * polls that stream's own event, and waits for nothing else on the device.
 *
 * A CUDA error (a lost context, a driver that has shut down at exit) breaks the recorder: it makes
 * no further call, flushes fail, and the program continues.
 */
#include <errno.h>
#include <string.h>

#include "probe/core/device_rows.h"
#include "probe/routing/recorder_inside.h"

#define BUSY_NS INT64_C(1000000)       /* between two looks at the head while steps come */
#define GATHER_NS INT64_C(10000000)    /* that few slots may wait for others, to share one copy */
#define IDLE_NS INT64_C(5000000)       /* and when none has come for a while */
#define BUSY_FOR_NS INT64_C(200000000) /* how long that is */
#define COPY_NS INT64_C(50000)	       /* between two looks at a copy */
#define FLUSH_NS INT64_C(10000000000)  /* then the device hangs, and the program must not */
#define DRIFT_PER_NS 20000	       /* clocks differ by less than 50 ppm */

static void wait_ns(struct moescope_recorder *r, int64_t ns)
{
	struct timespec until = clock_deadline(ns);

	pthread_cond_timedwait(&r->wake, &r->lock, &until);
}

/* The event after the copies. The lock is held, and released while waiting. A program that wants to
 * end does not wait for a hanging device. */
static CUresult wait_for_copies(struct moescope_recorder *r)
{
	CUresult result = recorder_cuda.cuEventRecord(r->event, r->stream);
	int64_t give_up_ns = 0;

	if (result != CUDA_SUCCESS)
		return result;
	while ((result = recorder_cuda.cuEventQuery(r->event)) == CUDA_ERROR_NOT_READY) {
		if (r->stopping && !give_up_ns)
			give_up_ns = clock_monotonic_ns() + FLUSH_NS;
		if (give_up_ns && clock_monotonic_ns() > give_up_ns)
			break;
		wait_ns(r, COPY_NS);
	}
	return result;
}

/* When the step was complete on this host's clock. The smallest difference seen between the two
 * clocks is closest to the true one, because a slot is seen late and never early; it may grow by
 * clock drift. So the time is late by no more than the shortest look took. */
static int64_t host_time(struct moescope_recorder *r, int64_t device_ns, int64_t seen_ns)
{
	int64_t drift = (seen_ns - r->offset_at_ns) / DRIFT_PER_NS;

	if (!r->have_offset || seen_ns - device_ns < r->offset_ns + drift) {
		r->have_offset = true;
		r->offset_ns = seen_ns - device_ns;
		r->offset_at_ns = seen_ns;
		drift = 0;
	}
	return device_ns + r->offset_ns + drift;
}

static CUresult copy_kept(struct moescope_recorder *r, uint32_t slot, const uint32_t *counts)
{
	uint32_t rows = 0;
	struct {
		CUdeviceptr from;
		uint8_t *to;
		size_t bytes;
	} parts[] = { { r->kept, r->fetched_kept, r->kept_bytes },
		      { r->kept_weights, r->fetched_weights, 1 } };

	for (uint32_t l = 0; l < r->layers; l++)
		if (recorder_layer_at(r, counts, l)->rows > rows)
			rows = recorder_layer_at(r, counts, l)->rows;
	rows = rows < r->kept_rows ? rows : r->kept_rows;
	for (size_t i = 0; rows && i < 2 && parts[i].from; i++) {
		size_t pitch = (size_t)r->kept_rows * r->k * parts[i].bytes;
		CUDA_MEMCPY2D copy = { .srcMemoryType = CU_MEMORYTYPE_DEVICE,
				       .srcDevice = parts[i].from + slot * pitch * r->layers,
				       .srcPitch = pitch,
				       .dstMemoryType = CU_MEMORYTYPE_HOST,
				       .dstHost = parts[i].to,
				       .dstPitch = pitch,
				       .WidthInBytes = (size_t)rows * r->k * parts[i].bytes,
				       .Height = r->layers };
		CUresult result = recorder_cuda.cuMemcpy2DAsync_v2(&copy, r->stream);

		if (result != CUDA_SUCCESS)
			return result;
	}
	return CUDA_SUCCESS;
}

/* Pushes rows of fetched slots; without a session nobody wants them, and in a pause they are from
 * before it. The lock is released: a full ring makes this thread wait for the session's drain. */
static void push_fetched(struct moescope_recorder *r, uint32_t first, uint32_t n, int64_t seen_ns)
{
	if (!atomic_load(&probe_session))
		return;
	pthread_mutex_unlock(&r->lock);
	if (r->kept)
		probe_attach_large();
	for (uint32_t i = 0; i < n; i++) {
		const uint32_t *counts = r->fetched + (size_t)(first + i) * r->slot_words;
		const struct recorder_slot *slot = (const struct recorder_slot *)counts;

		recorder_rows_push(r, counts, r->kept ? r->fetched_kept : NULL,
				   r->kept_weights ? r->fetched_weights : NULL,
				   host_time(r, (int64_t)slot->time_ns, seen_ns));
	}
	pthread_mutex_lock(&r->lock);
}

/* `n` adjacent slots from the tail on; with kept tokens one at a time. */
static CUresult fetch(struct moescope_recorder *r, uint32_t n, int64_t seen_ns)
{
	uint32_t first = (uint32_t)(r->tail % r->slots);
	size_t words = (size_t)n * r->slot_words;
	CUdeviceptr from = r->counts + (size_t)first * r->slot_words * 4;
	uint32_t *to = r->fetched + (size_t)first * r->slot_words;
	CUresult result = recorder_cuda.cuMemcpyDtoHAsync_v2(to, from, words * 4, r->stream);

	if (result == CUDA_SUCCESS && r->kept) {
		/* The counts say how many rows there are. */
		result = wait_for_copies(r);
		if (result == CUDA_SUCCESS)
			result = copy_kept(r, first, to);
	}
	if (result == CUDA_SUCCESS)
		result = recorder_cuda.cuMemsetD32Async(from, 0, words, r->stream);
	if (result == CUDA_SUCCESS)
		result = wait_for_copies(r);
	if (result != CUDA_SUCCESS)
		return result;
	r->tail += n;
	__atomic_store_n(&r->shared->tail, r->tail, __ATOMIC_RELEASE);
	push_fetched(r, first, n, seen_ns);
	return CUDA_SUCCESS;
}

static void count_dropped(struct moescope_recorder *r)
{
	uint64_t now = __atomic_load_n(&r->shared->dropped_calls, __ATOMIC_RELAXED);

	if (atomic_load(&probe_session))
		probe_lost_device(now - r->dropped_calls, 0);
	r->dropped_calls = now;
}

/* Fetches what is complete, once it is worth a copy or `all` is set. True: there was something. */
static bool fetch_complete(struct moescope_recorder *r, bool all)
{
	uint64_t head = __atomic_load_n(&r->shared->head, __ATOMIC_ACQUIRE), before = r->tail;
	int64_t seen_ns = clock_monotonic_ns();

	if (head == r->tail)
		r->waiting_ns = 0;
	else if (!r->waiting_ns)
		r->waiting_ns = seen_ns;
	if (!all && head - r->tail < r->slots / 4 && seen_ns - r->waiting_ns < GATHER_NS)
		return head != r->tail;
	r->waiting_ns = 0;
	while (!r->broken && r->tail < head) {
		uint64_t n = head - r->tail, to_end = r->slots - r->tail % r->slots;

		n = n < to_end ? n : to_end;
		if (fetch(r, (uint32_t)(r->kept ? 1 : n), seen_ns) != CUDA_SUCCESS)
			r->broken = true;
	}
	count_dropped(r);
	return r->tail != before;
}

static void *drain(void *arg)
{
	struct moescope_recorder *r = arg;
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	int64_t busy_ns = 0;
	bool last = false;

	life_thread_begins("moescope-routes");
	pthread_mutex_lock(&r->lock);
	/* While another thread captures, threads that are not relaxed may not query events. */
	if (recorder_cuda.cuCtxSetCurrent(r->context) != CUDA_SUCCESS ||
	    recorder_cuda.cuThreadExchangeStreamCaptureMode(&mode) != CUDA_SUCCESS)
		r->broken = true;
	while (!last) {
		uint64_t asked = r->asked;

		last = r->stopping; /* before the look: everything until then is fetched */
		if (fetch_complete(r, last || asked != r->answered))
			busy_ns = clock_monotonic_ns();
		r->answered = asked;
		pthread_cond_broadcast(&r->answer);
		life_watch();
		if (!r->stopping && r->asked == asked)
			wait_ns(r,
				clock_monotonic_ns() - busy_ns < BUSY_FOR_NS ? BUSY_NS : IDLE_NS);
	}
	pthread_mutex_unlock(&r->lock);
	life_thread_ends();
	return NULL;
}

int recorder_drain_start(struct moescope_recorder *r)
{
	pthread_condattr_t attributes;
	int error;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->wake, &attributes);
	pthread_cond_init(&r->answer, &attributes);
	pthread_condattr_destroy(&attributes);
	error = life_thread_create(&r->thread, drain, r);
	r->running = error == 0;
	return error;
}

int recorder_drain_flush(struct moescope_recorder *r)
{
	struct timespec until = clock_deadline(FLUSH_NS);
	uint64_t asked;
	int r_wait = 0, result;

	pthread_mutex_lock(&r->lock);
	asked = ++r->asked;
	pthread_cond_signal(&r->wake);
	while (r->running && r->answered < asked && !r_wait)
		r_wait = pthread_cond_timedwait(&r->answer, &r->lock, &until);
	result = r->broken ? -EIO : r_wait ? -ETIMEDOUT : 0;
	pthread_mutex_unlock(&r->lock);
	return result;
}

void recorder_drain_stop(struct moescope_recorder *r)
{
	pthread_mutex_lock(&r->lock);
	if (!r->running) {
		pthread_mutex_unlock(&r->lock);
		return;
	}
	r->stopping = true;
	pthread_cond_signal(&r->wake);
	pthread_mutex_unlock(&r->lock);
	pthread_join(r->thread, NULL);
	r->running = false;
}
