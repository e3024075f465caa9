/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of the metrics that a kernel profiler measured.
 */
#ifndef SUBJECTS_COUNTERS_FIELDS_H
#define SUBJECTS_COUNTERS_FIELDS_H

#include "subjects/shared/fields.h"
#include "subjects/counters/launch_metrics.h"

extern const struct field_set counters_fields, counters_total; /* of struct launch_metrics */

#endif
