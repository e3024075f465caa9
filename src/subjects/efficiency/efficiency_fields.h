/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of efficiency: kernel classes or operations against their roof.
 */
#ifndef SUBJECTS_EFFICIENCY_FIELDS_H
#define SUBJECTS_EFFICIENCY_FIELDS_H

#include "subjects/efficiency/efficiency.h"
#include "subjects/shared/fields.h"

extern const struct field_set efficiency_fields, efficiency_total; /* of struct efficiency */

#endif
