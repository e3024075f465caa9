/* SPDX-License-Identifier: Apache-2.0
 *
 * From chunks to columns; see load.h. A chunk is taken whole or, when any of its columns is
 * damaged, not at all. Dictionaries go first, so that references can be turned into the run's
 * own ids as the columns are copied.
 */
#include "tables/load.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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

static size_t *table_rows(struct run *run, unsigned int kind)
{
	return (size_t *)table_at(run, kind);
}

static void *slot(struct run *run, unsigned int kind, unsigned int index)
{
	return table_at(run, kind) + (size_t)index * 8;
}

static bool is_list(const struct column_desc *column)
{
	return column->count_column >= 0;
}

static bool wanted(const struct run *run, unsigned int kind, unsigned int column)
{
	uint64_t columns = run->internal->want.columns[kind];

	return !columns || columns >> column & 1;
}

/* Moves an array of `used` elements to room for `capacity`. Large ones ask for huge pages: their
 * page faults would otherwise cost as much as the decoding. */
static int move_array(void *array_slot, size_t used, size_t capacity, size_t size)
{
	const size_t huge = 2u << 20;
	void *old, *data;

	if (capacity > SIZE_MAX / size)
		return -ENOMEM;
	memcpy(&old, array_slot, sizeof(old));
	if (capacity * size < 2 * huge) {
		data = realloc(old, capacity * size);
		if (!data)
			return -ENOMEM;
	} else {
		if (posix_memalign(&data, huge, capacity * size) != 0)
			return -ENOMEM;
		madvise(data, capacity * size, MADV_HUGEPAGE);
		if (used)
			memcpy(data, old, used * size);
		free(old);
	}
	memcpy(array_slot, &data, sizeof(data));
	return 0;
}

/* Room for `need` rows in every wanted column of a kind. */
static int reserve_rows(struct run *run, unsigned int kind, size_t need)
{
	const struct kind_desc *desc = kind_desc(kind);
	struct table_capacity *capacity = &run->internal->capacity[kind];
	size_t used = *table_rows(run, kind);
	unsigned int at = 2;
	int r;

	if (need <= capacity->rows)
		return 0;
	if (need < capacity->rows * 2)
		need = capacity->rows * 2;
	/* On failure some columns are larger than the capacity says, which does no harm. */
	r = move_array(slot(run, kind, 1), used, need, sizeof(uint16_t));
	for (unsigned int c = 0; r == 0 && c < desc->n_columns; c++) {
		const struct column_desc *column = &desc->columns[c];

		if (is_list(column)) {
			if (wanted(run, kind, c)) /* one more: the end of the last list */
				r = move_array(slot(run, kind, at + 1), used ? used + 1 : 0,
					       need + 1, sizeof(uint64_t));
			at += 2;
		} else {
			if (wanted(run, kind, c))
				r = move_array(slot(run, kind, at), used, need,
					       column_type_size(column->type));
			at++;
		}
	}
	if (r == 0)
		capacity->rows = need;
	return r;
}

static const struct column_view *find_view(const struct column_view *views, unsigned int n,
					   uint8_t id, unsigned int *ret_index)
{
	for (unsigned int i = 0; i < n; i++) {
		if (views[i].entry.id == id) {
			*ret_index = i;
			return &views[i];
		}
	}
	return NULL;
}

static void remap(struct shard_state_internal *state, unsigned int kind, uint64_t *values, size_t n)
{
	const struct id_map *map = &state->maps[kind];

	for (size_t i = 0; i < n; i++) {
		uint64_t id = values[i];

		values[i] = id < map->capacity ? map->to[id] : 0;
		if (id && !values[i])
			state->bad_references++;
	}
}

/* The chunk being taken. */
struct taking {
	struct run *run;
	struct shard_state_internal *state;
	struct shard_reader *reader;
	unsigned int kind, n_views;
	size_t rows, before;
	struct column_view views[CHUNK_MAX_COLUMNS];
};

static int decode(struct taking *t, const struct column_desc *column, uint64_t **ret_values,
		  size_t *ret_n)
{
	unsigned int index;
	const struct column_view *view = find_view(t->views, t->n_views, column->id, &index);
	bool list;
	int r;

	*ret_values = NULL;
	*ret_n = 0;
	if (!view)
		return 0;
	list = view->entry.coding == CODING_LIST || view->entry.coding == CODING_BYTES;
	if (list != is_list(column))
		return -EBADMSG;
	r = shard_decode(t->reader, t->views, t->n_views, index, ret_values);
	if (r < 0)
		return r;
	*ret_n = view->entry.n_values;
	return 0;
}

/* A column that holds zero throughout, as many do, needs no decoding. */
static bool is_zero(struct taking *t, const struct column_desc *column)
{
	unsigned int index;
	const struct column_view *view = find_view(t->views, t->n_views, column->id, &index);

	return !view || (view->entry.width == 0 && view->entry.base == 0 &&
			 view->entry.coding == CODING_PLAIN && view->entry.n_values == t->rows);
}

static int take_scalar(struct taking *t, unsigned int c, unsigned int at)
{
	const struct kind_desc *desc = kind_desc(t->kind);
	const struct column_desc *column = &desc->columns[c];
	size_t size = column_type_size(column->type), n;
	uint64_t *values;
	char *to;
	int r;

	memcpy(&to, slot(t->run, t->kind, at), sizeof(to));
	to += t->before * size;
	if (is_zero(t, column)) {
		memset(to, 0, t->rows * size);
		return 0;
	}
	r = decode(t, column, &values, &n);
	if (r < 0)
		return r;
	if (column->refers)
		remap(t->state, column->refers, values, n);
	if ((int)c == desc->time_column && t->state->shift_ns)
		for (size_t i = 0; i < n; i++)
			values[i] += (uint64_t)t->state->shift_ns;
	column_narrow(column->type, values, n, to);
	return 0;
}

static int take_list(struct taking *t, unsigned int c, unsigned int at, size_t *capacity)
{
	const struct kind_desc *desc = kind_desc(t->kind);
	const struct column_desc *column = &desc->columns[c];
	size_t size = column_type_size(column->type), n;
	uint64_t *values, *first, total;
	char *to;
	int r = decode(t, &desc->columns[column->count_column], &values, &n);

	if (r < 0)
		return r;
	memcpy(&first, slot(t->run, t->kind, at + 1), sizeof(first));
	if (!t->before)
		first[0] = 0;
	first += t->before;
	total = first[0];
	for (size_t i = 0; i < t->rows; i++) {
		uint64_t count = values ? values[i] : 0;

		if (count > CHUNK_MAX_VALUES)
			return -EBADMSG;
		total += count;
		first[i + 1] = total;
	}
	r = decode(t, column, &values, &n);
	if (r < 0)
		return r;
	if (total - first[0] != n)
		return -EBADMSG;
	if (total > *capacity) {
		size_t need = total < 2 * *capacity ? 2 * *capacity : (size_t)total;

		r = move_array(slot(t->run, t->kind, at), (size_t)first[0], need, size);
		if (r < 0)
			return r;
		*capacity = need;
	}
	if (!n)
		return 0;
	memcpy(&to, slot(t->run, t->kind, at), sizeof(to));
	column_narrow(column->type, values, n, to + first[0] * size);
	return 0;
}

static int take_columns(struct taking *t)
{
	const struct kind_desc *desc = kind_desc(t->kind);
	struct table_capacity *capacity = &t->run->internal->capacity[t->kind];
	unsigned int at = 2, list = 0;
	uint16_t *shards;
	int r = reserve_rows(t->run, t->kind, t->before + t->rows);

	for (unsigned int c = 0; r == 0 && c < desc->n_columns; c++) {
		if (is_list(&desc->columns[c])) {
			if (wanted(t->run, t->kind, c))
				r = take_list(t, c, at, &capacity->values[list]);
			list++;
			at += 2;
		} else {
			if (wanted(t->run, t->kind, c))
				r = take_scalar(t, c, at);
			at++;
		}
	}
	if (r < 0)
		return r;
	memcpy(&shards, slot(t->run, t->kind, 1), sizeof(shards));
	for (size_t i = 0; i < t->rows; i++)
		shards[t->before + i] = (uint16_t)(t->state - t->run->internal->shards);
	*table_rows(t->run, t->kind) = t->before + t->rows;
	return 0;
}

/* Ids are dense: one far beyond what the file can hold is damage, and would cost its size in
 * memory. */
static int map_id(struct id_map *map, uint64_t local, uint32_t id, uint64_t file_bytes)
{
	size_t old = map->capacity;
	int r;

	if (local > UINT32_MAX / 16 || (local > 1u << 20 && local / 8 > file_bytes))
		return -EBADMSG;
	if (!id)
		return -ENOMEM;
	r = array_grow(&map->to, &map->capacity, (size_t)local + 1, sizeof(map->to[0]));
	if (r < 0)
		return r;
	if (map->capacity > old)
		memset(map->to + old, 0, (map->capacity - old) * sizeof(map->to[0]));
	map->to[local] = id;
	return 0;
}

/* A copy of one column of a dictionary chunk, zeros when it is absent. Caller frees. */
static int dictionary_column(struct taking *t, unsigned int c, uint64_t **ret_values, size_t *ret_n)
{
	uint64_t *values, *copy;
	size_t n;
	int r = decode(t, &kind_desc(t->kind)->columns[c], &values, &n);

	if (r < 0)
		return r;
	copy = calloc((values ? n : t->rows) + 1, sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	if (values)
		memcpy(copy, values, n * sizeof(*copy));
	*ret_values = copy;
	*ret_n = values ? n : t->rows;
	return 0;
}

static int take_strings(struct taking *t)
{
	struct interned *strings = &t->run->internal->dictionaries[RECORD_STRING];
	uint64_t *columns[3] = { 0 }, at = 0;
	size_t n[3] = { 0 };
	char *text;
	int r = 0;

	for (unsigned int c = 0; c < 3 && r == 0; c++)
		r = dictionary_column(t, c, &columns[c], &n[c]);
	text = r == 0 ? malloc(n[2] + 1) : NULL;
	if (r == 0 && !text)
		r = -ENOMEM;
	for (size_t i = 0; r == 0 && i < n[2]; i++)
		text[i] = (char)columns[2][i];
	for (size_t i = 0; r == 0 && i < t->rows; i++) {
		if (columns[1][i] > n[2] - at) {
			r = -EBADMSG;
			break;
		}
		r = map_id(&t->state->maps[RECORD_STRING], columns[0][i],
			   interned_id(strings, text + at, columns[1][i]), t->reader->file_bytes);
		at += columns[1][i];
	}
	free(text);
	for (int c = 0; c < 3; c++)
		free(columns[c]);
	return r;
}

/* Sites and launches: fixed rows, kept as they are but for the id and the remapped name. */
static int take_rows(struct taking *t)
{
	const struct kind_desc *desc = kind_desc(t->kind);
	uint64_t *columns[16] = { 0 };
	union {
		struct row_site site;
		struct row_launch launch;
	} row;
	int r = 0;

	for (unsigned int c = 0; c < desc->n_columns && r == 0; c++) {
		size_t n;

		r = dictionary_column(t, c, &columns[c], &n);
		if (r == 0 && desc->columns[c].refers)
			remap(t->state, desc->columns[c].refers, columns[c], n);
	}
	for (size_t i = 0; r == 0 && i < t->rows; i++) {
		memset(&row, 0, sizeof(row));
		for (unsigned int c = 1; c < desc->n_columns; c++)
			column_narrow(desc->columns[c].type, &columns[c][i], 1,
				      (char *)&row + desc->columns[c].row_offset);
		r = map_id(
			&t->state->maps[t->kind], columns[0][i],
			interned_id(&t->run->internal->dictionaries[t->kind], &row, desc->row_size),
			t->reader->file_bytes);
	}
	for (size_t c = 0; c < sizeof(columns) / sizeof(columns[0]); c++)
		free(columns[c]);
	return r;
}

static int take_chunk(struct run *run, size_t s, const struct chunk *chunk)
{
	struct taking t = { .run = run,
			    .state = &run->internal->shards[s],
			    .reader = run->shards[s].reader,
			    .kind = chunk->header.kind,
			    .rows = chunk->header.n_records };
	const struct kind_desc *desc = kind_desc(t.kind);
	int r;

	r = shard_chunk_columns(t.reader, chunk, t.views, &t.n_views);
	if (r < 0)
		return r;
	for (unsigned int v = 0; v < t.n_views; v++) {
		unsigned int c = 0;

		while (c < desc->n_columns && desc->columns[c].id != t.views[v].entry.id)
			c++;
		t.state->unknown_columns += c == desc->n_columns;
	}
	if (!t.rows) /* no writer makes one, and there is no room reserved for it */
		return 0;
	if (t.kind == RECORD_STRING)
		return take_strings(&t);
	if (t.kind <= RECORD_LAUNCH)
		return take_rows(&t);
	t.before = *table_rows(run, t.kind);
	return take_columns(&t);
}

/* Dictionaries first, strings before what refers to them; then the rest in file order. */
static bool in_pass(unsigned int kind, int pass)
{
	return pass == 0   ? kind == RECORD_STRING
	       : pass == 1 ? kind == RECORD_SITE || kind == RECORD_LAUNCH
			   : kind > RECORD_LAUNCH;
}

/* One reservation for all chunks to come, as far as the file's size makes their claims likely:
 * real records take more than a byte. */
static int reserve_all(struct run *run, size_t s)
{
	const struct shard_reader *reader = run->shards[s].reader;
	size_t rows[RECORD_KIND_LIMIT] = { 0 };
	int r = 0;

	for (size_t i = run->internal->shards[s].loaded_chunks; i < reader->n_chunks; i++)
		if (kind_desc(reader->chunks[i].header.kind))
			rows[reader->chunks[i].header.kind] += reader->chunks[i].header.n_records;
	for (unsigned int k = RECORD_LAUNCH + 1; r == 0 && k < RECORD_KIND_LIMIT; k++)
		if (rows[k] && rows[k] <= reader->file_bytes && run->internal->want.kinds >> k & 1)
			r = reserve_rows(run, k, *table_rows(run, k) + rows[k]);
	return r;
}

int load_shard(struct run *run, size_t s)
{
	struct shard_reader *reader = run->shards[s].reader;
	struct shard_state_internal *state = &run->internal->shards[s];
	int reserved = reserve_all(run, s);

	if (reserved < 0)
		return reserved;
	for (int pass = 0; pass < 3; pass++) {
		for (size_t i = state->loaded_chunks; i < reader->n_chunks; i++) {
			const struct chunk *chunk = &reader->chunks[i];
			unsigned int kind = chunk->header.kind;
			int r;

			if (!kind_desc(kind)) {
				state->unknown_kinds += pass == 0;
				continue;
			}
			if (!in_pass(kind, pass))
				continue;
			run->internal->rows[kind] += chunk->header.n_records;
			if (kind > RECORD_LAUNCH && !(run->internal->want.kinds >> kind & 1))
				continue;
			r = take_chunk(run, s, chunk);
			if (r == -EBADMSG)
				state->damaged_chunks++;
			else if (r < 0)
				return r;
		}
	}
	state->loaded_chunks = reader->n_chunks;
	return 0;
}

void load_free_tables(struct run *run)
{
	for (unsigned int k = 1; k < RECORD_KIND_LIMIT; k++) {
		const struct kind_desc *desc = kind_desc(k);
		unsigned int slots = 2;

		for (unsigned int c = 0; c < desc->n_columns; c++)
			slots += is_list(&desc->columns[c]) ? 2 : 1;
		for (unsigned int i = 1; i < slots; i++) {
			void *array;

			memcpy(&array, slot(run, k, i), sizeof(array));
			free(array);
		}
	}
}
