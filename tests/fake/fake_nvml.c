/* SPDX-License-Identifier: Apache-2.0
 *
 * A libnvidia-ml without a driver: two devices with the readings of fake_nvml.h. Any thread.
 */
#include "fake_nvml.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct nvmlDevice_st {
	unsigned int index;
};

struct nvmlGpmSample_st {
	bool read;
};

static struct nvmlDevice_st devices[FAKE_NVML_DEVICES] = { { 0 }, { 1 } };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static nvmlReturn_t init_result;
static unsigned int readings, bad_requests, samples;

static void fail_init(nvmlReturn_t result)
{
	pthread_mutex_lock(&lock);
	init_result = result;
	pthread_mutex_unlock(&lock);
}

static bool wait_readings(unsigned int n)
{
	struct timespec until;
	bool reached;
	int r = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 10;
	pthread_mutex_lock(&lock);
	while (readings < n && r != ETIMEDOUT)
		r = pthread_cond_timedwait(&changed, &lock, &until);
	reached = readings >= n;
	pthread_mutex_unlock(&lock);
	return reached;
}

static unsigned int locked(const unsigned int *value)
{
	unsigned int copy;

	pthread_mutex_lock(&lock);
	copy = *value;
	pthread_mutex_unlock(&lock);
	return copy;
}

static unsigned int bad_gpm_requests(void)
{
	return locked(&bad_requests);
}

static unsigned int gpm_samples(void)
{
	return locked(&samples);
}

extern const struct fake_nvml fake_nvml;
const struct fake_nvml fake_nvml = {
	.fail_init = fail_init,
	.wait_readings = wait_readings,
	.bad_gpm_requests = bad_gpm_requests,
	.gpm_samples = gpm_samples,
};

nvmlReturn_t nvmlInit_v2(void)
{
	nvmlReturn_t result;

	pthread_mutex_lock(&lock);
	result = init_result;
	pthread_mutex_unlock(&lock);
	return result;
}

const char *nvmlErrorString(nvmlReturn_t result)
{
	return result == NVML_ERROR_DRIVER_NOT_LOADED ? "Driver Not Loaded" : "Unknown Error";
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
	snprintf(version, length, "%s", FAKE_NVML_DRIVER);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
	*count = FAKE_NVML_DEVICES;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	if (index >= FAKE_NVML_DEVICES)
		return NVML_ERROR_INVALID_ARGUMENT;
	*device = &devices[index];
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
	utilization->gpu = FAKE_NVML_UTILIZATION(device->index);
	utilization->memory = FAKE_NVML_UTILIZATION_MEMORY(device->index);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	memory->used = FAKE_NVML_USED(device->index);
	memory->free = FAKE_NVML_FREE(device->index);
	memory->total = memory->used + memory->free;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *power_mw)
{
	if (device->index == 1)
		return NVML_ERROR_NOT_SUPPORTED;
	*power_mw = FAKE_NVML_POWER_MW;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor,
				      unsigned int *temperature)
{
	if (sensor != NVML_TEMPERATURE_GPU)
		return NVML_ERROR_INVALID_ARGUMENT;
	*temperature = FAKE_NVML_TEMPERATURE(device->index);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *mhz)
{
	*mhz = type == NVML_CLOCK_SM ? FAKE_NVML_CLOCK_SM(device->index)
				     : FAKE_NVML_CLOCK_MEMORY(device->index);
	return NVML_SUCCESS;
}

/* The last reading of the last device: here a round is over. */
nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device,
						       unsigned long long *reasons)
{
	*reasons = FAKE_NVML_REASONS(device->index);
	pthread_mutex_lock(&lock);
	readings += device->index == 1;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *support)
{
	support->isSupportedDevice = device->index == 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample)
{
	*sample = calloc(1, sizeof(**sample));
	pthread_mutex_lock(&lock);
	samples++;
	pthread_mutex_unlock(&lock);
	return *sample ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample)
{
	if (device->index != 0)
		return NVML_ERROR_NOT_SUPPORTED;
	sample->read = true;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *get)
{
	if (!get->sample1->read || !get->sample2->read || get->sample1 == get->sample2) {
		pthread_mutex_lock(&lock);
		bad_requests++;
		pthread_mutex_unlock(&lock);
		return NVML_ERROR_INVALID_ARGUMENT;
	}
	for (unsigned int i = 0; i < get->numMetrics; i++) {
		bool missing = get->metrics[i].metricId == FAKE_NVML_GPM_MISSING;

		get->metrics[i].nvmlReturn = missing ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
		get->metrics[i].value = FAKE_NVML_GPM(get->metrics[i].metricId);
	}
	return NVML_SUCCESS;
}
