/* SPDX-License-Identifier: Apache-2.0
 *
 * The arrays of a run's tables; see room.h.
 */
#include "tables/room.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"

/* Every struct table_NAME is a row count, the shard array, and then one pointer per column, two
 * for a list (values, first): an array of 8-byte slots. */
#define SLOTS_C(id, field, TYPE, CODING) +1
#define SLOTS_L(id, field, TYPE, count) +2
#define SLOTS_B(id, field, count) +2
#define KIND(id, NAME, name)                                                                       \
	_Static_assert(sizeof(struct table_##name) ==                                              \
			       8 * (2 RECORD_COLUMNS_##name(SLOTS_C, SLOTS_L, SLOTS_B)),           \
		       "tables are arrays of slots");
RECORD_KINDS(KIND)
#undef KIND

static char *table_at(struct run *run, unsigned int kind)
{
	static const size_t offsets[RECORD_KIND_LIMIT] = {
#define KIND(id, NAME, name) [id] = offsetof(struct run, name),
		RECORD_KINDS(KIND)
#undef KIND
	};

	return (char *)run + offsets[kind];
}

size_t *room_rows(struct run *run, unsigned int kind)
{
	return (size_t *)table_at(run, kind);
}

void *room_slot(struct run *run, unsigned int kind, unsigned int index)
{
	return table_at(run, kind) + (size_t)index * 8;
}

bool room_wanted(const struct run *run, unsigned int kind, unsigned int column)
{
	uint64_t columns = run->internal->want.columns[kind];

	return !columns || columns >> column & 1;
}

/* What is large comes from the system by the page, and is zero. */
static bool is_large(size_t capacity, size_t size)
{
	return capacity * size >= ARRAY_LARGE;
}

/* Pages that nobody writes take no memory, so columns that are zero throughout cost nothing. */
static int large_new(size_t bytes, void **ret_data)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = bytes / page * page;
	void *data = array_new(bytes, 1);

	if (!data)
		return -ENOMEM;
	/* It may have been used before: this gives the pages back, to come as zeros. */
	if (madvise(data, whole, MADV_DONTNEED) < 0)
		memset(data, 0, whole);
	memset((char *)data + whole, 0, bytes - whole);
	*ret_data = data;
	return 0;
}

/* Moves an array of `used` elements to room for `capacity`. */
static int move_array(void *array_slot, size_t used, size_t capacity, size_t size)
{
	void *old, *data;

	if (capacity > SIZE_MAX / size)
		return -ENOMEM;
	memcpy(&old, array_slot, sizeof(old));
	if (!is_large(capacity, size)) {
		data = realloc(old, capacity * size);
		if (!data)
			return -ENOMEM;
	} else {
		if (large_new(capacity * size, &data) < 0)
			return -ENOMEM;
		if (used)
			memcpy(data, old, used * size);
		free(old);
	}
	memcpy(array_slot, &data, sizeof(data));
	return 0;
}

int room_values(void *array_slot, size_t used, size_t need, size_t size, size_t *capacity)
{
	int r;

	if (need <= *capacity)
		return 0;
	if (need < 2 * *capacity)
		need = 2 * *capacity;
	r = move_array(array_slot, used, need, size);
	if (r == 0)
		*capacity = need;
	return r;
}

bool room_is_zero(const struct run *run, unsigned int kind, size_t size)
{
	return is_large(run->internal->capacity[kind].rows, size);
}

int room_reserve(struct run *run, unsigned int kind, size_t need)
{
	const struct kind_desc *desc = kind_desc(kind);
	struct table_capacity *capacity = &run->internal->capacity[kind];
	size_t used = *room_rows(run, kind);
	unsigned int at = 2;
	int r;

	if (need <= capacity->rows)
		return 0;
	if (need < capacity->rows * 2)
		need = capacity->rows * 2;
	/* On failure some columns are larger than the capacity says, which does no harm. */
	r = move_array(room_slot(run, kind, 1), used, need, sizeof(uint16_t));
	for (unsigned int c = 0; r == 0 && c < desc->n_columns; c++) {
		const struct column_desc *column = &desc->columns[c];

		if (column_is_list(column)) {
			if (room_wanted(run, kind, c)) /* one more: the end of the last list */
				r = move_array(room_slot(run, kind, at + 1), used ? used + 1 : 0,
					       need + 1, sizeof(uint64_t));
			at += 2;
		} else {
			if (room_wanted(run, kind, c))
				r = move_array(room_slot(run, kind, at), used, need,
					       column_type_size(column->type));
			at++;
		}
	}
	if (r == 0)
		capacity->rows = need;
	return r;
}

/* Calls with the place of every wanted array of a kind that has one element a row. */
static void each_row_array(struct run *run, unsigned int kind,
			   void (*call)(char *array, size_t size, size_t to, size_t from, size_t n),
			   size_t to, size_t from, size_t n)
{
	const struct kind_desc *desc = kind_desc(kind);
	unsigned int at = 2;
	char *array;

	if (!n) /* a kind of which every chunk was damaged has no arrays */
		return;
	memcpy(&array, room_slot(run, kind, 1), sizeof(array));
	call(array, sizeof(uint16_t), to, from, n);
	for (unsigned int c = 0; c < desc->n_columns; c++) {
		bool list = column_is_list(&desc->columns[c]);

		if (!list && room_wanted(run, kind, c)) {
			memcpy(&array, room_slot(run, kind, at), sizeof(array));
			call(array, column_type_size(desc->columns[c].type), to, from, n);
		}
		at += list ? 2 : 1;
	}
}

static void move_rows(char *array, size_t size, size_t to, size_t from, size_t n)
{
	memmove(array + to * size, array + from * size, n * size);
}

static void clear_rows(char *array, size_t size, size_t to, size_t from, size_t n)
{
	(void)from;
	memset(array + to * size, 0, n * size);
}

void room_move(struct run *run, unsigned int kind, size_t to, size_t from, size_t n)
{
	each_row_array(run, kind, move_rows, to, from, n);
}

void room_clear(struct run *run, unsigned int kind, size_t first, size_t n)
{
	each_row_array(run, kind, clear_rows, first, first, n);
}

/* Where the pointers of a column are among the slots of its table. */
static unsigned int slot_of(const struct kind_desc *desc, unsigned int column)
{
	unsigned int at = 2;

	for (unsigned int c = 0; c < column; c++)
		at += column_is_list(&desc->columns[c]) ? 2 : 1;
	return at;
}

void *room_column(struct run *run, unsigned int kind, unsigned int column)
{
	void *array = NULL;

	if (*room_rows(run, kind) && room_wanted(run, kind, column))
		memcpy(&array, room_slot(run, kind, slot_of(kind_desc(kind), column)),
		       sizeof(array));
	return array;
}

size_t room_bytes(struct run *run, unsigned int kind, double *ret_row_bytes)
{
	const struct kind_desc *desc = kind_desc(kind);
	size_t n = *room_rows(run, kind), bytes = n * sizeof(uint16_t);

	for (unsigned int c = 0; n && c < desc->n_columns; c++) {
		size_t size = column_type_size(desc->columns[c].type);
		const uint64_t *first;

		if (!room_wanted(run, kind, c))
			continue;
		if (column_is_list(&desc->columns[c])) {
			memcpy(&first, room_slot(run, kind, slot_of(desc, c) + 1), sizeof(first));
			bytes += n * sizeof(*first) + (size_t)first[n] * size;
		} else {
			bytes += n * size;
		}
	}
	*ret_row_bytes = n ? (double)bytes / (double)n : 0;
	return bytes;
}

static void keep_elements(char *array, size_t size, const bool *keep, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n;) {
		size_t from = i;

		/* Rows that stay do so in long stretches. */
		while (i < n && keep[i] == keep[from])
			i++;
		if (!keep[from])
			continue;
		if (kept != from)
			memmove(array + kept * size, array + from * size, (i - from) * size);
		kept += i - from;
	}
	memset(array + kept * size, 0, (n - kept) * size);
}

static void keep_lists(char *values, uint64_t *first, size_t size, const bool *keep, size_t n)
{
	size_t kept = 0;
	uint64_t at = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t from = first[i], length = first[i + 1] - from;

		if (!keep[i])
			continue;
		if (length && at != from)
			memmove(values + at * size, values + from * size, length * size);
		/* Behind us: the rows to come are read from further on. */
		first[kept++] = at;
		at += length;
	}
	first[kept] = at;
}

void room_keep(struct run *run, unsigned int kind, const bool *keep)
{
	const struct kind_desc *desc = kind_desc(kind);
	size_t *rows = room_rows(run, kind), n = *rows, kept = 0;
	char *array;

	if (!n)
		return;
	memcpy(&array, room_slot(run, kind, 1), sizeof(array));
	keep_elements(array, sizeof(uint16_t), keep, n);
	for (unsigned int c = 0; c < desc->n_columns; c++) {
		size_t size = column_type_size(desc->columns[c].type);
		uint64_t *first;

		if (!room_wanted(run, kind, c))
			continue;
		memcpy(&array, room_slot(run, kind, slot_of(desc, c)), sizeof(array));
		if (!column_is_list(&desc->columns[c])) {
			keep_elements(array, size, keep, n);
			continue;
		}
		memcpy(&first, room_slot(run, kind, slot_of(desc, c) + 1), sizeof(first));
		keep_lists(array, first, size, keep, n);
	}
	for (size_t i = 0; i < n; i++)
		kept += keep[i];
	*rows = kept;
}

void room_drop(struct run *run, unsigned int kind)
{
	const struct kind_desc *desc = kind_desc(kind);
	unsigned int slots = 2;

	for (unsigned int c = 0; c < desc->n_columns; c++)
		slots += column_is_list(&desc->columns[c]) ? 2 : 1;
	for (unsigned int i = 1; i < slots; i++) {
		void *array;

		memcpy(&array, room_slot(run, kind, i), sizeof(array));
		free(array);
		memset(room_slot(run, kind, i), 0, sizeof(array));
	}
	*room_rows(run, kind) = 0;
	run->internal->capacity[kind] = (struct table_capacity){ 0 };
}

void room_free(struct run *run)
{
	for (unsigned int k = 1; k < RECORD_KIND_LIMIT; k++)
		room_drop(run, k);
}
