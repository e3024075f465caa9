/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of an inference run, and of its requests.
 */
#ifndef SUBJECTS_REQUESTS_FIELDS_H
#define SUBJECTS_REQUESTS_FIELDS_H

#include "subjects/inference/inference.h"
#include "subjects/shared/fields.h"

extern const struct field_set requests_fields, inference_total; /* of struct inference */

#endif
