/* SPDX-License-Identifier: Apache-2.0
 *
 * The arrays of a loaded run by kind and column, for code that treats all kinds alike. Pure.
 */
#ifndef EXPORTS_FIELDS_H
#define EXPORTS_FIELDS_H

#include "tables/tables.h"

size_t field_rows(const struct run *run, unsigned int kind);
/* run->shards of each row; NULL when the kind was not loaded. */
const uint16_t *field_shards(const struct run *run, unsigned int kind);
/* The array of a column, of a list its values; NULL when it was not loaded. */
const void *field_array(const struct run *run, unsigned int kind, unsigned int column);
/* Of a list: where the values of each row begin, and one past the last. */
const uint64_t *field_first(const struct run *run, unsigned int kind, unsigned int column);

/* Integers of any type; 64-bit ones without a sign keep their bits. */
static inline int64_t field_int(const void *array, unsigned int type, size_t row)
{
	switch ((enum column_type)type) {
	case COLUMN_U8:
		return ((const uint8_t *)array)[row];
	case COLUMN_U16:
		return ((const uint16_t *)array)[row];
	case COLUMN_U32:
		return ((const uint32_t *)array)[row];
	case COLUMN_I32:
		return ((const int32_t *)array)[row];
	case COLUMN_U64:
	case COLUMN_I64:
		return ((const int64_t *)array)[row];
	case COLUMN_F64:
		return (int64_t)((const double *)array)[row];
	}
	return 0;
}

#endif
