/* SPDX-License-Identifier: Apache-2.0
 *
 * Busy and idle devices; see timeline.h. Pure, any thread.
 */
#include "analyze/timeline.h"

#include <errno.h>
#include <stdlib.h>

#define ADD_SPANS(table, which)                                                                    \
	for (size_t i = 0; i < (table)->n; i++)                                                    \
		if (!(table)->untimed[i])                                                          \
			spans[n++] = (struct span)                                                 \
			{                                                                          \
				(table)->start_ns[i],                                              \
					(table)->start_ns[i] + (table)->duration_ns[i], which,     \
					(table)->device[i], (table)->shard[i]                      \
			}

int device_spans(const struct run *run, struct span **ret_spans, size_t *ret_n)
{
	size_t all = run->kernel.n + run->copy.n + run->set.n, n = 0;
	struct span *spans;

	*ret_spans = NULL;
	*ret_n = 0;
	if (!all)
		return 0;
	spans = calloc(all, sizeof(*spans));
	if (!spans)
		return -ENOMEM;
	ADD_SPANS(&run->kernel, SPAN_KERNEL);
	ADD_SPANS(&run->copy, SPAN_COPY);
	ADD_SPANS(&run->set, SPAN_SET);
	*ret_spans = spans;
	*ret_n = spans_merge(spans, n);
	return 0;
}

static uint64_t count_untimed(const struct run *run)
{
	uint64_t untimed = 0;

	for (size_t i = 0; i < run->kernel.n; i++)
		untimed += run->kernel.untimed[i] != 0;
	for (size_t i = 0; i < run->copy.n; i++)
		untimed += run->copy.untimed[i] != 0;
	for (size_t i = 0; i < run->set.n; i++)
		untimed += run->set.untimed[i] != 0;
	return untimed;
}

/* The time of the chosen steps of a process; false: it has none of them. */
static bool step_window(const struct run *run, const struct selection *sel, uint16_t shard,
			int64_t *ret_start, int64_t *ret_end)
{
	const struct table_step *step = &run->step;
	bool any = false;

	for (size_t i = 0; i < step->n; i++) {
		int64_t end = step->start_ns[i] + step->duration_ns[i];

		if (step->shard[i] != shard || !selection_has_step(sel, step->step[i]))
			continue;
		*ret_start = any && *ret_start < step->start_ns[i] ? *ret_start : step->start_ns[i];
		*ret_end = any && *ret_end > end ? *ret_end : end;
		any = true;
	}
	return any;
}

/* Cuts the spans of a lane, copied to `out`, to the window; how many remain. */
static size_t cut(const struct span *lane, size_t n, const struct timeline_device *d,
		  struct span *out)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		struct span span = lane[i];

		span.start_ns = span.start_ns < d->start_ns ? d->start_ns : span.start_ns;
		span.end_ns = span.end_ns > d->end_ns ? d->end_ns : span.end_ns;
		if (span.end_ns > span.start_ns)
			out[kept++] = span;
	}
	return kept;
}

/* `work` has room for twice all spans: the kernels and copies of a device. */
static void measure(const struct span *spans, size_t n, const struct span *busy, size_t n_busy,
		    struct timeline_device *d, struct span *work)
{
	struct span lane = { .device = d->device, .shard = d->shard };
	size_t n_kernel, n_copy, n_set;
	const struct span *found;
	struct span *copies;

	d->busy_ns = spans_length(work, cut(busy, n_busy, d, work));
	lane.group = SPAN_SET;
	found = spans_lane(spans, n, &lane, &n_set);
	d->set_ns = spans_length(work, cut(found, n_set, d, work));
	lane.group = SPAN_KERNEL;
	found = spans_lane(spans, n, &lane, &n_kernel);
	n_kernel = cut(found, n_kernel, d, work);
	d->kernel_ns = spans_length(work, n_kernel);
	copies = work + n_kernel;
	lane.group = SPAN_COPY;
	found = spans_lane(spans, n, &lane, &n_copy);
	n_copy = cut(found, n_copy, d, copies);
	d->copy_ns = spans_length(copies, n_copy);
	d->overlap_ns = spans_overlap(work, n_kernel, copies, n_copy);
	d->overlap_pct = d->copy_ns ? value_of(100.0 * (double)d->overlap_ns / (double)d->copy_ns)
				    : value_absent("nothing was copied");
	d->idle_ns = d->end_ns - d->start_ns - d->busy_ns;
	d->busy_pct = d->end_ns > d->start_ns
			      ? 100.0 * (double)d->busy_ns / (double)(d->end_ns - d->start_ns)
			      : 0;
}

static int measure_all(const struct run *run, const struct selection *sel, const struct span *spans,
		       size_t n, struct span *busy, size_t n_busy, struct timeline *timeline)
{
	struct span *work = calloc(n + n_busy, sizeof(*work));
	size_t lanes = 0;

	for (size_t i = 0; i < n_busy; i += spans_lane_size(busy, n_busy, i))
		lanes++;
	timeline->devices = calloc(lanes, sizeof(*timeline->devices));
	if (!work || !timeline->devices) {
		free(work);
		return -ENOMEM;
	}
	for (size_t i = 0, size; i < n_busy; i += size) {
		struct timeline_device d = { .shard = busy[i].shard,
					     .rank = run->shards[busy[i].shard].rank,
					     .device = busy[i].device };

		size = spans_lane_size(busy, n_busy, i);
		d.start_ns = busy[i].start_ns;
		d.end_ns = busy[i + size - 1].end_ns;
		if (selection_is_window(sel) &&
		    !step_window(run, sel, d.shard, &d.start_ns, &d.end_ns))
			continue;
		measure(spans, n, busy + i, size, &d, work);
		timeline->devices[timeline->n++] = d;
	}
	free(work);
	return 0;
}

int timeline_analyze(const struct run *run, const struct selection *sel,
		     struct timeline *ret_timeline)
{
	struct timeline timeline = { .untimed = count_untimed(run) };
	struct span *spans, *busy = NULL;
	size_t n;
	int r = device_spans(run, &spans, &n);

	if (r >= 0 && n) {
		busy = calloc(n, sizeof(*busy));
		r = busy ? 0 : -ENOMEM;
	}
	if (r >= 0 && n) {
		for (size_t i = 0; i < n; i++) {
			busy[i] = spans[i];
			busy[i].group = SPAN_ALL;
		}
		r = measure_all(run, sel, spans, n, busy, spans_merge(busy, n), &timeline);
	}
	free(spans);
	free(busy);
	if (r < 0) {
		timeline_release(&timeline);
		return r;
	}
	*ret_timeline = timeline;
	return 0;
}

void timeline_release(struct timeline *timeline)
{
	free(timeline->devices);
	*timeline = (struct timeline){ 0 };
}
