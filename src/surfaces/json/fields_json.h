/* SPDX-License-Identifier: Apache-2.0
 *
 * Fields, grids and cells of subjects as JSON, with all that they are made of.
 */
#ifndef SURFACES_FIELDS_JSON_H
#define SURFACES_FIELDS_JSON_H

#include "base/text/json_write.h"
#include "subjects/pages/grid.h"

/* Its key and value into the object that is open; absent: null and, after it, "KEY_reason". */
void field_json(struct json *json, const struct field *field, const struct field_row *at);
/* All that exist in the form of the row. */
void fields_json(struct json *json, const struct field *fields, size_t n,
		 const struct field_row *at);

/* The rows as an array of objects, with all groups of their fields. limit 0: all rows. */
void grid_json(const struct grid *grid, size_t limit, struct json *json);

/* One cell as a JSON value; absent: null and, after it, "KEY_reason". */
void grid_json_plain(struct json *json, const struct cell *cell); /* its value alone */
void grid_json_cell(struct json *json, const char *key, const struct cell *cell);
void grid_json_value(struct json *json, const char *key, struct value value);

#endif
