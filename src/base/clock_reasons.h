/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a device's clocks are not at their highest, in words: the bits of NVML's clock event (once
 * throttle) reasons, as the sample metric clock_limit_reasons holds them. Pure, any thread.
 */
#ifndef BASE_CLOCK_REASONS_H
#define BASE_CLOCK_REASONS_H

#include <stddef.h>

/* bit: its number, 0 the lowest. NULL: NVML gives it no meaning that this version knows. */
static inline const char *clock_reason_words(unsigned int bit)
{
	static const char *const words[] = {
		"idle",			  /* nvmlClocksEventReasonGpuIdle */
		"application clocks",	  /* ApplicationsClocksSetting */
		"power cap",		  /* SwPowerCap */
		"hardware slowdown",	  /* HwSlowdown */
		"sync boost",		  /* SyncBoost */
		"thermal slowdown",	  /* SwThermalSlowdown */
		"hardware thermal limit", /* HwThermalSlowdown */
		"power brake",		  /* HwPowerBrakeSlowdown */
		"display clocks",	  /* DisplayClockSetting */
	};

	return bit < sizeof(words) / sizeof(words[0]) ? words[bit] : NULL;
}

#endif
