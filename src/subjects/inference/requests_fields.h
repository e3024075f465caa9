/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of the requests of an inference run.
 */
#ifndef SUBJECTS_REQUESTS_FIELDS_H
#define SUBJECTS_REQUESTS_FIELDS_H

#include "subjects/inference/inference.h"
#include "subjects/shared/fields.h"

extern const struct field_set requests_fields; /* of struct inference */

#endif
