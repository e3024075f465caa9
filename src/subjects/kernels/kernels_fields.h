/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of kernels. Forms: 1 << enum kernels_by.
 */
#ifndef SUBJECTS_KERNELS_FIELDS_H
#define SUBJECTS_KERNELS_FIELDS_H

#include "subjects/kernels/kernels.h"
#include "subjects/shared/fields.h"

extern const struct field_set kernels_fields, kernels_total; /* of struct kernels */

#endif
