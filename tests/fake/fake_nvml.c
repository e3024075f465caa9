/* SPDX-License-Identifier: Apache-2.0
 *
 * A libnvidia-ml without a driver: two devices with the readings of fake_nvml.h. Any thread.
 */
#include "fake_nvml.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_PROCESSES 64

struct nvmlDevice_st {
	unsigned int index;
	bool instance; /* the MIG instance of the device */
};

struct nvmlGpmSample_st {
	bool read;
};

static struct nvmlDevice_st devices[FAKE_NVML_DEVICES] = { { 0, false }, { 1, false } };
static struct nvmlDevice_st mig_instance = { 1, true };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static nvmlReturn_t init_result;
static unsigned int readings, bad_requests, samples, process_lists;
static unsigned int pcie[FAKE_NVML_DEVICES], n_processes;
static nvmlProcessInfo_t processes[MAX_PROCESSES];
static bool mig;

static unsigned int environment(const char *name, unsigned int otherwise)
{
	const char *text = getenv(name);

	return text ? (unsigned int)strtoul(text, NULL, 10) : otherwise;
}

static void fail_init(nvmlReturn_t result)
{
	pthread_mutex_lock(&lock);
	init_result = result;
	pthread_mutex_unlock(&lock);
}

static bool wait_for(const unsigned int *counter, unsigned int n)
{
	struct timespec until;
	bool reached;
	int r = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 100;
	pthread_mutex_lock(&lock);
	while (*counter < n && r != ETIMEDOUT)
		r = pthread_cond_timedwait(&changed, &lock, &until);
	reached = *counter >= n;
	pthread_mutex_unlock(&lock);
	return reached;
}

static bool wait_readings(unsigned int n)
{
	return wait_for(&readings, n);
}

static bool wait_process_lists(unsigned int n)
{
	return wait_for(&process_lists, n);
}

static void set_mig(bool on)
{
	pthread_mutex_lock(&lock);
	mig = on;
	pthread_mutex_unlock(&lock);
}

static void set_processes(const nvmlProcessInfo_t *given, unsigned int n)
{
	pthread_mutex_lock(&lock);
	memcpy(processes, given, n * sizeof(*given));
	n_processes = n;
	process_lists = 0;
	pthread_mutex_unlock(&lock);
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

static unsigned int readings_so_far(void)
{
	return locked(&readings);
}

static unsigned int gpm_samples(void)
{
	return locked(&samples);
}

static unsigned int pcie_requests(unsigned int device)
{
	return locked(&pcie[device]);
}

extern const struct fake_nvml fake_nvml;
const struct fake_nvml fake_nvml = {
	.fail_init = fail_init,
	.wait_readings = wait_readings,
	.readings = readings_so_far,
	.bad_gpm_requests = bad_gpm_requests,
	.gpm_samples = gpm_samples,
	.set_mig = set_mig,
	.set_processes = set_processes,
	.wait_process_lists = wait_process_lists,
	.pcie_requests = pcie_requests,
};

nvmlReturn_t nvmlInit_v2(void)
{
	nvmlReturn_t result;

	pthread_mutex_lock(&lock);
	result = init_result;
	mig = mig || environment("FAKE_NVML_MIG", 0);
	pthread_mutex_unlock(&lock);
	return environment("FAKE_NVML_INIT", result);
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
	*count = environment("FAKE_NVML_COUNT", FAKE_NVML_DEVICES);
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
	memory->total = FAKE_NVML_TOTAL(device->index);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	if (device->index == 1)
		return NVML_ERROR_NOT_SUPPORTED;
	if (memory->version != nvmlMemory_v2)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	memory->used = FAKE_NVML_USED(0);
	memory->free = FAKE_NVML_FREE(0);
	memory->reserved = FAKE_NVML_RESERVED(0);
	memory->total = FAKE_NVML_TOTAL(0);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	*version = (int)environment("FAKE_NVML_CUDA", FAKE_NVML_CUDA);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
	snprintf(name, length, "%s", FAKE_NVML_NAME(device->index));
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
	unsigned int b = device->instance ? FAKE_NVML_MIG_UUID : FAKE_NVML_UUID(device->index);

	snprintf(uuid, length,
		 "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		 device->instance ? "MIG" : "GPU", b, b, b, b, b, b, b, b, b, b, b, b, b, b, b, b);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	snprintf(pci->busId, sizeof(pci->busId), "00000000:%02X:00.0", 0x1a + device->index);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
	if (device->index == 0)
		return NVML_ERROR_NOT_SUPPORTED;
	pthread_mutex_lock(&lock);
	*current = *pending = mig;
	pthread_mutex_unlock(&lock);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
	(void)device;
	*count = 7;
	return NVML_SUCCESS;
}

/* The instances are not dense: only the third is there. */
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
						 nvmlDevice_t *instance)
{
	if (device->index != 1 || index != 2)
		return NVML_ERROR_NOT_FOUND;
	*instance = &mig_instance;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
						     nvmlProcessInfo_t *infos)
{
	nvmlReturn_t result = NVML_SUCCESS;
	unsigned int room = *count;

	if (device->index == 1)
		return NVML_ERROR_NO_PERMISSION;
	pthread_mutex_lock(&lock);
	*count = n_processes;
	if (room < n_processes) {
		result = NVML_ERROR_INSUFFICIENT_SIZE;
	} else {
		if (n_processes)
			memcpy(infos, processes, n_processes * sizeof(*infos));
		process_lists++;
		pthread_cond_broadcast(&changed);
	}
	pthread_mutex_unlock(&lock);
	return result;
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned int *limit_mw)
{
	if (device->index == 1)
		return NVML_ERROR_NOT_SUPPORTED;
	*limit_mw = FAKE_NVML_POWER_LIMIT_MW;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *energy_mj)
{
	if (device->index == 1)
		return NVML_ERROR_NOT_SUPPORTED;
	*energy_mj = FAKE_NVML_ENERGY_MJ;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetFanSpeed(nvmlDevice_t device, unsigned int *speed)
{
	if (device->index == 0)
		return NVML_ERROR_NOT_SUPPORTED;
	*speed = FAKE_NVML_FAN;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *mhz)
{
	*mhz = type == NVML_CLOCK_SM ? FAKE_NVML_CLOCK_SM_MAX(device->index)
				     : FAKE_NVML_CLOCK_MEMORY_MAX(device->index);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type,
					 nvmlEccCounterType_t counter, unsigned long long *count)
{
	if (device->index == 1 || counter != NVML_VOLATILE_ECC)
		return NVML_ERROR_NOT_SUPPORTED;
	*count = FAKE_NVML_ECC(type);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, nvmlPcieUtilCounter_t counter,
					 unsigned int *kb_per_s)
{
	pthread_mutex_lock(&lock);
	pcie[device->index]++;
	pthread_mutex_unlock(&lock);
	*kb_per_s = FAKE_NVML_PCIE_KB(counter);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned int *generation)
{
	*generation = FAKE_NVML_PCIE_GENERATION(device->index);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned int *width)
{
	*width = FAKE_NVML_PCIE_WIDTH(device->index);
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
