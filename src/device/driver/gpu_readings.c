/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of readings; see gpu_devices.h. Any thread.
 */
#include "device/driver/gpu_devices.h"

const struct gpu_reading_desc gpu_readings[GPU_READING_COUNT] = {
#define READING(NAME, PACE, metric) [GPU_##NAME] = { #metric, GPU_##PACE },
	GPU_READINGS(READING)
#undef READING
};
_Static_assert(GPU_READING_COUNT <= 64, "a bit for each reading");

uint64_t gpu_readings_of(enum gpu_pace pace)
{
	uint64_t bits = 0;

	for (int r = 0; r < GPU_READING_COUNT; r++)
		if (gpu_readings[r].pace == pace)
			bits |= GPU_BIT(r);
	return bits;
}
