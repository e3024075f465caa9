/* SPDX-License-Identifier: Apache-2.0
 *
 * Device records by device and start; see lanes.h.
 */
#include "subjects/shared/lanes.h"

#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "subjects/numbers/order.h"

#define LANES_MOST 1024 /* of processes and devices together; more are sorted another way */

static struct lane lane_of(const struct lane_table *t, size_t row)
{
	return (struct lane){ .shard = t->shard[row], .device = t->device[row] };
}

/* By process and device. */
static int lane_compare(const struct lane *a, const struct lane *b)
{
	return CMP(a->shard, b->shard) ?: CMP(a->device, b->device);
}

static int compare_rows(const void *a, const void *b, void *context)
{
	const struct lane_table *t = context;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	struct lane lane_x = lane_of(t, x), lane_y = lane_of(t, y);

	return lane_compare(&lane_x, &lane_y) ?: CMP(t->start_ns[x], t->start_ns[y]) ?: CMP(x, y);
}

static bool in_order(const struct lane_table *t)
{
	for (size_t i = 1; i < t->n; i++) {
		if (t->shard[i - 1] != t->shard[i]) {
			if (t->shard[i - 1] > t->shard[i])
				return false;
		} else if (t->device[i - 1] != t->device[i]) {
			if (t->device[i - 1] > t->device[i])
				return false;
		} else if (t->start_ns[i - 1] > t->start_ns[i]) {
			return false;
		}
	}
	return true;
}

/* Of each row the number of its lane in the order of lanes. *ret_n: lanes; 0: more than fit. */
static void number_lanes(const struct lane_table *t, uint16_t *number, size_t *ret_n)
{
	struct lane lanes[LANES_MOST];
	uint16_t rank[LANES_MOST] = { 0 };
	size_t n = 0, at = 0;

	*ret_n = 0;
	for (size_t i = 0; i < t->n; i++) {
		struct lane lane = lane_of(t, i);

		if (!n || lane_compare(&lanes[at], &lane) != 0)
			for (at = 0; at < n && lane_compare(&lanes[at], &lane) != 0;)
				at++;
		if (at == LANES_MOST)
			return;
		if (at == n)
			lanes[n++] = lane;
		number[i] = (uint16_t)at;
	}
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++)
			rank[i] += lane_compare(&lanes[j], &lanes[i]) < 0;
	for (size_t i = 0; i < t->n; i++)
		number[i] = rank[number[i]];
	*ret_n = n;
}

static bool has_one_lane(const struct lane_table *t)
{
	for (size_t i = 1; i < t->n; i++)
		if (t->shard[i] != t->shard[0] || t->device[i] != t->device[0])
			return false;
	return true;
}

static int group_rows(struct lane_order *order)
{
	struct lane_table *t = &order->table;
	uint16_t *number;
	size_t n;
	int r = 0;

	if (has_one_lane(t))
		return 0;
	number = array_new(t->n, sizeof(*number));
	if (!number)
		return -ENOMEM;
	number_lanes(t, number, &n);
	if (n)
		r = order_group(number, order->rows, t->n);
	else
		qsort_r(order->rows, t->n, sizeof(*order->rows), compare_rows, t);
	free(number);
	return r;
}

static int find_lanes(struct lane_order *order)
{
	for (size_t i = 0; i < order->table.n; i++) {
		struct lane lane = lane_of(&order->table, lane_row(order, i));

		if (!order->n || lane_compare(&order->lanes[order->n - 1], &lane) != 0) {
			if (array_grow(&order->lanes, &order->capacity, order->n + 1,
				       sizeof(*order->lanes)) < 0)
				return -ENOMEM;
			lane.first = i;
			order->lanes[order->n++] = lane;
		}
		order->lanes[order->n - 1].end = i + 1;
	}
	return 0;
}

int lane_order_init(struct lane_order *order, const struct lane_table *table)
{
	struct order_keys keys = { .key = table->start_ns, .flip = ORDER_SIGNED };
	int r = 0;

	*order = (struct lane_order){ .table = *table };
	if (!in_order(table)) {
		order->rows = array_new(table->n, sizeof(*order->rows));
		r = order->rows ? order_rows(&keys, 0, table->n, order->rows) : -ENOMEM;
		if (r >= 0)
			r = group_rows(order);
	}
	if (r >= 0)
		r = find_lanes(order);
	if (r < 0)
		lane_order_release(order);
	return r;
}

void lane_order_release(struct lane_order *order)
{
	free(order->rows);
	free(order->lanes);
	*order = (struct lane_order){ 0 };
}

const struct lane *lane_find(const struct lane_order *order, uint16_t shard, uint32_t device)
{
	struct lane key = { .shard = shard, .device = device };
	size_t low;

	ORDER_FIND(low, order->n, 0, lane_compare(&order->lanes[probe], &key) < 0);
	return low < order->n && !lane_compare(&order->lanes[low], &key) ? &order->lanes[low]
									 : NULL;
}

int64_t lane_end(const struct lane_order *order, uint16_t shard, uint32_t device)
{
	const struct lane *lane = lane_find(order, shard, device);
	const struct lane_table *t = &order->table;
	int64_t latest = INT64_MIN;

	for (size_t i = lane ? lane->first : 0; lane && i < lane->end; i++) {
		size_t row = lane_row(order, i);
		int64_t end = t->start_ns[row] + t->duration_ns[row];

		if (!t->untimed[row] && t->duration_ns[row] > 0 && end > latest)
			latest = end;
	}
	return latest;
}

int device_lanes_init(struct device_lanes *lanes, const struct run *run)
{
	struct lane_table tables[LANE_KINDS] = { LANE_TABLE(&run->kernel), LANE_TABLE(&run->copy),
						 LANE_TABLE(&run->set) };
	int r = 0;

	*lanes = (struct device_lanes){ 0 };
	for (int kind = 0; r >= 0 && kind < LANE_KINDS; kind++)
		r = lane_order_init(&lanes->of[kind], &tables[kind]);
	if (r < 0)
		device_lanes_release(lanes);
	return r;
}

void device_lanes_release(struct device_lanes *lanes)
{
	for (int kind = 0; kind < LANE_KINDS; kind++)
		lane_order_release(&lanes->of[kind]);
}

struct lane_stream lane_stream(const struct device_lanes *lanes, enum lane_kind kind,
			       uint16_t shard, uint32_t device)
{
	const struct lane *lane = lane_find(&lanes->of[kind], shard, device);
	struct lane_stream stream = { .order = &lanes->of[kind], .kind = kind };

	if (lane) {
		stream.at = lane->first;
		stream.end = lane->end;
	}
	return stream;
}

bool lane_stream_next(struct lane_stream *stream, struct lane_span *ret_span)
{
	const struct lane_table *t = &stream->order->table;
	struct lane_span span = { .kind = stream->kind };
	bool any = false;

	for (; stream->at < stream->end; stream->at++) {
		size_t row = lane_row(stream->order, stream->at);
		int64_t start = t->start_ns[row], end = start + t->duration_ns[row];

		if (t->untimed[row] || (!any && end <= start))
			continue;
		if (!any) {
			span.start_ns = start;
			span.end_ns = end;
			span.row = row;
			any = true;
			continue;
		}
		if (start == span.start_ns)
			span.row = row;
		if (end <= start)
			continue;
		if (start > span.end_ns)
			break;
		span.end_ns = end > span.end_ns ? end : span.end_ns;
	}
	*ret_span = span;
	return any;
}

struct busy_stream busy_stream(const struct device_lanes *lanes, uint16_t shard, uint32_t device)
{
	struct busy_stream stream;

	for (int k = 0; k < LANE_KINDS; k++) {
		stream.of[k] = lane_stream(lanes, (enum lane_kind)k, shard, device);
		stream.has[k] = lane_stream_next(&stream.of[k], &stream.next[k]);
	}
	return stream;
}

bool busy_stream_next(struct busy_stream *stream, struct lane_span *ret_span)
{
	struct lane_span span;
	int first = -1;

	for (int k = 0; k < LANE_KINDS; k++)
		if (stream->has[k] &&
		    (first < 0 || stream->next[k].start_ns < stream->next[first].start_ns))
			first = k;
	if (first < 0)
		return false;
	span = stream->next[first];
	for (int k = 0; k < LANE_KINDS; k++) {
		if (!stream->has[k] || stream->next[k].start_ns > span.end_ns)
			continue;
		span.end_ns = stream->next[k].end_ns > span.end_ns ? stream->next[k].end_ns
								   : span.end_ns;
		stream->has[k] = lane_stream_next(&stream->of[k], &stream->next[k]);
		k = -1; /* a longer one may reach those before it */
	}
	*ret_span = span;
	return true;
}

size_t device_lanes_room(const struct device_lanes *lanes)
{
	return lanes->of[LANE_KERNEL].n + lanes->of[LANE_COPY].n + lanes->of[LANE_SET].n;
}

size_t device_lanes_list(const struct device_lanes *lanes, struct lane *devices)
{
	size_t at[LANE_KINDS] = { 0 }, n = 0;

	while (true) {
		const struct lane *first = NULL;

		for (int k = 0; k < LANE_KINDS; k++) {
			const struct lane *lane = at[k] < lanes->of[k].n
							  ? &lanes->of[k].lanes[at[k]]
							  : NULL;

			if (lane && (!first || lane_compare(lane, first) < 0))
				first = lane;
		}
		if (!first)
			return n;
		devices[n++] = *first;
		for (int k = 0; k < LANE_KINDS; k++)
			if (at[k] < lanes->of[k].n &&
			    !lane_compare(&lanes->of[k].lanes[at[k]], &devices[n - 1]))
				at[k]++;
	}
}

/* Kind after kind, and in each of them lane after lane: as a merged list is ordered. */
static int list_spans(const struct device_lanes *lanes, struct span **spans, size_t *n)
{
	size_t capacity = 0;

	for (int k = 0; k < LANE_KINDS; k++) {
		for (size_t i = 0; i < lanes->of[k].n; i++) {
			const struct lane *lane = &lanes->of[k].lanes[i];
			struct lane_stream stream = lane_stream(lanes, (enum lane_kind)k,
								lane->shard, lane->device);
			struct lane_span span;

			while (lane_stream_next(&stream, &span)) {
				if (array_grow(spans, &capacity, *n + 1, sizeof(**spans)) < 0)
					return -ENOMEM;
				(*spans)[(*n)++] = (struct span){ span.start_ns, span.end_ns,
								  (uint32_t)k, lane->device,
								  lane->shard };
			}
		}
	}
	return 0;
}

int device_spans(const struct run *run, struct span **ret_spans, size_t *ret_n)
{
	struct device_lanes lanes;
	struct span *spans = NULL;
	size_t n = 0;
	int r = device_lanes_init(&lanes, run);

	if (r < 0)
		return r;
	r = list_spans(&lanes, &spans, &n);
	device_lanes_release(&lanes);
	if (r < 0) {
		free(spans);
		return r;
	}
	*ret_spans = spans;
	*ret_n = n;
	return 0;
}
