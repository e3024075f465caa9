/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of spans that a program named.
 */
#ifndef SUBJECTS_NAMED_SPANS_FIELDS_H
#define SUBJECTS_NAMED_SPANS_FIELDS_H

#include "subjects/shared/fields.h"

extern const struct field_set named_spans_fields; /* "spans" */

#endif
