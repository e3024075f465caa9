/* SPDX-License-Identifier: Apache-2.0
 *
 * Hardware counters of the devices over time: those that NVML averages over a tenth of a second while a program is
 * recorded (GPM), and those that 'moescope run --counters' samples. Each counter of a device over the run, or over each
 * step. Steps are those of the first process that has some.
 */
#ifndef SUBJECTS_DEVICE_COUNTERS_H
#define SUBJECTS_DEVICE_COUNTERS_H

#include "subjects/numbers/value.h"
#include "subjects/shared/selection.h"

struct device_counter_row {
	uint32_t device, counter; /* counter: string */
	bool sampled;		  /* by --counters; else by NVML */
	struct value step;
	uint64_t samples;
	double mean, min, max;
};

struct device_counters {
	struct device_counter_row *rows; /* by step, device and counter, as they were sampled */
	size_t n;
	uint64_t samples; /* values, of all counters */
};

int device_counters_analyze(const struct run *run, const struct selection *sel, bool by_step,
			    struct device_counters *ret_counters);
void device_counters_release(struct device_counters *counters);

struct field_set;
extern const struct field_set hardware_fields, hardware_total;

#endif
