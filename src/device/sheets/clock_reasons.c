/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of clock_reasons.h. It holds no NVML names, so that runs are read where there are no
 * CUDA headers. Any thread.
 */
#include "device/sheets/clock_reasons.h"

#include <stddef.h>

static const char *const reasons[] = {
	"idle",
	"application clocks setting",
	"power limit",
	"hardware slowdown",
	"sync boost with other devices",
	"thermal limit by software",
	"thermal slowdown by hardware",
	"power brake by hardware",
	"display clock setting",
};

const char *clock_reason_words(unsigned int bit)
{
	return bit < sizeof(reasons) / sizeof(reasons[0]) ? reasons[bit] : NULL;
}
