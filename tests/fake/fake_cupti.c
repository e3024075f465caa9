/* SPDX-License-Identifier: Apache-2.0
 *
 * A libcupti without a GPU: the activity functions that the probe uses, driven by the table in
 * fake_cupti.h. Built once more with FAKE_CUPTI_LACKS_FLUSH, as a library too old to have a call.
 *
 * Threads: any thread controls; two workers hand over buffers, and so does a flush on its caller.
 * The lock is not held while the probe's callbacks run, because they call back into here.
 */
#include "fake_cupti_inside.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KINDS CUPTI_ACTIVITY_KIND_COUNT

struct buffer {
	struct buffer *next;
	uint8_t *data;
	uint8_t **place; /* holds data; what the program's threads read when they write a record */
	size_t size, valid, records;
};

struct worker {
	pthread_t thread;
	bool started;
	struct buffer *queue;
	bool busy;
};

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t fake_changed = PTHREAD_COND_INITIALIZER;
struct fake_state fake_counted;
static struct worker workers[FAKE_WORKERS];
static struct buffer *held;
static bool write_late;
size_t fake_unmapped_bytes;
static void (*_Atomic on_disable)(void);
static CUpti_BuffersCallbackRequestFunc on_request;
static CUpti_BuffersCallbackCompleteFunc on_complete;
static bool enabled[KINDS];
static bool switched_off; /* kernel records, and not flushed since */
static struct {
	CUptiResult result;
	CUpti_ActivityKind kind;
} failures[FAKE_CALLS];
static uint32_t library_version = CUPTI_API_VERSION;
static size_t dropped;
static int64_t clock_offset_ns;

static size_t size_of(CUpti_ActivityKind kind)
{
	switch (kind) {
	case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
		return sizeof(CUpti_ActivityKernel10);
	case CUPTI_ACTIVITY_KIND_MEMCPY:
		return sizeof(CUpti_ActivityMemcpy6);
	case CUPTI_ACTIVITY_KIND_MEMCPY2:
		return sizeof(CUpti_ActivityMemcpyPtoP4);
	case CUPTI_ACTIVITY_KIND_MEMSET:
		return sizeof(CUpti_ActivityMemset4);
	case CUPTI_ACTIVITY_KIND_RUNTIME:
	case CUPTI_ACTIVITY_KIND_DRIVER:
		return sizeof(CUpti_ActivityAPI);
	case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
		return sizeof(CUpti_ActivitySynchronization2);
	case CUPTI_ACTIVITY_KIND_DEVICE:
		return sizeof(CUpti_ActivityDevice5);
	case CUPTI_ACTIVITY_KIND_MEMORY2:
		return sizeof(CUpti_ActivityMemory4);
	case CUPTI_ACTIVITY_KIND_MEMORY_POOL:
		return sizeof(CUpti_ActivityMemoryPool3);
	case CUPTI_ACTIVITY_KIND_OVERHEAD:
	case CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER: /* stands for any that nobody knows */
		return sizeof(CUpti_ActivityOverhead3);
	default:
		abort(); /* a test delivers what is not in struct fake_record */
	}
}

static bool wanted(const struct fake_record *record)
{
	if (record->uninvited)
		return true;
	return enabled[record->any.kind];
}

static struct buffer *request(void)
{
	struct buffer *buffer = calloc(1, sizeof(*buffer));
	CUpti_BuffersCallbackRequestFunc call;
	size_t max_records = 0;

	if (!buffer)
		abort();
	pthread_mutex_lock(&fake_lock);
	call = on_request;
	fake_counted.buffers_requested++;
	pthread_mutex_unlock(&fake_lock);
	if (call) /* else everything has been finalised a moment ago */
		call(&buffer->data, &buffer->size, &max_records);
	buffer->place = malloc(sizeof(*buffer->place));
	if (!buffer->place)
		abort();
	*buffer->place = buffer->data;
	return buffer;
}

/* The records in buffers from the probe, in a list. */
static struct buffer *fill(const struct fake_record *records, size_t n, size_t per_buffer)
{
	struct buffer *first = NULL, *last = NULL;
	size_t in_last = 0;

	for (size_t i = 0; i < n; i++) {
		size_t bytes = size_of(records[i].any.kind);
		bool take;

		pthread_mutex_lock(&fake_lock);
		take = on_complete && wanted(&records[i]);
		fake_counted.not_enabled += !take;
		pthread_mutex_unlock(&fake_lock);
		if (!take)
			continue;
		if (!last || last->valid + bytes > last->size ||
		    (per_buffer && in_last == per_buffer)) {
			struct buffer *buffer = request();

			*(last ? &last->next : &first) = buffer;
			last = buffer;
			in_last = 0;
		}
		if (last->valid + bytes > last->size) { /* the probe had no memory */
			pthread_mutex_lock(&fake_lock);
			dropped++;
			pthread_mutex_unlock(&fake_lock);
			continue;
		}
		memcpy(last->data + last->valid, &records[i], bytes);
		last->valid += bytes;
		last->records++;
		in_last++;
	}
	return first;
}

/* A thread of the program has reserved a record in a buffer, and writes it when the worker has handed
 * the buffer over and freed what belonged to it. */
static void write_record_late(uintptr_t buffer_at, uintptr_t place_at, uint8_t *data)
{
	const CUpti_ActivityKind kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
	uint8_t *volatile *place = (uint8_t *volatile *)place_at;
	struct buffer *volatile buffer = (struct buffer *)buffer_at;

	if (*place != data || *(uint8_t *volatile *)&buffer->data != data)
		fake_deadly("a record was written through memory that CUPTI has freed");
	memcpy(data, &kind, sizeof(kind));
}

static void complete(struct buffer *buffers)
{
	while (buffers) {
		struct buffer *buffer = buffers;
		volatile uintptr_t buffer_at = (uintptr_t)buffer,
				   place_at = (uintptr_t)buffer->place;
		uint8_t *data = buffer->data;
		CUpti_BuffersCallbackCompleteFunc call;
		bool late;

		pthread_mutex_lock(&fake_lock);
		call = on_complete;
		late = write_late && call && data;
		fake_counted.forgotten += call ? 0 : buffer->records;
		pthread_mutex_unlock(&fake_lock);
		buffers = buffer->next;
		if (call) /* else the memory is the probe's, and it never comes back */
			call(NULL, 0, buffer->data, buffer->size, buffer->valid);
		free(buffer->place);
		free(buffer);
		if (late)
			write_record_late(buffer_at, place_at, data);
		pthread_mutex_lock(&fake_lock);
		fake_counted.buffers_completed++;
		pthread_mutex_unlock(&fake_lock);
	}
}

static void *work(void *arg)
{
	struct worker *worker = arg;

	pthread_mutex_lock(&fake_lock);
	for (;;) {
		struct buffer *buffers;

		while (!worker->queue)
			pthread_cond_wait(&fake_changed, &fake_lock);
		buffers = worker->queue;
		worker->queue = NULL;
		pthread_mutex_unlock(&fake_lock);
		complete(buffers);
		pthread_mutex_lock(&fake_lock);
		worker->busy = false;
		pthread_cond_broadcast(&fake_changed);
	}
	return NULL;
}

static void hand_over(unsigned int index, struct buffer *buffers)
{
	struct worker *worker = &workers[index];

	if (!buffers)
		return;
	pthread_mutex_lock(&fake_lock);
	if (!worker->started && pthread_create(&worker->thread, NULL, work, worker) != 0)
		abort();
	worker->started = true;
	while (worker->busy)
		pthread_cond_wait(&fake_changed, &fake_lock);
	worker->busy = true;
	worker->queue = buffers;
	pthread_cond_broadcast(&fake_changed);
	while (worker->busy)
		pthread_cond_wait(&fake_changed, &fake_lock);
	pthread_mutex_unlock(&fake_lock);
}

static void deliver(unsigned int worker, const struct fake_record *records, size_t n,
		    size_t per_buffer)
{
	hand_over(worker, fill(records, n, per_buffer));
}

static void write_records_late(void)
{
	pthread_mutex_lock(&fake_lock);
	write_late = true;
	pthread_mutex_unlock(&fake_lock);
}

static void finalize_unmaps(size_t bytes)
{
	pthread_mutex_lock(&fake_lock);
	fake_unmapped_bytes = bytes;
	pthread_mutex_unlock(&fake_lock);
}

static void at_next_disable(void (*call)(void))
{
	atomic_store(&on_disable, call);
}

static void deliver_empty(void)
{
	hand_over(0, request());
}

static void hold(const struct fake_record *records, size_t n, size_t per_buffer)
{
	struct buffer *buffers = fill(records, n, per_buffer), **end = &held;

	pthread_mutex_lock(&fake_lock);
	while (*end)
		end = &(*end)->next;
	*end = buffers;
	pthread_mutex_unlock(&fake_lock);
}

static void reverse_held(void)
{
	struct buffer *reversed = NULL;

	pthread_mutex_lock(&fake_lock);
	while (held) {
		struct buffer *buffer = held;

		held = buffer->next;
		buffer->next = reversed;
		reversed = buffer;
	}
	held = reversed;
	pthread_mutex_unlock(&fake_lock);
}

static void drop(size_t n)
{
	pthread_mutex_lock(&fake_lock);
	dropped += n;
	pthread_mutex_unlock(&fake_lock);
}

static void refuse(enum fake_call call, CUptiResult result, CUpti_ActivityKind on_kind)
{
	pthread_mutex_lock(&fake_lock);
	failures[call].result = result;
	failures[call].kind = on_kind;
	pthread_mutex_unlock(&fake_lock);
}

static CUptiResult failure(enum fake_call call)
{
	CUptiResult result;

	pthread_mutex_lock(&fake_lock);
	result = failures[call].result;
	pthread_mutex_unlock(&fake_lock);
	return result;
}

static void set_clock(int64_t offset_ns)
{
	pthread_mutex_lock(&fake_lock);
	clock_offset_ns = offset_ns;
	pthread_mutex_unlock(&fake_lock);
}

static void set_version(uint32_t version)
{
	pthread_mutex_lock(&fake_lock);
	library_version = version;
	pthread_mutex_unlock(&fake_lock);
}

static uint64_t now(void)
{
	CUpti_TimestampCallbackFunc function = fake_clock();
	struct timespec t;
	int64_t offset_ns;

	if (function)
		return function();

	pthread_mutex_lock(&fake_lock);
	offset_ns = clock_offset_ns;
	pthread_mutex_unlock(&fake_lock);
	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)(t.tv_sec * INT64_C(1000000000) + t.tv_nsec + offset_ns);
}

/* With the lock. */
static struct fake_state snapshot(void)
{
	struct fake_state copy = fake_counted;

	for (int i = 0; i < KINDS; i++)
		copy.kinds += enabled[i];
	return copy;
}

static struct fake_state state(void)
{
	struct fake_state copy;

	pthread_mutex_lock(&fake_lock);
	copy = snapshot();
	pthread_mutex_unlock(&fake_lock);
	return copy;
}

static bool wait_flushes(unsigned int n)
{
	struct timespec until;
	bool reached;
	int r = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 100;
	pthread_mutex_lock(&fake_lock);
	while (fake_counted.flushes < n && r != ETIMEDOUT)
		r = pthread_cond_timedwait(&fake_changed, &fake_lock, &until);
	reached = fake_counted.flushes >= n;
	pthread_mutex_unlock(&fake_lock);
	return reached;
}

/* With the lock. */
static void switch_kernels(bool on)
{
	struct timespec t;

	if (enabled[CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL] == on)
		return;
	enabled[CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL] = on;
	switched_off = !on;
	if (fake_counted.n_switches == FAKE_SWITCHES)
		abort(); /* a test that switches more often wants more room */
	clock_gettime(CLOCK_MONOTONIC, &t);
	fake_counted.switched_ns[fake_counted.n_switches++] = t.tv_sec * INT64_C(1000000000) +
							      t.tv_nsec;
}

void fake_forget_records(void)
{
	on_request = NULL;
	on_complete = NULL;
	switch_kernels(false);
	memset(enabled, 0, sizeof(enabled));
	while (held) {
		struct buffer *buffer = held;

		held = buffer->next;
		fake_counted.forgotten += buffer->records;
		free(buffer->place);
		free(buffer);
	}
}

bool fake_kernels_on(void)
{
	return enabled[CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL];
}

static bool wait_state(bool (*reached)(const struct fake_state *))
{
	struct timespec until;
	struct fake_state now_is;
	bool is;
	int r = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 100;
	pthread_mutex_lock(&fake_lock);
	for (;;) {
		now_is = snapshot();
		is = reached(&now_is);
		if (is || r == ETIMEDOUT)
			break;
		r = pthread_cond_timedwait(&fake_changed, &fake_lock, &until);
	}
	pthread_mutex_unlock(&fake_lock);
	return is;
}

/* A scenario that forks may look at the state in the child. */
static void before_fork(void)
{
	pthread_mutex_lock(&fake_lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&fake_lock);
}

__attribute__((constructor)) static void library_begins(void)
{
	pthread_atfork(before_fork, after_fork, after_fork);
}

extern const struct fake_cupti fake_cupti;
const struct fake_cupti fake_cupti = {
	.deliver = deliver,
	.hold = hold,
	.reverse_held = reverse_held,
	.deliver_empty = deliver_empty,
	.drop = drop,
	.refuse = refuse,
	.set_clock = set_clock,
	.now = now,
	.state = state,
	.wait_flushes = wait_flushes,
	.wait_state = wait_state,
	.set_version = set_version,
	.hold_subscription = fake_hold_subscription,
	.call = fake_call,
	.enter = fake_enter,
	.leave = fake_leave,
	.write_records_late = write_records_late,
	.finalize_unmaps = finalize_unmaps,
	.at_next_disable = at_next_disable,
	.lose_ends = fake_lose_ends,
	.launch_graph = fake_launch_graph,
	.wait_device = fake_wait_device,
	.make_node = fake_make_node,
	.hold_leaver = fake_hold_leaver,
	.hold_comer = fake_hold_comer,
	.hold_nodes = fake_hold_nodes,
	.wait_held_node = fake_wait_held_node,
};

CUptiResult CUPTIAPI cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
						    CUpti_BuffersCallbackCompleteFunc completed)
{
	CUptiResult result = failure(FAKE_REGISTER);

	if (result != CUPTI_SUCCESS)
		return result;
	pthread_mutex_lock(&fake_lock);
	on_request = requested;
	on_complete = completed;
	fake_counted.registered++;
	pthread_mutex_unlock(&fake_lock);
	return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityEnable(CUpti_ActivityKind kind)
{
	CUptiResult result = CUPTI_SUCCESS;

	if (kind <= CUPTI_ACTIVITY_KIND_INVALID || kind >= KINDS)
		return CUPTI_ERROR_INVALID_KIND;
	pthread_mutex_lock(&fake_lock);
	if (!failures[FAKE_ENABLE].kind || failures[FAKE_ENABLE].kind == kind)
		result = failures[FAKE_ENABLE].result;
	if (result == CUPTI_SUCCESS) {
		if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
			switch_kernels(true);
			fake_kernels_switched();
		}
		enabled[kind] = true;
		pthread_cond_broadcast(&fake_changed);
	}
	pthread_mutex_unlock(&fake_lock);
	return result;
}

CUptiResult CUPTIAPI cuptiActivityDisable(CUpti_ActivityKind kind)
{
	void (*call)(void) = atomic_exchange(&on_disable, NULL);

	if (kind <= CUPTI_ACTIVITY_KIND_INVALID || kind >= KINDS)
		return CUPTI_ERROR_INVALID_KIND;
	if (call)
		call();
	pthread_mutex_lock(&fake_lock);
	if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL && enabled[kind])
		fake_kernels_switched();
	if (enabled[kind])
		fake_switched_off(kind);
	if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
		switch_kernels(false);
	enabled[kind] = false;
	pthread_cond_broadcast(&fake_changed);
	pthread_mutex_unlock(&fake_lock);
	return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid,
						CUpti_Activity **record)
{
	uint8_t *next = *record ? (uint8_t *)*record + size_of((*record)->kind) : buffer;

	if (next >= buffer + valid)
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	*record = (CUpti_Activity *)next;
	return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream,
						       size_t *ret_dropped)
{
	(void)context;
	(void)stream;
	pthread_mutex_lock(&fake_lock);
	*ret_dropped = dropped;
	dropped = 0;
	pthread_mutex_unlock(&fake_lock);
	return CUPTI_SUCCESS;
}

#ifndef FAKE_CUPTI_LACKS_FLUSH
CUptiResult CUPTIAPI cuptiActivityFlushAll(uint32_t flag)
{
	CUptiResult result = failure(FAKE_FLUSH_ALL);
	struct buffer *buffers = NULL;

	if (result == CUPTI_SUCCESS) {
		pthread_mutex_lock(&fake_lock);
		fake_flushes();
		buffers = held;
		held = NULL;
		pthread_mutex_unlock(&fake_lock);
		complete(buffers);
	}
	pthread_mutex_lock(&fake_lock);
	fake_counted.flushes++;
	fake_counted.forced_flushes += (flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) != 0;
	fake_counted.flushed_off += switched_off;
	switched_off = false;
	pthread_cond_broadcast(&fake_changed);
	pthread_mutex_unlock(&fake_lock);
	return result;
}
#endif

CUptiResult CUPTIAPI cuptiActivityFlushPeriod(uint32_t time)
{
	(void)time;
	return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiGetTimestamp(uint64_t *timestamp)
{
	CUptiResult result = failure(FAKE_TIMESTAMP);

	if (result == CUPTI_SUCCESS)
		*timestamp = now();
	return result;
}

CUptiResult CUPTIAPI cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid,
					  const char **name)
{
	if (domain == CUPTI_CB_DOMAIN_RUNTIME_API &&
	    cbid == CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000)
		*name = "cudaLaunchKernel_v7000";
	else if (domain == CUPTI_CB_DOMAIN_DRIVER_API &&
		 cbid == CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2)
		*name = "cuMemAlloc_v2";
	else if (domain == CUPTI_CB_DOMAIN_DRIVER_API &&
		 cbid == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel)
		*name = "cuLaunchKernel";
	else
		return CUPTI_ERROR_INVALID_PARAMETER;
	return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiGetResultString(CUptiResult result, const char **text)
{
	switch (result) {
	case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
		*text = "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES";
		return CUPTI_SUCCESS;
	case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
		*text = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
		return CUPTI_SUCCESS;
	case CUPTI_ERROR_NOT_INITIALIZED:
		*text = "CUPTI_ERROR_NOT_INITIALIZED";
		return CUPTI_SUCCESS;
	default:
		return CUPTI_ERROR_INVALID_PARAMETER;
	}
}

CUptiResult CUPTIAPI cuptiGetVersion(uint32_t *version)
{
	CUptiResult result = failure(FAKE_VERSION);

	if (result == CUPTI_SUCCESS)
		*version = library_version;
	return result;
}
