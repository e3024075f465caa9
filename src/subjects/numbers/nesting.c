/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges and operations as one list; see nesting.h.
 *
 * Each table comes in end order per thread, so that little is out of order: rows are ordered by time
 * (order.h), then told apart by thread.
 */
#include "subjects/numbers/nesting.h"

#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "subjects/numbers/order.h"

static int by_thread(const struct nested *x, const struct nested *y)
{
	return CMP(x->shard, y->shard) ?: CMP(x->thread, y->thread);
}

static int latest_first(const void *a, const void *b)
{
	const struct nested *x = a, *y = b;

	return by_thread(x, y) ?: CMP(y->end_ns, x->end_ns) ?: CMP(x->depth, y->depth) ?:
	       CMP(y->start_ns, x->start_ns) ?: CMP(y->is_op, x->is_op) ?: CMP(y->row, x->row);
}

static int nested_by_start(const void *a, const void *b)
{
	const struct nested *x = a, *y = b;

	return by_thread(x, y) ?: CMP(x->start_ns, y->start_ns) ?: CMP(y->end_ns, x->end_ns) ?:
	       CMP(x->depth, y->depth) ?: CMP(x->is_op, y->is_op) ?: CMP(x->row, y->row);
}

/* Ranges that are recorded live lie less deep; moescope_past_ops and imports may not. */
#define LIVE_DEPTHS 64

/* Gives operations of other collectors, and all else on their threads, the depth that follows from
 * the times: inside is who begins in another and ends no later. A thread's own depths would be
 * right for it alone. `list`: by start. */
static void place_by_time(struct nested *list, size_t n)
{
	int64_t ends[UINT8_MAX];
	size_t from = 0;

	while (from < n) {
		size_t to = from, top = 0;
		bool timed = false;

		for (; to < n && by_thread(&list[from], &list[to]) == 0; to++)
			timed = timed || list[to].depth >= LIVE_DEPTHS;
		for (size_t i = from; timed && i < to; i++) {
			while (top && (ends[top - 1] < list[i].end_ns ||
				       ends[top - 1] <= list[i].start_ns))
				top--;
			list[i].depth = (uint8_t)top;
			if (top < UINT8_MAX)
				ends[top++] = list[i].end_ns;
		}
		from = to;
	}
}

/* Whether any of them has to be placed by its times. */
static bool collect_nested(const struct run *run, struct nested *list)
{
	const struct table_range *range = &run->range;
	const struct table_op *op = &run->op;
	bool timed = false;

	for (size_t i = 0; i < range->n; i++) {
		timed = timed || range->depth[i] >= LIVE_DEPTHS;
		list[i] = (struct nested){ .start_ns = range->start_ns[i],
					   .end_ns = range->start_ns[i] + range->duration_ns[i],
					   .row = i,
					   .thread = range->thread[i],
					   .shard = range->shard[i],
					   .depth = range->depth[i] };
	}
	for (size_t i = 0; i < op->n; i++) {
		timed = timed || op->depth[i] >= LIVE_DEPTHS;
		list[range->n + i] =
			(struct nested){ .start_ns = op->start_ns[i],
					 .end_ns = op->start_ns[i] + op->duration_ns[i],
					 .row = i,
					 .thread = op->thread[i],
					 .shard = op->shard[i],
					 .depth = op->depth[i],
					 .is_op = true };
	}
	return timed;
}

static bool in_order(const struct nested *list, size_t n, int (*order)(const void *, const void *))
{
	for (size_t i = 1; i < n; i++)
		if (order(&list[i - 1], &list[i]) > 0)
			return false;
	return true;
}

#define THREADS_MOST 1024

/* The threads of a list, and of each item the number of its own among them. */
struct threads {
	struct nested first[THREADS_MOST]; /* an item of each */
	uint16_t rank[THREADS_MOST];	   /* by process and thread */
	size_t n;
	uint16_t *of;
};

/* False: more than fit. */
static bool number_threads(const struct nested *list, size_t n, struct threads *threads)
{
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		if (!threads->n || by_thread(&threads->first[at], &list[i]) != 0)
			for (at = 0;
			     at < threads->n && by_thread(&threads->first[at], &list[i]) != 0;)
				at++;
		if (at == THREADS_MOST)
			return false;
		if (at == threads->n)
			threads->first[threads->n++] = list[i];
		threads->of[i] = (uint16_t)at;
	}
	for (size_t t = 0; t < threads->n; t++)
		for (size_t other = 0; other < threads->n; other++)
			threads->rank[t] += by_thread(&threads->first[other], &threads->first[t]) <
					    0;
	for (size_t i = 0; i < n; i++)
		threads->of[i] = threads->rank[threads->of[i]];
	return true;
}

/* What has the same thread and key is next to each other, but not in order yet. */
static void sort_ties(struct nested *list, size_t n, enum nesting_order by,
		      int (*order)(const void *, const void *))
{
	for (size_t from = 0, to; from < n; from = to) {
		const struct nested *x = &list[from];

		for (to = from + 1; to < n && by_thread(x, &list[to]) == 0 &&
				    (by == NESTING_BY_START ? x->start_ns == list[to].start_ns
							    : x->end_ns == list[to].end_ns);)
			to++;
		if (to - from > 1 && !in_order(list + from, to - from, order))
			qsort(list + from, to - from, sizeof(*list), order);
	}
}

/* `keys`, `rows` and `sorted` have room for n. */
static int sort_by_key(const struct nested *list, size_t n, enum nesting_order by, int64_t *keys,
		       uint32_t *rows, const uint16_t *thread, struct nested *sorted)
{
	struct order_keys order = { .key = keys,
				    .flip = by == NESTING_BY_START ? ORDER_SIGNED
								   : ORDER_SIGNED_DOWN };
	int r;

	for (size_t i = 0; i < n; i++)
		keys[i] = by == NESTING_BY_START ? list[i].start_ns : list[i].end_ns;
	r = order_rows(&order, 0, n, rows);
	if (r >= 0)
		r = order_group(thread, rows, n);
	for (size_t i = 0; r >= 0 && i < n; i++)
		sorted[i] = list[rows[i]];
	return r;
}

static int sort(struct nested **list, size_t n, enum nesting_order by)
{
	int (*order)(const void *, const void *) = by == NESTING_BY_START ? nested_by_start
									  : latest_first;
	struct threads *threads;
	struct nested *sorted;
	int64_t *keys;
	uint32_t *rows;
	int r = -ENOMEM;

	if (in_order(*list, n, order))
		return 0;
	threads = calloc(1, sizeof(*threads));
	keys = array_new(n, sizeof(*keys));
	rows = array_new(n, sizeof(*rows));
	sorted = array_new(n, sizeof(*sorted));
	if (threads)
		threads->of = array_new(n, sizeof(*threads->of));
	if (!threads || !threads->of || !keys || !rows || !sorted)
		goto out;
	r = 0;
	if (!number_threads(*list, n, threads)) {
		qsort(*list, n, sizeof(**list), order);
		goto out;
	}
	r = sort_by_key(*list, n, by, keys, rows, threads->of, sorted);
	if (r >= 0) {
		struct nested *old = *list;

		sort_ties(sorted, n, by, order);
		*list = sorted;
		sorted = old;
	}
out:
	if (threads)
		free(threads->of);
	free(threads);
	free(keys);
	free(rows);
	free(sorted);
	return r;
}

int nesting_collect(const struct run *run, enum nesting_order order, struct nested **ret_list,
		    size_t *ret_n)
{
	size_t n = run->range.n + run->op.n;
	struct nested *list;
	int r = 0;

	*ret_list = NULL;
	*ret_n = 0;
	if (!n)
		return 0;
	list = array_new(n, sizeof(*list));
	if (!list)
		return -ENOMEM;
	if (collect_nested(run, list)) {
		r = sort(&list, n, NESTING_BY_START);
		if (r >= 0)
			place_by_time(list, n);
	}
	if (r >= 0)
		r = sort(&list, n, order);
	if (r < 0) {
		free(list);
		return r;
	}
	*ret_list = list;
	*ret_n = n;
	return 0;
}
