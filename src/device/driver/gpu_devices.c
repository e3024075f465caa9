/* SPDX-License-Identifier: Apache-2.0
 *
 * GPUs by NVML; see gpu_devices.h.
 */
#include "device/driver/gpu_devices.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "device/driver/nvml_api.h"

static bool has_gpm(nvmlDevice_t handle)
{
	nvmlGpmSupport_t support = { .version = NVML_GPM_SUPPORT_VERSION };

	return nvml_api.nvmlGpmMetricsGet && nvml_api.nvmlGpmSampleAlloc &&
	       nvml_api.nvmlGpmSampleGet &&
	       NVML_DOES(nvmlGpmQueryDeviceSupport, handle, &support) && support.isSupportedDevice;
}

static void describe_device(struct gpu_device *device)
{
	unsigned int current, pending;
	nvmlPciInfo_t pci;

	if (!NVML_DOES(nvmlDeviceGetName, device->handle, device->name, sizeof(device->name)))
		device->name[0] = '\0';
	if (!NVML_DOES(nvmlDeviceGetUUID, device->handle, device->uuid, sizeof(device->uuid)))
		device->uuid[0] = '\0';
	if (NVML_DOES(nvmlDeviceGetPciInfo_v3, device->handle, &pci))
		snprintf(device->bus_id, sizeof(device->bus_id), "%s", pci.busId);
	if (NVML_DOES(nvmlDeviceGetMigMode, device->handle, &current, &pending))
		device->mig = current == NVML_DEVICE_MIG_ENABLE ? GPU_MIG_ON : GPU_MIG_OFF;
	device->gpm = has_gpm(device->handle);
}

int gpu_devices_open(struct gpu_devices *ret_devices, struct err *err)
{
	struct gpu_devices *d = ret_devices;
	unsigned int count = 0;
	nvmlReturn_t result;
	int r = nvml_api_open(err);

	if (r < 0)
		return r;
	result = nvml_api.nvmlDeviceGetCount_v2(&count);
	if (result != NVML_SUCCESS)
		return err_set(err, -ENODEV, "NVML says %s when it is asked for the devices",
			       nvml_api.nvmlErrorString(result));
	memset(d, 0, sizeof(*d));
	if (!NVML_DOES(nvmlSystemGetDriverVersion, d->driver, sizeof(d->driver)))
		d->driver[0] = '\0';
	if (!NVML_DOES(nvmlSystemGetCudaDriverVersion_v2, &d->cuda_version))
		d->cuda_version = 0;
	d->n = count < GPU_DEVICES_MAX ? count : GPU_DEVICES_MAX;
	for (unsigned int i = 0; i < d->n; i++) {
		nvmlDevice_t handle;

		d->device[i].index = i;
		if (nvml_api.nvmlDeviceGetHandleByIndex_v2(i, &handle) == NVML_SUCCESS) {
			d->device[i].handle = handle;
			describe_device(&d->device[i]);
		}
	}
	return 0;
}

static void set_reading(struct gpu_values *values, enum gpu_reading reading, double value)
{
	values->known |= GPU_BIT(reading);
	values->value[reading] = value;
}

/* As nvidia-smi counts: what the driver keeps for itself is not "used". */
static void read_memory(nvmlDevice_t device, struct gpu_values *values)
{
	nvmlMemory_v2_t now = { .version = nvmlMemory_v2 };
	nvmlMemory_t old;

	if (NVML_DOES(nvmlDeviceGetMemoryInfo_v2, device, &now)) {
		set_reading(values, GPU_MEMORY_RESERVED, (double)now.reserved);
	} else if (NVML_DOES(nvmlDeviceGetMemoryInfo, device, &old)) {
		now.used = old.used;
		now.free = old.free;
		now.total = old.total;
	} else {
		return;
	}
	set_reading(values, GPU_MEMORY_USED, (double)now.used);
	set_reading(values, GPU_MEMORY_FREE, (double)now.free);
	set_reading(values, GPU_MEMORY_TOTAL, (double)now.total);
}

static void read_utilization(nvmlDevice_t device, struct gpu_values *values)
{
	nvmlUtilization_t utilization;

	if (!NVML_DOES(nvmlDeviceGetUtilizationRates, device, &utilization))
		return;
	set_reading(values, GPU_UTILIZATION_GPU, utilization.gpu);
	set_reading(values, GPU_UTILIZATION_MEMORY, utilization.memory);
}

/* Readings that are a number of their own: whether the device tells it. */
static bool read_long(nvmlDevice_t device, enum gpu_reading reading, unsigned long long *value)
{
	switch (reading) {
	case GPU_CLOCK_REASONS:
		return NVML_DOES(nvmlDeviceGetCurrentClocksThrottleReasons, device, value);
	case GPU_ECC_CORRECTED:
		return NVML_DOES(nvmlDeviceGetTotalEccErrors, device,
				 NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_VOLATILE_ECC, value);
	case GPU_ECC_UNCORRECTED:
		return NVML_DOES(nvmlDeviceGetTotalEccErrors, device,
				 NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC, value);
	case GPU_ENERGY:
		return NVML_DOES(nvmlDeviceGetTotalEnergyConsumption, device, value);
	default:
		return false;
	}
}

static bool read_short(nvmlDevice_t device, enum gpu_reading reading, unsigned int *value)
{
	switch (reading) {
	case GPU_POWER:
		return NVML_DOES(nvmlDeviceGetPowerUsage, device, value);
	case GPU_POWER_LIMIT:
		return NVML_DOES(nvmlDeviceGetPowerManagementLimit, device, value);
	case GPU_TEMPERATURE:
		return NVML_DOES(nvmlDeviceGetTemperature, device, NVML_TEMPERATURE_GPU, value);
	case GPU_FAN:
		return NVML_DOES(nvmlDeviceGetFanSpeed, device, value);
	case GPU_CLOCK_SM:
		return NVML_DOES(nvmlDeviceGetClockInfo, device, NVML_CLOCK_SM, value);
	case GPU_CLOCK_MEMORY:
		return NVML_DOES(nvmlDeviceGetClockInfo, device, NVML_CLOCK_MEM, value);
	case GPU_CLOCK_SM_MAX:
		return NVML_DOES(nvmlDeviceGetMaxClockInfo, device, NVML_CLOCK_SM, value);
	case GPU_CLOCK_MEMORY_MAX:
		return NVML_DOES(nvmlDeviceGetMaxClockInfo, device, NVML_CLOCK_MEM, value);
	case GPU_PCIE_TX:
		return NVML_DOES(nvmlDeviceGetPcieThroughput, device, NVML_PCIE_UTIL_TX_BYTES,
				 value);
	case GPU_PCIE_RX:
		return NVML_DOES(nvmlDeviceGetPcieThroughput, device, NVML_PCIE_UTIL_RX_BYTES,
				 value);
	case GPU_PCIE_GENERATION:
		return NVML_DOES(nvmlDeviceGetCurrPcieLinkGeneration, device, value);
	case GPU_PCIE_WIDTH:
		return NVML_DOES(nvmlDeviceGetCurrPcieLinkWidth, device, value);
	default:
		return false;
	}
}

/* NVML's unit in ours: milliwatts, millijoules and KB/s. */
static double reading_scale(enum gpu_reading reading)
{
	switch (reading) {
	case GPU_POWER:
	case GPU_POWER_LIMIT:
	case GPU_ENERGY:
		return 1000;
	case GPU_PCIE_TX:
	case GPU_PCIE_RX:
		return 1024;
	default:
		return 1;
	}
}

void gpu_device_read(const struct gpu_device *device, uint64_t wanted,
		     struct gpu_values *ret_values)
{
	const uint64_t utilization = GPU_BIT(GPU_UTILIZATION_GPU) | GPU_BIT(GPU_UTILIZATION_MEMORY);
	const uint64_t memory = GPU_BIT(GPU_MEMORY_USED) | GPU_BIT(GPU_MEMORY_FREE) |
				GPU_BIT(GPU_MEMORY_TOTAL) | GPU_BIT(GPU_MEMORY_RESERVED);

	ret_values->known = 0;
	if (!device->handle)
		return;
	if (wanted & utilization)
		read_utilization(device->handle, ret_values);
	if (wanted & memory)
		read_memory(device->handle, ret_values);
	for (unsigned int r = 0; r < GPU_READING_COUNT; r++) {
		unsigned long long large;
		unsigned int small;

		if (!(wanted & ~(utilization | memory) & GPU_BIT(r)))
			continue;
		if (read_long(device->handle, r, &large))
			set_reading(ret_values, r, (double)large / reading_scale(r));
		else if (read_short(device->handle, r, &small))
			set_reading(ret_values, r, small / reading_scale(r));
	}
	/* A call may tell more than it was asked for. */
	ret_values->known &= wanted;
}

/* "GPU-" and "MIG-" say what it is of; the digits alone are the identity. */
static const char *uuid_digits(const char *uuid)
{
	return strncmp(uuid, "GPU-", 4) == 0 || strncmp(uuid, "MIG-", 4) == 0 ? uuid + 4 : uuid;
}

static bool has_instance(const struct gpu_device *device, const char *uuid)
{
	unsigned int n = 0;

	if (device->mig != GPU_MIG_ON ||
	    !NVML_DOES(nvmlDeviceGetMaxMigDeviceCount, device->handle, &n))
		return false;
	for (unsigned int i = 0; i < n; i++) {
		nvmlDevice_t instance;
		char text[96];

		if (NVML_DOES(nvmlDeviceGetMigDeviceHandleByIndex, device->handle, i, &instance) &&
		    NVML_DOES(nvmlDeviceGetUUID, instance, text, sizeof(text)) &&
		    strcmp(uuid_digits(text), uuid_digits(uuid)) == 0)
			return true;
	}
	return false;
}

const struct gpu_device *gpu_devices_find(const struct gpu_devices *devices, const char *uuid,
					  bool *ret_mig)
{
	for (int mig = 0; mig < 2; mig++)
		for (size_t i = 0; i < devices->n; i++) {
			const struct gpu_device *device = &devices->device[i];

			if (!device->handle)
				continue;
			if (mig ? has_instance(device, uuid)
				: strcmp(uuid_digits(device->uuid), uuid_digits(uuid)) == 0) {
				*ret_mig = mig;
				return device;
			}
		}
	return NULL;
}
