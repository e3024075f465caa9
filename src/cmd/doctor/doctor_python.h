/* SPDX-License-Identifier: Apache-2.0
 *
 * The check of `doctor` whether `run` finds steps in programs of PyTorch by itself.
 */
#ifndef CMD_DOCTOR_PYTHON_H
#define CMD_DOCTOR_PYTHON_H

#include "cmd/doctor/doctor.h"

void check_pytorch(struct check *check);

#endif
