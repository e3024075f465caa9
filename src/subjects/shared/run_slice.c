/* SPDX-License-Identifier: Apache-2.0
 *
 * Stretches of a run; see run_slice.h.
 */
#include "subjects/shared/run_slice.h"

#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "subjects/numbers/order.h"
#include "trace/format.h"

#define QUEUE_LAUNCHES 1024

/* Kinds whose rows are chosen, and whether they have a duration; none of them has lists. */
#define SLICED_KINDS(KIND)                                                                         \
	KIND(kernel, duration_ns, 0)                                                               \
	KIND(copy, duration_ns, 0)                                                                 \
	KIND(set, duration_ns, 0)                                                                  \
	KIND(api, duration_ns, before_ns)                                                          \
	KIND(sync, duration_ns, 0)                                                                 \
	KIND(range, duration_ns, 0)                                                                \
	KIND(op, duration_ns, 0)

struct rows {
	size_t *items;
	size_t n, capacity;
};

struct chooser {
	const struct stretch *stretches;
	size_t n;
};

static int stretch_order(const void *a, const void *b)
{
	const struct stretch *x = a, *y = b;

	return CMP(x->shard, y->shard) ?: CMP(x->start_ns, y->start_ns);
}

static bool is_before(const struct stretch *s, uint16_t shard, int64_t time_ns)
{
	return s->shard < shard || (s->shard == shard && s->end_ns <= time_ns);
}

/* The first stretch of the process that ends after the moment, or the end of all. Rows are mostly in
 * order: nearly always it is the one of the row before, `hint`. */
static size_t first_stretch_after(const struct chooser *c, uint16_t shard, int64_t time_ns,
				  size_t hint)
{
	size_t low;

	ORDER_FIND(low, c->n, hint, is_before(&c->stretches[probe], shard, time_ns));
	return low;
}

/* Rows without a duration, and those that took no time, count as a moment. */
static int choose_rows(const struct chooser *c, const uint16_t *shard, const int64_t *start_ns,
		       const int64_t *duration_ns, size_t n, int64_t before_ns, struct rows *rows)
{
	size_t at = 0;

	rows->n = 0;
	for (size_t i = 0; i < n; i++) {
		int64_t end = start_ns[i] + (duration_ns ? duration_ns[i] : 0) + before_ns;

		at = first_stretch_after(c, shard[i], start_ns[i], at);
		if (at == c->n || c->stretches[at].shard != shard[i] ||
		    (c->stretches[at].start_ns >= end && c->stretches[at].start_ns > start_ns[i]))
			continue;
		if (array_grow(&rows->items, &rows->capacity, rows->n + 1, sizeof(*rows->items)) <
		    0)
			return -ENOMEM;
		rows->items[rows->n++] = i;
	}
	return 0;
}

static int choose_steps(const struct chooser *c, const struct table_step *t, struct rows *rows)
{
	rows->n = 0;
	for (size_t i = 0; i < t->n; i++) {
		size_t at = first_stretch_after(c, t->shard[i], t->start_ns[i], 0);

		if (at == c->n || c->stretches[at].shard != t->shard[i] ||
		    t->start_ns[i] < c->stretches[at].start_ns ||
		    t->start_ns[i] + t->duration_ns[i] > c->stretches[at].end_ns)
			continue;
		if (array_grow(&rows->items, &rows->capacity, rows->n + 1, sizeof(*rows->items)) <
		    0)
			return -ENOMEM;
		rows->items[rows->n++] = i;
	}
	return 0;
}

/* A table of the chosen rows: every column that was loaded. At least one element each, so that an
 * empty column is not taken for one that was not loaded. */
#define GATHER_C(id, field, TYPE, CODING)                                                          \
	if (from->field) {                                                                         \
		to->field = calloc(rows->n + 1, sizeof(*to->field));                               \
		if (!to->field)                                                                    \
			return -ENOMEM;                                                            \
		for (size_t i = 0; i < rows->n; i++)                                               \
			to->field[i] = from->field[rows->items[i]];                                \
	}
#define GATHER_NONE(...)
#define GATHER(name)                                                                               \
	static int gather_##name(const struct table_##name *from, const struct rows *rows,         \
				 struct table_##name *to)                                          \
	{                                                                                          \
		to->shard = calloc(rows->n + 1, sizeof(*to->shard));                               \
		if (!to->shard)                                                                    \
			return -ENOMEM;                                                            \
		for (size_t i = 0; i < rows->n; i++)                                               \
			to->shard[i] = from->shard[rows->items[i]];                                \
		RECORD_COLUMNS_##name(GATHER_C, GATHER_NONE, GATHER_NONE) to->n = rows->n;         \
		return 0;                                                                          \
	}
#define FREE_C(id, field, TYPE, CODING) free(t->field);
#define RELEASE(name)                                                                              \
	static void release_##name(struct table_##name *t)                                         \
	{                                                                                          \
		free(t->shard);                                                                    \
		RECORD_COLUMNS_##name(FREE_C, GATHER_NONE, GATHER_NONE)                            \
	}
#define KIND(name, duration, before)                                                               \
	GATHER(name)                                                                               \
	RELEASE(name)
SLICED_KINDS(KIND)
GATHER(step)
RELEASE(step)
GATHER(sample)
RELEASE(sample)
#undef KIND

static int fill_slice(struct run *slice, const struct run *run, const struct chooser *c,
		      int64_t before_ns, struct rows *rows)
{
	int r = 0;

#define KIND(name, duration, before)                                                               \
	if (r >= 0 && run->name.n) {                                                               \
		r = choose_rows(c, run->name.shard, run->name.start_ns, run->name.duration,        \
				run->name.n, before, rows);                                        \
		if (r >= 0)                                                                        \
			r = gather_##name(&run->name, rows, &slice->name);                         \
	}
	SLICED_KINDS(KIND)
#undef KIND
	if (r >= 0 && run->sample.n) {
		r = choose_rows(c, run->sample.shard, run->sample.time_ns, NULL, run->sample.n, 0,
				rows);
		if (r >= 0)
			r = gather_sample(&run->sample, rows, &slice->sample);
	}
	if (r >= 0 && run->step.n) {
		r = choose_steps(c, &run->step, rows);
		if (r >= 0)
			r = gather_step(&run->step, rows, &slice->step);
	}
	return r;
}

int run_slice_init(struct run *slice, const struct run *run, struct stretch *stretches, size_t n,
		   int64_t calls_before_ns)
{
	struct chooser c = { stretches, n };
	struct rows rows = { 0 };
	int r;

	if (n)
		qsort(stretches, n, sizeof(*stretches), stretch_order);
	*slice = (struct run){
		.info = run->info,
		.shards = run->shards,
		.n_shards = run->n_shards,
		.loss = run->loss,
		.start_ns = run->start_ns,
		.end_ns = run->end_ns,
		.gone = run->gone,
		.string = run->string,
		.site = run->site,
		.launch = run->launch,
		.gear = run->gear,
		.graph_node = run->graph_node,
		.device = run->device,
		.internal = run->internal,
	};
	r = fill_slice(slice, run, &c, calls_before_ns, &rows);
	free(rows.items);
	if (r < 0)
		run_slice_release(slice);
	return r;
}

int64_t run_slice_calls_before(const struct run *run)
{
	const struct table_api *api = &run->api;
	int64_t first = INT64_MAX, last = INT64_MIN;
	double before;

	for (size_t i = 0; i < api->n; i++) {
		first = api->start_ns[i] < first ? api->start_ns[i] : first;
		last = api->start_ns[i] > last ? api->start_ns[i] : last;
	}
	before = api->n ? (double)(last - first) / (double)api->n * QUEUE_LAUNCHES : 0;
	return before < (double)SHARD_TIME_MAX ? (int64_t)before : SHARD_TIME_MAX;
}

void run_slice_release(struct run *slice)
{
#define KIND(name, duration, before) release_##name(&slice->name);
	SLICED_KINDS(KIND)
#undef KIND
	release_step(&slice->step);
	release_sample(&slice->sample);
	*slice = (struct run){ 0 };
}
