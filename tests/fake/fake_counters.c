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
 * It samples instructions, as it is told to by fake_sample, in contexts that fake_context has made. Line n of
 * /src/KERNEL.cu has the instruction at 16 n; a cubin's checksum is its size.
 *
 * MOESCOPE_FAKE_COUNTERS: "denied" (no permission), "held" (by another profiler), "full" (every tenth drain loses),
 * "broken" (samples cannot be read), "newer" (than any that is known), "slow" (the range profiler is enabled in 1.5 s).
 */
#include <cuda.h>
#include <cupti.h>
#include <cupti_pcsampling.h>
#include <cupti_pmsampling.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
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
	uint64_t launches; /* that ran */
	struct object {
		CUcontext context;
		const void *config; /* the first it was given */
	} objects[256];
	unsigned int n_objects;
	CUcontext counted; /* NULL: none is */
	bool confused; /* by a second configuration: only the time is counted, as CUPTI does it */
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
	struct object *object = &exact.objects[exact.n_objects++ % 256];
	const struct timespec slow = { .tv_sec = 1, .tv_nsec = 500000000 };

	if (is("slow"))
		nanosleep(&slow, NULL);
	*object = (struct object){ .context = params->ctx };
	params->pRangeProfilerObject = (void *)object;
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
	struct object *object = (void *)params->pRangeProfilerObject;

	if (!object->config)
		object->config = params->pConfig;
	exact.confused = object->config != params->pConfig;
	exact.data = (void *)params->pCounterDataImage;
	return params->passIndex == 0 && params->replayMode == CUPTI_UserReplay
		       ? CUPTI_SUCCESS
		       : CUPTI_ERROR_INVALID_PARAMETER;
}

EXPORTED CUptiResult cuptiRangeProfilerStart(CUpti_RangeProfiler_Start_Params *params)
{
	exact.counted = ((struct object *)(void *)params->pRangeProfilerObject)->context;
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

/* ---- samples of instructions */

#define SAMPLES_MOST 100000
static const char *const reasons[] = {
	"smsp__pcsamp_warps_issue_stalled_long_scoreboard",
	"smsp__pcsamp_warps_issue_stalled_long_scoreboard_not_issued",
	"smsp__pcsamp_warps_issue_stalled_selected", "smsp__pcsamp_warps_issue_stalled_barrier"
};
#define N_REASONS (sizeof(reasons) / sizeof(reasons[0]))
#define NUMBER_OF(reason) (7 + 3 * (reason)) /* not from 0, with gaps */

static pthread_mutex_t samples_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	CUcontext context;
	char kernel[64];
	uint64_t module, offset;
	uint32_t reason, samples;
} samples[SAMPLES_MOST];
static size_t n_samples;
static uint64_t samples_dropped;
static _Atomic int fetches;
static CUpti_PCSamplingData *at_end[8]; /* where the rest of a context goes */
#define AT_END(context) at_end[(size_t)(context) % 8]

EXPORTED void fake_context(size_t context, int begins);
EXPORTED void fake_module(size_t context, const void *cubin, size_t size, int begins);
EXPORTED void fake_sample(size_t context, const char *kernel, uint64_t module, uint64_t offset,
			  int reason, uint32_t n);
EXPORTED void fake_dropped(uint64_t n);
/* How often samples were asked for. */
EXPORTED int fake_fetches(void);

static void hand_out(CUcontext context, CUpti_PCSamplingData *data, size_t most);

static void tell_resource(CUpti_CallbackId id, CUcontext context, void *what)
{
	CUpti_ResourceData data = { .context = context, .resourceDescriptor = what };

	if (exact.called)
		exact.called(exact.user, CUPTI_CB_DOMAIN_RESOURCE, id, &data);
}

void fake_context(size_t context, int begins)
{
	tell_resource(begins ? CUPTI_CBID_RESOURCE_CONTEXT_CREATED
			     : CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING,
		      (CUcontext)context, NULL);
}

void fake_module(size_t context, const void *cubin, size_t size, int begins)
{
	CUpti_ModuleResourceData module = { .cubinSize = size, .pCubin = cubin };
	static _Atomic bool gone[8]; /* a module has been unloaded from the context */

	/* What was not fetched by then is put aside. */
	if (begins && atomic_exchange(&gone[context % 8], false) && AT_END(context))
		hand_out((CUcontext)context, AT_END(context), AT_END(context)->collectNumPcs);
	if (!begins)
		atomic_store(&gone[context % 8], true);
	tell_resource(begins ? CUPTI_CBID_RESOURCE_MODULE_LOADED
			     : CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING,
		      (CUcontext)context, &module);
}

void fake_sample(size_t context, const char *kernel, uint64_t module, uint64_t offset, int reason,
		 uint32_t n)
{
	pthread_mutex_lock(&samples_lock);
	if (n_samples < SAMPLES_MOST) {
		samples[n_samples].context = (CUcontext)context;
		strncpy(samples[n_samples].kernel, kernel, sizeof(samples[0].kernel) - 1);
		samples[n_samples].module = module;
		samples[n_samples].offset = offset;
		samples[n_samples].reason = (uint32_t)NUMBER_OF(reason);
		samples[n_samples++].samples = n;
	}
	pthread_mutex_unlock(&samples_lock);
}

void fake_dropped(uint64_t n)
{
	pthread_mutex_lock(&samples_lock);
	samples_dropped += n;
	pthread_mutex_unlock(&samples_lock);
}

int fake_fetches(void)
{
	return atomic_load(&fetches);
}

EXPORTED CUptiResult cuptiGetVersion(uint32_t *version)
{
	*version = is("newer") ? 999999 : CUPTI_API_VERSION;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiGetContextId(CUcontext context, uint32_t *id)
{
	*id = (uint32_t)(size_t)context;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiPCSamplingEnable(CUpti_PCSamplingEnableParams *params)
{
	(void)params;
	return is("denied") ? CUPTI_ERROR_INSUFFICIENT_PRIVILEGES
	       : is("held") ? CUPTI_ERROR_INVALID_OPERATION
			    : CUPTI_SUCCESS;
}

EXPORTED CUptiResult
cuptiPCSamplingGetNumStallReasons(CUpti_PCSamplingGetNumStallReasonsParams *params)
{
	*params->numStallReasons = N_REASONS;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiPCSamplingGetStallReasons(CUpti_PCSamplingGetStallReasonsParams *params)
{
	for (size_t i = 0; i < params->numStallReasons; i++) {
		params->stallReasonIndex[i] = (uint32_t)NUMBER_OF(i);
		snprintf(params->stallReasons[i], CUPTI_STALL_REASON_STRING_SIZE, "%s", reasons[i]);
	}
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult
cuptiPCSamplingSetConfigurationAttribute(CUpti_PCSamplingConfigurationInfoParams *params)
{
	for (size_t i = 0; i < params->numAttributes; i++)
		if (params->pPCSamplingConfigurationInfo[i].attributeType ==
		    CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_DATA_BUFFER)
			AT_END(params->ctx) =
				params->pPCSamplingConfigurationInfo[i]
					.attributeData.samplingDataBufferData.samplingDataBuffer;
	return AT_END(params->ctx) ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

EXPORTED CUptiResult
cuptiPCSamplingGetConfigurationAttribute(CUpti_PCSamplingConfigurationInfoParams *params)
{
	params->pPCSamplingConfigurationInfo[0].attributeData.samplingPeriodData.samplingPeriod =
		14;
	return CUPTI_SUCCESS;
}

/* As CUPTI's, it lives on. */
static char *shared_name(const char *kernel)
{
	static char names[64][sizeof(samples[0].kernel)];
	size_t i = 0;

	while (i < 63 && names[i][0] && strcmp(names[i], kernel) != 0)
		i++;
	if (!names[i][0])
		strcpy(names[i], kernel);
	return names[i];
}

/* At most `most` of a context, and how many are left. */
static void hand_out(CUcontext context, CUpti_PCSamplingData *data, size_t most)
{
	size_t kept = 0;

	pthread_mutex_lock(&samples_lock);
	for (size_t i = 0; i < n_samples; i++) {
		CUpti_PCSamplingPCData *pc = &data->pPcData[data->totalNumPcs];

		if (samples[i].context != context || data->totalNumPcs == most) {
			data->remainingNumPcs += samples[i].context == context;
			samples[kept++] = samples[i];
			continue;
		}
		pc->cubinCrc = samples[i].module;
		pc->pcOffset = samples[i].offset;
		pc->functionName = shared_name(samples[i].kernel);
		pc->stallReasonCount = 1;
		pc->stallReason[0].pcSamplingStallReasonIndex = samples[i].reason;
		pc->stallReason[0].samples = samples[i].samples;
		/* Those of "not issued" are among the others. */
		data->totalSamples += samples[i].reason == NUMBER_OF(1) ? 0 : samples[i].samples;
		data->totalNumPcs++;
	}
	n_samples = kept;
	data->totalSamples += samples_dropped;
	data->droppedSamples = samples_dropped;
	samples_dropped = 0;
	pthread_mutex_unlock(&samples_lock);
}

/* A few only, so that one call is not enough. */
EXPORTED CUptiResult cuptiPCSamplingGetData(CUpti_PCSamplingGetDataParams *params)
{
	atomic_fetch_add(&fetches, 1);
	if (is("broken"))
		return CUPTI_ERROR_UNKNOWN;
	hand_out(params->ctx, params->pcSamplingData, 100);
	return is("full") ? CUPTI_ERROR_OUT_OF_MEMORY : CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiPCSamplingDisable(CUpti_PCSamplingDisableParams *params)
{
	hand_out(params->ctx, AT_END(params->ctx), AT_END(params->ctx)->collectNumPcs);
	AT_END(params->ctx) = NULL;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiGetCubinCrc(CUpti_GetCubinCrcParams *params)
{
	params->cubinCrc = params->cubinSize;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiGetSassToSourceCorrelation(CUpti_GetSassToSourceCorrelationParams *params)
{
	char file[80];

	snprintf(file, sizeof(file), "%s.cu", params->functionName);
	params->lineNumber = (uint32_t)params->pcOffset / 16;
	params->fileName = strdup(file);
	params->dirName = strdup("/src");
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
	if (!strncmp(metric, "gpu__time", 9))
		return 10;
	if (exact.confused)
		return NAN;
	return !strncmp(metric, "dram", 4) ? 1000 : !strncmp(metric, "sm__ops", 7) ? 4000 : NAN;
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
