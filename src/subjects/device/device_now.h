/* SPDX-License-Identifier: Apache-2.0
 *
 * The newest readings of the devices, as the processes of a run took them: what a live view shows where
 * the report shows means and peaks. Pure, any thread.
 */
#ifndef SUBJECTS_DEVICE_NOW_H
#define SUBJECTS_DEVICE_NOW_H

#include "subjects/numbers/value.h"
#include "tables/tables.h"

enum now_reading {
	NOW_USE,
	NOW_MEMORY_USED,
	NOW_MEMORY_TOTAL,
	NOW_POWER,
	NOW_POWER_LIMIT,
	NOW_CLOCK_SM,
	NOW_CLOCK_MEMORY,
	NOW_TEMPERATURE,
	NOW_SM_ACTIVE, /* this and the next two: by the device's counters */
	NOW_TENSOR_ACTIVE,
	NOW_DRAM,
	NOW_READINGS
};

struct device_now {
	uint16_t shard;
	uint32_t rank, device;
	const char *name; /* of the model; NULL: not recorded */
	struct value readings[NOW_READINGS];
};

struct devices_now {
	struct device_now *items; /* by process, then device */
	size_t n;
};

/* Needs samples and devices. 0 or -ENOMEM. */
int devices_now_read(const struct run *run, struct devices_now *ret_devices);
void devices_now_release(struct devices_now *devices);

#endif
