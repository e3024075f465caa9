/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA calls that are recorded, their names, and those that wait. They come from the callbacks that
 * trace driver calls (cupti_calls.c). If another client has left its subscription behind, there are
 * none; then all runtime and driver calls and CUPTI's own records of waits are requested, and the
 * chosen ones kept: CUPTI does not deliver records of single calls then, nor after it has been
 * finalised (13.0).
 *
 * Any thread.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "moescope.h"
#include "probe/gpu/cupti/cupti_inside.h"
#include "probe/core/device_rows.h"

#define CALL_IDS 2048

/* Launches, waits, copies, allocations, graphs: what explains device time. Recording everything
 * else would cost ten times as much and say little. */
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

/* Recorded by callbacks, instead of the runtime calls that make them. */
static const CUpti_CallbackId made_by_runtime[] = {
	CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel,
	CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz,
	CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize_v2,
	CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2,
	CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2,
	CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoD_v2,
	CUPTI_DRIVER_TRACE_CBID_cuMemcpy,
	CUPTI_DRIVER_TRACE_CBID_cuMemcpyPeer,
	CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2,
	CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2_ptsz,
	CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2,
	CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2_ptsz,
	CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2,
	CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2_ptsz,
	CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync,
	CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync_ptsz,
	CUPTI_DRIVER_TRACE_CBID_cuMemcpyPeerAsync,
	CUPTI_DRIVER_TRACE_CBID_cuMemcpyPeerAsync_ptsz,
	CUPTI_DRIVER_TRACE_CBID_cuMemcpy2DAsync_v2,
	CUPTI_DRIVER_TRACE_CBID_cuMemsetD8_v2,
	CUPTI_DRIVER_TRACE_CBID_cuMemsetD32_v2,
	CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async,
	CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async_ptsz,
	CUPTI_DRIVER_TRACE_CBID_cuMemsetD16Async,
	CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async,
	CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async_ptsz,
	CUPTI_DRIVER_TRACE_CBID_cuMemAllocAsync,
	CUPTI_DRIVER_TRACE_CBID_cuMemFreeAsync,
	CUPTI_DRIVER_TRACE_CBID_cuMemAllocHost_v2,
	CUPTI_DRIVER_TRACE_CBID_cuMemHostAlloc,
	CUPTI_DRIVER_TRACE_CBID_cuMemHostAlloc_v2,
	CUPTI_DRIVER_TRACE_CBID_cuMemFreeHost,
};

/* Waits of a thread, or of one stream for another. For its own records of them CUPTI follows every call
 * of the runtime, at 1.5 µs a launch. */
static const struct wait {
	CUpti_CallbackId id;
	CUpti_ActivitySynchronizationType type;
	bool of_stream; /* which is the first parameter */
	bool per_thread;
} waits[] = {
#define WAIT(name, type, ...)                                                                      \
	{                                                                                          \
		CUPTI_DRIVER_TRACE_CBID_##name, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_##type,        \
			__VA_ARGS__                                                                \
	}
	WAIT(cuEventSynchronize, EVENT_SYNCHRONIZE, false, false),
	WAIT(cuStreamWaitEvent, STREAM_WAIT_EVENT, true, false),
	WAIT(cuStreamWaitEvent_ptsz, STREAM_WAIT_EVENT, true, true),
	WAIT(cuStreamSynchronize, STREAM_SYNCHRONIZE, true, false),
	WAIT(cuStreamSynchronize_ptsz, STREAM_SYNCHRONIZE, true, true),
	WAIT(cuCtxSynchronize, CONTEXT_SYNCHRONIZE, false, false),
	WAIT(cuCtxSynchronize_v2, CONTEXT_SYNCHRONIZE, false, false),
#undef WAIT
};

static bool chosen[2][CALL_IDS]; /* by domain; filled when CUPTI is loaded */
static bool by_callbacks[CALL_IDS];
static const struct wait *wait_of[CALL_IDS];
static bool all_on;

void cupti_calls_as_records(bool on)
{
	static const CUpti_ActivityKind kinds[] = { CUPTI_ACTIVITY_KIND_RUNTIME,
						    CUPTI_ACTIVITY_KIND_DRIVER,
						    CUPTI_ACTIVITY_KIND_SYNCHRONIZATION };

	for (size_t i = 0; on != all_on && i < COUNT(kinds); i++)
		if (on)
			cupti_api.cuptiActivityEnable(kinds[i]);
		else
			cupti_api.cuptiActivityDisable(kinds[i]);
	all_on = on;
}

void cupti_choose_calls(void)
{
	for (size_t i = 0; i < COUNT(runtime_calls); i++)
		if (runtime_calls[i] < CALL_IDS)
			chosen[0][runtime_calls[i]] = true;
	for (size_t i = 0; i < COUNT(driver_calls); i++)
		if (driver_calls[i] < CALL_IDS)
			chosen[1][driver_calls[i]] = by_callbacks[driver_calls[i]] = true;
	for (size_t i = 0; i < COUNT(made_by_runtime); i++)
		if (made_by_runtime[i] < CALL_IDS)
			by_callbacks[made_by_runtime[i]] = true;
	for (size_t i = 0; i < COUNT(waits); i++)
		if (waits[i].id < CALL_IDS)
			wait_of[waits[i].id] = &waits[i];
}

bool cupti_records_call(CUpti_CallbackId id)
{
	return id < CALL_IDS && (by_callbacks[id] || wait_of[id]);
}

bool cupti_is_chosen(CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
	return id < CALL_IDS && chosen[domain == CUPTI_CB_DOMAIN_DRIVER_API][id];
}

uint32_t cupti_call_name(CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
	/* Ids are small and names do not change: each is queried once. */
	static _Atomic uint32_t names[2][CALL_IDS];
	_Atomic uint32_t *known = id < CALL_IDS ? &names[domain == CUPTI_CB_DOMAIN_DRIVER_API][id]
						: NULL;
	const char *text = NULL;
	char plain[128];
	char *suffix;
	uint32_t name;

	if (known && *known)
		return *known;
	if (cupti_api.cuptiGetCallbackName(domain, id, &text) != CUPTI_SUCCESS || !text)
		text = "(unnamed call)";
	snprintf(plain, sizeof(plain), "%s", text);
	/* "cudaMemcpy_v3020" is cudaMemcpy to everyone else. */
	suffix = strstr(plain, "_v");
	if (suffix && suffix[2] >= '0' && suffix[2] <= '9')
		*suffix = 0;
	name = moescope_intern(plain);
	if (known)
		*known = name;
	return name;
}

static uint32_t stream_of(const struct wait *wait, const CUpti_CallbackData *data)
{
	CUstream const *stream = data->functionParams;
	uint32_t id;

	if (!wait->of_stream || !stream || !cupti_api.cuptiGetStreamIdEx ||
	    cupti_api.cuptiGetStreamIdEx(NULL, *stream, wait->per_thread, &id) != CUPTI_SUCCESS)
		return CUPTI_SYNCHRONIZATION_INVALID_VALUE;
	return id;
}

static void push_wait(const struct wait *wait, const struct row_api *call,
		      const CUpti_CallbackData *data)
{
	struct row_sync row = {
		.start_ns = call->start_ns,
		.duration_ns = call->duration_ns,
		.type = (uint8_t)wait->type,
		.context = data->contextUid,
		.stream = stream_of(wait, data),
		.correlation = call->correlation,
	};

	probe_push_device(RECORD_SYNC, &row, sizeof(row));
}

void cupti_call_ended(CUpti_CallbackId id, int64_t start_ns, uint32_t thread,
		      const CUpti_CallbackData *data)
{
	const int *status = data->functionReturnValue;
	struct row_api row = {
		.name = cupti_call_name(CUPTI_CB_DOMAIN_DRIVER_API, id),
		.start_ns = start_ns,
		.duration_ns = clock_monotonic_ns() - start_ns,
		.thread = thread,
		.correlation = data->correlationId,
		.driver = true,
		.status = status ? (uint32_t)*status : 0,
	};

	probe_on_program_thread = true;
	if (by_callbacks[id])
		probe_push_device(RECORD_API, &row, sizeof(row));
	if (wait_of[id])
		push_wait(wait_of[id], &row, data);
	probe_on_program_thread = false;
}
