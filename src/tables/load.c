/* SPDX-License-Identifier: Apache-2.0
 *
 * From chunks to columns; see load.h. A chunk is taken whole or, when any of its columns is
 * damaged, not at all. Dictionaries go first, so that references can be turned into the run's
 * own ids as the columns are copied.
 *
 * Where each chunk's rows go is settled before any is decoded, so that several threads can do it and
 * the result is the same: what a damaged chunk would have taken is closed up afterwards. Lists go
 * where those before them end, so kinds that have one are taken chunk by chunk.
 */
#include "tables/load.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/parallel.h"
#include "tables/room.h"
#include "tables/window.h"

/* Fewer rows are decoded before another thread has begun. */
#define PARALLEL_ROWS 65536

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

/* The chunk being taken. */
struct taking {
	struct run *run;
	struct shard_state_internal *state;
	const struct shard_reader *reader;
	struct load_worker *worker;
	unsigned int kind, n_views;
	size_t rows, before;
	struct column_view views[CHUNK_MAX_COLUMNS];
};

/* Each value stands for that many rows. */
static void remap_ids(struct taking *t, unsigned int kind, uint64_t *values, size_t n, size_t rows)
{
	const struct id_map *map = &t->state->maps[kind];
	uint64_t bad = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t id = values[i];

		values[i] = id < map->capacity ? map->to[id] : 0;
		bad += id && !values[i];
	}
	t->worker->bad_references += bad * rows;
}

static int decode_column(struct taking *t, const struct column_desc *column, uint64_t **ret_values,
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
	if (list != column_is_list(column))
		return -EBADMSG;
	r = shard_decode(&t->worker->scratch, t->views, t->n_views, index, ret_values);
	if (r < 0)
		return r;
	*ret_n = view->entry.n_values;
	return 0;
}

/* A column that holds one value throughout, as many do, needs no decoding. */
static bool is_constant(struct taking *t, const struct column_desc *column, uint64_t *ret_value)
{
	unsigned int index;
	const struct column_view *view = find_view(t->views, t->n_views, column->id, &index);

	*ret_value = 0;
	if (!view)
		return true;
	memcpy(ret_value, &view->entry.base, sizeof(*ret_value));
	return view->entry.width == 0 && view->entry.coding <= CODING_FLOAT &&
	       view->entry.coding != CODING_START && view->entry.n_values == t->rows;
}

static void fill_column(enum column_type type, uint64_t value, size_t n, char *to)
{
	size_t size = column_type_size(type), filled = 1;

	column_narrow(type, &value, 1, to);
	for (; filled < n; filled *= 2)
		memcpy(to + filled * size, to, (filled < n - filled ? filled : n - filled) * size);
}

/* Analyses add and subtract these: what is beyond any clock is damage, whatever its checksum says.
 * Each value stands for that many rows. */
static int check_range(struct taking *t, const struct column_desc *column, const uint64_t *values,
		       size_t n, size_t rows)
{
	const uint64_t most = (uint64_t)SHARD_TIME_MAX;
	uint64_t beyond = 0, sum = 0;

	if (column->type != COLUMN_I64)
		return 0;
	if (column->coding != CODING_DUR) {
		for (size_t i = 0; i < n; i++)
			beyond |= values[i] + most > 2 * most;
		return beyond ? -EBADMSG : 0;
	}
	for (size_t i = 0; i < n; i++) {
		beyond |= values[i] > most || sum > SHARD_TIME_SUM_MAX;
		sum += values[i];
	}
	if (beyond || sum > SHARD_TIME_SUM_MAX / rows)
		return -EBADMSG;
	t->worker->durations_ns = sum * rows;
	return 0;
}

static int take_scalar(struct taking *t, unsigned int c, unsigned int at)
{
	const struct kind_desc *desc = kind_desc(t->kind);
	const struct column_desc *column = &desc->columns[c];
	size_t size = column_type_size(column->type), n = 1;
	uint64_t constant, *values = &constant;
	bool filled;
	char *to;
	int r = 0;

	memcpy(&to, room_slot(t->run, t->kind, at), sizeof(to));
	to += t->before * size;
	filled = is_constant(t, column, &constant);
	if (!filled)
		r = decode_column(t, column, &values, &n);
	if (r < 0)
		return r;
	if (column->refers)
		remap_ids(t, column->refers, values, n, filled ? t->rows : 1);
	r = check_range(t, column, values, n, filled ? t->rows : 1);
	if (r == 0 && (int)c == desc->time_column && t->state->shift_ns) {
		for (size_t i = 0; i < n; i++)
			values[i] += (uint64_t)t->state->shift_ns;
		r = check_range(t, column, values, n, 1);
	}
	if (r < 0)
		return r;
	if (!filled)
		column_narrow(column->type, values, n, to);
	else if (constant || !room_is_zero(t->run, t->kind, size))
		fill_column(column->type, constant, t->rows, to);
	return 0;
}

static int take_list(struct taking *t, unsigned int c, unsigned int at, size_t *capacity)
{
	const struct kind_desc *desc = kind_desc(t->kind);
	const struct column_desc *column = &desc->columns[c];
	size_t size = column_type_size(column->type), n;
	uint64_t *values, *first, total;
	char *to;
	int r = decode_column(t, &desc->columns[column->count_column], &values, &n);

	if (r < 0)
		return r;
	memcpy(&first, room_slot(t->run, t->kind, at + 1), sizeof(first));
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
	r = decode_column(t, column, &values, &n);
	if (r < 0)
		return r;
	if (total - first[0] != n)
		return -EBADMSG;
	r = room_values(room_slot(t->run, t->kind, at), (size_t)first[0], (size_t)total, size,
			capacity);
	if (r < 0)
		return r;
	if (!n)
		return 0;
	memcpy(&to, room_slot(t->run, t->kind, at), sizeof(to));
	column_narrow(column->type, values, n, to + first[0] * size);
	return 0;
}

/* Into rows that are reserved already. */
static int take_columns(struct taking *t)
{
	const struct kind_desc *desc = kind_desc(t->kind);
	struct table_capacity *capacity = &t->run->internal->capacity[t->kind];
	uint16_t *shards, shard = (uint16_t)(t->state - t->run->internal->shards);
	unsigned int at = 2, list = 0;
	int r = 0;

	for (unsigned int c = 0; r == 0 && c < desc->n_columns; c++) {
		if (column_is_list(&desc->columns[c])) {
			if (room_wanted(t->run, t->kind, c))
				r = take_list(t, c, at, &capacity->values[list]);
			list++;
			at += 2;
		} else {
			if (room_wanted(t->run, t->kind, c))
				r = take_scalar(t, c, at);
			at++;
		}
	}
	if (r < 0)
		return r;
	memcpy(&shards, room_slot(t->run, t->kind, 1), sizeof(shards));
	if (shard || !room_is_zero(t->run, t->kind, sizeof(*shards)))
		for (size_t i = 0; i < t->rows; i++)
			shards[t->before + i] = shard;
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
	int r = decode_column(t, &kind_desc(t->kind)->columns[c], &values, &n);

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
			remap_ids(t, desc->columns[c].refers, columns[c], n, 1);
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

static int take_chunk(struct run *run, size_t s, struct load_worker *worker,
		      const struct chunk *chunk, size_t before)
{
	struct taking t = { .run = run,
			    .state = &run->internal->shards[s],
			    .reader = run->shards[s].reader,
			    .worker = worker,
			    .kind = chunk->header.kind,
			    .rows = chunk->header.n_records,
			    .before = before };
	const struct kind_desc *desc = kind_desc(t.kind);
	int r;

	r = shard_chunk_columns(t.reader, &worker->scratch, chunk, t.views, &t.n_views);
	if (r < 0)
		return r;
	worker->durations_ns = 0;
	for (unsigned int v = 0; v < t.n_views; v++) {
		unsigned int c = 0;

		while (c < desc->n_columns && desc->columns[c].id != t.views[v].entry.id)
			c++;
		worker->unknown_columns += c == desc->n_columns;
	}
	if (!t.rows) /* no writer makes one, and there is no room reserved for it */
		return 0;
	if (t.kind == RECORD_STRING)
		return take_strings(&t);
	return t.kind <= RECORD_LAUNCH ? take_rows(&t) : take_columns(&t);
}

/* A chunk of rows that has its place. */
struct job {
	const struct chunk *chunk;
	size_t before;
	uint64_t durations_ns;
	int result;
};

struct loading {
	struct run *run;
	size_t shard;
	size_t until; /* one past the last chunk that is taken now */
	struct job *jobs;
	size_t n_jobs;
	size_t rows[RECORD_KIND_LIMIT]; /* of the chunks to come */
	bool placed[RECORD_KIND_LIMIT]; /* they have their places: can be taken in any order */
};

/* Strings before what refers to them. */
static bool in_pass(unsigned int kind, int pass)
{
	return pass == 0 ? kind == RECORD_STRING : kind == RECORD_SITE || kind == RECORD_LAUNCH;
}

static int note_result(struct loading *l, int r)
{
	if (r == -EBADMSG) {
		l->run->internal->shards[l->shard].damaged_chunks++;
		return 0;
	}
	return r;
}

static int load_dictionaries(struct loading *l)
{
	struct shard_state_internal *state = &l->run->internal->shards[l->shard];
	const struct shard_reader *reader = l->run->shards[l->shard].reader;
	int r = 0;

	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = state->loaded_chunks; r == 0 && i < reader->n_chunks; i++)
			if (in_pass(reader->chunks[i].header.kind, pass))
				r = note_result(l, take_chunk(l->run, l->shard,
							      &l->run->internal->workers[0],
							      &reader->chunks[i], 0));
	}
	return r;
}

/* One reservation for all chunks to come, as far as the file's size makes their claims likely:
 * real records take more than a byte. */
static int place_chunks(struct loading *l)
{
	struct shard_state_internal *state = &l->run->internal->shards[l->shard];
	const struct shard_reader *reader = l->run->shards[l->shard].reader;
	size_t next[RECORD_KIND_LIMIT];
	int r = 0;

	for (size_t i = state->loaded_chunks; i < l->until; i++) {
		unsigned int kind = reader->chunks[i].header.kind;

		if (!kind_desc(kind)) {
			state->unknown_kinds++;
			continue;
		}
		l->rows[kind] += reader->chunks[i].header.n_records;
		l->run->internal->rows[kind] += reader->chunks[i].header.n_records;
	}
	for (unsigned int k = RECORD_LAUNCH + 1; r == 0 && k < RECORD_KIND_LIMIT; k++) {
		next[k] = *room_rows(l->run, k);
		if (!l->rows[k] || l->rows[k] > reader->file_bytes ||
		    !(l->run->internal->want.kinds >> k & 1))
			continue;
		r = room_reserve(l->run, k, next[k] + l->rows[k]);
		l->placed[k] = !kind_desc(k)->n_lists;
	}
	l->jobs = r == 0 ? calloc(l->until - state->loaded_chunks + 1, sizeof(*l->jobs)) : NULL;
	if (!l->jobs)
		return -ENOMEM;
	for (size_t i = state->loaded_chunks; i < l->until; i++) {
		const struct chunk *chunk = &reader->chunks[i];

		if (!kind_desc(chunk->header.kind) || !l->placed[chunk->header.kind])
			continue;
		l->jobs[l->n_jobs++] = (struct job){ .chunk = chunk,
						     .before = next[chunk->header.kind] };
		next[chunk->header.kind] += chunk->header.n_records;
	}
	return 0;
}

static int take_job(void *context, size_t i, unsigned int worker)
{
	struct loading *l = context;
	struct job *job = &l->jobs[i];
	int r = take_chunk(l->run, l->shard, &l->run->internal->workers[worker], job->chunk,
			   job->before);

	job->durations_ns = l->run->internal->workers[worker].durations_ns;
	job->result = r;
	return r == -EBADMSG ? 0 : r;
}

/* In the order of the file, so that it does not depend on threads which chunk is one too many. */
static int add_durations(struct run *run, unsigned int kind, uint64_t ns)
{
	uint64_t *sum = &run->internal->durations_ns[kind];

	if (ns > SHARD_TIME_SUM_MAX - *sum)
		return -EBADMSG;
	*sum += ns;
	return 0;
}

/* Rows behind a damaged chunk move up; what they leave is zero again, as room.h has it. */
static void close_up(struct loading *l)
{
	for (size_t i = 0; i < l->n_jobs; i++) {
		const struct chunk_header *header = &l->jobs[i].chunk->header;
		size_t *n = room_rows(l->run, header->kind);

		if (l->jobs[i].result == 0)
			l->jobs[i].result = add_durations(l->run, header->kind,
							  l->jobs[i].durations_ns);
		if (l->jobs[i].result < 0) {
			note_result(l, l->jobs[i].result);
			continue;
		}
		if (*n != l->jobs[i].before)
			room_move(l->run, header->kind, *n, l->jobs[i].before, header->n_records);
		*n += header->n_records;
	}
}

static void clear_rest(struct loading *l, const size_t *before)
{
	for (unsigned int k = RECORD_LAUNCH + 1; k < RECORD_KIND_LIMIT; k++) {
		size_t n = *room_rows(l->run, k), end = before[k] + l->rows[k];

		if (l->placed[k] && n < end)
			room_clear(l->run, k, n, end - n);
	}
}

static int load_placed(struct loading *l)
{
	size_t before[RECORD_KIND_LIMIT] = { 0 }, rows = 0;
	unsigned int workers;
	int r;

	for (unsigned int k = RECORD_LAUNCH + 1; k < RECORD_KIND_LIMIT; k++) {
		before[k] = *room_rows(l->run, k);
		rows += l->placed[k] ? l->rows[k] : 0;
	}
	workers = rows < PARALLEL_ROWS ? 1 : parallel_workers(l->n_jobs);
	r = parallel_run(l->n_jobs, workers, take_job, l);
	if (r == 0)
		close_up(l);
	clear_rest(l, before);
	return r;
}

/* What has no place yet, chunk by chunk. */
static int load_in_order(struct loading *l)
{
	struct shard_state_internal *state = &l->run->internal->shards[l->shard];
	const struct shard_reader *reader = l->run->shards[l->shard].reader;

	for (size_t i = state->loaded_chunks; i < l->until; i++) {
		const struct chunk *chunk = &reader->chunks[i];
		unsigned int kind = chunk->header.kind;
		size_t n;
		int r;

		if (!kind_desc(kind) || kind <= RECORD_LAUNCH || l->placed[kind] ||
		    !(l->run->internal->want.kinds >> kind & 1))
			continue;
		n = *room_rows(l->run, kind);
		r = room_reserve(l->run, kind, n + chunk->header.n_records);
		if (r < 0)
			return r;
		r = take_chunk(l->run, l->shard, &l->run->internal->workers[0], chunk, n);
		if (r == 0)
			r = add_durations(l->run, kind, l->run->internal->workers[0].durations_ns);
		if (r == 0)
			*room_rows(l->run, kind) = n + chunk->header.n_records;
		else
			room_clear(l->run, kind, n, chunk->header.n_records);
		r = note_result(l, r);
		if (r < 0)
			return r;
	}
	return 0;
}

int load_chunk(struct run *run, size_t s, const struct chunk *chunk, uint64_t *ret_durations_ns)
{
	struct load_worker *worker = &run->internal->workers[0];
	size_t *rows = room_rows(run, chunk->header.kind);
	int r = room_reserve(run, chunk->header.kind, chunk->header.n_records);

	if (r == 0)
		r = take_chunk(run, s, worker, chunk, 0);
	if (r < 0)
		return r;
	*rows = chunk->header.n_records;
	*ret_durations_ns = worker->durations_ns;
	return 0;
}

static bool has_first_step(const struct run *run, size_t s)
{
	for (size_t i = 0; i < run->step.n; i++)
		if (run->step.shard[i] == s && run->step.first[i])
			return true;
	return false;
}

/* What was routed before the call that ended the first step was in it, which nobody knew then. */
static void place_in_first_step(const uint16_t *shards, int64_t *steps, size_t n, size_t s)
{
	for (size_t i = 0; i < n; i++)
		if (shards[i] == s && steps[i] == -1)
			steps[i] = 0;
}

static void settle_first_step(struct run *run, size_t s)
{
	struct shard_state_internal *state = &run->internal->shards[s];

	if (state->first_settled || !run->step.first || !has_first_step(run, s))
		return;
	if (run->routing.step)
		place_in_first_step(run->routing.shard, run->routing.step, run->routing.n, s);
	if (run->routed.step)
		place_in_first_step(run->routed.shard, run->routed.step, run->routed.n, s);
	state->first_settled = true; /* later rows have their step */
}

/* One past the chunks that are taken before old rows are let go: all of them, unless there is a window. */
static size_t batch_end(const struct run *run, size_t s)
{
	const struct shard_reader *reader = run->shards[s].reader;
	size_t i = run->internal->shards[s].loaded_chunks, bytes = 0;

	if (!run->internal->want.window_bytes)
		return reader->n_chunks;
	while (i < reader->n_chunks && bytes < run->internal->want.window_bytes / 4) {
		const struct kind_desc *desc = kind_desc(reader->chunks[i].header.kind);

		bytes += desc ? (size_t)reader->chunks[i].header.n_records * desc->row_size : 0;
		i++;
	}
	return i;
}

static int load_batch(struct loading *l)
{
	int r = place_chunks(l);

	if (r == 0)
		r = load_placed(l);
	if (r == 0)
		r = load_in_order(l);
	free(l->jobs);
	if (r < 0)
		return r;
	settle_first_step(l->run, l->shard);
	l->run->internal->shards[l->shard].loaded_chunks = l->until;
	return window_trim(l->run);
}

int load_shard(struct run *run, size_t s)
{
	struct shard_state_internal *state = &run->internal->shards[s];
	struct loading dictionaries = { .run = run, .shard = s };
	int r = load_dictionaries(&dictionaries);

	while (r == 0 && state->loaded_chunks < run->shards[s].reader->n_chunks) {
		struct loading l = { .run = run, .shard = s, .until = batch_end(run, s) };

		r = load_batch(&l);
	}
	for (unsigned int w = 0; w < PARALLEL_MOST; w++) {
		struct load_worker *worker = &run->internal->workers[w];

		state->bad_references += worker->bad_references;
		state->unknown_columns += worker->unknown_columns;
		worker->bad_references = worker->unknown_columns = 0;
	}
	return r;
}
