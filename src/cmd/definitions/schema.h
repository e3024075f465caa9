/* SPDX-License-Identifier: Apache-2.0
 *
 * The JSON Schema of everything that is made of fields.
 */
#ifndef CMD_SCHEMA_H
#define CMD_SCHEMA_H

#include <stdio.h>

/* "$defs": a document for each table and sheet, tables without their head for the report, and all parts. 0 or -errno. */
int schema_print(FILE *out);

struct field;
/* The name of its values' type in JSON. */
const char *schema_type(const struct field *field);

#endif
