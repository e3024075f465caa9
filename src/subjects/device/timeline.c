/* SPDX-License-Identifier: Apache-2.0
 *
 * Busy and idle devices; see timeline.h. Pure, any thread.
 */
#include "subjects/device/timeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "subjects/shared/coverage.h"

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
	const struct attribution *at;
	const struct device_lanes *lanes;
	const struct selection *sel;
	const struct timeline_window *windows; /* NULL: by the selection */
	size_t n_windows;
	struct coverage coverage;
	struct idle_index idle;
};

/* The windows that were asked for of the device, as spans; one where none was. Room for all. */
static size_t asked_for(const struct measuring *m, const struct timeline_device *d,
			struct span *spans)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n_windows; i++)
		if (m->windows[i].shard == d->shard && m->windows[i].device == d->device)
			spans[n++] = (struct span){ m->windows[i].start_ns, m->windows[i].end_ns, 0,
						    0, d->shard };
	if (!n)
		spans[n++] = (struct span){ d->start_ns, d->end_ns, 0, 0, d->shard };
	return n;
}

/* What of the window was asked for and covered by records. */
static int watch(struct measuring *m, struct timeline_device *d)
{
	struct span lane = { .shard = d->shard };
	struct span *asked = calloc(m->n_windows + 1, sizeof(*asked));
	size_t n, n_asked = asked ? asked_for(m, d, asked) : 0;
	const struct span *windows = spans_lane(m->coverage.windows, m->coverage.n_windows, &lane,
						&n);

	/* A process without a governor is covered from its first record to its last. */
	if (!d->governed) {
		d->watched = asked;
		d->n_watched = n_asked;
		return asked ? 0 : -ENOMEM;
	}
	d->watched = calloc(n + n_asked + 1, sizeof(*d->watched));
	if (asked && d->watched)
		d->n_watched = intersect(windows, n, asked, n_asked, d->watched);
	free(asked);
	return asked && d->watched ? 0 : -ENOMEM;
}

/* What of a stream lies in the watched time, piece after piece. */
struct pieces {
	const struct timeline_device *d;
	struct lane_stream stream;
	struct lane_span span; /* the one at hand; not cut yet */
	bool has;
	size_t window;
	int64_t length; /* of the pieces so far */
};

static struct pieces pieces_of(const struct measuring *m, enum lane_kind kind,
			       const struct timeline_device *d)
{
	struct pieces p = { .d = d, .stream = lane_stream(m->lanes, kind, d->shard, d->device) };

	p.has = lane_stream_next(&p.stream, &p.span);
	return p;
}

static bool next_piece(struct pieces *p, struct lane_span *ret)
{
	while (p->has && p->window < p->d->n_watched) {
		const struct span *window = &p->d->watched[p->window];
		struct lane_span piece = p->span;

		if (piece.start_ns < window->start_ns)
			piece.start_ns = window->start_ns;
		if (piece.end_ns > window->end_ns)
			piece.end_ns = window->end_ns;
		if (p->span.end_ns < window->end_ns)
			p->has = lane_stream_next(&p->stream, &p->span);
		else
			p->window++;
		if (piece.end_ns > piece.start_ns) {
			p->length += piece.end_ns - piece.start_ns;
			*ret = piece;
			return true;
		}
	}
	return false;
}

/* Lengths of kernels and copies, and of both at once. */
static void measure_overlap(struct measuring *m, struct timeline_device *d)
{
	struct pieces kernels = pieces_of(m, LANE_KERNEL, d);
	struct pieces copies = pieces_of(m, LANE_COPY, d);
	struct lane_span kernel, copy;
	/* Both are asked: what one has, counts without the other. */
	bool has_kernel = next_piece(&kernels, &kernel), has_copy = next_piece(&copies, &copy);
	bool more = has_kernel && has_copy;

	while (more) {
		int64_t start = kernel.start_ns > copy.start_ns ? kernel.start_ns : copy.start_ns;
		int64_t end = kernel.end_ns < copy.end_ns ? kernel.end_ns : copy.end_ns;

		d->overlap_ns += end > start ? end - start : 0;
		more = kernel.end_ns < copy.end_ns ? next_piece(&kernels, &kernel)
						   : next_piece(&copies, &copy);
	}
	while (next_piece(&kernels, &kernel))
		;
	while (next_piece(&copies, &copy))
		;
	d->kernel_ns = kernels.length;
	d->copy_ns = copies.length;
	d->overlap_pct = d->copy_ns ? value_of(100.0 * (double)d->overlap_ns / (double)d->copy_ns)
				    : value_absent("nothing was copied");
}

static void measure_sets(struct measuring *m, struct timeline_device *d)
{
	struct pieces sets = pieces_of(m, LANE_SET, d);
	struct lane_span set;

	while (next_piece(&sets, &set))
		;
	d->set_ns = sets.length;
}

/* Kernels up to the moment, which comes later from call to call. */
struct kernels_before {
	struct pieces pieces;
	struct lane_span piece;
	bool has;
	int64_t length; /* of those that ended by then: a gap cuts no kernel */
};

static int64_t kernels_before(struct kernels_before *k, int64_t time_ns)
{
	for (; k->has && k->piece.end_ns <= time_ns; k->has = next_piece(&k->pieces, &k->piece))
		k->length += k->piece.end_ns - k->piece.start_ns;
	return k->length;
}

static int note_long(struct idle_device *idle, const struct idle_gap *gap,
		     struct kernels_before *kernels, struct timeline_device *d)
{
	if ((gap->end_ns - gap->start_ns) < d->window_ns / TIMELINE_LONG_GAPS)
		return 0;
	/* So many of that length fit into the window, and one more for what rounding makes room for. */
	if (!d->long_gaps)
		d->long_gaps = calloc(TIMELINE_LONG_GAPS + 1, sizeof(*d->long_gaps));
	if (!d->long_gaps)
		return -ENOMEM;
	if (d->n_long_gaps > TIMELINE_LONG_GAPS)
		return 0;
	d->long_gaps[d->n_long_gaps++] =
		(struct timeline_gap){ gap->start_ns, gap->end_ns,
				       kernels_before(kernels, gap->start_ns),
				       idle_prepares(idle, gap) };
	return 0;
}

/* before: the times of the causes without this gap. */
static void note_longest(struct timeline_device *d, const struct idle_gap *gap,
			 const int64_t *before, bool is_short)
{
	for (int c = 0; c < IDLE_CAUSES; c++) {
		struct timeline_longest *longest =
			&d->longest[is_short && c == IDLE_HOST ? IDLE_LAUNCH : c];
		int64_t ns = d->idle_by_cause[c] - before[c];

		if (ns > longest->ns)
			*longest = (struct timeline_longest){ ns, gap->start_ns, gap->end_ns };
	}
}

static int account_gap(struct idle_device *idle, const struct idle_gap *gap,
		       struct kernels_before *kernels, struct timeline_device *d)
{
	bool is_short = gap->end_ns - gap->start_ns <= TIMELINE_SHORT_GAP_NS;
	int64_t before[IDLE_CAUSES];

	memcpy(before, d->idle_by_cause, sizeof(before));
	d->idle_ns += gap->end_ns - gap->start_ns;
	idle_account(idle, gap, d->idle_by_cause);
	note_longest(d, gap, before, is_short);
	if (!is_short)
		return note_long(idle, gap, kernels, d);
	d->short_gaps++;
	d->short_host_ns += d->idle_by_cause[IDLE_HOST] - before[IDLE_HOST];
	return 0;
}

/* Gaps between the busy stretches inside what was watched. */
static int find_gaps(struct measuring *m, struct timeline_device *d)
{
	struct kernels_before kernels = { .pieces = pieces_of(m, LANE_KERNEL, d) };
	struct idle_device idle = idle_device(&m->idle, d->shard, d->device);
	struct busy_stream stream = busy_stream(m->lanes, d->shard, d->device);
	struct lane_span busy;
	bool more = busy_stream_next(&stream, &busy);

	kernels.has = next_piece(&kernels.pieces, &kernels.piece);
	for (size_t i = 0; i < d->n_watched; i++) {
		const struct span *piece = &d->watched[i];
		int64_t at = piece->start_ns;

		while (more && busy.end_ns <= at)
			more = busy_stream_next(&stream, &busy);
		while (at < piece->end_ns) {
			bool next = more && busy.start_ns < piece->end_ns;
			struct idle_gap gap = {
				.start_ns = at,
				.end_ns = next ? busy.start_ns : piece->end_ns,
				.edge_before = d->governed && at == piece->start_ns &&
					       at > d->start_ns,
				.edge_after = d->governed && !next && piece->end_ns < d->end_ns,
				.has_next = next,
				.call = next ? lane_call(m->at, busy.kind, busy.row) : NO_CALL32,
			};

			if (gap.end_ns > gap.start_ns && account_gap(&idle, &gap, &kernels, d) < 0)
				return -ENOMEM;
			if (!next)
				break;
			at = busy.end_ns;
			/* One that goes on in the next piece is looked at again there. */
			if (at <= piece->end_ns)
				more = busy_stream_next(&stream, &busy);
		}
	}
	return 0;
}

static int measure_timeline_device(struct measuring *m, struct timeline_device *d)
{
	int r = watch(m, d);

	if (r < 0)
		return r;
	d->window_ns = spans_length(d->watched, d->n_watched);
	measure_overlap(m, d);
	measure_sets(m, d);
	r = find_gaps(m, d);
	d->busy_ns = d->window_ns - d->idle_ns;
	d->busy_pct = d->window_ns > 0 ? 100.0 * (double)d->busy_ns / (double)d->window_ns : 0;
	return r;
}

static bool is_governed(const struct run *run, uint16_t shard)
{
	for (size_t i = 0; i < run->gear.n; i++)
		if (run->gear.shard[i] == shard)
			return true;
	return false;
}

/* From the first to the last record; false: none is timed. */
static bool device_window(const struct device_lanes *lanes, struct timeline_device *d)
{
	struct busy_stream stream = busy_stream(lanes, d->shard, d->device);
	struct lane_span span;

	if (!busy_stream_next(&stream, &span))
		return false;
	d->start_ns = span.start_ns;
	d->end_ns = span.end_ns;
	for (int k = 0; k < LANE_KINDS; k++) {
		int64_t end = lane_end(&lanes->of[k], d->shard, d->device);

		d->end_ns = end > d->end_ns ? end : d->end_ns;
	}
	return true;
}

/* Cuts the device's time down to what was asked for; false: nothing of it was. */
static bool choose_window(const struct measuring *m, struct timeline_device *d)
{
	bool any = false;

	for (size_t i = 0; i < m->n_windows; i++) {
		const struct timeline_window *window = &m->windows[i];

		if (window->shard != d->shard || window->device != d->device)
			continue;
		d->start_ns = any ? d->start_ns : window->start_ns;
		d->end_ns = window->end_ns;
		any = true;
	}
	if (m->windows)
		return any;
	return !selection_is_window(m->sel) ||
	       step_window(m->run, m->sel, d->shard, &d->start_ns, &d->end_ns);
}

static int measure_timeline(struct measuring *m, struct timeline *timeline)
{
	size_t most = 0, n;
	struct lane *devices;
	int r = 0;

	for (int k = 0; k < LANE_KINDS; k++)
		most += m->lanes->of[k].n;
	if (!most)
		return 0;
	devices = calloc(most, sizeof(*devices));
	timeline->devices = calloc(most, sizeof(*timeline->devices));
	if (!devices || !timeline->devices) {
		free(devices);
		return -ENOMEM;
	}
	n = device_lanes_list(m->lanes, devices);
	for (size_t i = 0; r >= 0 && i < n; i++) {
		struct timeline_device d = { .shard = devices[i].shard,
					     .rank = m->run->shards[devices[i].shard].rank,
					     .device = devices[i].device };

		d.governed = is_governed(m->run, d.shard);
		if (!device_window(m->lanes, &d) || !choose_window(m, &d))
			continue;
		r = measure_timeline_device(m, &d);
		timeline->devices[timeline->n++] = d;
	}
	free(devices);
	return r;
}

static int analyze_timeline(struct measuring *m, struct timeline *ret_timeline)
{
	struct timeline timeline = { .untimed = count_untimed(m->run) };
	int r = coverage_analyze(m->run, &m->coverage);

	if (r >= 0)
		r = idle_index_init(&m->idle, m->at, &m->coverage);
	if (r >= 0)
		r = measure_timeline(m, &timeline);
	idle_index_release(&m->idle);
	coverage_release(&m->coverage);
	if (r < 0) {
		timeline_release(&timeline);
		return r;
	}
	*ret_timeline = timeline;
	return 0;
}

int timeline_analyze_at(const struct attribution *at, const struct device_lanes *lanes,
			const struct selection *sel, struct timeline *ret_timeline)
{
	struct measuring m = { .run = at->run, .at = at, .lanes = lanes, .sel = sel };

	return analyze_timeline(&m, ret_timeline);
}

int timeline_analyze_in(const struct attribution *at, const struct device_lanes *lanes,
			const struct timeline_window *windows, size_t n,
			struct timeline *ret_timeline)
{
	struct measuring m = { .run = at->run, .at = at, .lanes = lanes };

	m.windows = windows;
	m.n_windows = n;
	return analyze_timeline(&m, ret_timeline);
}

int timeline_analyze(const struct run *run, const struct selection *sel,
		     struct timeline *ret_timeline)
{
	struct device_lanes lanes;
	struct attribution at;
	int r = attribution_init_calls(&at, run);

	if (r < 0)
		return r;
	r = device_lanes_init(&lanes, run);
	if (r >= 0) {
		r = timeline_analyze_at(&at, &lanes, sel, ret_timeline);
		device_lanes_release(&lanes);
	}
	attribution_release(&at);
	return r;
}

void timeline_release(struct timeline *timeline)
{
	for (size_t i = 0; i < timeline->n; i++) {
		free(timeline->devices[i].watched);
		free(timeline->devices[i].long_gaps);
	}
	free(timeline->devices);
	*timeline = (struct timeline){ 0 };
}
