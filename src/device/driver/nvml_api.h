/* SPDX-License-Identifier: Apache-2.0
 *
 * NVML's functions, opened at run time. Only where the CUDA headers are; gpu_devices.h is what
 * code without NVML's types uses.
 */
#ifndef DEVICE_NVML_API_H
#define DEVICE_NVML_API_H

#include <nvml.h>

#include "base/err.h"

/* In every driver of the last ten years. */
#define NVML_NEEDED(FUNCTION)                                                                      \
	FUNCTION(nvmlInit_v2)                                                                      \
	FUNCTION(nvmlErrorString)                                                                  \
	FUNCTION(nvmlDeviceGetCount_v2)                                                            \
	FUNCTION(nvmlDeviceGetHandleByIndex_v2)                                                    \
	FUNCTION(nvmlDeviceGetUUID)

/* NULL where the driver does not have it. */
#define NVML_OPTIONAL(FUNCTION)                                                                    \
	FUNCTION(nvmlSystemGetDriverVersion)                                                       \
	FUNCTION(nvmlSystemGetCudaDriverVersion_v2)                                                \
	FUNCTION(nvmlDeviceGetName)                                                                \
	FUNCTION(nvmlDeviceGetPciInfo_v3)                                                          \
	FUNCTION(nvmlDeviceGetUtilizationRates)                                                    \
	FUNCTION(nvmlDeviceGetMemoryInfo)                                                          \
	FUNCTION(nvmlDeviceGetMemoryInfo_v2)                                                       \
	FUNCTION(nvmlDeviceGetPowerUsage)                                                          \
	FUNCTION(nvmlDeviceGetPowerManagementLimit)                                                \
	FUNCTION(nvmlDeviceGetTotalEnergyConsumption)                                              \
	FUNCTION(nvmlDeviceGetTemperature)                                                         \
	FUNCTION(nvmlDeviceGetFanSpeed)                                                            \
	FUNCTION(nvmlDeviceGetClockInfo)                                                           \
	FUNCTION(nvmlDeviceGetMaxClockInfo)                                                        \
	FUNCTION(nvmlDeviceGetCurrentClocksThrottleReasons)                                        \
	FUNCTION(nvmlDeviceGetTotalEccErrors)                                                      \
	FUNCTION(nvmlDeviceGetPcieThroughput)                                                      \
	FUNCTION(nvmlDeviceGetCurrPcieLinkGeneration)                                              \
	FUNCTION(nvmlDeviceGetCurrPcieLinkWidth)                                                   \
	FUNCTION(nvmlDeviceGetMigMode)                                                             \
	FUNCTION(nvmlDeviceGetMaxMigDeviceCount)                                                   \
	FUNCTION(nvmlDeviceGetMigDeviceHandleByIndex)                                              \
	FUNCTION(nvmlDeviceGetComputeRunningProcesses_v3)                                          \
	FUNCTION(nvmlDeviceGetGraphicsRunningProcesses_v3)                                         \
	FUNCTION(nvmlGpmQueryDeviceSupport)                                                        \
	FUNCTION(nvmlGpmSampleAlloc)                                                               \
	FUNCTION(nvmlGpmSampleGet)                                                                 \
	FUNCTION(nvmlGpmMetricsGet)

struct nvml_api {
#define FUNCTION(name) __typeof__(name) *name;
	NVML_NEEDED(FUNCTION)
	NVML_OPTIONAL(FUNCTION)
#undef FUNCTION
};

extern struct nvml_api nvml_api; /* filled once nvml_api_open has succeeded */

/* Whether the function is there and does what it is asked. */
#define NVML_DOES(function, ...)                                                                   \
	(nvml_api.function && nvml_api.function(__VA_ARGS__) == NVML_SUCCESS)

/* Opens the library and initialises it. 0, or -errno with what is missing and the remedy. One
 * thread at a time; may be called again. */
int nvml_api_open(struct err *err);

#endif
