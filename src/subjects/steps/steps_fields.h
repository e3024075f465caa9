/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of steps.
 */
#ifndef SUBJECTS_STEPS_FIELDS_H
#define SUBJECTS_STEPS_FIELDS_H

#include "subjects/shared/fields.h"
#include "subjects/steps/steps.h"

/* In text an engine shows the batch of a step, a training its phases. */
enum steps_form { STEPS_OF_TRAINING = 1 << 0, STEPS_OF_ENGINE = 1 << 1 };

enum steps_form steps_form(const struct steps *steps);

extern const struct field_set steps_fields, steps_total; /* of struct steps */

#endif
