/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine's GPUs and what they say of themselves, without NVML's types: for the probe, which
 * records readings, and for the commands, which print them. One thread at a time.
 *
 * Built without the CUDA headers, gpu_devices_open fails and says so.
 */
#ifndef DEVICE_GPU_DEVICES_H
#define DEVICE_GPU_DEVICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define GPU_DEVICES_MAX 64

/* READING(NAME, PACE, metric): metric is its name in a run (sample records), with the unit.
 * Pace: OFTEN changes all the time and is cheap to ask; SELDOM is a running total, changes slowly
 * or takes NVML long; ONCE does not change while a program runs. */
#define GPU_READINGS(READING)                                                                      \
	READING(UTILIZATION_GPU, OFTEN, utilization_gpu_pct)                                       \
	READING(UTILIZATION_MEMORY, OFTEN, utilization_memory_pct)                                 \
	READING(MEMORY_USED, OFTEN, memory_used_bytes)                                             \
	READING(MEMORY_FREE, OFTEN, memory_free_bytes)                                             \
	READING(POWER, OFTEN, power_w)                                                             \
	READING(TEMPERATURE, OFTEN, temperature_c)                                                 \
	READING(CLOCK_SM, OFTEN, clock_sm_mhz)                                                     \
	READING(CLOCK_MEMORY, OFTEN, clock_memory_mhz)                                             \
	READING(CLOCK_REASONS, OFTEN, clock_limit_reasons)                                         \
	READING(ECC_CORRECTED, SELDOM, ecc_corrected_errors)                                       \
	READING(ECC_UNCORRECTED, SELDOM, ecc_uncorrected_errors)                                   \
	READING(ENERGY, SELDOM, energy_j)                                                          \
	READING(FAN, SELDOM, fan_pct)                                                              \
	READING(PCIE_TX, SELDOM, pcie_tx_mib_per_s)                                                \
	READING(PCIE_RX, SELDOM, pcie_rx_mib_per_s)                                                \
	READING(MEMORY_TOTAL, ONCE, memory_total_bytes)                                            \
	READING(MEMORY_RESERVED, ONCE, memory_reserved_bytes)                                      \
	READING(POWER_LIMIT, ONCE, power_limit_w)                                                  \
	READING(CLOCK_SM_MAX, ONCE, clock_sm_max_mhz)                                              \
	READING(CLOCK_MEMORY_MAX, ONCE, clock_memory_max_mhz)                                      \
	READING(PCIE_GENERATION, ONCE, pcie_link_generation)                                       \
	READING(PCIE_WIDTH, ONCE, pcie_link_width)

enum gpu_reading {
#define READING(NAME, PACE, metric) GPU_##NAME,
	GPU_READINGS(READING)
#undef READING
		GPU_READING_COUNT
};
enum gpu_pace { GPU_OFTEN, GPU_SELDOM, GPU_ONCE };

struct gpu_reading_desc {
	const char *metric;
	enum gpu_pace pace;
};
extern const struct gpu_reading_desc gpu_readings[GPU_READING_COUNT];

/* COUNTER(NVML's id, metric): averages of hardware counters that NVML reads on devices that have them (GPM). */
#define GPU_COUNTERS(COUNTER)                                                                      \
	COUNTER(SM_UTIL, sm_active_pct)                                                            \
	COUNTER(SM_OCCUPANCY, sm_occupancy_pct)                                                    \
	COUNTER(ANY_TENSOR_UTIL, tensor_active_pct)                                                \
	COUNTER(DRAM_BW_UTIL, dram_bandwidth_pct)                                                  \
	COUNTER(PCIE_TX_PER_SEC, pcie_tx_mib_per_s)                                                \
	COUNTER(PCIE_RX_PER_SEC, pcie_rx_mib_per_s)                                                \
	COUNTER(NVLINK_TOTAL_TX_PER_SEC, nvlink_tx_mib_per_s)                                      \
	COUNTER(NVLINK_TOTAL_RX_PER_SEC, nvlink_rx_mib_per_s)

#define GPU_BIT(reading) (UINT64_C(1) << (reading))
uint64_t gpu_readings_of(enum gpu_pace pace); /* a bit for each */

/* value[r] holds when bit r of known is set. */
struct gpu_values {
	uint64_t known;
	double value[GPU_READING_COUNT];
};

enum gpu_mig { GPU_MIG_NONE, GPU_MIG_OFF, GPU_MIG_ON }; /* NONE: the device has no such mode */

struct gpu_device {
	void *handle;	    /* NVML's; NULL: the driver does not hand the device out */
	unsigned int index; /* NVML's, as nvidia-smi counts */
	char name[96];	    /* this and the next two: "" when the driver does not say */
	char uuid[96];
	char bus_id[32];
	enum gpu_mig mig;
	bool gpm; /* has performance counters that NVML reads */
};

struct gpu_devices {
	size_t n;
	struct gpu_device device[GPU_DEVICES_MAX];
	char driver[80];  /* version; "" when the driver does not say */
	int cuda_version; /* that the driver supports, 1000 * major + 10 * minor; 0: not known */
};

/* 0, or -errno with what is missing and the remedy; -ENOSYS: this build has no GPU support.
 * No device at all is a success with n 0. */
int gpu_devices_open(struct gpu_devices *ret_devices, struct err *err);

/* Asks for the readings whose bits are set; what the device does not tell stays unknown. */
void gpu_device_read(const struct gpu_device *device, uint64_t wanted,
		     struct gpu_values *ret_values);

/* The device that has this UUID, or whose MIG instance has it (*ret_mig is then set). NULL: none.
 * uuid: with or without "GPU-" or "MIG-" in front. */
const struct gpu_device *gpu_devices_find(const struct gpu_devices *devices, const char *uuid,
					  bool *ret_mig);

#endif
