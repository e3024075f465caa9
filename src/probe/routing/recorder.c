/* SPDX-License-Identifier: Apache-2.0
 *
 * The device recorder from open to close, on the program's threads. See recorder_inside.h for the
 * overview.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "probe/core/floors.h"
#include "probe/routing/recorder_inside.h"

#define MAX_LAYERS 1024
#define COUNTS_BYTES (16u << 20) /* self-chosen slots use at most this much */
#define KEPT_BYTES (UINT64_C(128) << 20)

PROBE_LOCK(list_lock);
static struct moescope_recorder *recorders;
static _Atomic bool forked, ended;

/* A thread's error text: behind a pointer, because static thread-local storage is scarce. */
static pthread_once_t words_once = PTHREAD_ONCE_INIT;
static pthread_key_t words_key;
static bool have_words_key;

static void make_words_key(void)
{
	have_words_key = pthread_key_create(&words_key, free) == 0;
}

/* NULL: no memory; then there is no text. */
static struct err *thread_words(void)
{
	struct err *err;

	pthread_once(&words_once, make_words_key);
	if (!have_words_key)
		return NULL;
	err = pthread_getspecific(words_key);
	if (!err) {
		err = calloc(1, sizeof(*err));
		if (err && pthread_setspecific(words_key, err) != 0) {
			free(err);
			err = NULL;
		}
	}
	return err;
}

const char *moescope_recorder_words(void)
{
	struct err *err = thread_words();

	return err ? err->message : "";
}

bool recorder_begin(struct err **ret_err, int *ret_errno)
{
	*ret_errno = errno;
	if (!probe_control_begin())
		return false;
	*ret_err = thread_words();
	if (*ret_err)
		(*ret_err)->message[0] = '\0';
	return true;
}

int recorder_end(int result, int saved)
{
	probe_control_end();
	errno = saved;
	return result;
}

int recorder_usable(const struct moescope_recorder *r, struct err *err)
{
	if (!r)
		return err_set(err, -EINVAL, "no recorder given: open one first");
	if (atomic_load_explicit(&forked, memory_order_relaxed))
		return err_set(err, -ENOTSUP,
			       "CUDA does not work after a fork: let the child exec or spawn a new "
			       "program");
	if (atomic_load_explicit(&ended, memory_order_relaxed))
		return err_set(err, -ENOTSUP, "the process is exiting: recording has ended");
	return 0;
}

/* ---- opening */

static int check_options(const struct moescope_recorder_options *o, struct err *err)
{
	if (!o->layers || o->layers > MAX_LAYERS)
		return err_set(err, -EINVAL, "layers is %u; it must be 1 to %d", o->layers,
			       MAX_LAYERS);
	if (!o->experts || o->experts > RECORDER_MAX_EXPERTS)
		return err_set(err, -EINVAL, "experts is %u; it must be 1 to %d", o->experts,
			       RECORDER_MAX_EXPERTS);
	if (!o->k || o->k > RECORDER_MAX_K || o->k > o->experts)
		return err_set(err, -EINVAL, "k is %u; it must be 1 to %d and at most experts",
			       o->k, RECORDER_MAX_K);
	if (o->tokens > UINT32_MAX / o->k)
		return err_set(err, -EINVAL, "tokens is %llu, which is too many",
			       (unsigned long long)o->tokens);
	return 0;
}

static void set_sizes(struct moescope_recorder *r, const struct moescope_recorder_options *o)
{
	uint64_t slot_bytes, kept_bytes, slots;

	r->layers = o->layers;
	r->experts = o->experts;
	r->k = o->k;
	r->kept_rows = (uint32_t)o->tokens;
	r->kept_bytes = o->experts <= 0xff + 1 - RECORDER_CODES ? 1 : 2;
	/* Even, so that the sum in it is aligned. */
	r->layer_words = (RECORDER_LAYER_WORDS + o->k + 1 + o->experts + 1) & ~1u;
	r->slot_words = RECORDER_SLOT_WORDS + o->layers * r->layer_words;
	slot_bytes = (uint64_t)r->slot_words * 4;
	kept_bytes = (uint64_t)o->layers * o->tokens * o->k * (r->kept_bytes + !!o->weights);
	if (kept_bytes) {
		slots = KEPT_BYTES / kept_bytes;
		slots = slots < 2 ? 2 : slots > 64 ? 64 : slots;
	} else {
		slots = COUNTS_BYTES / slot_bytes;
		slots = slots < 64 ? 64 : slots > 1024 ? 1024 : slots;
	}
	r->slots = o->slots ? o->slots : (uint32_t)slots;
}

static int pinned(void *ret_memory, size_t bytes, unsigned int flags, struct err *err)
{
	void *memory;
	int r = recorder_cuda_check(recorder_cuda.cuMemHostAlloc(&memory, bytes, flags),
				    "cuMemHostAlloc", err);

	if (r == 0) {
		memset(memory, 0, bytes);
		memcpy(ret_memory, &memory, sizeof(memory));
	}
	return r;
}

static int allocate(struct moescope_recorder *r, bool weights, struct err *err)
{
	size_t counts_bytes = (size_t)r->slots * r->slot_words * 4;
	size_t kept = (size_t)r->layers * r->kept_rows * r->k;
	int e;

	r->shapes = calloc(r->layers, sizeof(*r->shapes));
	r->slot_row = malloc(PROBE_PIECE_BYTES);
	if (!r->shapes || !r->slot_row)
		return err_set(err, -ENOMEM, "no memory for a recorder");
	if ((e = CHECKED(cuMemAlloc_v2(&r->state, sizeof(struct recorder_state)))) < 0 ||
	    (e = CHECKED(cuMemAlloc_v2(&r->counts, counts_bytes))) < 0 ||
	    (e = pinned(&r->shared, sizeof(*r->shared),
			CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP, err)) < 0 ||
	    (e = CHECKED(cuMemHostGetDevicePointer_v2(&r->shared_device, r->shared, 0))) < 0 ||
	    (e = pinned(&r->fetched, counts_bytes, 0, err)) < 0)
		return e;
	if (kept && ((e = CHECKED(cuMemAlloc_v2(&r->kept, kept * r->slots * r->kept_bytes))) < 0 ||
		     (e = pinned(&r->fetched_kept, kept * r->kept_bytes, 0, err)) < 0))
		return e;
	if (kept && weights &&
	    ((e = CHECKED(cuMemAlloc_v2(&r->kept_weights, kept * r->slots))) < 0 ||
	     (e = pinned(&r->fetched_weights, kept, 0, err)) < 0))
		return e;
	return 0;
}

/* Everything zero except the gate, which is the first word. Waits for the recorder's own stream. */
static int clear(struct moescope_recorder *r, struct err *err)
{
	size_t words = (size_t)r->slots * r->slot_words;
	int e;

	if ((e = CHECKED(cuMemsetD32Async(r->state, 0, sizeof(struct recorder_state) / 4,
					  r->stream))) < 0 ||
	    (e = CHECKED(cuMemsetD32Async(r->state, 1, 1, r->stream))) < 0 ||
	    (e = CHECKED(cuMemsetD32Async(r->counts, 0, words, r->stream))) < 0)
		return e;
	return CHECKED(cuStreamSynchronize(r->stream));
}

static int open_in_context(struct moescope_recorder *r, bool weights, struct err *err)
{
	CUdevice device;
	int processors = 0, e;

	if ((e = CHECKED(cuCtxGetDevice(&device))) < 0 ||
	    (e = CHECKED(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
					      device))) < 0 ||
	    (e = recorder_kernel_load(device, &r->module, err)) < 0 ||
	    (e = CHECKED(cuModuleGetFunction(&r->route, r->module, "moescope_route"))) < 0 ||
	    (e = CHECKED(cuModuleGetFunction(&r->routes, r->module, "moescope_routes"))) < 0 ||
	    (e = CHECKED(cuModuleGetFunction(&r->step, r->module, "moescope_step"))) < 0 ||
	    (e = CHECKED(cuStreamCreate(&r->stream, CU_STREAM_NON_BLOCKING))) < 0 ||
	    (e = CHECKED(cuEventCreate(&r->event, CU_EVENT_DISABLE_TIMING))) < 0 ||
	    (e = allocate(r, weights, err)) < 0 || (e = clear(r, err)) < 0)
		return e;
	r->max_blocks = processors > 0 ? 2 * (uint32_t)processors : 1;
	e = recorder_drain_start(r);
	return e < 0 ? err_sys(err, e, "cannot start a thread for a recorder") : 0;
}

/* Releases what a recorder has on the device, even if half built. Its context is current. */
static void release_device(struct moescope_recorder *r)
{
	if (r->stream) {
		recorder_cuda.cuStreamSynchronize(r->stream);
		recorder_cuda.cuStreamDestroy_v2(r->stream);
	}
	if (r->event)
		recorder_cuda.cuEventDestroy_v2(r->event);
	for (int i = 0; i < 4; i++) {
		CUdeviceptr memory = (CUdeviceptr[]){ r->state, r->counts, r->kept,
						      r->kept_weights }[i];
		void *host = (void *[]){ r->shared, r->fetched, r->fetched_kept,
					 r->fetched_weights }[i];

		if (memory)
			recorder_cuda.cuMemFree_v2(memory);
		if (host)
			recorder_cuda.cuMemFreeHost(host);
	}
	if (r->module)
		recorder_cuda.cuModuleUnload(r->module);
}

static void free_recorder(struct moescope_recorder *r)
{
	free(r->shapes);
	free(r->slot_row);
	free(r);
}

static pthread_once_t exit_once = PTHREAD_ONCE_INIT;

/* Runs at exit before libcuda's own exit handlers: afterwards none of our threads may call it. */
static void recorders_end(void)
{
	if (!probe_control_begin())
		return;
	pthread_mutex_lock(&list_lock);
	atomic_store(&ended, true);
	if (!atomic_load(&forked))
		for (struct moescope_recorder *r = recorders; r; r = r->next)
			recorder_drain_stop(r);
	pthread_mutex_unlock(&list_lock);
	probe_control_end();
}

static void watch_exit(void)
{
	atexit(recorders_end);
}

static int open_recorder(const struct moescope_recorder_options *options,
			 struct moescope_recorder **ret_recorder, struct err *err)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUcontext context = NULL;
	struct moescope_recorder *r;
	int e = check_options(options, err);

	if (e < 0)
		return e;
	if (atomic_load(&forked))
		return err_set(err, -ENOTSUP,
			       "CUDA does not work after a fork: let the child exec or spawn a new "
			       "program");
	if ((e = recorder_cuda_open(err)) < 0)
		return e;
	if (recorder_cuda.cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context)
		return err_set(
			err, -ENOTSUP,
			"no CUDA context is current in this thread: use the device first, or "
			"make its context current");
	r = calloc(1, sizeof(*r));
	if (!r)
		return err_set(err, -ENOMEM, "no memory for a recorder");
	r->context = context;
	set_sizes(r, options);
	/* Somebody may be capturing: threads that are not relaxed may not allocate then. */
	e = CHECKED(cuThreadExchangeStreamCaptureMode(&mode));
	if (e == 0) {
		e = open_in_context(r, options->weights != 0, err);
		recorder_cuda.cuThreadExchangeStreamCaptureMode(&mode);
	}
	if (e < 0) {
		release_device(r);
		free_recorder(r);
		return e;
	}
	pthread_once(&exit_once, watch_exit);
	pthread_mutex_lock(&list_lock);
	r->next = recorders;
	recorders = r;
	pthread_mutex_unlock(&list_lock);
	*ret_recorder = r;
	return 0;
}

int moescope_recorder_open(const struct moescope_recorder_options *options,
			   struct moescope_recorder **ret_recorder)
{
	struct moescope_recorder_options given;
	struct err *err = NULL;
	int saved;

	if (!recorder_begin(&err, &saved))
		return -EBUSY;
	if (!ret_recorder)
		return recorder_end(err_set(err, -EINVAL, "no pointer given for the new recorder"),
				    saved);
	if (!probe_given(&given, sizeof(given), options))
		return recorder_end(err_set(err, -EINVAL, RECORDER_NO_SIZE), saved);
	return recorder_end(open_recorder(&given, ret_recorder, err), saved);
}

/* ---- fetching, closing */

int moescope_recorder_flush(struct moescope_recorder *recorder)
{
	struct err *err = NULL;
	int saved, e;

	if (!recorder_begin(&err, &saved))
		return -EBUSY;
	e = recorder_usable(recorder, err);
	if (e < 0)
		return recorder_end(e, saved);
	e = recorder_drain_flush(recorder);
	if (e == -EIO)
		err_set(err, e, "CUDA has lost the device, and the counts on it");
	else if (e < 0)
		err_set(err, e, "the device does not respond");
	return recorder_end(e, saved);
}

static void unlist(struct moescope_recorder *recorder)
{
	pthread_mutex_lock(&list_lock);
	for (struct moescope_recorder **at = &recorders; *at; at = &(*at)->next)
		if (*at == recorder) {
			*at = recorder->next;
			break;
		}
	pthread_mutex_unlock(&list_lock);
}

static void close_in_context(struct moescope_recorder *r)
{
	/* Freeing would wait for the device anyway; this way its last steps are fetched. */
	recorder_cuda.cuCtxSynchronize();
	recorder_drain_stop(r);
	release_device(r);
}

void moescope_recorder_close(struct moescope_recorder *recorder)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUcontext before = NULL;
	struct err *err = NULL;
	int saved;

	if (!recorder_begin(&err, &saved))
		return;
	/* In a forked child, and when the process ends, the memory stays: it is not ours to
	 * free. */
	if (recorder_usable(recorder, err) == 0) {
		unlist(recorder);
		recorder_cuda.cuThreadExchangeStreamCaptureMode(&mode);
		if (recorder_cuda.cuCtxPushCurrent_v2(recorder->context) == CUDA_SUCCESS) {
			close_in_context(recorder);
			recorder_cuda.cuCtxPopCurrent_v2(&before);
		} else { /* the driver has shut down, and took everything with it */
			recorder_drain_stop(recorder);
		}
		recorder_cuda.cuThreadExchangeStreamCaptureMode(&mode);
		free_recorder(recorder);
	}
	recorder_end(0, saved);
}

static void recorders_flush(void)
{
	if (atomic_load(&forked) || atomic_load(&ended))
		return;
	pthread_mutex_lock(&list_lock);
	for (struct moescope_recorder *r = recorders; r; r = r->next)
		recorder_drain_flush(r);
	pthread_mutex_unlock(&list_lock);
}

static void recorders_after_fork(void)
{
	if (recorders)
		atomic_store(&forked, true);
}

PROBE_FLOOR(routing_floor) = {
	.level = FLOOR_ROUTING,
	.stops = recorders_flush,
	.after_fork = recorders_after_fork,
	.ends = recorders_end,
};
