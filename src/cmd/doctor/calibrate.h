/* SPDX-License-Identifier: Apache-2.0
 *
 * `doctor --calibrate`: the peak rates of this machine, measured by moescope-calibrate in a
 * process of its own and kept in the user's cache, where the analyses find it (device/sheets/peaks.h).
 */
#ifndef CMD_CALIBRATE_H
#define CMD_CALIBRATE_H

#include "cmd/doctor/doctor.h"

void doctor_calibrate(struct checks *checks);

#endif
