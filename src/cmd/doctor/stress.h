/* SPDX-License-Identifier: Apache-2.0
 *
 * The stress test of `doctor`: CUPTI attached and detached some thousand times under load, every
 * result of the load checked, and what attaching costs. A machine that passes is remembered, and
 * the governor then shifts gears beside CUDA graphs there.
 */
#ifndef CMD_STRESS_H
#define CMD_STRESS_H

#include <stdint.h>

#include "cmd/doctor/doctor.h"

/* shifts: attachings and detachings in all. */
void doctor_stress(struct checks *checks, uint64_t shifts);

#endif
