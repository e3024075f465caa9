/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of nvidia-smi's columns; see smi_names.h. Pure, any thread.
 */
#include "device/driver/smi_names.h"

#include <string.h>

#define MIB 1048576.0

const struct smi_column smi_columns[] = {
	{ "timestamp", NULL, NULL, NULL, "when the line was made, local time", SMI_TIMESTAMP },
	{ "index", NULL, NULL, NULL, "number of the device; of a run, the program's number",
	  SMI_INDEX },
	{ "name", "gpu_name", NULL, NULL, "product name", SMI_NAME },
	{ "uuid", "gpu_uuid", NULL, NULL, "identity of the device", SMI_UUID },
	{ "pci.bus_id", "gpu_bus_id", NULL, NULL, "place on the PCI bus", SMI_BUS_ID },
	{ "driver_version", NULL, NULL, NULL, "version of the driver", SMI_DRIVER },
	{ "mig.mode.current", NULL, NULL, NULL, "whether the device is cut into MIG instances",
	  SMI_MIG },
	{ "utilization.gpu", NULL, NULL, "%", "share of the time with a kernel running", SMI_NUMBER,
	  GPU_UTILIZATION_GPU },
	{ "utilization.memory", NULL, NULL, "%", "share of the time with memory traffic",
	  SMI_NUMBER, GPU_UTILIZATION_MEMORY },
	{ "memory.total", NULL, NULL, "MiB", "installed memory", SMI_NUMBER, GPU_MEMORY_TOTAL,
	  MIB },
	{ "memory.reserved", NULL, NULL, "MiB", "memory that the driver keeps", SMI_NUMBER,
	  GPU_MEMORY_RESERVED, MIB },
	{ "memory.used", NULL, NULL, "MiB", "allocated memory", SMI_NUMBER, GPU_MEMORY_USED, MIB },
	{ "memory.free", NULL, NULL, "MiB", "free memory", SMI_NUMBER, GPU_MEMORY_FREE, MIB },
	{ "temperature.gpu", NULL, NULL, NULL, "core temperature, degrees Celsius", SMI_NUMBER,
	  GPU_TEMPERATURE },
	{ "power.draw", NULL, NULL, "W", "power drawn now", SMI_NUMBER, GPU_POWER, 1, 2 },
	{ "power.limit", NULL, NULL, "W", "power limit that is set", SMI_NUMBER, GPU_POWER_LIMIT, 1,
	  2 },
	{ "clocks.sm", "clocks.current.sm", "clocks.current.sm", "MHz",
	  "clock of the multiprocessors", SMI_NUMBER, GPU_CLOCK_SM },
	{ "clocks.mem", "clocks.current.memory", "clocks.current.memory", "MHz",
	  "clock of the memory", SMI_NUMBER, GPU_CLOCK_MEMORY },
	{ "clocks.max.sm", NULL, NULL, "MHz", "highest clock of the multiprocessors", SMI_NUMBER,
	  GPU_CLOCK_SM_MAX },
	{ "clocks.max.mem", "clocks.max.memory", "clocks.max.memory", "MHz",
	  "highest clock of the memory", SMI_NUMBER, GPU_CLOCK_MEMORY_MAX },
	{ "clocks_event_reasons.active", "clocks_throttle_reasons.active", NULL, NULL,
	  "why the clocks are below their maximum, as a bit mask", SMI_MASK, GPU_CLOCK_REASONS },
	{ "ecc.errors.corrected.volatile.total", NULL, NULL, NULL,
	  "corrected memory errors since the driver was loaded", SMI_NUMBER, GPU_ECC_CORRECTED },
	{ "ecc.errors.uncorrected.volatile.total", NULL, NULL, NULL,
	  "uncorrected memory errors since the driver was loaded", SMI_NUMBER,
	  GPU_ECC_UNCORRECTED },
	{ "pcie.link.gen.current", "pcie.link.gen.gpucurrent", NULL, NULL,
	  "generation of the PCIe link; less when the device is idle", SMI_NUMBER,
	  GPU_PCIE_GENERATION },
	{ "pcie.link.width.current", NULL, NULL, NULL, "lanes of the PCIe link", SMI_NUMBER,
	  GPU_PCIE_WIDTH },
	{ "fan.speed", NULL, NULL, "%", "fan speed", SMI_NUMBER, GPU_FAN },
};
const size_t smi_columns_n = sizeof(smi_columns) / sizeof(smi_columns[0]);

static bool is_name(const char *text, const char *name, size_t length)
{
	return text && strlen(text) == length && memcmp(text, name, length) == 0;
}

const struct smi_column *smi_column_find(const char *name, size_t length)
{
	for (size_t i = 0; i < smi_columns_n; i++)
		if (is_name(smi_columns[i].name, name, length) ||
		    is_name(smi_columns[i].also, name, length) ||
		    is_name(smi_columns[i].header, name, length))
			return &smi_columns[i];
	return NULL;
}
