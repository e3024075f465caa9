/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls by name and sizes; see library_calls.h.
 */
#include "subjects/calls/library_calls.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "base/hash_map.h"
#include "subjects/calls/device_inside.h"
#include "subjects/shared/attribution.h"

struct builder {
	const struct run *run;
	bool by_size;
	struct hash_map map; /* of rows, by key */
	struct call_row *rows;
	size_t n, capacity;
	uint32_t *os_row, *library_row; /* of each record */
	double *bytes;			/* of each row; below 0: none was told */
	size_t bytes_capacity;
};

static int find_row(struct builder *b, const struct call_key *key, uint32_t *ret_row)
{
	uint32_t hash = hash_bytes(key, sizeof(*key)), number;
	struct hash_walk walk = hash_map_walk(&b->map, hash);

	while ((number = hash_map_next(&b->map, &walk)))
		if (!memcmp(&b->rows[number - 1].key, key, sizeof(*key))) {
			*ret_row = number - 1;
			return 0;
		}
	if (array_grow(&b->rows, &b->capacity, b->n + 1, sizeof(*b->rows)) < 0 ||
	    array_grow(&b->bytes, &b->bytes_capacity, b->n + 1, sizeof(*b->bytes)) < 0 ||
	    hash_map_add(&b->map, hash, (uint32_t)b->n + 1) < 0)
		return -ENOMEM;
	b->rows[b->n] = (struct call_row){ .key = *key };
	b->bytes[b->n] = -1;
	*ret_row = (uint32_t)b->n++;
	return 0;
}

/* Compared as bytes: what lies between its members must be 0. */
static struct call_key empty_key(void)
{
	struct call_key key;

	memset(&key, 0, sizeof(key));
	return key;
}

static void add_bytes(struct builder *b, uint32_t row, uint64_t bytes)
{
	b->bytes[row] = (b->bytes[row] < 0 ? 0 : b->bytes[row]) + (double)bytes;
}

static int take_os_calls(struct builder *b)
{
	const struct table_os_call *t = &b->run->os_call;

	for (size_t i = 0; i < t->n; i++) {
		struct call_key key = empty_key();
		int r;

		key.name = t->name[i];
		key.file = b->by_size ? t->file[i] : 0;
		r = find_row(b, &key, &b->os_row[i]);
		if (r < 0)
			return r;
		b->rows[b->os_row[i]].recorded++;
		b->rows[b->os_row[i]].time_ns += t->duration_ns[i];
		if (t->bytes_known[i])
			add_bytes(b, b->os_row[i], t->bytes[i]);
	}
	return 0;
}

static int take_library_calls(struct builder *b)
{
	const struct table_library_call *t = &b->run->library_call;

	for (size_t i = 0; i < t->n; i++) {
		struct call_key key = empty_key();
		int r;

		key.name = t->name[i];
		key.library = t->library[i];
		if (b->by_size) {
			key.type = t->type[i];
			key.m = t->gemm_m[i];
			key.n = t->gemm_n[i];
			key.k = t->gemm_k[i];
			key.batch = t->batch[i];
			key.elements = t->elements[i];
		}
		r = find_row(b, &key, &b->library_row[i]);
		if (r < 0)
			return r;
		b->rows[b->library_row[i]].recorded++;
		b->rows[b->library_row[i]].time_ns += t->duration_ns[i];
		b->rows[b->library_row[i]].errors += t->status[i] && t->status[i] != API_NOT_TOLD;
		b->rows[b->library_row[i]].not_told += t->status[i] == API_NOT_TOLD;
	}
	return 0;
}

/* Durations of a kind add up to 2^61 at most; these sums come from a file as they are. */
#define COUNTED_MOST_NS (UINT64_C(1) << 61)

static int take_counts(struct builder *b)
{
	const struct table_call_count *t = &b->run->call_count;
	uint64_t left_ns = COUNTED_MOST_NS;

	for (size_t i = 0; i < t->n; i++) {
		uint64_t total_ns = t->total_ns[i] < left_ns ? t->total_ns[i] : left_ns;
		struct call_key key = empty_key();
		uint32_t row;
		int r;

		key.name = t->name[i];
		key.library = t->library[i];
		r = find_row(b, &key, &row);
		if (r < 0)
			return r;
		b->rows[row].counted += t->calls[i];
		b->rows[row].counted_ns += (int64_t)total_ns;
		left_ns -= total_ns;
		if (t->bytes[i])
			add_bytes(b, row, t->bytes[i]);
	}
	return 0;
}

static void lay_out(const uint32_t *row_of, const int64_t *duration_ns, size_t n, size_t *next,
		    double *work)
{
	for (size_t i = 0; i < n; i++)
		work[next[row_of[i]]++] = (double)duration_ns[i];
}

/* Puts the durations of each row side by side. */
static int summarize(struct builder *b)
{
	const struct run *run = b->run;
	double *work = array_new(run->os_call.n + run->library_call.n + 1, sizeof(*work));
	size_t *next = calloc(b->n + 1, sizeof(*next)), first = 0;
	int r = work && next ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < b->n; first += b->rows[i++].recorded)
		next[i] = first;
	if (r == 0) {
		lay_out(b->os_row, run->os_call.duration_ns, run->os_call.n, next, work);
		lay_out(b->library_row, run->library_call.duration_ns, run->library_call.n, next,
			work);
	}
	first = 0;
	for (size_t i = 0; r == 0 && i < b->n; first = next[i++]) {
		struct call_row *row = &b->rows[i];
		struct value none = value_absent("its calls were only counted");

		row->summary = stats_summarize(work + first, next[i] - first);
		row->p50_ns = row->recorded ? value_of(row->summary.p50) : none;
		row->p95_ns = row->recorded ? value_of(row->summary.p95) : none;
		row->max_ns = row->recorded ? value_of(row->summary.max) : none;
	}
	free(work);
	free(next);
	return r;
}

static void write_sizes(const struct run *run, struct call_row *row)
{
	static const char *const files[CALL_FILE_LIMIT] = {
#define FILE(id, NAME, word) word,
		CALL_FILES(FILE)
#undef FILE
	};
	const struct call_key *key = &row->key;
	const char *type = key->type ? run_string(run, key->type) : "";
	char *out = row->sizes;
	size_t size = sizeof(row->sizes);
	int n = 0;

	if (key->m || key->n || key->k)
		n = snprintf(out, size, "%" PRIu64 " x %" PRIu64 " x %" PRIu64 "%s%s", key->m,
			     key->n, key->k, *type ? " " : "", type);
	else if (key->elements || *type)
		n = snprintf(out, size, "%" PRIu64 "%s%s", key->elements, *type ? " " : "", type);
	else if (key->file && key->file < CALL_FILE_LIMIT)
		n = snprintf(out, size, "%s", files[key->file]);
	if (key->batch > 1 && n > 0 && (size_t)n < size)
		snprintf(out + n, size - (size_t)n, ", %" PRIu64 " times", key->batch);
}

static int by_time(const void *a, const void *b)
{
	const struct call_row *x = a, *y = b;

	return CMP(y->time_ns, x->time_ns) ?: CMP(y->count, x->count) ?: CMP(x->key.name, y->key.name) ?:
	       CMP(x->key.library, y->key.library) ?: memcmp(&x->key, &y->key, sizeof(x->key));
}

static void finish(struct builder *b, struct library_calls *calls)
{
	for (size_t i = 0; i < b->n; i++) {
		struct call_row *row = &b->rows[i];

		row->count = row->recorded + row->counted;
		row->time_ns += row->counted_ns;
		row->bytes = b->bytes[i] < 0
				     ? value_absent("these calls move no bytes, or it is unknown")
				     : value_of(b->bytes[i]);
		write_sizes(b->run, row);
		calls->count += row->count;
		calls->recorded += row->recorded;
		calls->time_ns += row->time_ns;
	}
	for (size_t i = 0; i < b->n; i++)
		b->rows[i].share_pct = calls->time_ns > 0 ? 100.0 * (double)b->rows[i].time_ns /
								    (double)calls->time_ns
							  : 0;
	if (b->n)
		qsort(b->rows, b->n, sizeof(*b->rows), by_time);
	calls->rows = b->rows;
	calls->n = b->n;
	b->rows = NULL;
}

int library_calls_analyze(const struct attribution *at, bool by_size,
			  struct library_calls *ret_calls)
{
	const struct run *run = at->run;
	struct builder b = { .run = run, .by_size = by_size };
	struct library_calls result = { 0 };
	int r = 0;

	b.os_row = array_new(run->os_call.n + 1, sizeof(*b.os_row));
	b.library_row = array_new(run->library_call.n + 1, sizeof(*b.library_row));
	if (!b.os_row || !b.library_row)
		r = -ENOMEM;
	if (r == 0)
		r = take_os_calls(&b);
	if (r == 0)
		r = take_library_calls(&b);
	if (r == 0)
		r = take_counts(&b);
	if (r == 0)
		r = summarize(&b);
	if (r == 0)
		r = device_inside(at, b.library_row, b.rows, b.n);
	if (r == 0)
		finish(&b, &result);
	hash_map_release(&b.map);
	free(b.os_row);
	free(b.library_row);
	free(b.bytes);
	free(b.rows);
	if (r == 0)
		*ret_calls = result;
	return r;
}

void library_calls_release(struct library_calls *calls)
{
	free(calls->rows);
	*calls = (struct library_calls){ 0 };
}
