/* SPDX-License-Identifier: Apache-2.0
 *
 * Hardware counters of the devices over time: those that NVML averages over a tenth of a second while a program is
 * recorded (GPM), and those that 'moescope run --counters' samples. Each counter of a device over the run, or over each
 * step. Steps are those of the first process that has some.
 *
 * Traffic of a device's memory: the mean share of its bandwidth over the samples inside steps, times its rate, and times
 * the time of the steps that have samples over their tokens. Not the first step, which has what came before it, nor one
 * that did not end.
 */
#ifndef SUBJECTS_DEVICE_COUNTERS_H
#define SUBJECTS_DEVICE_COUNTERS_H

#include "subjects/numbers/value.h"
#include "subjects/shared/selection.h"

struct peaks_file;

struct device_counter_row {
	uint32_t device, counter; /* counter: string */
	bool sampled;		  /* by --counters; else by NVML */
	struct value step;
	uint64_t samples;
	double mean, min, max;
};

struct device_traffic {
	uint32_t device;
	bool sampled; /* by --counters; else by NVML */
	uint64_t steps;
	struct value tokens; /* of these steps */
	struct value dram_bytes_per_s, dram_bytes_per_token;
};

struct device_counters {
	struct device_counter_row *rows; /* by step, device and counter, as they were sampled */
	size_t n;
	uint64_t samples; /* values, of all counters */
	struct device_traffic *traffic;
	size_t n_traffic;
};

/* peaks: NULL: none were measured. */
int device_counters_analyze(const struct run *run, const struct peaks_file *peaks,
			    const struct selection *sel, bool by_step,
			    struct device_counters *ret_counters);
void device_counters_release(struct device_counters *counters);

/* The part of it in device_traffic.c: fills traffic. shard: whose steps. */
int device_traffic_fill(const struct run *run, const struct peaks_file *peaks,
			const struct selection *sel, const struct step_index *index, uint16_t shard,
			struct device_counters *counters);

struct field_set;
extern const struct field_set hardware_fields, hardware_total;

#endif
