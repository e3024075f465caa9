/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of the parts of a mixture of experts, what their communication costs, and the layers.
 * All of struct moe_lens.
 */
#ifndef SUBJECTS_MOE_FIELDS_H
#define SUBJECTS_MOE_FIELDS_H

#include "subjects/moe/moe_lens.h"
#include "subjects/shared/fields.h"

enum moe_form {
	MOE_BY_PART = 1 << 0,
	MOE_BY_COMM = 1 << 1, /* the rows that communicate, and what of it is hidden */
};

extern const struct field_set moe_fields; /* in these forms */
extern const struct field_set moe_cost_fields, moe_layers_fields, moe_total;

#endif
