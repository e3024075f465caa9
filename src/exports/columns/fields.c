/* SPDX-License-Identifier: Apache-2.0
 *
 * The arrays of a loaded run; see fields.h.
 */
#include "exports/columns/fields.h"

#include <string.h>

/* Where in its table the pointer of each column is; of a list, `first` follows it. */
#define OFFSET_C(id, field, TYPE, CODING) offsetof(TABLE, field),
#define OFFSET_L(id, field, TYPE, count) offsetof(TABLE, field),
#define OFFSET_B(id, field, count) offsetof(TABLE, field),
#define KIND(id, NAME, name)                                                                       \
	static const uint16_t *offsets_##name(void)                                                \
	{                                                                                          \
		typedef struct table_##name TABLE;                                                 \
		static const uint16_t offsets[] = { RECORD_COLUMNS_##name(OFFSET_C, OFFSET_L,      \
									  OFFSET_B) };             \
		return offsets;                                                                    \
	}
RECORD_KINDS(KIND)
#undef KIND

static const struct {
	size_t table;
	const uint16_t *(*columns)(void);
} places[RECORD_KIND_LIMIT] = {
#define KIND(id, NAME, name) [id] = { offsetof(struct run, name), offsets_##name },
	RECORD_KINDS(KIND)
#undef KIND
};

static const char *table_of(const struct run *run, unsigned int kind)
{
	return (const char *)run + places[kind].table;
}

static const void *pointer_at(const char *place)
{
	const void *pointer;

	memcpy(&pointer, place, sizeof(pointer));
	return pointer;
}

size_t field_rows(const struct run *run, unsigned int kind)
{
	size_t n;

	_Static_assert(offsetof(struct table_kernel, n) == 0, "a table begins with its rows");
	memcpy(&n, table_of(run, kind), sizeof(n));
	return n;
}

const uint16_t *field_shards(const struct run *run, unsigned int kind)
{
	return pointer_at(table_of(run, kind) + offsetof(struct table_kernel, shard));
}

const void *field_array(const struct run *run, unsigned int kind, unsigned int column)
{
	return pointer_at(table_of(run, kind) + places[kind].columns()[column]);
}

const uint64_t *field_first(const struct run *run, unsigned int kind, unsigned int column)
{
	return pointer_at(table_of(run, kind) + places[kind].columns()[column] + sizeof(void *));
}
