/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of intervals; see intervals.h. A sort, then one sweep.
 */
#include "subjects/numbers/intervals.h"

#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "subjects/numbers/order.h"

int span_lane_order(const struct span *a, const struct span *b)
{
	if (a->group != b->group)
		return a->group < b->group ? -1 : 1;
	if (a->shard != b->shard)
		return a->shard < b->shard ? -1 : 1;
	return a->device < b->device ? -1 : a->device > b->device;
}

static int spans_by_start(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return span_lane_order(x, y) ?: CMP(x->start_ns, y->start_ns);
}

size_t spans_merge(struct span *spans, size_t n)
{
	size_t kept = 0, sorted = 1;

	/* Records of one stream come in order: often there is nothing to sort. */
	while (sorted < n && spans_by_start(&spans[sorted - 1], &spans[sorted]) <= 0)
		sorted++;
	if (sorted < n)
		qsort(spans, n, sizeof(*spans), spans_by_start);
	for (size_t i = 0; i < n; i++) {
		struct span *last = kept ? &spans[kept - 1] : NULL;

		if (spans[i].end_ns <= spans[i].start_ns)
			continue;
		if (!last || span_lane_order(last, &spans[i]) || spans[i].start_ns > last->end_ns)
			spans[kept++] = spans[i];
		else if (spans[i].end_ns > last->end_ns)
			last->end_ns = spans[i].end_ns;
	}
	return kept;
}

int span_list_add(struct span_list *list, const struct span *span)
{
	struct span *last = list->n ? &list->spans[list->n - 1] : NULL;

	if (last && span->start_ns <= last->end_ns) {
		last->end_ns = span->end_ns > last->end_ns ? span->end_ns : last->end_ns;
		return 0;
	}
	if (array_grow(&list->spans, &list->capacity, list->n + 1, sizeof(*list->spans)) < 0)
		return -ENOMEM;
	list->spans[list->n++] = *span;
	return 0;
}

int64_t spans_length(const struct span *merged, size_t n)
{
	int64_t length = 0;

	for (size_t i = 0; i < n; i++)
		length = ns_sum(length, merged[i].end_ns - merged[i].start_ns);
	return length;
}

int64_t spans_overlap(const struct span *a, size_t n_a, const struct span *b, size_t n_b)
{
	int64_t length = 0;
	size_t i = 0, j = 0;

	while (i < n_a && j < n_b) {
		int64_t start = a[i].start_ns > b[j].start_ns ? a[i].start_ns : b[j].start_ns;
		int64_t end = a[i].end_ns < b[j].end_ns ? a[i].end_ns : b[j].end_ns;

		if (end > start)
			length += end - start;
		if (a[i].end_ns < b[j].end_ns)
			i++;
		else
			j++;
	}
	return length;
}

size_t spans_lane_size(const struct span *merged, size_t n, size_t first)
{
	size_t end = first;

	while (end < n && !span_lane_order(&merged[first], &merged[end]))
		end++;
	return end - first;
}

const struct span *spans_lane(const struct span *merged, size_t n, const struct span *lane,
			      size_t *ret_n)
{
	size_t low;

	ORDER_FIND(low, n, n, span_lane_order(&merged[probe], lane) < 0);
	*ret_n = low < n && !span_lane_order(&merged[low], lane) ? spans_lane_size(merged, n, low)
								 : 0;
	return *ret_n ? merged + low : NULL;
}
