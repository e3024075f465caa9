/* SPDX-License-Identifier: Apache-2.0
 *
 * The check of `doctor` for other profilers.
 */
#ifndef CMD_DOCTOR_PROFILERS_H
#define CMD_DOCTOR_PROFILERS_H

#include "cmd/doctor/doctor.h"

/* In the environment and among the running processes. */
void doctor_look_profilers(struct checks *checks);

#endif
