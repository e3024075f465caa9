/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of routing: by layer, by layer and step, by expert of these. All of struct routing.
 */
#ifndef SUBJECTS_ROUTING_FIELDS_H
#define SUBJECTS_ROUTING_FIELDS_H

#include "subjects/routing/routing.h"
#include "subjects/shared/fields.h"

/* Of one layer alone also what is long. */
enum routing_form { ROUTING_ALL_LAYERS = 1 << 0, ROUTING_ONE_LAYER = 1 << 1 };

extern const struct field_set routing_fields, routing_total;
/* With the columns that users of router profilers know. */
extern const struct field_set routing_steps_fields, routing_experts_fields;

#endif
