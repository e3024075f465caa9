/* SPDX-License-Identifier: Apache-2.0
 *
 * See second_client.h. Built with imports bound at load, with lazy ones, and, with
 * SECOND_CLIENT_DLSYM, looking every function up in the libcupti that is loaded. Any thread.
 */
#include "second_client.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef SECOND_CLIENT_DLSYM
/* Like Proton: by name, at the first call. */
static void *address_of(const char *name)
{
	static void *library;

	if (!library)
		library = dlopen(SECOND_CLIENT_DLSYM, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
	if (!library)
		abort(); /* the test has not loaded it */
	return dlsym(library, name);
}
#define CALL(name, ...) (((__typeof__(name) *)address_of(#name))(__VA_ARGS__))
#define DISABLE(kind) CALL(cuptiActivityDisable, kind)
#define DISABLE_ADDRESS address_of("cuptiActivityDisable")
#else
#define CALL(name, ...) (name(__VA_ARGS__))
/* A pointer in read-only data: a relocation of its own kind. */
static __typeof__(cuptiActivityDisable) *const volatile disable_function = cuptiActivityDisable;
#define DISABLE(kind) disable_function(kind)
#define DISABLE_ADDRESS ((void *)disable_function)
#endif

#define BUFFERS 64
#define BUFFER_BYTES 4096
#define TRY(call)                                                                                  \
	do {                                                                                       \
		CUptiResult result_ = (call);                                                      \
		if (result_ != CUPTI_SUCCESS)                                                      \
			return result_;                                                            \
	} while (0)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t *out[BUFFERS];
static size_t n_out, n_received, n_unknown;
static CUpti_SubscriberHandle subscriber;

static void CUPTIAPI requested(uint8_t **buffer, size_t *size, size_t *max_records)
{
	pthread_mutex_lock(&lock);
	*buffer = n_out < BUFFERS ? malloc(BUFFER_BYTES) : NULL;
	*size = *buffer ? BUFFER_BYTES : 0;
	*max_records = 0;
	if (*buffer)
		out[n_out++] = *buffer;
	pthread_mutex_unlock(&lock);
}

static void CUPTIAPI completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
			       size_t valid)
{
	size_t i = 0;

	(void)context;
	(void)stream;
	(void)size;
	pthread_mutex_lock(&lock);
	while (i < n_out && out[i] != buffer)
		i++;
	if (i < n_out) {
		out[i] = out[--n_out];
		n_received += valid;
		free(buffer);
	} else {
		n_unknown++;
	}
	pthread_mutex_unlock(&lock);
}

static void CUPTIAPI callback(void *userdata, CUpti_CallbackDomain domain, CUpti_CallbackId id,
			      const void *data)
{
	(void)userdata;
	(void)domain;
	(void)id;
	(void)data;
}

/* Like a processor's counter of 3 GHz, from a beginning of its own. */
static uint64_t CUPTIAPI my_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)(t.tv_sec * INT64_C(1000000000) + t.tv_nsec) * 3 + 987654321;
}

static CUptiResult kineto_init(void)
{
	return CALL(cuptiSubscribe, &subscriber, callback, NULL);
}

static CUptiResult kineto_start(bool registers)
{
	size_t size = 1;
	uint8_t value = 1;

	if (registers) {
		TRY(CALL(cuptiActivityRegisterTimestampCallback, my_clock));
		TRY(CALL(cuptiActivitySetAttribute, CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER,
			 &size, &value));
		TRY(CALL(cuptiActivityRegisterCallbacks, requested, completed));
	}
	TRY(CALL(cuptiActivityEnable, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
	return CALL(cuptiActivityEnable, CUPTI_ACTIVITY_KIND_MEMCPY);
}

static CUptiResult kineto_stop(void)
{
	TRY(DISABLE(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
	return DISABLE(CUPTI_ACTIVITY_KIND_MEMCPY);
}

static CUptiResult kineto_fetch(void)
{
	bool none;

	pthread_mutex_lock(&lock);
	none = n_out == 0;
	pthread_mutex_unlock(&lock);
	return none ? CUPTI_SUCCESS : CALL(cuptiActivityFlushAll, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
}

static CUptiResult proton_start(void)
{
	TRY(CALL(cuptiSubscribe, &subscriber, callback, NULL));
	TRY(CALL(cuptiActivityEnable, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
	return CALL(cuptiActivityRegisterCallbacks, requested, completed);
}

static CUptiResult proton_stop(void)
{
	TRY(CALL(cuptiActivityFlushAll, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
	TRY(DISABLE(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
	TRY(CALL(cuptiUnsubscribe, subscriber));
	return CALL(cuptiFinalize);
}

static CUptiResult enable(CUpti_ActivityKind kind)
{
	CUptiResult result = CALL(cuptiActivityEnable, kind);

	return result;
}

static CUptiResult enable_context(CUcontext context, CUpti_ActivityKind kind)
{
	CUptiResult result = CALL(cuptiActivityEnableContext, context, kind);

	return result;
}

static CUptiResult disable(CUpti_ActivityKind kind)
{
	CUptiResult result = DISABLE(kind);

	return result;
}

static CUptiResult disable_context(CUcontext context, CUpti_ActivityKind kind)
{
	CUptiResult result = CALL(cuptiActivityDisableContext, context, kind);

	return result;
}

static CUptiResult flush(void)
{
	CUptiResult result = CALL(cuptiActivityFlushAll, 0);

	return result;
}

static CUptiResult unsubscribe(void)
{
	CUptiResult result = CALL(cuptiUnsubscribe, subscriber);

	return result;
}

static CUptiResult finalize(void)
{
	CUptiResult result = CALL(cuptiFinalize);

	return result;
}

static size_t read_locked(const size_t *value)
{
	size_t copy;

	pthread_mutex_lock(&lock);
	copy = *value;
	pthread_mutex_unlock(&lock);
	return copy;
}

static size_t received(void)
{
	return read_locked(&n_received);
}

static size_t unknown(void)
{
	return read_locked(&n_unknown);
}

static void *disable_slot(void)
{
	return DISABLE_ADDRESS;
}

extern const struct second_client second_client;
const struct second_client second_client = {
	.kineto_init = kineto_init,
	.kineto_start = kineto_start,
	.kineto_stop = kineto_stop,
	.kineto_fetch = kineto_fetch,
	.proton_start = proton_start,
	.proton_stop = proton_stop,
	.enable = enable,
	.enable_context = enable_context,
	.disable = disable,
	.disable_context = disable_context,
	.flush = flush,
	.unsubscribe = unsubscribe,
	.finalize = finalize,
	.clock = my_clock,
	.received = received,
	.unknown = unknown,
	.disable_slot = disable_slot,
};
