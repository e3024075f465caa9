/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of communication: by collective, by device, by transport of a device. All of struct comm.
 */
#ifndef SUBJECTS_COMM_FIELDS_H
#define SUBJECTS_COMM_FIELDS_H

#include "subjects/comm/comm.h"
#include "subjects/shared/fields.h"

extern const struct field_set comm_fields, comm_devices_fields, comm_transports_fields, comm_total;

#endif
