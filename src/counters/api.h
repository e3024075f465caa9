/* SPDX-License-Identifier: Apache-2.0
 *
 * What is used of libcupti's counters and of the driver, opened at run time.
 */
#ifndef COUNTERS_API_H
#define COUNTERS_API_H

#include <cuda.h>
#include <cupti.h>
#include <cupti_pcsampling.h>
#include <cupti_pmsampling.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>
#include <stdbool.h>

#include "base/err.h"

/* Metrics of chips: works without a GPU and without a driver. */
#define COUNTER_HOST_FUNCTIONS(FUNCTION)                                                           \
	FUNCTION(cuptiGetResultString)                                                             \
	FUNCTION(cuptiProfilerHostInitialize)                                                      \
	FUNCTION(cuptiProfilerHostDeinitialize)                                                    \
	FUNCTION(cuptiProfilerHostGetBaseMetrics)                                                  \
	FUNCTION(cuptiProfilerHostGetSubMetrics)                                                   \
	FUNCTION(cuptiProfilerHostConfigAddMetrics)                                                \
	FUNCTION(cuptiProfilerHostGetConfigImageSize)                                              \
	FUNCTION(cuptiProfilerHostGetConfigImage)                                                  \
	FUNCTION(cuptiProfilerHostGetNumOfPasses)                                                  \
	FUNCTION(cuptiProfilerHostEvaluateToGpuValues)

#define COUNTER_DEVICE_FUNCTIONS(FUNCTION)                                                         \
	FUNCTION(cuptiProfilerInitialize)                                                          \
	FUNCTION(cuptiDeviceGetChipName)                                                           \
	FUNCTION(cuptiPmSamplingGetCounterAvailability)                                            \
	FUNCTION(cuptiPmSamplingEnable)                                                            \
	FUNCTION(cuptiPmSamplingDisable)                                                           \
	FUNCTION(cuptiPmSamplingSetConfig)                                                         \
	FUNCTION(cuptiPmSamplingStart)                                                             \
	FUNCTION(cuptiPmSamplingStop)                                                              \
	FUNCTION(cuptiPmSamplingDecodeData)                                                        \
	FUNCTION(cuptiPmSamplingGetCounterDataSize)                                                \
	FUNCTION(cuptiPmSamplingCounterDataImageInitialize)                                        \
	FUNCTION(cuptiPmSamplingGetCounterDataInfo)                                                \
	FUNCTION(cuptiPmSamplingCounterDataGetSampleInfo)

/* Of single kernels, inside the program that launches them. */
#define COUNTER_EXACT_FUNCTIONS(FUNCTION)                                                          \
	FUNCTION(cuptiSubscribe)                                                                   \
	FUNCTION(cuptiEnableCallback)                                                              \
	FUNCTION(cuptiEnableDomain)                                                                \
	FUNCTION(cuptiGetDeviceId)                                                                 \
	FUNCTION(cuptiRangeProfilerEnable)                                                         \
	FUNCTION(cuptiRangeProfilerDisable)                                                        \
	FUNCTION(cuptiRangeProfilerSetConfig)                                                      \
	FUNCTION(cuptiRangeProfilerStart)                                                          \
	FUNCTION(cuptiRangeProfilerStop)                                                           \
	FUNCTION(cuptiRangeProfilerDecodeData)                                                     \
	FUNCTION(cuptiRangeProfilerGetCounterDataSize)                                             \
	FUNCTION(cuptiRangeProfilerCounterDataImageInitialize)                                     \
	FUNCTION(cuptiRangeProfilerGetCounterDataInfo)

/* Where warps wait, inside the program as well. */
#define COUNTER_PC_FUNCTIONS(FUNCTION)                                                             \
	FUNCTION(cuptiGetVersion)                                                                  \
	FUNCTION(cuptiGetContextId)                                                                \
	FUNCTION(cuptiPCSamplingEnable)                                                            \
	FUNCTION(cuptiPCSamplingDisable)                                                           \
	FUNCTION(cuptiPCSamplingSetConfigurationAttribute)                                         \
	FUNCTION(cuptiPCSamplingGetConfigurationAttribute)                                         \
	FUNCTION(cuptiPCSamplingGetNumStallReasons)                                                \
	FUNCTION(cuptiPCSamplingGetStallReasons)                                                   \
	FUNCTION(cuptiPCSamplingGetData)                                                           \
	FUNCTION(cuptiGetCubinCrc)                                                                 \
	FUNCTION(cuptiGetSassToSourceCorrelation)

#define COUNTER_DRIVER_FUNCTIONS(FUNCTION)                                                         \
	FUNCTION(cuInit)                                                                           \
	FUNCTION(cuDeviceGetCount)                                                                 \
	FUNCTION(cuDeviceGetName)                                                                  \
	FUNCTION(cuDeviceGetUuid_v2)

/* Of the driver that the program itself uses. */
#define COUNTER_INSIDE_FUNCTIONS(FUNCTION)                                                         \
	FUNCTION(cuStreamQuery)                                                                    \
	FUNCTION(cuDeviceGetAttribute)                                                             \
	FUNCTION(cuPointerGetAttribute)                                                            \
	FUNCTION(cuMemGetInfo_v2)

/* Of CUDA 12.4 and later, for kernels that run several times. */
#define COUNTER_PARAMETER_FUNCTIONS(FUNCTION)                                                      \
	FUNCTION(cuFuncGetParamInfo)                                                               \
	FUNCTION(cuKernelGetParamInfo)

struct counter_api {
#define FUNCTION(name) __typeof__(name) *name;
	COUNTER_HOST_FUNCTIONS(FUNCTION)
	COUNTER_DEVICE_FUNCTIONS(FUNCTION)
	COUNTER_EXACT_FUNCTIONS(FUNCTION)
	COUNTER_PC_FUNCTIONS(FUNCTION)
	COUNTER_DRIVER_FUNCTIONS(FUNCTION)
	COUNTER_INSIDE_FUNCTIONS(FUNCTION)
	COUNTER_PARAMETER_FUNCTIONS(FUNCTION)
#undef FUNCTION
};
extern struct counter_api counter_api;

/* 0, or -errno with a sentence. A second call does nothing. */
int counter_api_open(struct err *err);
/* The same, and the driver is initialised. */
int counter_api_open_devices(struct err *err);

/* Of the first, and what counts single kernels and samples where they wait. Nothing is called yet: a library that the
 * driver loads is inside of cuInit. */
int counter_api_open_exact(struct err *err);
/* The driver that the program has loaded. replay: also what kernels that run several times need. */
int counter_api_open_inside(bool replay, struct err *err);
/* In the first callback of a launch. */
int counter_api_begin_exact(struct err *err);

/* -errno with a sentence: what was tried, CUPTI's words, and a remedy where there is one. */
int counter_error(struct err *err, CUptiResult result, const char *what);

/* A parameter block of CUPTI with its size. */
#define CUPTI_PARAMS(Name, ...)                                                                    \
	((CUpti_##Name##_Params){ .structSize = CUpti_##Name##_Params_STRUCT_SIZE, ##__VA_ARGS__ })

#endif
