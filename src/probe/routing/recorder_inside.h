/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the device recorder share.
 *
 * recorder.c         opening, fetching and closing, on the program's threads
 * recorder_calls.c   the calls that launch something, likewise
 * recorder_drain.c   a thread for each recorder: completed slots to rows in its ring
 * recorder_kernel.c  the kernels: built with the library, or compiled when a recorder is opened
 * recorder_cuda.c    libcuda, opened at run time, and words about its errors
 *
 * Invariants: what the kernels are given is fixed when the recorder is opened. The program's stream
 * gets launches and, for the gate, a set; it is never waited for. Only the drain's thread uses the
 * recorder's own stream after the opening. A slot belongs to the device until shared->head has passed
 * it, then to the drain until shared->tail has.
 */
#ifndef PROBE_ROUTING_RECORDER_INSIDE_H
#define PROBE_ROUTING_RECORDER_INSIDE_H

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "probe/core/probe.h"
#include "probe/routing/recorder_layout.h"

#define RECORDER_CUDA(FUNCTION)                                                                    \
	FUNCTION(cuGetErrorName)                                                                   \
	FUNCTION(cuCtxGetCurrent)                                                                  \
	FUNCTION(cuCtxSetCurrent)                                                                  \
	FUNCTION(cuCtxGetDevice)                                                                   \
	FUNCTION(cuCtxSynchronize)                                                                 \
	FUNCTION(cuCtxPushCurrent_v2)                                                              \
	FUNCTION(cuCtxPopCurrent_v2)                                                               \
	FUNCTION(cuDeviceGetAttribute)                                                             \
	FUNCTION(cuThreadExchangeStreamCaptureMode)                                                \
	FUNCTION(cuModuleLoadData)                                                                 \
	FUNCTION(cuModuleUnload)                                                                   \
	FUNCTION(cuModuleGetFunction)                                                              \
	FUNCTION(cuMemAlloc_v2)                                                                    \
	FUNCTION(cuMemFree_v2)                                                                     \
	FUNCTION(cuMemHostAlloc)                                                                   \
	FUNCTION(cuMemFreeHost)                                                                    \
	FUNCTION(cuMemHostGetDevicePointer_v2)                                                     \
	FUNCTION(cuMemsetD32Async)                                                                 \
	FUNCTION(cuMemcpyDtoHAsync_v2)                                                             \
	FUNCTION(cuMemcpy2DAsync_v2)                                                               \
	FUNCTION(cuStreamCreate)                                                                   \
	FUNCTION(cuStreamDestroy_v2)                                                               \
	FUNCTION(cuStreamSynchronize)                                                              \
	FUNCTION(cuStreamIsCapturing)                                                              \
	FUNCTION(cuEventCreate)                                                                    \
	FUNCTION(cuEventDestroy_v2)                                                                \
	FUNCTION(cuEventRecord)                                                                    \
	FUNCTION(cuEventQuery)                                                                     \
	FUNCTION(cuLaunchKernel)

struct recorder_cuda {
#define FUNCTION(name) __typeof__(name) *name;
	RECORDER_CUDA(FUNCTION)
#undef FUNCTION
};
extern struct recorder_cuda recorder_cuda;

/* Fills recorder_cuda; 0 or -ENOTSUP. Any thread, any number of times. */
int recorder_cuda_open(struct err *err);
/* 0, or -errno with the call's name and CUDA's name of the error. */
int recorder_cuda_check(CUresult result, const char *call, struct err *err);

/* The sources of the kernels, and their PTX, "" without an nvcc: made by tools/embed_kernel.py. */
extern const char recorder_layout_text[], recorder_kernel_text[], recorder_kernel_ptx[];

/* The kernels for the device, as an image that cuModuleLoadData takes, loaded in the current
 * context. -ENOTSUP without a compiler. */
int recorder_kernel_load(CUdevice device, CUmodule *ret_module, struct err *err);
/* The kernels compiled by NVRTC for compute capability `capability` (90: 9.0). The image is the
 * caller's to free. */
int recorder_kernel_compile(int capability, char **ret_image, size_t *ret_bytes, struct err *err);

struct moescope_recorder {
	struct moescope_recorder *next; /* under the list's lock */
	CUcontext context;
	CUmodule module;
	CUfunction route, routes, step;
	CUstream stream;
	CUevent event;
	uint32_t max_blocks;

	uint32_t layers, experts, k, slots;
	uint32_t kept_rows, kept_bytes;
	uint32_t layer_words, slot_words;
	_Atomic uint32_t *shapes; /* by layer: experts << 8 | k of its calls, 0: none yet */

	CUdeviceptr state, counts, kept, kept_weights;
	struct recorder_shared *shared; /* pinned; shared_device is the same memory */
	CUdeviceptr shared_device;
	uint32_t *fetched;			 /* pinned: the counts of all slots */
	uint8_t *fetched_kept, *fetched_weights; /* pinned: of one slot */
	int32_t *slot_row;			 /* kept slots widened, one record's worth */

	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t wake, answer;
	pthread_t thread;
	bool running, stopping, broken;
	uint64_t asked, answered; /* flushes */

	/* The drain's alone. */
	int64_t waiting_ns; /* since when completed slots wait for a copy; 0: none does */
	uint64_t tail, dropped_calls;
	int64_t offset_ns; /* from the device's timer to CLOCK_MONOTONIC, at most */
	int64_t offset_at_ns;
	bool have_offset;
};

/* The beginning of every public call: no words yet; errno is the program's. False in a handler of a
 * signal that has interrupted another call. */
bool recorder_begin(struct err **ret_err, int *ret_errno);
/* Its end; gives back `result`. */
int recorder_end(int result, int saved);
/* 0, or -errno: none was given, a forked child, the process ends. */
int recorder_usable(const struct moescope_recorder *recorder, struct err *err);

#define RECORDER_NO_SIZE "no structure was given, or its struct_size is not set"
#define CHECKED(call) recorder_cuda_check(recorder_cuda.call, #call, err)

/* recorder_drain.c. Stopping waits for the thread, which fetches what is complete first. */
int recorder_drain_start(struct moescope_recorder *recorder);
void recorder_drain_stop(struct moescope_recorder *recorder);
/* Waits for a round that begins after the call: 0, -EIO when the device was lost, -ETIMEDOUT. */
int recorder_drain_flush(struct moescope_recorder *recorder);

/* One completed slot as rows: `counts` of the slot, its kept tokens (or NULL), the step's time. */
void recorder_rows_push(struct moescope_recorder *recorder, const uint32_t *counts,
			const uint8_t *kept, const uint8_t *kept_weights, int64_t time_ns);

static inline const struct recorder_layer *recorder_layer_at(const struct moescope_recorder *r,
							     const uint32_t *counts, uint32_t layer)
{
	return (const void *)(counts + RECORDER_SLOT_WORDS + (size_t)layer * r->layer_words);
}

#endif
