/* SPDX-License-Identifier: Apache-2.0
 *
 * The devices of a run: when they were busy, why they were not, and what the driver says of them.
 */
#ifndef SUBJECTS_DEVICE_FIELDS_H
#define SUBJECTS_DEVICE_FIELDS_H

#include "subjects/shared/fields.h"

extern const struct field_set device_fields; /* "timeline" and "device_state" */
extern const struct field_set timeline_rows; /* the timeline as a table: a row for each device */

#endif
