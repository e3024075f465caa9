/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files that read NVML share. Only on the GPU thread.
 */
#ifndef PROBE_GPU_NVML_NVML_H
#define PROBE_GPU_NVML_NVML_H

#include <stdbool.h>
#include <stdint.h>

#include "device/driver/gpu_devices.h"
#include "moescope.h"

/* A device that is read, and its number in the program. */
struct nvml_source {
	const struct gpu_device *device;
	uint32_t ordinal; /* CUDA's */
	bool mig;	  /* the program has an instance; the readings are of the whole device */
	bool gpm;
};

/* name: caches the metric's id, so that a reading does not look it up again. */
void nvml_push(const struct nvml_source *source, int64_t time_ns, const char *metric,
	       moescope_name *name, double value);

/* nvml_gpm.c: averages of hardware counters since the last call; the first call gives none. */
void nvml_gpm_begin(const struct nvml_source *source);
void nvml_gpm_sample(const struct nvml_source *source);

/* nvml_processes.c: rows for processes that are new on the device or whose memory changed. */
void nvml_processes_begin(void);
void nvml_processes_look(const struct nvml_source *source);

#endif
