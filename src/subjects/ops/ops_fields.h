/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of operations and ranges.
 */
#ifndef SUBJECTS_OPS_FIELDS_H
#define SUBJECTS_OPS_FIELDS_H

#include "subjects/ops/ops.h"
#include "subjects/shared/fields.h"

enum ops_form {
	OPS_BY_NAME = 1 << 0,
	OPS_ON_DEVICE = 1 << 1, /* by name, in text the time of the device in place of arithmetic */
	OPS_BY_SHAPE = 1 << 2,
	OPS_BY_STACK = 1 << 3,	/* the shapes too where they were asked for */
	OPS_BY_CALLER = 1 << 4, /* the same, of a stack its innermost call */
};

extern const struct field_set ops_fields, ops_total; /* of struct ops */

#endif
