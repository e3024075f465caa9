/* SPDX-License-Identifier: Apache-2.0
 *
 * A driver with one GPU and the part of CUPTI that counts, for moescope-counters. The chip FAKE has four counters over
 * time, of which one does not fit into the pass. Its clock is five seconds ahead of the host's; the SMs are active in
 * every second tenth of a second of it.
 *
 * It counts kernels, too, for libmoescope-exact.so: a program takes it for its driver by fake_begin, and launches by
 * fake_call. The dram counters of launch number n, from 1, are 1000 n, its time 10 n, its operations 4000 n; the others
 * have no value.
 *
 * MOESCOPE_FAKE_COUNTERS: "denied" (no permission), "held" (by another profiler), "full" (every tenth drain loses).
 */
#include <cuda.h>
#include <cupti.h>
#include <cupti_pmsampling.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "inject.h"

#define EXPORTED __attribute__((visibility("default")))
#define AHEAD_NS UINT64_C(5000000000)
#define TENTH_NS UINT64_C(100000000)

static const char *const metrics[] = { "sm__cycles_active", "dram__read_throughput",
				       "sm__warps_active", "pcie__read_bytes",
				       /* Of kernels. */
				       "dram__bytes", "gpu__time_duration",
				       "sm__ops_path_tensor_src_bf16" };
#define N_METRICS (sizeof(metrics) / sizeof(metrics[0]))
static const char *const parts[] = { ".avg.pct_of_peak_sustained_elapsed", ".sum" };

/* A counter data image. */
struct data {
	size_t n, capacity;
	uint64_t times[]; /* start of each */
};

static struct {
	uint64_t interval_ns, next_ns; /* of the device's clock */
	unsigned int drains, added;
} device;

static int is(const char *what)
{
	const char *given = getenv("MOESCOPE_FAKE_COUNTERS");

	return given && !strcmp(given, what);
}

/* ---- a program's driver */

static struct {
	CUpti_CallbackFunc called;
	void *user;
	struct data *data;
	uint64_t launches;     /* that ran */
	CUcontext contexts[8]; /* of objects */
	unsigned int objects;
	CUcontext counted; /* NULL: none is */
} exact;

EXPORTED void fake_begin(void);
EXPORTED void fake_call(int id, const char *name, size_t context, int failed, int hidden);

void fake_begin(void)
{
	inject();
}

static void kernel_runs(CUcontext context)
{
	exact.launches++;
	if (exact.counted == context && exact.data->n < exact.data->capacity)
		exact.data->times[exact.data->n++] = exact.launches;
}

/* A call of the driver: a launch if it has a name. failed: it does nothing. hidden: the driver has a kernel of its own
 * for it. */
void fake_call(int id, const char *name, size_t context, int failed, int hidden)
{
	CUlaunchConfig config = { .gridDimX = 2, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 32 };
	cuLaunchKernel_params plain = {
		.gridDimX = 2, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 32
	};
	cuLaunchKernelEx_params extended = { .config = &config };
	CUresult result = failed ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	CUpti_CallbackData data = {
		.callbackSite = CUPTI_API_ENTER,
		.symbolName = name,
		.context = (CUcontext)context,
		.contextUid = (uint32_t)context,
		.functionReturnValue = &result,
		.functionParams = id == CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx ? (void *)&extended
										 : (void *)&plain,
	};

	if (exact.called)
		exact.called(exact.user, CUPTI_CB_DOMAIN_DRIVER_API, (CUpti_CallbackId)id, &data);
	if (name && !failed)
		kernel_runs(data.context);
	if (hidden)
		kernel_runs(data.context);
	data.callbackSite = CUPTI_API_EXIT;
	if (exact.called)
		exact.called(exact.user, CUPTI_CB_DOMAIN_DRIVER_API, (CUpti_CallbackId)id, &data);
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

EXPORTED CUptiResult cuptiRangeProfilerEnable(CUpti_RangeProfiler_Enable_Params *params)
{
	exact.contexts[exact.objects] = params->ctx;
	params->pRangeProfilerObject = (void *)&exact.contexts[exact.objects++];
	return is("held") ? CUPTI_ERROR_INVALID_OPERATION : CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiRangeProfilerDisable(CUpti_RangeProfiler_Disable_Params *params)
{
	(void)params;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult
cuptiRangeProfilerGetCounterDataSize(CUpti_RangeProfiler_GetCounterDataSize_Params *params)
{
	params->counterDataSize = sizeof(struct data) + params->maxNumOfRanges * sizeof(uint64_t);
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiRangeProfilerCounterDataImageInitialize(
	CUpti_RangeProfiler_CounterDataImage_Initialize_Params *params)
{
	struct data *data = (void *)params->pCounterData;

	data->n = 0;
	data->capacity = (params->counterDataSize - sizeof(*data)) / sizeof(uint64_t);
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiRangeProfilerSetConfig(CUpti_RangeProfiler_SetConfig_Params *params)
{
	exact.data = (void *)params->pCounterDataImage;
	return params->passIndex == 0 && params->replayMode == CUPTI_UserReplay
		       ? CUPTI_SUCCESS
		       : CUPTI_ERROR_INVALID_PARAMETER;
}

EXPORTED CUptiResult cuptiRangeProfilerStart(CUpti_RangeProfiler_Start_Params *params)
{
	exact.counted = *(CUcontext *)(void *)params->pRangeProfilerObject;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiRangeProfilerStop(CUpti_RangeProfiler_Stop_Params *params)
{
	exact.counted = NULL;
	params->isAllPassSubmitted = 1;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiRangeProfilerDecodeData(CUpti_RangeProfiler_DecodeData_Params *params)
{
	params->numOfRangeDropped = 0;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult
cuptiRangeProfilerGetCounterDataInfo(CUpti_RangeProfiler_GetCounterDataInfo_Params *params)
{
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
	device.added = 0;
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
	params->numOfSubmetrics = 2;
	params->ppSubMetrics = (const char **)parts;
	return CUPTI_SUCCESS;
}

/* More than three need a second pass. */
EXPORTED CUptiResult
cuptiProfilerHostConfigAddMetrics(CUpti_Profiler_Host_ConfigAddMetrics_Params *params)
{
	device.added = (unsigned int)params->numMetrics;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult
cuptiProfilerHostGetConfigImageSize(CUpti_Profiler_Host_GetConfigImageSize_Params *params)
{
	params->configImageSize = 1;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult
cuptiProfilerHostGetConfigImage(CUpti_Profiler_Host_GetConfigImage_Params *params)
{
	params->pConfigImage[0] = (uint8_t)device.added;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult
cuptiProfilerHostGetNumOfPasses(CUpti_Profiler_Host_GetNumOfPasses_Params *params)
{
	params->numOfPasses = params->pConfigImage[0] > 3 ? 2 : 1;
	return CUPTI_SUCCESS;
}

static double of_launch(const char *metric)
{
	if (!strncmp(metric, "dram", 4))
		return 1000;
	return !strncmp(metric, "gpu__time", 9) ? 10 : !strncmp(metric, "sm__ops", 7) ? 4000 : NAN;
}

EXPORTED CUptiResult
cuptiProfilerHostEvaluateToGpuValues(CUpti_Profiler_Host_EvaluateToGpuValues_Params *params)
{
	const struct data *data = (const void *)params->pCounterDataImage;
	uint64_t middle = data->times[params->rangeIndex] + device.interval_ns / 2;

	for (size_t i = 0; !device.interval_ns && i < params->numMetrics; i++)
		params->pMetricValues[i] = of_launch(params->ppMetricNames[i]) *
					   (double)data->times[params->rangeIndex];
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
	return is("denied") ? CUPTI_ERROR_INSUFFICIENT_PRIVILEGES : CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiPmSamplingEnable(CUpti_PmSampling_Enable_Params *params)
{
	params->pPmSamplingObject = (void *)&device;
	return is("held") ? CUPTI_ERROR_INVALID_OPERATION : CUPTI_SUCCESS;
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
	params->overflow = is("full") && ++device.drains % 10 == 0;
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
