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

int nesting_collect(const struct run *run, enum nesting_order order, struct nested **ret_list,
		    size_t *ret_n)
{
	const struct table_range *range = &run->range;
	const struct table_op *op = &run->op;
	size_t n = range->n + op->n;
	struct nested *list;

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
	for (size_t i = 0; i < op->n; i++)
		list[range->n + i] =
			(struct nested){ .start_ns = op->start_ns[i],
					 .end_ns = op->start_ns[i] + op->duration_ns[i],
					 .row = i,
					 .thread = op->thread[i],
					 .shard = op->shard[i],
					 .depth = op->depth[i],
					 .is_op = true };
	qsort(list, n, sizeof(*list), order == NESTING_BY_START ? by_start : latest_first);
	*ret_list = list;
	*ret_n = n;
	return 0;
}
