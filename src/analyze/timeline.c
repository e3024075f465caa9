/* SPDX-License-Identifier: Apache-2.0
 *
 * Busy and idle devices; see timeline.h. Pure, any thread.
 */
#include "analyze/timeline.h"

#include <errno.h>
#include <stdlib.h>

#include "analyze/coverage.h"

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

/* What is in both lanes of `a` and `b`, into `out`; how many. */
static size_t intersect(const struct span *a, size_t n_a, const struct span *b, size_t n_b,
			struct span *out)
{
	size_t i = 0, j = 0, n = 0;

	while (i < n_a && j < n_b) {
		struct span span = a[i];

		span.start_ns = span.start_ns < b[j].start_ns ? b[j].start_ns : span.start_ns;
		span.end_ns = span.end_ns > b[j].end_ns ? b[j].end_ns : span.end_ns;
		if (span.end_ns > span.start_ns)
			out[n++] = span;
		if (a[i].end_ns < b[j].end_ns)
			i++;
		else
			j++;
	}
	return n;
}

struct measuring {
	const struct run *run;
	const struct selection *sel;
	const struct coverage *coverage;
	struct idle_index idle;
	const struct span *spans; /* by kind */
	size_t n;
	const struct span *busy; /* all kinds together */
	uint64_t *starter;	 /* correlation id of the record that begins each of them */
	size_t n_busy;
	struct span *watched; /* of the device at hand: where its records are complete */
	size_t n_watched;
	struct span *work; /* room for any intersection */
};

/* The correlation ids of the records that begin a busy span. */
static void note_starter(struct measuring *m, uint16_t shard, uint32_t device, int64_t start_ns,
			 uint64_t correlation)
{
	struct span key = {
		.start_ns = start_ns, .group = SPAN_ALL, .device = device, .shard = shard
	};
	size_t low = 0, high = m->n_busy;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = span_lane_order(&m->busy[middle], &key);

		if (order < 0 || (!order && m->busy[middle].start_ns < start_ns))
			low = middle + 1;
		else
			high = middle;
	}
	if (low < m->n_busy && !span_lane_order(&m->busy[low], &key) &&
	    m->busy[low].start_ns == start_ns)
		m->starter[low] = correlation;
}

#define NOTE_STARTERS(table)                                                                       \
	for (size_t i = 0; i < (table)->n; i++)                                                    \
		if (!(table)->untimed[i])                                                          \
	note_starter(m, (table)->shard[i], (table)->device[i], (table)->start_ns[i],               \
		     (table)->correlation[i])

static void note_starters(struct measuring *m)
{
	NOTE_STARTERS(&m->run->set);
	NOTE_STARTERS(&m->run->copy);
	NOTE_STARTERS(&m->run->kernel);
}

/* Where the window of the device was covered by records. */
static void watch(struct measuring *m, const struct timeline_device *d)
{
	struct span window = { d->start_ns, d->end_ns, SPAN_ALL, d->device, d->shard };
	struct span lane = { .shard = d->shard };
	size_t n;
	const struct span *windows = spans_lane(m->coverage->windows, m->coverage->n_windows, &lane,
						&n);

	/* A process without a governor is covered from its first record to its last. */
	if (!d->governed) {
		windows = &window;
		n = 1;
	}
	m->n_watched = intersect(windows, n, &window, 1, m->watched);
	for (size_t i = 0; i < m->n_watched; i++)
		m->watched[i].group = SPAN_ALL;
}

static size_t lane_in_window(struct measuring *m, const struct timeline_device *d, uint32_t group,
			     struct span *out)
{
	struct span lane = { .group = group, .device = d->device, .shard = d->shard };
	size_t n;
	const struct span *found = spans_lane(m->spans, m->n, &lane, &n);

	return intersect(found, n, m->watched, m->n_watched, out);
}

static void account_gap(struct measuring *m, struct timeline_device *d, const struct idle_gap *gap)
{
	int64_t host = d->idle_by_cause[IDLE_HOST];

	idle_account(&m->idle, gap, d->idle_by_cause);
	if (gap->end_ns - gap->start_ns > TIMELINE_SHORT_GAP_NS)
		return;
	d->short_gaps++;
	d->short_host_ns += d->idle_by_cause[IDLE_HOST] - host;
}

/* Gaps between the busy spans [first, end) inside what was watched. */
static void find_gaps(struct measuring *m, struct timeline_device *d, size_t first, size_t end)
{
	for (size_t i = 0, j = first; i < m->n_watched; i++) {
		const struct span *piece = &m->watched[i];
		int64_t at = piece->start_ns;

		while (j < end && m->busy[j].end_ns <= at)
			j++;
		while (at < piece->end_ns) {
			bool next = j < end && m->busy[j].start_ns < piece->end_ns;
			struct idle_gap gap = {
				.start_ns = at,
				.end_ns = next ? m->busy[j].start_ns : piece->end_ns,
				.shard = d->shard,
				.device = d->device,
				.edge_before = d->governed && at == piece->start_ns &&
					       at > d->start_ns,
				.edge_after = d->governed && !next && piece->end_ns < d->end_ns,
				.has_next = next,
				.correlation = next ? m->starter[j] : 0,
			};

			if (gap.end_ns > gap.start_ns)
				account_gap(m, d, &gap);
			if (!next)
				break;
			at = m->busy[j].end_ns;
			/* One that goes on in the next piece is looked at again there. */
			j += at <= piece->end_ns;
		}
	}
}

static void measure(struct measuring *m, struct timeline_device *d, size_t first, size_t end)
{
	size_t n_kernel, n_copy;
	struct span *copies;

	watch(m, d);
	d->window_ns = spans_length(m->watched, m->n_watched);
	d->busy_ns = spans_length(m->work, intersect(m->busy + first, end - first, m->watched,
						     m->n_watched, m->work));
	d->set_ns = spans_length(m->work, lane_in_window(m, d, SPAN_SET, m->work));
	n_kernel = lane_in_window(m, d, SPAN_KERNEL, m->work);
	d->kernel_ns = spans_length(m->work, n_kernel);
	copies = m->work + n_kernel;
	n_copy = lane_in_window(m, d, SPAN_COPY, copies);
	d->copy_ns = spans_length(copies, n_copy);
	d->overlap_ns = spans_overlap(m->work, n_kernel, copies, n_copy);
	d->overlap_pct = d->copy_ns ? value_of(100.0 * (double)d->overlap_ns / (double)d->copy_ns)
				    : value_absent("nothing was copied");
	d->idle_ns = d->window_ns - d->busy_ns;
	d->busy_pct = d->window_ns > 0 ? 100.0 * (double)d->busy_ns / (double)d->window_ns : 0;
	find_gaps(m, d, first, end);
}

static bool is_governed(const struct run *run, uint16_t shard)
{
	for (size_t i = 0; i < run->gear.n; i++)
		if (run->gear.shard[i] == shard)
			return true;
	return false;
}

static int measure_all(struct measuring *m, struct timeline *timeline)
{
	size_t lanes = 0, room = m->n + m->n_busy + 2 * m->coverage->n_windows + 2;

	for (size_t i = 0; i < m->n_busy; i += spans_lane_size(m->busy, m->n_busy, i))
		lanes++;
	timeline->devices = calloc(lanes, sizeof(*timeline->devices));
	m->work = calloc(room, sizeof(*m->work));
	m->watched = calloc(m->coverage->n_windows + 2, sizeof(*m->watched));
	m->starter = calloc(m->n_busy, sizeof(*m->starter));
	if (!m->work || !m->watched || !m->starter || !timeline->devices)
		return -ENOMEM;
	note_starters(m);
	for (size_t i = 0, size; i < m->n_busy; i += size) {
		struct timeline_device d = { .shard = m->busy[i].shard,
					     .rank = m->run->shards[m->busy[i].shard].rank,
					     .device = m->busy[i].device };

		size = spans_lane_size(m->busy, m->n_busy, i);
		d.start_ns = m->busy[i].start_ns;
		d.end_ns = m->busy[i + size - 1].end_ns;
		d.governed = is_governed(m->run, d.shard);
		if (selection_is_window(m->sel) &&
		    !step_window(m->run, m->sel, d.shard, &d.start_ns, &d.end_ns))
			continue;
		measure(m, &d, i, i + size);
		timeline->devices[timeline->n++] = d;
	}
	return 0;
}

/* `spans`: merged, by kind. */
static int analyze_spans(struct measuring *m, struct timeline *timeline)
{
	struct span *busy = calloc(m->n, sizeof(*busy));
	struct coverage coverage = { 0 };
	int r = busy ? idle_index_init(&m->idle, m->run) : -ENOMEM;

	if (r >= 0)
		r = coverage_analyze(m->run, &coverage);
	if (r >= 0) {
		for (size_t i = 0; i < m->n; i++) {
			busy[i] = m->spans[i];
			busy[i].group = SPAN_ALL;
		}
		m->n_busy = spans_merge(busy, m->n);
		m->busy = busy;
		m->coverage = &coverage;
		r = measure_all(m, timeline);
	}
	free(busy);
	free(m->work);
	free(m->watched);
	free(m->starter);
	coverage_release(&coverage);
	idle_index_release(&m->idle);
	return r;
}

int timeline_analyze(const struct run *run, const struct selection *sel,
		     struct timeline *ret_timeline)
{
	struct timeline timeline = { .untimed = count_untimed(run) };
	struct measuring m = { .run = run, .sel = sel };
	struct span *spans;
	int r = device_spans(run, &spans, &m.n);

	m.spans = spans;
	if (r >= 0 && m.n)
		r = analyze_spans(&m, &timeline);
	free(spans);
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
