/* SPDX-License-Identifier: Apache-2.0
 *
 * What the driver says of the devices themselves: power, clocks, temperature, what held the clocks
 * down, and which other processes use them. Devices are numbered as the driver lists them. Pure,
 * any thread.
 */
#ifndef SUBJECTS_DEVICE_STATE_H
#define SUBJECTS_DEVICE_STATE_H

#include "tables/tables.h"

enum device_metric {
	METRIC_POWER,
	METRIC_CLOCK_SM,
	METRIC_CLOCK_MEMORY,
	METRIC_TEMPERATURE,
	METRIC_DRAM_BANDWIDTH, /* by the device's counters, where it lets NVML read them */
	METRIC_PCIE_TX,
	METRIC_PCIE_RX,
	METRIC_PCIE_GENERATION,
	METRIC_PCIE_WIDTH,
	METRIC_MEMORY_TOTAL,
	DEVICE_METRICS
};

const char *device_metric_key(enum device_metric metric); /* "power_w" … */

struct metric_summary {
	uint64_t samples; /* 0: the rest is not set */
	double mean, min, max;
};

#define CLOCK_REASONS 64

/* One device as one process sampled it. */
struct device_state {
	uint16_t shard;
	uint32_t rank, device;
	struct metric_summary metrics[DEVICE_METRICS];
	uint64_t reason_samples;	 /* of clock_limit_reasons */
	uint64_t reasons[CLOCK_REASONS]; /* those of them with this bit set */
};

/* A process that is none of the run's. */
struct other_process {
	uint32_t device, pid;
	uint32_t name; /* string id */
	bool graphics, bytes_known;
	uint64_t last_bytes, peak_bytes;
};

struct device_states {
	struct device_state *devices; /* by process, then device */
	size_t n;
	struct other_process *others; /* by device, then memory, largest first */
	size_t n_others;
	bool listed; /* the driver's list of processes was recorded at all */
};

int device_states_analyze(const struct run *run, struct device_states *ret_states);
void device_states_release(struct device_states *states);

#endif
