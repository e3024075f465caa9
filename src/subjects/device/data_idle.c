/* SPDX-License-Identifier: Apache-2.0
 *
 * Idle devices while data is loaded; see data_idle.h.
 *
 * Data ranges are few against device records: of these only what touches a data range is kept, so
 * that one pass and a small sort do.
 */
#include "subjects/device/data_idle.h"

#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "moescope.h"
#include "subjects/numbers/order.h"

#define LAUNCHING_SHARE 10 /* a thread that made one of this many calls launches work */

struct spans {
	struct span *items;
	size_t n, capacity;
};

struct caller {
	uint64_t calls;
	uint32_t thread;
	uint16_t shard;
};

struct callers {
	struct caller *items;
	size_t n, capacity;
};

static int add_idle_span(struct spans *spans, struct span span)
{
	if (array_grow(&spans->items, &spans->capacity, spans->n + 1, sizeof(*spans->items)) < 0)
		return -ENOMEM;
	spans->items[spans->n++] = span;
	return 0;
}

/* Threads that make calls are few, and the next call is mostly of the same one. */
static int count_calls(const struct run *run, struct callers *callers)
{
	const struct table_api *api = &run->api;
	size_t at = 0;

	for (size_t i = 0; i < api->n; i++) {
		if (at >= callers->n || callers->items[at].shard != api->shard[i] ||
		    callers->items[at].thread != api->thread[i])
			for (at = 0; at < callers->n; at++)
				if (callers->items[at].shard == api->shard[i] &&
				    callers->items[at].thread == api->thread[i])
					break;
		if (at == callers->n) {
			if (array_grow(&callers->items, &callers->capacity, at + 1,
				       sizeof(*callers->items)) < 0)
				return -ENOMEM;
			callers->items[callers->n++] = (struct caller){ 0, api->thread[i],
									api->shard[i] };
		}
		callers->items[at].calls++;
	}
	return 0;
}

static bool thread_launches(const struct callers *callers, uint16_t shard, uint32_t thread)
{
	uint64_t all = 0, own = 0;

	for (size_t i = 0; i < callers->n; i++) {
		if (callers->items[i].shard != shard)
			continue;
		all += callers->items[i].calls;
		if (callers->items[i].thread == thread)
			own = callers->items[i].calls;
	}
	return own && own * LAUNCHING_SHARE >= all;
}

#define ADD_DATA(table)                                                                            \
	for (size_t i = 0; r >= 0 && i < (table)->n; i++)                                          \
		if (run_site(run, (table)->site[i]).phase == MOESCOPE_DATA &&                      \
		    thread_launches(&callers, (table)->shard[i], (table)->thread[i]))              \
	r = add_idle_span(data,                                                                    \
			  (struct span){ .start_ns = (table)->start_ns[i],                         \
					 .end_ns = (table)->start_ns[i] + (table)->duration_ns[i], \
					 .shard = (table)->shard[i] })

/* Data ranges of the threads that launch work, merged; the lane is the process. Old files of
 * PyTorch have the loader as an operation. */
static int collect_data(const struct run *run, struct spans *data)
{
	struct callers callers = { 0 };
	int r = count_calls(run, &callers);

	ADD_DATA(&run->range);
	ADD_DATA(&run->op);
	free(callers.items);
	if (data->n)
		data->n = spans_merge(data->items, data->n);
	return r;
}

/* What of [start, end) of a device lies in a data range of its process. */
static int add_busy(struct spans *busy, const struct spans *data, struct span span)
{
	const struct span *d = data->items;
	size_t low;
	int r = 0;

	ORDER_FIND(low, data->n, data->n,
		   d[probe].shard < span.shard ||
			   (d[probe].shard == span.shard && d[probe].end_ns <= span.start_ns));
	for (;
	     r >= 0 && low < data->n && d[low].shard == span.shard && d[low].start_ns < span.end_ns;
	     low++) {
		struct span part = span;

		if (part.start_ns < d[low].start_ns)
			part.start_ns = d[low].start_ns;
		if (part.end_ns > d[low].end_ns)
			part.end_ns = d[low].end_ns;
		r = add_idle_span(busy, part);
	}
	return r;
}

#define ADD_BUSY(table)                                                                            \
	for (size_t i = 0; r >= 0 && i < (table)->n; i++)                                          \
		if (!(table)->untimed[i])                                                          \
	r = add_busy(busy, data,                                                                   \
		     (struct span){ (table)->start_ns[i],                                          \
				    (table)->start_ns[i] + (table)->duration_ns[i], 0,             \
				    (table)->device[i], (table)->shard[i] })

static int collect_busy(const struct run *run, const struct spans *data, struct spans *busy)
{
	int r = 0;

	ADD_BUSY(&run->kernel);
	ADD_BUSY(&run->copy);
	ADD_BUSY(&run->set);
	if (busy->n)
		busy->n = spans_merge(busy->items, busy->n);
	return r;
}

/* How much of a span is in those of a lane, from *from on, which moves to where the next one begins to look. */
static int64_t length_in(const struct span *span, const struct span *lane, size_t n, size_t *from)
{
	int64_t length = 0;

	while (*from < n && lane[*from].end_ns <= span->start_ns)
		(*from)++;
	for (size_t i = *from; i < n && lane[i].start_ns < span->end_ns; i++) {
		int64_t start = lane[i].start_ns > span->start_ns ? lane[i].start_ns
								  : span->start_ns;
		int64_t end = lane[i].end_ns < span->end_ns ? lane[i].end_ns : span->end_ns;

		length += end - start;
	}
	return length;
}

static struct timeline_longest longest_idle(const struct timeline_device *d,
					    const struct span *ranges, size_t n,
					    const struct span *busy, size_t n_busy)
{
	struct timeline_longest longest = { 0 };
	size_t watched_from = 0, busy_from = 0;

	for (size_t i = 0; i < n; i++) {
		int64_t ns = length_in(&ranges[i], d->watched, d->n_watched, &watched_from) -
			     length_in(&ranges[i], busy, n_busy, &busy_from);

		if (ns > longest.ns)
			longest = (struct timeline_longest){ ns, ranges[i].start_ns,
							     ranges[i].end_ns };
	}
	return longest;
}

static void measure_data_idle(const struct spans *data, const struct spans *busy,
			      const struct timeline *timeline, struct data_idle *ret_idle)
{
	for (size_t i = 0; i < timeline->n; i++) {
		const struct timeline_device *d = &timeline->devices[i];
		struct span process = { .shard = d->shard };
		struct span device = { .device = d->device, .shard = d->shard };
		const struct span *of_process, *of_device;
		size_t n_process, n_device;

		of_process = spans_lane(data->items, data->n, &process, &n_process);
		of_device = spans_lane(busy->items, busy->n, &device, &n_device);
		ret_idle[i].ns = spans_overlap(of_process, n_process, d->watched, d->n_watched) -
				 spans_overlap(of_device, n_device, d->watched, d->n_watched);
		ret_idle[i].longest = longest_idle(d, of_process, n_process, of_device, n_device);
	}
}

int data_idle_measure(const struct run *run, const struct timeline *timeline,
		      struct data_idle *ret_idle)
{
	struct spans data = { 0 }, busy = { 0 };
	int r = collect_data(run, &data);

	if (r >= 0 && data.n)
		r = collect_busy(run, &data, &busy);
	if (r >= 0 && data.n)
		measure_data_idle(&data, &busy, timeline, ret_idle);
	free(data.items);
	free(busy.items);
	return r;
}
