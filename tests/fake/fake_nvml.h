/* SPDX-License-Identifier: Apache-2.0
 *
 * What a test drives the scripted NVML with, and what its two devices read. A test reaches the
 * library by dlopen of the path in MOESCOPE_NVML and takes the symbol `fake_nvml` from it. Tests of
 * the tool say it by environment: FAKE_NVML_INIT is the number that nvmlInit answers,
 * FAKE_NVML_COUNT the number of devices, FAKE_NVML_CUDA the version of CUDA that the driver supports;
 * FAKE_NVML_MIG=1 puts device 1 into MIG mode.
 *
 * Device 0 has everything but a fan, and GPM. Device 1 has a fan, but neither power readings, ECC,
 * the newer memory call nor GPM.
 */
#ifndef FAKE_NVML_H
#define FAKE_NVML_H

#include <nvml.h>
#include <stdbool.h>

#define FAKE_NVML_DEVICES 2
#define FAKE_NVML_DRIVER "580.65.06"
#define FAKE_NVML_CUDA 13000
/* Readings of device i. */
#define FAKE_NVML_UTILIZATION(i) (37u + 10 * (i))
#define FAKE_NVML_UTILIZATION_MEMORY(i) (12u + 10 * (i))
#define FAKE_NVML_USED(i) (5000000000ull + (i))
#define FAKE_NVML_FREE(i) (75000000000ull + (i))
#define FAKE_NVML_POWER_MW 312500u
#define FAKE_NVML_TEMPERATURE(i) (61u + (i))
#define FAKE_NVML_CLOCK_SM(i) (1980u - (i))
#define FAKE_NVML_CLOCK_MEMORY(i) (2619u - (i))
#define FAKE_NVML_REASONS(i) (4ull + (i))
#define FAKE_NVML_TOTAL(i) (FAKE_NVML_USED(i) + FAKE_NVML_FREE(i) + FAKE_NVML_RESERVED(i))
#define FAKE_NVML_RESERVED(i) ((i) ? 0ull : 600000000ull)
#define FAKE_NVML_POWER_LIMIT_MW 700000u
#define FAKE_NVML_ENERGY_MJ 1234567890ull
#define FAKE_NVML_CLOCK_SM_MAX(i) (2100u + (i))
#define FAKE_NVML_CLOCK_MEMORY_MAX(i) (3201u + (i))
#define FAKE_NVML_ECC(type) ((type) == NVML_MEMORY_ERROR_TYPE_CORRECTED ? 3ull : 1ull)
#define FAKE_NVML_FAN 41u
#define FAKE_NVML_PCIE_KB(counter) ((counter) == NVML_PCIE_UTIL_TX_BYTES ? 2048u : 5120u)
#define FAKE_NVML_PCIE_GENERATION(i) (5u - (i))
#define FAKE_NVML_PCIE_WIDTH(i) ((i) ? 8u : 16u)
#define FAKE_NVML_NAME(i) ((i) ? "Scripted GPU one" : "Scripted GPU")
/* UUIDs are one byte sixteen times: of device i, and of the only MIG instance of device 1. */
#define FAKE_NVML_UUID(i) (0xa0u + (i))
#define FAKE_NVML_MIG_UUID 0xb1u
/* Of a GPM metric; all but this one are given. */
#define FAKE_NVML_GPM(id) ((id)*1.5)
#define FAKE_NVML_GPM_MISSING NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC

struct fake_nvml {
	void (*fail_init)(nvmlReturn_t result);
	/* Returns when device 1 has been read n times in all; false after 100 seconds. */
	bool (*wait_readings)(unsigned int n);
	unsigned int (*readings)(void); /* of device 1 so far */
	/* Metrics that were asked of a sample that nothing had been read into. */
	unsigned int (*bad_gpm_requests)(void);
	unsigned int (*gpm_samples)(void); /* allocated in all */
	/* Device 1 in MIG mode. */
	void (*set_mig)(bool on);
	/* The compute processes of device 0, in place of none. */
	void (*set_processes)(const nvmlProcessInfo_t *processes, unsigned int n);
	/* Returns when the processes of device 0 have been asked for n times since they were set;
	 * false after 100 seconds. */
	bool (*wait_process_lists)(unsigned int n);
	/* Times that PCIe throughput was asked of a device, 20 ms each in truth. */
	unsigned int (*pcie_requests)(unsigned int device);
};

#endif
