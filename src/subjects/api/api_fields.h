/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of calls into the CUDA runtime and driver.
 */
#ifndef SUBJECTS_API_FIELDS_H
#define SUBJECTS_API_FIELDS_H

#include "subjects/api/api_calls.h"
#include "subjects/shared/fields.h"

extern const struct field_set api_fields, api_total; /* of struct api_calls */

#endif
