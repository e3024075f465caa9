/* SPDX-License-Identifier: Apache-2.0
 *
 * Phases that a foreign trace tells by nothing but the names of its ranges.
 */
#ifndef INGEST_PHASE_NAME_H
#define INGEST_PHASE_NAME_H

#include <stdint.h>

/* enum moescope_phase of a range that is called just that ("forward", "## backward ##",
 * "Optimizer.step#AdamW.step"); 0: the name tells none. Pure. */
uint8_t phase_of_name(const char *name);

#endif
