/* SPDX-License-Identifier: Apache-2.0
 *
 * What a test drives the scripted NVML with, and what its two devices read. A test reaches the
 * library by dlopen of the path in MOESCOPE_NVML and takes the symbol `fake_nvml` from it.
 *
 * Device 0 has everything and GPM; device 1 has neither power readings nor GPM.
 */
#ifndef FAKE_NVML_H
#define FAKE_NVML_H

#include <nvml.h>
#include <stdbool.h>

#define FAKE_NVML_DEVICES 2
#define FAKE_NVML_DRIVER "580.65.06"
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
/* Of a GPM metric; all but this one are given. */
#define FAKE_NVML_GPM(id) ((id)*1.5)
#define FAKE_NVML_GPM_MISSING NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC

struct fake_nvml {
	void (*fail_init)(nvmlReturn_t result);
	/* Returns when device 1 has been read n times in all; false after ten seconds. */
	bool (*wait_readings)(unsigned int n);
	/* Metrics that were asked of a sample that nothing had been read into. */
	unsigned int (*bad_gpm_requests)(void);
	unsigned int (*gpm_samples)(void); /* allocated in all */
};

#endif
