/* SPDX-License-Identifier: Apache-2.0
 *
 * A driver with one GPU and the part of CUPTI that counts, for moescope-counters. The chip FAKE has four counters over
 * time, of which one does not fit into the pass. Its clock is five seconds ahead of the host's; the SMs are active in
 * every second tenth of a second of it.
 *
 * It counts kernels, too, for libmoescope-exact.so: a program takes it for its driver by fake_begin, and launches by
 * fake_call. The dram counters of launch number n, from 1, are 1000 n, its time 10 n, its operations 4000 n, the clock
 * always 1 GHz; the others have no value. sm__throughput needs five passes, l1tex__throughput three, both together seven.
 *
 * Every kernel adds one to a number in the GPU's memory, and to one in the host's if fake_parameter has given it that.
 * CUPTI's replay restores the former alone, as CUPTI does: fake_memory tells it, fake_runs how often kernels ran. What a
 * client may not do with the range profiler by its header returns the error that the header names.
 *
 * Samples of instructions are in fake_counters_samples.c.
 *
 * MOESCOPE_FAKE_COUNTERS: "denied" (no permission), "held" (by another profiler), "full" (every tenth drain loses),
 * "broken" (samples cannot be read), "newer" (than any that is known), "slow" (the range profiler is enabled in 1.5 s),
 * "short" (a replay ends before its last pass), "slowly" (each pass takes 2 ms), "opaque" (nobody tells what parameters
 * a kernel has), "pageable" (the GPU uses any memory of the process).
 */
#include <cuda.h>
#include <cupti.h>
#include <cupti_pmsampling.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fake_counters_inside.h"
#include "inject.h"

#define AHEAD_NS UINT64_C(5000000000)
#define TENTH_NS UINT64_C(100000000)

static const char *const metrics[] = { "sm__cycles_active", "dram__read_throughput",
				       "sm__warps_active", "pcie__read_bytes",
				       /* Of kernels. */
				       "dram__bytes", "gpu__time_duration",
				       "sm__ops_path_tensor_src_bf16", "gpc__cycles_elapsed",
				       /* Of several passes. */
				       "sm__throughput", "l1tex__throughput" };
#define N_METRICS (sizeof(metrics) / sizeof(metrics[0]))
static const char *const parts[] = { ".avg.pct_of_peak_sustained_elapsed", ".sum",
				     ".avg.per_second" };
#define N_PARTS (sizeof(parts) / sizeof(parts[0]))

/* A configuration: how many passes it needs. */
struct config {
	uint8_t passes;
};

/* A counter data image. */
struct data {
	size_t n, capacity;
	bool all_passes;  /* of kernels */
	uint64_t times[]; /* start of each */
};

static struct {
	uint64_t interval_ns, next_ns; /* of the device's clock */
	unsigned int drains, passes;
} device;

int fake_is(const char *what)
{
	const char *given = getenv("MOESCOPE_FAKE_COUNTERS");

	return given && !strcmp(given, what);
}

/* ---- a program's driver */

static struct {
	CUpti_CallbackFunc called;
	void *user;
	uint64_t launches; /* that ran */
	_Atomic uint64_t runs, memory;
	_Atomic bool replaying;
	struct object {
		CUcontext context;  /* NULL: disabled */
		const void *config; /* the first it was given */
		CUpti_ProfilerReplayMode mode;
		size_t passes, pass, most, dropped;
		struct data *data;
		bool started, stopped;
	} objects[256];
	unsigned int n_objects;
	struct object *counting; /* NULL: none is */
	bool confused; /* by a second configuration: only the time is counted, as CUPTI does it */
} exact;

/* What the next launches are given. */
static struct {
	uint64_t parameter;
	int *host; /* memory that kernels write, if not NULL */
	CUlaunchAttribute attribute;
	unsigned int n_attributes;
	size_t stream;
} given = { .parameter = 0xd00000000 };
static struct {
	size_t free, total;
	_Atomic int busy; /* looks at a stream until it has ended; -1: never */
	size_t busy_stream;
} gpu = { .free = 60, .total = 100 };

EXPORTED void fake_begin(void);
EXPORTED void fake_call(int id, const char *name, size_t context, int failed, int hidden);
EXPORTED void fake_signal_in_launch(void (*handler)(void));
EXPORTED void fake_parameter(uint64_t word, int *host);
EXPORTED void fake_attribute(int id, int value);
EXPORTED void fake_free_memory(size_t bytes);
EXPORTED void fake_stream(size_t stream, int busy);
EXPORTED void fake_into_stream(size_t stream);
EXPORTED void fake_first(uint64_t launch);
EXPORTED void fake_copy(void);
EXPORTED int fake_copies(void);
EXPORTED int fake_copies_beside(void);
EXPORTED void fake_capture(int begins);
EXPORTED int fake_broken_captures(void);
EXPORTED uint64_t fake_runs(void);
EXPORTED uint64_t fake_memory(void);
EXPORTED int fake_is_enabled(void);
EXPORTED int fake_is_replaying(void);

void fake_begin(void)
{
	inject();
}

/* A word among the parameters of the launches that follow; host: where they write, too. */
void fake_parameter(uint64_t word, int *host)
{
	given.parameter = word;
	given.host = host;
}

void fake_attribute(int id, int value)
{
	given.attribute = (CUlaunchAttribute){ .id = (CUlaunchAttributeID)id };
	memcpy(&given.attribute.value, &value, sizeof(value));
	given.n_attributes = 1;
}

void fake_free_memory(size_t bytes)
{
	gpu.free = bytes;
}

/* busy: so many looks say that it has not ended; -1: all. */
void fake_stream(size_t stream, int busy)
{
	gpu.busy_stream = stream;
	atomic_store(&gpu.busy, busy);
}

void fake_into_stream(size_t stream)
{
	given.stream = stream;
}

/* The number of the next launch. */
void fake_first(uint64_t launch)
{
	exact.launches = launch - 1;
}

static _Atomic int copies, copies_beside, captures, broken_captures;

/* A copy by another thread, which must not see a kernel that is replayed from its begin to its end. */
void fake_copy(void)
{
	CUresult result = CUDA_SUCCESS;
	CUpti_CallbackData data = { .callbackSite = CUPTI_API_ENTER,
				    .context = (CUcontext)1,
				    .functionReturnValue = &result };
	CUpti_CallbackId id = CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2;

	exact.called(exact.user, CUPTI_CB_DOMAIN_DRIVER_API, id, &data);
	atomic_fetch_add(&copies, 1);
	atomic_fetch_add(&copies_beside, atomic_load(&exact.replaying));
	sched_yield();
	atomic_fetch_add(&copies_beside, atomic_load(&exact.replaying));
	data.callbackSite = CUPTI_API_EXIT;
	exact.called(exact.user, CUPTI_CB_DOMAIN_DRIVER_API, id, &data);
}

int fake_copies(void)
{
	return atomic_load(&copies);
}

int fake_copies_beside(void)
{
	return atomic_load(&copies_beside);
}

/* A capture, which breaks if counters are set up meanwhile. */
void fake_capture(int begins)
{
	CUresult result = CUDA_SUCCESS;
	CUpti_CallbackData data = { .context = (CUcontext)1, .functionReturnValue = &result };
	CUpti_CallbackId id = begins ? CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2
				     : CUPTI_DRIVER_TRACE_CBID_cuStreamEndCapture;

	data.callbackSite = CUPTI_API_ENTER;
	exact.called(exact.user, CUPTI_CB_DOMAIN_DRIVER_API, id, &data);
	if (!begins)
		atomic_store(&captures, 0);
	else
		atomic_store(&captures, 1);
	sched_yield();
	data.callbackSite = CUPTI_API_EXIT;
	exact.called(exact.user, CUPTI_CB_DOMAIN_DRIVER_API, id, &data);
}

int fake_broken_captures(void)
{
	return atomic_load(&broken_captures);
}

uint64_t fake_runs(void)
{
	return atomic_load(&exact.runs);
}

uint64_t fake_memory(void)
{
	return atomic_load(&exact.memory);
}

int fake_is_enabled(void)
{
	for (unsigned int i = 0; i < 256; i++)
		if (exact.objects[i].context)
			return 1;
	return 0;
}

int fake_is_replaying(void)
{
	return atomic_load(&exact.replaying);
}

static void write_memory(void)
{
	atomic_fetch_add(&exact.runs, 1);
	atomic_fetch_add(&exact.memory, 1);
	if (given.host)
		++*given.host;
}

static void kernel_runs(CUcontext context)
{
	struct object *counting = exact.counting;
	const struct timespec moment = { .tv_nsec = 2000000 };
	uint64_t saved = atomic_load(&exact.memory);

	exact.launches++;
	if (!counting || counting->context != context) {
		write_memory();
		return;
	}
	if (counting->data->n < counting->data->capacity && counting->data->n < counting->most)
		counting->data->times[counting->data->n++] = exact.launches;
	else
		counting->dropped++;
	if (counting->mode == CUPTI_UserReplay) {
		write_memory();
		return;
	}
	atomic_store(&exact.replaying, true);
	for (counting->pass = 0; counting->pass < counting->passes; counting->pass++) {
		atomic_store(&exact.memory, saved);
		write_memory();
		if (fake_is("slowly"))
			nanosleep(&moment, NULL);
		if (fake_is("short") && counting->pass + 2 == counting->passes)
			break;
	}
	atomic_store(&exact.replaying, false);
}

static void (*handler_in_launch)(void);

/* Once, between the begin and the end of the next call: what a handler of a signal does there. */
void fake_signal_in_launch(void (*handler)(void))
{
	handler_in_launch = handler;
}

/* A call of the driver: a launch if it has a name. failed: it does nothing. hidden: the driver has a kernel of its own
 * for it. */
void fake_call(int id, const char *name, size_t context, int failed, int hidden)
{
	uint64_t word = given.parameter;
	void *parameters[] = { &word };
	CUlaunchConfig config = { .gridDimX = 2,
				  .gridDimY = 1,
				  .gridDimZ = 1,
				  .blockDimX = 32,
				  .hStream = (CUstream)given.stream,
				  .attrs = &given.attribute,
				  .numAttrs = given.n_attributes };
	cuLaunchKernel_params plain = { .gridDimX = 2,
					.gridDimY = 1,
					.gridDimZ = 1,
					.blockDimX = 32,
					.hStream = (CUstream)given.stream,
					.kernelParams = parameters };
	cuLaunchKernelEx_params extended = { .config = &config, .kernelParams = parameters };
	cuGraphLaunch_params graph = { .hStream = (CUstream)given.stream };
	CUstream created = (CUstream)given.stream;
	cuStreamCreate_params creation = { .phStream = &created };
	cuStreamDestroy_v2_params destruction = { .hStream = (CUstream)given.stream };
	CUresult result = failed ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	CUpti_CallbackData data = {
		.callbackSite = CUPTI_API_ENTER,
		.symbolName = name,
		.context = (CUcontext)context,
		.contextUid = (uint32_t)context,
		.functionReturnValue = &result,
		.functionParams = id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx ? (void *)&extended
				  : id == CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch	 ? (void *)&graph
				  : id == CUPTI_DRIVER_TRACE_CBID_cuStreamCreate ? (void *)&creation
				  : id == CUPTI_DRIVER_TRACE_CBID_cuStreamDestroy_v2
					  ? (void *)&destruction
					  : (void *)&plain,
	};
	void (*handler)(void) = handler_in_launch;

	if (exact.called)
		exact.called(exact.user, CUPTI_CB_DOMAIN_DRIVER_API, (CUpti_CallbackId)id, &data);
	if (handler) {
		handler_in_launch = NULL;
		handler();
	}
	if (name && !failed)
		kernel_runs(data.context);
	if (hidden)
		kernel_runs(data.context);
	data.callbackSite = CUPTI_API_EXIT;
	if (exact.called)
		exact.called(exact.user, CUPTI_CB_DOMAIN_DRIVER_API, (CUpti_CallbackId)id, &data);
}

/* ---- the driver, as the library asks it inside of a launch */

EXPORTED CUresult cuStreamQuery(CUstream stream)
{
	int busy = atomic_load(&gpu.busy);

	if ((size_t)stream != gpu.busy_stream || !busy)
		return CUDA_SUCCESS;
	if (busy > 0)
		atomic_fetch_sub(&gpu.busy, 1);
	return CUDA_ERROR_NOT_READY;
}

EXPORTED CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice number)
{
	(void)number;
	*value = attribute == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS && fake_is("pageable");
	return CUDA_SUCCESS;
}

/* 0xd…: of the first GPU; 0xe…: of another; 0xf…: managed; 0xa…: of the host, mapped. */
EXPORTED CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr at)
{
	unsigned int of = (unsigned int)(at >> 32);

	if (of != 0xd && of != 0xe && of != 0xf && of != 0xa)
		return CUDA_ERROR_INVALID_VALUE;
	if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
		*(unsigned int *)value = of == 0xa ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
	else if (attribute == CU_POINTER_ATTRIBUTE_IS_MANAGED)
		*(unsigned int *)value = of == 0xf;
	else if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
		*(int *)value = of == 0xe;
	else
		return CUDA_ERROR_NOT_SUPPORTED;
	return CUDA_SUCCESS;
}

EXPORTED CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	*free_bytes = gpu.free;
	*total = gpu.total;
	return CUDA_SUCCESS;
}

/* Every kernel is one of a library: it has this handle alone. */
EXPORTED CUresult cuFuncGetParamInfo(CUfunction function, size_t i, size_t *offset, size_t *size)
{
	(void)function, (void)i, (void)offset, (void)size;
	return CUDA_ERROR_INVALID_HANDLE;
}

EXPORTED CUresult cuKernelGetParamInfo(CUkernel kernel, size_t i, size_t *offset, size_t *size)
{
	(void)kernel;
	if (fake_is("opaque"))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (i > 0)
		return CUDA_ERROR_INVALID_VALUE;
	*offset = 0;
	*size = sizeof(uint64_t);
	return CUDA_SUCCESS;
}

/* ---- CUPTI inside of the program */

void fake_tell_resource(CUpti_CallbackId id, CUcontext context, void *what)
{
	CUpti_ResourceData data = { .context = context, .resourceDescriptor = what };

	if (exact.called)
		exact.called(exact.user, CUPTI_CB_DOMAIN_RESOURCE, id, &data);
}

EXPORTED CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc called,
				    void *user)
{
	exact.called = called;
	exact.user = user;
	*subscriber = (void *)&exact;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiEnableCallback(uint32_t on, CUpti_SubscriberHandle subscriber,
					 CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
	(void)on, (void)subscriber, (void)domain, (void)id;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiGetDeviceId(CUcontext context, uint32_t *number)
{
	*number = (uint32_t)(size_t)context - 1;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiEnableDomain(uint32_t on, CUpti_SubscriberHandle subscriber,
				       CUpti_CallbackDomain domain)
{
	(void)on, (void)subscriber, (void)domain;
	return CUPTI_SUCCESS;
}

/* A block of parameters as the header wants it: its size, and nothing of our own in it. */
#define IS_BLOCK(params, Name)                                                                     \
	((params)->structSize == CUpti_RangeProfiler_##Name##_Params_STRUCT_SIZE &&                \
	 !(params)->pPriv)

/* NULL: there is none, or it has been disabled. */
static struct object *object_of(CUpti_RangeProfiler_Object *given_object)
{
	struct object *object = (void *)given_object;

	return object && object->context ? object : NULL;
}

EXPORTED CUptiResult cuptiRangeProfilerEnable(CUpti_RangeProfiler_Enable_Params *params)
{
	struct object *object = &exact.objects[exact.n_objects++ % 256];
	const struct timespec slow = { .tv_sec = 1, .tv_nsec = 500000000 };

	if (!IS_BLOCK(params, Enable))
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (fake_is("slow"))
		nanosleep(&slow, NULL);
	for (unsigned int i = 0; i < 256; i++)
		if (exact.objects[i].context == params->ctx)
			return CUPTI_ERROR_INVALID_OPERATION;
	if (fake_is("held"))
		return CUPTI_ERROR_INVALID_OPERATION;
	*object = (struct object){ .context = params->ctx };
	params->pRangeProfilerObject = (void *)object;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiRangeProfilerDisable(CUpti_RangeProfiler_Disable_Params *params)
{
	struct object *object = object_of(params->pRangeProfilerObject);

	if (!IS_BLOCK(params, Disable) || !object || object->started)
		return CUPTI_ERROR_INVALID_PARAMETER;
	object->context = NULL;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult
cuptiRangeProfilerGetCounterDataSize(CUpti_RangeProfiler_GetCounterDataSize_Params *params)
{
	if (!IS_BLOCK(params, GetCounterDataSize) || !object_of(params->pRangeProfilerObject) ||
	    params->maxNumRangeTreeNodes < params->maxNumOfRanges)
		return CUPTI_ERROR_INVALID_PARAMETER;
	params->counterDataSize = sizeof(struct data) + params->maxNumOfRanges * sizeof(uint64_t);
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiRangeProfilerCounterDataImageInitialize(
	CUpti_RangeProfiler_CounterDataImage_Initialize_Params *params)
{
	struct data *data = (void *)params->pCounterData;

	if (!IS_BLOCK(params, CounterDataImage_Initialize) ||
	    !object_of(params->pRangeProfilerObject))
		return CUPTI_ERROR_INVALID_PARAMETER;
	data->n = 0;
	data->all_passes = false;
	data->capacity = (params->counterDataSize - sizeof(*data)) / sizeof(uint64_t);
	return CUPTI_SUCCESS;
}

/* A pass of the caller's own replay is one of those that the configuration needs; CUPTI's begins with the first. */
EXPORTED CUptiResult cuptiRangeProfilerSetConfig(CUpti_RangeProfiler_SetConfig_Params *params)
{
	struct object *object = object_of(params->pRangeProfilerObject);
	const struct config *config = (const void *)params->pConfig;

	if (!IS_BLOCK(params, SetConfig) || !object || object->started ||
	    params->configSize != sizeof(*config) || params->range != CUPTI_AutoRange ||
	    params->numNestingLevels != 1 || params->minNestingLevel != 1 ||
	    !params->maxRangesPerPass || !params->pCounterDataImage ||
	    (params->replayMode != CUPTI_UserReplay && params->replayMode != CUPTI_KernelReplay) ||
	    params->passIndex >=
		    (params->replayMode == CUPTI_KernelReplay ? 1u : (size_t)config->passes))
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (!object->config)
		object->config = params->pConfig;
	exact.confused = object->config != params->pConfig;
	object->mode = params->replayMode;
	object->passes = config->passes;
	object->pass = params->passIndex;
	object->most = params->maxRangesPerPass;
	object->data = (void *)params->pCounterDataImage;
	object->stopped = false;
	object->dropped = 0;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiRangeProfilerStart(CUpti_RangeProfiler_Start_Params *params)
{
	struct object *object = object_of(params->pRangeProfilerObject);

	if (!IS_BLOCK(params, Start))
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (!object || !object->data || object->started)
		return CUPTI_ERROR_INVALID_OPERATION;
	atomic_fetch_add(&broken_captures, atomic_load(&captures));
	object->started = true;
	exact.counting = object;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiRangeProfilerStop(CUpti_RangeProfiler_Stop_Params *params)
{
	struct object *object = object_of(params->pRangeProfilerObject);

	if (!IS_BLOCK(params, Stop))
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (!object || !object->started)
		return CUPTI_ERROR_INVALID_OPERATION;
	exact.counting = NULL;
	object->started = false;
	object->stopped = true;
	if (object->mode == CUPTI_UserReplay)
		object->pass++;
	params->passIndex = object->pass;
	params->isAllPassSubmitted = object->pass >= object->passes;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiRangeProfilerDecodeData(CUpti_RangeProfiler_DecodeData_Params *params)
{
	struct object *object = object_of(params->pRangeProfilerObject);

	if (!IS_BLOCK(params, DecodeData))
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (!object || !object->stopped)
		return CUPTI_ERROR_INVALID_OPERATION;
	object->data->all_passes = object->pass >= object->passes;
	params->numOfRangeDropped = object->dropped;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult
cuptiRangeProfilerGetCounterDataInfo(CUpti_RangeProfiler_GetCounterDataInfo_Params *params)
{
	if (!IS_BLOCK(params, GetCounterDataInfo))
		return CUPTI_ERROR_INVALID_PARAMETER;
	params->numTotalRanges = ((const struct data *)(const void *)params->pCounterDataImage)->n;
	return CUPTI_SUCCESS;
}

/* ---- counters */

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec + AHEAD_NS;
}

EXPORTED CUresult cuInit(unsigned int flags)
{
	(void)flags;
	return getenv("CUDA_INJECTION64_PATH") ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

EXPORTED CUresult cuDeviceGetCount(int *count)
{
	*count = 1;
	return CUDA_SUCCESS;
}

EXPORTED CUresult cuDeviceGetName(char *name, int size, CUdevice number)
{
	(void)number;
	strncpy(name, "Fake GPU", (size_t)size);
	return CUDA_SUCCESS;
}

EXPORTED CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice number)
{
	(void)number;
	memset(uuid, 0x11, sizeof(*uuid));
	return CUDA_SUCCESS;
}

EXPORTED CUptiResult cuptiGetResultString(CUptiResult result, const char **text)
{
	*text = result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES
			? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
		: result == CUPTI_ERROR_INVALID_OPERATION ? "CUPTI_ERROR_INVALID_OPERATION"
							  : "CUPTI_ERROR_UNKNOWN";
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiProfilerInitialize(CUpti_Profiler_Initialize_Params *params)
{
	(void)params;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiDeviceGetChipName(CUpti_Device_GetChipName_Params *params)
{
	params->pChipName = "FAKE";
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiProfilerHostInitialize(CUpti_Profiler_Host_Initialize_Params *params)
{
	if (strcmp(params->pChipName, "FAKE") != 0)
		return CUPTI_ERROR_UNKNOWN;
	params->pHostObject = (void *)&device;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiProfilerHostDeinitialize(CUpti_Profiler_Host_Deinitialize_Params *params)
{
	(void)params;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult
cuptiProfilerHostGetBaseMetrics(CUpti_Profiler_Host_GetBaseMetrics_Params *params)
{
	params->numMetrics = params->metricType == CUPTI_METRIC_TYPE_COUNTER ? N_METRICS : 0;
	params->ppMetricNames = (const char **)metrics;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult
cuptiProfilerHostGetSubMetrics(CUpti_Profiler_Host_GetSubMetrics_Params *params)
{
	params->numOfSubmetrics = N_PARTS;
	params->ppSubMetrics = (const char **)parts;
	return CUPTI_SUCCESS;
}

/* More than three of one pass each need a second; those that need several share the first with the others. */
EXPORTED CUptiResult
cuptiProfilerHostConfigAddMetrics(CUpti_Profiler_Host_ConfigAddMetrics_Params *params)
{
	unsigned int simple = 0;

	device.passes = 1;
	for (size_t i = 0; i < params->numMetrics; i++) {
		bool sm = !strncmp(params->ppMetricNames[i], "sm__throughput", 14);
		bool l1 = !strncmp(params->ppMetricNames[i], "l1tex__throughput", 17);

		device.passes += sm ? 4 : l1 ? 2 : 0;
		simple += !sm && !l1;
	}
	device.passes += simple > 3;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult
cuptiProfilerHostGetConfigImageSize(CUpti_Profiler_Host_GetConfigImageSize_Params *params)
{
	params->configImageSize = sizeof(struct config);
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult
cuptiProfilerHostGetConfigImage(CUpti_Profiler_Host_GetConfigImage_Params *params)
{
	*(struct config *)(void *)params->pConfigImage =
		(struct config){ .passes = (uint8_t)device.passes };
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult
cuptiProfilerHostGetNumOfPasses(CUpti_Profiler_Host_GetNumOfPasses_Params *params)
{
	params->numOfPasses = ((const struct config *)(const void *)params->pConfigImage)->passes;
	return CUPTI_SUCCESS;
}

static double of_metric(const char *metric)
{
	if (!strncmp(metric, "gpu__time", 9))
		return 10;
	if (exact.confused)
		return NAN;
	return !strncmp(metric, "dram", 4)		   ? 1000
	       : !strncmp(metric, "sm__ops", 7)		   ? 4000
	       : !strncmp(metric, "sm__throughput", 14)	   ? 0.01
	       : !strncmp(metric, "l1tex__throughput", 17) ? 2
							   : NAN;
}

static double of_launch(const char *metric, uint64_t n)
{
	if (!strncmp(metric, "gpc__", 5))
		return exact.confused ? NAN : 1e9;
	return of_metric(metric) * (double)n;
}

EXPORTED CUptiResult
cuptiProfilerHostEvaluateToGpuValues(CUpti_Profiler_Host_EvaluateToGpuValues_Params *params)
{
	const struct data *data = (const void *)params->pCounterDataImage;
	uint64_t middle = data->times[params->rangeIndex] + device.interval_ns / 2;

	for (size_t i = 0; !device.interval_ns && i < params->numMetrics; i++)
		params->pMetricValues[i] = data->all_passes
						   ? of_launch(params->ppMetricNames[i],
							       data->times[params->rangeIndex])
						   : NAN;
	for (size_t i = 0; device.interval_ns && i < params->numMetrics; i++)
		params->pMetricValues[i] = !strncmp(params->ppMetricNames[i], "sm__cycles", 10)
						   ? middle / TENTH_NS % 2 ? 80 : 0
					   : !strncmp(params->ppMetricNames[i], "dram", 4) ? 25
											   : NAN;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult
cuptiPmSamplingGetCounterAvailability(CUpti_PmSampling_GetCounterAvailability_Params *params)
{
	params->counterAvailabilityImageSize = 1;
	return fake_is("denied") ? CUPTI_ERROR_INSUFFICIENT_PRIVILEGES : CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiPmSamplingEnable(CUpti_PmSampling_Enable_Params *params)
{
	params->pPmSamplingObject = (void *)&device;
	return fake_is("held") ? CUPTI_ERROR_INVALID_OPERATION : CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiPmSamplingDisable(CUpti_PmSampling_Disable_Params *params)
{
	(void)params;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiPmSamplingSetConfig(CUpti_PmSampling_SetConfig_Params *params)
{
	device.interval_ns = params->samplingInterval;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiPmSamplingStart(CUpti_PmSampling_Start_Params *params)
{
	(void)params;
	device.next_ns = now_ns();
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiPmSamplingStop(CUpti_PmSampling_Stop_Params *params)
{
	(void)params;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult
cuptiPmSamplingGetCounterDataSize(CUpti_PmSampling_GetCounterDataSize_Params *params)
{
	params->counterDataSize = sizeof(struct data) + params->maxSamples * sizeof(uint64_t);
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiPmSamplingCounterDataImageInitialize(
	CUpti_PmSampling_CounterDataImage_Initialize_Params *params)
{
	struct data *data = (void *)params->pCounterData;

	data->n = 0;
	data->capacity = (params->counterDataSize - sizeof(*data)) / sizeof(uint64_t);
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiPmSamplingDecodeData(CUpti_PmSampling_DecodeData_Params *params)
{
	struct data *data = (void *)params->pCounterDataImage;
	uint64_t until_ns = now_ns();

	while (device.next_ns + device.interval_ns <= until_ns && data->n < data->capacity) {
		data->times[data->n++] = device.next_ns;
		device.next_ns += device.interval_ns;
	}
	params->decodeStopReason = data->n == data->capacity
					   ? CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL
					   : CUPTI_PM_SAMPLING_DECODE_STOP_REASON_END_OF_RECORDS;
	params->overflow = fake_is("full") && ++device.drains % 10 == 0;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult
cuptiPmSamplingGetCounterDataInfo(CUpti_PmSampling_GetCounterDataInfo_Params *params)
{
	const struct data *data = (const void *)params->pCounterDataImage;

	params->numTotalSamples = params->numPopulatedSamples = params->numCompletedSamples =
		data->n;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult
cuptiPmSamplingCounterDataGetSampleInfo(CUpti_PmSampling_CounterData_GetSampleInfo_Params *params)
{
	const struct data *data = (const void *)params->pCounterDataImage;

	params->startTimestamp = data->times[params->sampleIndex];
	params->endTimestamp = params->startTimestamp + device.interval_ns;
	return CUPTI_SUCCESS;
}
