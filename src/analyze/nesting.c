/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges and operations as one list; see nesting.h.
 *
 * Each table comes in end order per thread, so only threads have to be told apart and the two
 * tables merged; a sort does both in n log n whatever the number of threads.
 */
#include "analyze/nesting.h"

#include <errno.h>
#include <stdlib.h>

static int by_thread(const struct nested *x, const struct nested *y)
{
	if (x->shard != y->shard)
		return x->shard < y->shard ? -1 : 1;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return 0;
}

static int latest_first(const void *a, const void *b)
{
	const struct nested *x = a, *y = b;
	int order = by_thread(x, y);

	if (order)
		return order;
	if (x->end_ns != y->end_ns)
		return x->end_ns > y->end_ns ? -1 : 1;
	if (x->depth != y->depth)
		return x->depth < y->depth ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns > y->start_ns ? -1 : 1;
	if (x->is_op != y->is_op)
		return x->is_op ? -1 : 1;
	return x->row > y->row ? -1 : x->row < y->row;
}

static int by_start(const void *a, const void *b)
{
	const struct nested *x = a, *y = b;
	int order = by_thread(x, y);

	if (order)
		return order;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	if (x->end_ns != y->end_ns)
		return x->end_ns > y->end_ns ? -1 : 1;
	if (x->depth != y->depth)
		return x->depth < y->depth ? -1 : 1;
	if (x->is_op != y->is_op)
		return x->is_op ? 1 : -1;
	return x->row < y->row ? -1 : x->row > y->row;
}

#define LIVE_DEPTHS 64 /* ranges that are recorded live lie less deep; moescope_past_ops may not */

/* Gives operations of other collectors, and all else on their threads, the depth that follows from
 * the times: inside is who begins in another and ends no later. A thread's own depths would be
 * right for it alone. */
static void place_by_time(struct nested *list, size_t n)
{
	int64_t ends[UINT8_MAX];
	size_t from = 0;

	qsort(list, n, sizeof(*list), by_start);
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

int nesting_collect(const struct run *run, enum nesting_order order, struct nested **ret_list,
		    size_t *ret_n)
{
	const struct table_range *range = &run->range;
	const struct table_op *op = &run->op;
	size_t n = range->n + op->n;
	struct nested *list;
	bool timed = false;

	if (!n) {
		*ret_list = NULL;
		*ret_n = 0;
		return 0;
	}
	list = calloc(n, sizeof(*list));
	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < range->n; i++)
		list[i] = (struct nested){ .start_ns = range->start_ns[i],
					   .end_ns = range->start_ns[i] + range->duration_ns[i],
					   .row = i,
					   .thread = range->thread[i],
					   .shard = range->shard[i],
					   .depth = range->depth[i] };
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
	if (timed)
		place_by_time(list, n);
	qsort(list, n, sizeof(*list), order == NESTING_BY_START ? by_start : latest_first);
	*ret_list = list;
	*ret_n = n;
	return 0;
}
