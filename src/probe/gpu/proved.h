/* SPDX-License-Identifier: Apache-2.0
 *
 * What is proved for which CUPTI and driver: whether it can be detached while CUDA graphs exist,
 * and what attaching costs. From the table in proved.c, or from the file that `moescope doctor
 * --stress` writes when a machine has passed.
 */
#ifndef PROBE_GPU_PROVED_H
#define PROBE_GPU_PROVED_H

#include <stdbool.h>
#include <stdint.h>

#include "probe/gpu/governor.h"

struct proof {
	bool graphs; /* detaching on the thread that launches graphs is safe */
	struct governor_prices prices;
};

/* driver: as in "580.95.05", "" if unknown. */
struct proof proof_find(uint32_t cupti_version, const char *driver);

#endif
