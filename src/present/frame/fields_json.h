/* SPDX-License-Identifier: Apache-2.0
 *
 * Fields of subjects as JSON, with all that they are made of.
 */
#ifndef PRESENT_FIELDS_JSON_H
#define PRESENT_FIELDS_JSON_H

#include "base/text/json_write.h"
#include "subjects/shared/fields.h"

/* Its key and value into the object that is open; absent: null and, after it, "KEY_reason". */
void field_json(struct json *json, const struct field *field, const struct field_row *at);
/* All that exist in the form of the row. */
void fields_json(struct json *json, const struct field *fields, size_t n,
		 const struct field_row *at);

#endif
