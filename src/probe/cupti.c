/* SPDX-License-Identifier: Apache-2.0
 *
 * CUPTI: the one file that reads its structures. Buffers come in, neutral rows go out.
 *
 * Versions: CUPTI's records only grow at their end, and the fields read here are in every version
 * since 11.0, so one build serves them all; symbols are looked up by name.
 */
#include <cuda.h>
#include <cupti.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cupti_names.h"
#include "base/dynlib.h"
#include "moescope.h"
#include "probe/gpu.h"
#include "probe/launches.h"

#define BUFFER_BYTES (1u << 20)
#define BUFFER_ALIGN 8

/* FUNCTION(name): the CUPTI calls that are used. */
#define CUPTI_FUNCTIONS(FUNCTION)                                                                  \
	FUNCTION(cuptiActivityRegisterCallbacks)                                                   \
	FUNCTION(cuptiActivityEnable)                                                              \
	FUNCTION(cuptiActivityDisable)                                                             \
	FUNCTION(cuptiActivityGetNextRecord)                                                       \
	FUNCTION(cuptiActivityGetNumDroppedRecords)                                                \
	FUNCTION(cuptiActivityFlushAll)                                                            \
	FUNCTION(cuptiActivityFlushPeriod)                                                         \
	FUNCTION(cuptiActivityEnableRuntimeApi)                                                    \
	FUNCTION(cuptiActivityEnableDriverApi)                                                     \
	FUNCTION(cuptiGetTimestamp)                                                                \
	FUNCTION(cuptiGetCallbackName)                                                             \
	FUNCTION(cuptiGetResultString)                                                             \
	FUNCTION(cuptiGetVersion)

static struct {
#define FUNCTION(name) __typeof__(name) *name;
	CUPTI_FUNCTIONS(FUNCTION)
#undef FUNCTION
} api;

static _Atomic int64_t to_monotonic_ns; /* CLOCK_MONOTONIC minus CUPTI's clock */
static pthread_mutex_t translating = PTHREAD_MUTEX_INITIALIZER;
static bool attached, memory_enabled;

/* Launches, waits, copies, allocations, graphs: what explains device time. Everything else would
 * cost ten times as much and say little. */
static const CUpti_CallbackId runtime_calls[] = {
	CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000,
	CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_ptsz_v7000,
	CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060,
	CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_ptsz_v11060,
	CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernel_v9000,
	CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000,
	CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_ptsz_v10000,
	CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020,
	CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020,
	CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_ptsz_v7000,
	CUPTI_RUNTIME_TRACE_CBID_cudaEventSynchronize_v3020,
	CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy_v3020,
	CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020,
	CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_ptsz_v7000,
	CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyPeer_v4000,
	CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyPeerAsync_v4000,
	CUPTI_RUNTIME_TRACE_CBID_cudaMemset_v3020,
	CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020,
	CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020,
	CUPTI_RUNTIME_TRACE_CBID_cudaFree_v3020,
	CUPTI_RUNTIME_TRACE_CBID_cudaMallocAsync_v11020,
	CUPTI_RUNTIME_TRACE_CBID_cudaFreeAsync_v11020,
	CUPTI_RUNTIME_TRACE_CBID_cudaMallocHost_v3020,
	CUPTI_RUNTIME_TRACE_CBID_cudaHostAlloc_v3020,
	CUPTI_RUNTIME_TRACE_CBID_cudaFreeHost_v3020,
};

static const CUpti_CallbackId driver_calls[] = {
	CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
	CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
	CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
	CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
	CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,
	CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz,
	CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize,
	CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize,
	CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize_ptsz,
	CUPTI_DRIVER_TRACE_CBID_cuEventSynchronize,
	CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2,
	CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2,
};

static const CUpti_ActivityKind kinds[] = {
	CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
	CUPTI_ACTIVITY_KIND_MEMCPY2,	       CUPTI_ACTIVITY_KIND_MEMSET,
	CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,   CUPTI_ACTIVITY_KIND_DEVICE,
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void CUPTIAPI buffer_requested(uint8_t **buffer, size_t *size, size_t *max_records)
{
	void *memory = NULL;

	*max_records = 0;
	/* Without memory CUPTI drops the records and counts them. */
	*size = posix_memalign(&memory, BUFFER_ALIGN, BUFFER_BYTES) == 0 ? BUFFER_BYTES : 0;
	*buffer = memory;
}

/* start and duration of a device record. Untimed records get the moment of their delivery. */
static bool device_times(uint64_t start, uint64_t end, int64_t *ret_start, int64_t *ret_duration)
{
	int64_t offset = atomic_load_explicit(&to_monotonic_ns, memory_order_relaxed);

	if (!start || end < start) {
		*ret_start = clock_monotonic_ns();
		*ret_duration = 0;
		return false;
	}
	*ret_start = (int64_t)start + offset;
	*ret_duration = (int64_t)(end - start);
	return true;
}

static void take_kernel(const CUpti_ActivityKernel10 *from)
{
	struct row_launch launch = {
		.name = moescope_intern(from->name),
		.grid_x = (uint32_t)from->gridX,
		.grid_y = (uint32_t)from->gridY,
		.grid_z = (uint32_t)from->gridZ,
		.block_x = (uint32_t)from->blockX,
		.block_y = (uint32_t)from->blockY,
		.block_z = (uint32_t)from->blockZ,
		.registers = from->registersPerThread,
		.static_shared_bytes = (uint32_t)from->staticSharedMemory,
		.dynamic_shared_bytes = (uint32_t)from->dynamicSharedMemory,
	};
	struct row_kernel row = {
		.stream = from->streamId,
		.device = from->deviceId,
		.correlation = from->correlationId,
		.context = from->contextId,
		.graph = from->graphId,
		.graph_node = from->graphNodeId,
	};

	row.launch = launch_id(&launch);
	row.untimed = !device_times(from->start, from->end, &row.start_ns, &row.duration_ns);
	gpu_push(RECORD_KERNEL, &row, sizeof(row));
}

/* What both kinds of copy records have under the same names. */
#define COPY_ROW(from)                                                                             \
	{                                                                                          \
		.bytes = (from)->bytes, .kind = (from)->copyKind,                                  \
		.source_memory = (from)->srcKind, .target_memory = (from)->dstKind,                \
		.device = (from)->deviceId, .source_device = (from)->deviceId,                     \
		.target_device = (from)->deviceId, .stream = (from)->streamId,                     \
		.correlation = (from)->correlationId,                                              \
		.asynchronous = ((from)->flags & CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC) != 0,           \
		.context = (from)->contextId, .graph = (from)->graphId,                            \
		.graph_node = (from)->graphNodeId                                                  \
	}

static void push_copy(struct row_copy *row, uint64_t start, uint64_t end)
{
	row->untimed = !device_times(start, end, &row->start_ns, &row->duration_ns);
	gpu_push(RECORD_COPY, row, sizeof(*row));
}

static void take_copy(const CUpti_ActivityMemcpy6 *from)
{
	struct row_copy row = COPY_ROW(from);

	push_copy(&row, from->start, from->end);
}

static void take_peer_copy(const CUpti_ActivityMemcpyPtoP4 *from)
{
	struct row_copy row = COPY_ROW(from);

	row.source_device = from->srcDeviceId;
	row.target_device = from->dstDeviceId;
	push_copy(&row, from->start, from->end);
}

static void take_set(const CUpti_ActivityMemset4 *from)
{
	struct row_set row = {
		.bytes = from->bytes,
		.memory = (uint8_t)from->memoryKind,
		.device = from->deviceId,
		.stream = from->streamId,
		.correlation = from->correlationId,
		.context = from->contextId,
		.graph = from->graphId,
		.graph_node = from->graphNodeId,
	};

	row.untimed = !device_times(from->start, from->end, &row.start_ns, &row.duration_ns);
	gpu_push(RECORD_SET, &row, sizeof(row));
}

static uint32_t call_name(CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
	/* Ids are small and names do not change: each is asked for once. */
	static uint32_t names[2][2048];
	uint32_t *known = id < 2048 ? &names[domain == CUPTI_CB_DOMAIN_DRIVER_API][id] : NULL;
	const char *text = NULL;
	char plain[128];
	char *suffix;
	uint32_t name;

	if (known && *known)
		return *known;
	if (api.cuptiGetCallbackName(domain, id, &text) != CUPTI_SUCCESS || !text)
		text = "(unnamed call)";
	snprintf(plain, sizeof(plain), "%s", text);
	/* "cudaMemcpy_v3020" is cudaMemcpy to everybody else. */
	suffix = strstr(plain, "_v");
	if (suffix && suffix[2] >= '0' && suffix[2] <= '9')
		*suffix = 0;
	name = moescope_intern(plain);
	if (known)
		*known = name;
	return name;
}

static void take_call(const CUpti_ActivityAPI *from)
{
	bool driver = from->kind == CUPTI_ACTIVITY_KIND_DRIVER;
	struct row_api row = {
		.name = call_name(driver ? CUPTI_CB_DOMAIN_DRIVER_API : CUPTI_CB_DOMAIN_RUNTIME_API,
				  from->cbid),
		.thread = from->threadId,
		.correlation = from->correlationId,
		.driver = driver,
		.status = from->returnValue,
	};

	/* Without times it says nothing, and a zero would say something wrong. */
	if (!device_times(from->start, from->end, &row.start_ns, &row.duration_ns)) {
		gpu_lost(1, 0);
		return;
	}
	gpu_push(RECORD_API, &row, sizeof(row));
}

static void take_sync(const CUpti_ActivitySynchronization2 *from)
{
	struct row_sync row = {
		.type = (uint8_t)from->type,
		.context = from->contextId,
		.stream = from->streamId,
		.correlation = from->correlationId,
	};

	/* Without times it says nothing, and a zero would say something wrong. */
	if (!device_times(from->start, from->end, &row.start_ns, &row.duration_ns)) {
		gpu_lost(1, 0);
		return;
	}
	gpu_push(RECORD_SYNC, &row, sizeof(row));
}

static void take_device(const CUpti_ActivityDevice5 *from)
{
	char uuid[48] = "GPU-";
	struct row_device row = {
		.device = from->id,
		.name = moescope_intern(from->name),
		.memory_bytes = from->globalMemorySize,
		.multiprocessors = from->numMultiprocessors,
		.capability = from->computeCapabilityMajor * 10 + from->computeCapabilityMinor,
		.clock_khz = from->coreClockRate,
		.memory_bytes_per_s = from->globalMemoryBandwidth * 1000, /* given in kB/s */
		.l2_bytes = from->l2CacheSize,
		.threads_per_multiprocessor = from->maxWarpsPerMultiprocessor *
					      from->numThreadsPerWarp,
		.registers_per_multiprocessor = from->maxRegistersPerMultiprocessor,
		.shared_bytes_per_multiprocessor = from->maxSharedMemoryPerMultiprocessor,
		.blocks_per_multiprocessor = from->maxBlocksPerMultiprocessor,
	};

	for (int i = 0; i < 16; i++)
		sprintf(uuid + strlen(uuid), "%s%02x",
			i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			(unsigned char)from->uuid.bytes[i]);
	row.uuid = moescope_intern(uuid);
	gpu_push(RECORD_DEVICE, &row, sizeof(row));
}

static void take_memory(const CUpti_ActivityMemory4 *from)
{
	struct row_device_memory row = {
		.event = from->memoryOperationType == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE,
		.address = from->address,
		.bytes = from->bytes,
		.memory = (uint8_t)from->memoryKind,
		.device = from->deviceId,
		.correlation = from->correlationId,
		.pool = from->memoryPoolConfig.address,
	};
	int64_t none;

	device_times(from->timestamp, from->timestamp, &row.time_ns, &none);
	gpu_push(RECORD_DEVICE_MEMORY, &row, sizeof(row));
}

/* Returns false for a kind that nothing here asks for. */
static bool take_record(const CUpti_Activity *record)
{
	switch (record->kind) {
	case CUPTI_ACTIVITY_KIND_KERNEL:
	case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
		take_kernel((const CUpti_ActivityKernel10 *)record);
		return true;
	case CUPTI_ACTIVITY_KIND_MEMCPY:
		take_copy((const CUpti_ActivityMemcpy6 *)record);
		return true;
	case CUPTI_ACTIVITY_KIND_MEMCPY2:
		take_peer_copy((const CUpti_ActivityMemcpyPtoP4 *)record);
		return true;
	case CUPTI_ACTIVITY_KIND_MEMSET:
		take_set((const CUpti_ActivityMemset4 *)record);
		return true;
	case CUPTI_ACTIVITY_KIND_RUNTIME:
	case CUPTI_ACTIVITY_KIND_DRIVER:
		take_call((const CUpti_ActivityAPI *)record);
		return true;
	case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
		take_sync((const CUpti_ActivitySynchronization2 *)record);
		return true;
	case CUPTI_ACTIVITY_KIND_DEVICE:
		take_device((const CUpti_ActivityDevice5 *)record);
		return true;
	case CUPTI_ACTIVITY_KIND_MEMORY2:
		take_memory((const CUpti_ActivityMemory4 *)record);
		return true;
	default:
		return false;
	}
}

static void CUPTIAPI buffer_completed(CUcontext context, uint32_t stream, uint8_t *buffer,
				      size_t size, size_t valid)
{
	CUpti_Activity *record = NULL;
	uint64_t unknown = 0;
	size_t dropped = 0;

	(void)size;
	/* Two deliveries at once are rare; the launch table and the ring want one at a time. */
	pthread_mutex_lock(&translating);
	probe_attach_large();
	while (valid && api.cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
		unknown += !take_record(record);
	if (api.cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS &&
	    dropped)
		gpu_lost(dropped, 0);
	if (unknown)
		gpu_lost(0, unknown);
	pthread_mutex_unlock(&translating);
	free(buffer);
}

/* CUPTI keeps wall-clock nanoseconds; the run keeps CLOCK_MONOTONIC. When CUPTI cannot be asked,
 * what was known before stays. */
static void measure_clock(void)
{
	int64_t best = INT64_MAX, offset = 0;

	for (int i = 0; i < 5; i++) {
		int64_t before = clock_monotonic_ns(), after;
		uint64_t theirs;

		if (api.cuptiGetTimestamp(&theirs) != CUPTI_SUCCESS)
			return;
		after = clock_monotonic_ns();
		if (after - before < best) {
			best = after - before;
			offset = before + best / 2 - (int64_t)theirs;
		}
	}
	atomic_store_explicit(&to_monotonic_ns, offset, memory_order_relaxed);
}

/* In every CUPTI since 10; NULL: calls carry pthread ids, and no call finds its range. */
static __typeof__(cuptiSetThreadIdType) *set_thread_id_type;

static bool load(void)
{
	static const char *const names[] = { CUPTI_LIBRARY_NAMES, NULL };
	const struct dynlib_symbol symbols[] = {
#define FUNCTION(name) { #name, &api.name },
		CUPTI_FUNCTIONS(FUNCTION)
#undef FUNCTION
	};
	const struct dynlib_symbol thread_ids = { "cuptiSetThreadIdType", &set_thread_id_type };
	static bool loaded; /* once: a late buffer of an earlier session may be using the calls */
	void *library;

	if (loaded)
		return true;
	library = dynlib_open(names, "MOESCOPE_CUPTI");
	loaded = library && dynlib_symbols(library, symbols, COUNT(symbols)) == 0;
	if (loaded)
		dynlib_symbols(library, &thread_ids, 1);
	return loaded;
}

static const char *words_of(CUptiResult result)
{
	const char *text = NULL;

	return api.cuptiGetResultString(result, &text) == CUPTI_SUCCESS && text ? text
										: "unknown error";
}

static const char *remedy(CUptiResult result)
{
	switch (result) {
	case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
		return "set NVreg_RestrictProfilingToAdminUsers=0 for the nvidia module";
	case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
		return "another profiler is in the process; run without it";
	default:
		return "it may not fit the driver: set MOESCOPE_CUPTI to the path of another libcupti";
	}
}

/* Calls that this CUPTI does not know yet are left out. */
static void switch_calls(uint8_t on)
{
	for (size_t i = 0; i < COUNT(runtime_calls); i++)
		api.cuptiActivityEnableRuntimeApi(runtime_calls[i], on);
	for (size_t i = 0; i < COUNT(driver_calls); i++)
		api.cuptiActivityEnableDriverApi(driver_calls[i], on);
}

static void disable(void)
{
	switch_calls(0);
	for (size_t i = 0; i < COUNT(kinds); i++)
		api.cuptiActivityDisable(kinds[i]);
	if (memory_enabled)
		api.cuptiActivityDisable(CUPTI_ACTIVITY_KIND_MEMORY2);
	memory_enabled = false;
}

/* All of it or, when CUPTI refuses, nothing: what stays on slows the program down. */
static CUptiResult enable(bool with_memory)
{
	CUptiResult result = CUPTI_SUCCESS;

	for (size_t i = 0; result == CUPTI_SUCCESS && i < COUNT(kinds); i++)
		result = api.cuptiActivityEnable(kinds[i]);
	if (result == CUPTI_SUCCESS && with_memory) {
		result = api.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMORY2);
		memory_enabled = result == CUPTI_SUCCESS;
	}
	if (result == CUPTI_SUCCESS)
		switch_calls(1);
	else
		disable();
	return result;
}

int cupti_attach(bool with_memory, char *words, size_t size)
{
	CUptiResult result;
	uint32_t version = 0;

	if (!load()) {
		const char *given = getenv("MOESCOPE_CUPTI");

		if (given && *given)
			snprintf(words, size,
				 "GPU collection off: MOESCOPE_CUPTI names no usable libcupti; "
				 "unset it or give another path than '%s'",
				 given);
		else
			snprintf(words, size,
				 "GPU collection off: no usable libcupti; install the CUDA toolkit "
				 "or the nvidia-cuda-cupti package, or set MOESCOPE_CUPTI to its "
				 "path");
		return -1;
	}
	/* The wall clock is CUPTI's default. */
	atomic_store_explicit(&to_monotonic_ns, clock_monotonic_ns() - clock_realtime_ns(),
			      memory_order_relaxed);
	measure_clock();
	/* The kernel's thread ids, as in the ranges. */
	if (set_thread_id_type)
		set_thread_id_type(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
	result = api.cuptiActivityRegisterCallbacks(buffer_requested, buffer_completed);
	if (result == CUPTI_SUCCESS)
		result = enable(with_memory);
	if (result != CUPTI_SUCCESS) {
		snprintf(words, size, "GPU collection off: CUPTI says %s; %s", words_of(result),
			 remedy(result));
		return -1;
	}
	api.cuptiGetVersion(&version);
	snprintf(words, size, "GPU records by CUPTI API version %u", version);
	attached = true;
	return 0;
}

void cupti_flush(bool forced)
{
	if (!attached)
		return;
	api.cuptiActivityFlushAll(forced ? CUPTI_ACTIVITY_FLAG_FLUSH_FORCED : 0);
	measure_clock();
}

void cupti_detach(void)
{
	if (!attached)
		return;
	/* What is complete, then what comes in until nothing more is recorded. */
	cupti_flush(false);
	disable();
	cupti_flush(true);
	attached = false;
}
