/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of memory, by process and device.
 */
#ifndef SUBJECTS_MEMORY_FIELDS_H
#define SUBJECTS_MEMORY_FIELDS_H

#include "subjects/memory/memory.h"
#include "subjects/shared/fields.h"

extern const struct field_set memory_fields, memory_total; /* of struct memory */

#endif
