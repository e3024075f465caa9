/* SPDX-License-Identifier: Apache-2.0
 *
 * The column tables of every record kind, generated from the list in records.h. Constant data.
 */
#include "trace/records.h"

#define REF_PLAIN 0
#define REF_DELTA 0
#define REF_START 0
#define REF_DUR 0
#define REF_FLOAT 0
#define REF_STRING RECORD_STRING
#define REF_SITE RECORD_SITE
#define REF_LAUNCH RECORD_LAUNCH
#define CODING_STRING CODING_PLAIN
#define CODING_SITE CODING_PLAIN
#define CODING_LAUNCH CODING_PLAIN

/* Column indexes, to find the length column of a list by name. */
#define INDEX_C(col, field, TYPE, CODING) INDEX_field_##field,
#define INDEX_L(col, field, TYPE, count) INDEX_field_##field,
#define INDEX_B(col, field, count) INDEX_field_##field,

#define DESC_C(col, field, TYPE, CODE)                                                             \
	{ #field, col, COLUMN_##TYPE, CODING_##CODE, REF_##CODE, -1, offsetof(ROW, field) },
#define DESC_L(col, field, TYPE, count)                                                            \
	{ #field, col, COLUMN_##TYPE, CODING_LIST, 0, INDEX_field_##count, offsetof(ROW, field) },
#define DESC_B(col, field, count)                                                                  \
	{ #field, col, COLUMN_U8, CODING_BYTES, 0, INDEX_field_##count, offsetof(ROW, field) },

/* Each kind gets its own functions, so its column indexes have their own scope. */
#define KIND(id, NAME, kind_name)                                                                  \
	static const struct column_desc *columns_##kind_name(uint16_t *ret_n)                      \
	{                                                                                          \
		typedef struct row_##kind_name ROW;                                                \
		enum { RECORD_COLUMNS_##kind_name(INDEX_C, INDEX_L, INDEX_B) N_COLUMNS };          \
		static const struct column_desc columns[] = { RECORD_COLUMNS_##kind_name(          \
			DESC_C, DESC_L, DESC_B) };                                                 \
		*ret_n = N_COLUMNS;                                                                \
		return columns;                                                                    \
	}
RECORD_KINDS(KIND)
#undef KIND

static struct kind_desc kinds[RECORD_KIND_LIMIT];

__attribute__((constructor)) static void make_kinds(void)
{
#define KIND(id, NAME, kind_name)                                                                  \
	kinds[id].name = #kind_name;                                                               \
	kinds[id].row_size = sizeof(struct row_##kind_name);                                       \
	kinds[id].columns = columns_##kind_name(&kinds[id].n_columns);
	RECORD_KINDS(KIND)
#undef KIND
	for (int k = 1; k < RECORD_KIND_LIMIT; k++) {
		kinds[k].time_column = kinds[k].duration_column = -1;
		for (int c = 0; c < kinds[k].n_columns; c++) {
			const struct column_desc *column = &kinds[k].columns[c];

			kinds[k].n_lists += column->count_column >= 0;
			if (column->coding == CODING_START)
				kinds[k].time_column = (int8_t)c;
			/* The encoder relies on it: starts first, then durations. */
			if (column->coding == CODING_DUR && kinds[k].time_column >= 0)
				kinds[k].duration_column = (int8_t)c;
			/* A kind without a span has its time first. */
			if (c == 0 && column->type == COLUMN_I64 &&
			    column->coding == CODING_DELTA && column->name[0] == 't')
				kinds[k].time_column = 0;
		}
	}
}

const struct kind_desc *kind_desc(unsigned int kind)
{
	return kind > 0 && kind < RECORD_KIND_LIMIT ? &kinds[kind] : NULL;
}

size_t column_type_size(enum column_type type)
{
	static const uint8_t sizes[] = { 1, 2, 4, 8, 4, 8, 8 };

	return sizes[type];
}
