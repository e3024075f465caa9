/* SPDX-License-Identifier: Apache-2.0
 *
 * NVML: what the devices say of themselves, ten times a second. On the GPU thread alone. A metric
 * that a device does not have is not recorded; it is absent, not zero.
 */
#include <nvml.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "moescope.h"
#include "probe/dynlib.h"
#include "probe/gpu.h"

#define MAX_DEVICES 16

#define NVML_FUNCTIONS(FUNCTION)                                                                   \
	FUNCTION(nvmlInit_v2)                                                                      \
	FUNCTION(nvmlErrorString)                                                                  \
	FUNCTION(nvmlSystemGetDriverVersion)                                                       \
	FUNCTION(nvmlDeviceGetCount_v2)                                                            \
	FUNCTION(nvmlDeviceGetHandleByIndex_v2)                                                    \
	FUNCTION(nvmlDeviceGetUtilizationRates)                                                    \
	FUNCTION(nvmlDeviceGetMemoryInfo)                                                          \
	FUNCTION(nvmlDeviceGetPowerUsage)                                                          \
	FUNCTION(nvmlDeviceGetTemperature)                                                         \
	FUNCTION(nvmlDeviceGetClockInfo)

static struct {
#define FUNCTION(name) __typeof__(name) *name;
	NVML_FUNCTIONS(FUNCTION)
#undef FUNCTION
	/* In newer drivers only; NULL elsewhere. */
	__typeof__(nvmlGpmQueryDeviceSupport) *nvmlGpmQueryDeviceSupport;
	__typeof__(nvmlGpmSampleAlloc) *nvmlGpmSampleAlloc;
	__typeof__(nvmlGpmSampleGet) *nvmlGpmSampleGet;
	__typeof__(nvmlGpmMetricsGet) *nvmlGpmMetricsGet;
	__typeof__(nvmlDeviceGetCurrentClocksThrottleReasons)
		*nvmlDeviceGetCurrentClocksThrottleReasons;
} api;

/* Averages of hardware counters over the time between two samples. */
static const struct {
	unsigned int id;
	const char *name;
} gpm_metrics[] = {
	{ NVML_GPM_METRIC_SM_UTIL, "sm_active_pct" },
	{ NVML_GPM_METRIC_SM_OCCUPANCY, "sm_occupancy_pct" },
	{ NVML_GPM_METRIC_ANY_TENSOR_UTIL, "tensor_active_pct" },
	{ NVML_GPM_METRIC_DRAM_BW_UTIL, "dram_bandwidth_pct" },
	{ NVML_GPM_METRIC_PCIE_TX_PER_SEC, "pcie_tx_mib_per_s" },
	{ NVML_GPM_METRIC_PCIE_RX_PER_SEC, "pcie_rx_mib_per_s" },
	{ NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC, "nvlink_tx_mib_per_s" },
	{ NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC, "nvlink_rx_mib_per_s" },
};

static struct {
	nvmlDevice_t handle;
	nvmlGpmSample_t gpm[2]; /* the last and the next; NULL: not supported */
	unsigned int taken;
} devices[MAX_DEVICES];
static unsigned int n_devices;

static void push(unsigned int device, const char *metric, double value)
{
	struct row_sample row = { .time_ns = clock_monotonic_ns(),
				  .device = device,
				  .metric = moescope_intern(metric),
				  .value = value };

	gpu_push(RECORD_SAMPLE, &row, sizeof(row));
}

int nvml_open(char *words, size_t size)
{
	static const char *const names[] = { "libnvidia-ml.so.1", "libnvidia-ml.so", NULL };
	const struct dynlib_symbol needed[] = {
#define FUNCTION(name) { #name, &api.name },
		NVML_FUNCTIONS(FUNCTION)
#undef FUNCTION
	};
	const struct dynlib_symbol extra[] = {
		{ "nvmlGpmQueryDeviceSupport", &api.nvmlGpmQueryDeviceSupport },
		{ "nvmlGpmSampleAlloc", &api.nvmlGpmSampleAlloc },
		{ "nvmlGpmSampleGet", &api.nvmlGpmSampleGet },
		{ "nvmlGpmMetricsGet", &api.nvmlGpmMetricsGet },
		{ "nvmlDeviceGetCurrentClocksThrottleReasons",
		  &api.nvmlDeviceGetCurrentClocksThrottleReasons },
	};
	void *library = dynlib_open(names, "MOESCOPE_NVML");
	nvmlReturn_t r;

	if (!library || dynlib_symbols(library, needed, sizeof(needed) / sizeof(needed[0])) != 0) {
		snprintf(
			words, size,
			"device metrics off: no usable libnvidia-ml.so.1; it comes with the driver "
			"(in a container: NVIDIA_DRIVER_CAPABILITIES=utility)");
		return -1;
	}
	dynlib_symbols(library, extra, sizeof(extra) / sizeof(extra[0]));
	r = api.nvmlInit_v2();
	if (r == NVML_SUCCESS)
		r = api.nvmlDeviceGetCount_v2(&n_devices);
	if (r != NVML_SUCCESS) {
		snprintf(words, size, "device metrics off: NVML says %s", api.nvmlErrorString(r));
		return -1;
	}
	if (n_devices > MAX_DEVICES)
		n_devices = MAX_DEVICES;
	return 0;
}

void nvml_describe(void)
{
	char driver[80] = "";

	if (api.nvmlSystemGetDriverVersion(driver, sizeof(driver)) == NVML_SUCCESS)
		moescope_info("NVIDIA driver", driver);
	for (unsigned int i = 0; i < n_devices; i++) {
		nvmlGpmSupport_t support = { .version = NVML_GPM_SUPPORT_VERSION };

		if (api.nvmlDeviceGetHandleByIndex_v2(i, &devices[i].handle) != NVML_SUCCESS)
			devices[i].handle = NULL;
		/* The last sample of an earlier session is no beginning for this one. */
		devices[i].taken = 0;
		if (devices[i].gpm[0])
			continue;
		if (!devices[i].handle || !api.nvmlGpmQueryDeviceSupport ||
		    !api.nvmlGpmMetricsGet || !api.nvmlGpmSampleAlloc || !api.nvmlGpmSampleGet ||
		    api.nvmlGpmQueryDeviceSupport(devices[i].handle, &support) != NVML_SUCCESS ||
		    !support.isSupportedDevice)
			continue;
		if (api.nvmlGpmSampleAlloc(&devices[i].gpm[0]) != NVML_SUCCESS ||
		    api.nvmlGpmSampleAlloc(&devices[i].gpm[1]) != NVML_SUCCESS)
			devices[i].gpm[0] = NULL;
	}
}

static void sample_gpm(unsigned int i)
{
	const size_t n = sizeof(gpm_metrics) / sizeof(gpm_metrics[0]);
	nvmlGpmMetricsGet_t get = { .version = NVML_GPM_METRICS_GET_VERSION };
	nvmlGpmSample_t last = devices[i].gpm[devices[i].taken & 1];
	nvmlGpmSample_t next = devices[i].gpm[(devices[i].taken + 1) & 1];

	if (!devices[i].gpm[0] || api.nvmlGpmSampleGet(devices[i].handle, next) != NVML_SUCCESS)
		return;
	if (devices[i].taken++ == 0)
		return;
	get.numMetrics = (unsigned int)n;
	get.sample1 = last;
	get.sample2 = next;
	for (size_t m = 0; m < n; m++)
		get.metrics[m].metricId = gpm_metrics[m].id;
	if (api.nvmlGpmMetricsGet(&get) != NVML_SUCCESS)
		return;
	for (size_t m = 0; m < n; m++)
		if (get.metrics[m].nvmlReturn == NVML_SUCCESS)
			push(i, gpm_metrics[m].name, get.metrics[m].value);
}

static void sample_device(unsigned int i)
{
	nvmlDevice_t device = devices[i].handle;
	nvmlUtilization_t utilization;
	nvmlMemory_t memory;
	unsigned long long reasons;
	unsigned int value;

	if (api.nvmlDeviceGetUtilizationRates(device, &utilization) == NVML_SUCCESS) {
		push(i, "utilization_gpu_pct", utilization.gpu);
		push(i, "utilization_memory_pct", utilization.memory);
	}
	if (api.nvmlDeviceGetMemoryInfo(device, &memory) == NVML_SUCCESS) {
		push(i, "memory_used_bytes", (double)memory.used);
		push(i, "memory_free_bytes", (double)memory.free);
	}
	if (api.nvmlDeviceGetPowerUsage(device, &value) == NVML_SUCCESS)
		push(i, "power_w", value / 1000.0);
	if (api.nvmlDeviceGetTemperature(device, NVML_TEMPERATURE_GPU, &value) == NVML_SUCCESS)
		push(i, "temperature_c", value);
	if (api.nvmlDeviceGetClockInfo(device, NVML_CLOCK_SM, &value) == NVML_SUCCESS)
		push(i, "clock_sm_mhz", value);
	if (api.nvmlDeviceGetClockInfo(device, NVML_CLOCK_MEM, &value) == NVML_SUCCESS)
		push(i, "clock_memory_mhz", value);
	if (api.nvmlDeviceGetCurrentClocksThrottleReasons &&
	    api.nvmlDeviceGetCurrentClocksThrottleReasons(device, &reasons) == NVML_SUCCESS)
		push(i, "clock_limit_reasons", (double)reasons);
	sample_gpm(i);
}

void nvml_sample(void)
{
	for (unsigned int i = 0; i < n_devices; i++)
		if (devices[i].handle)
			sample_device(i);
}
