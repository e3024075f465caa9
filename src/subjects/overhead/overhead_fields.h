/* SPDX-License-Identifier: Apache-2.0
 *
 * What the profiler cost the program, and when it collected device records.
 */
#ifndef SUBJECTS_OVERHEAD_FIELDS_H
#define SUBJECTS_OVERHEAD_FIELDS_H

#include "subjects/overhead/overhead.h"
#include "subjects/shared/fields.h"

extern const struct field_set overhead_fields; /* "overhead" */

#endif
