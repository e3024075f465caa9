/* SPDX-License-Identifier: Apache-2.0
 *
 * Clocks and counters that were sampled while devices worked; see device_use.h. Pure, any thread.
 */
#ifndef SUBJECTS_DEVICE_SAMPLES_H
#define SUBJECTS_DEVICE_SAMPLES_H

#include "subjects/device/device_use.h"

/* Fills clock, dram_pct and tensor_pct from the samples in the windows of the timeline. */
void device_samples_summarize(const struct run *run, const struct timeline *timeline,
			      struct device_use *use);
/* The mean SM clock over the samples of the process in [start, end), in MHz. */
struct value device_samples_clock(const struct run *run, uint16_t shard, int64_t start_ns,
				  int64_t end_ns);

#endif
