/* SPDX-License-Identifier: Apache-2.0
 *
 * Series for plots; see plot_series.h.
 */
#include "subjects/series/plot_series.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cmp.h"
#include "subjects/memory/device_memory.h"
#include "subjects/memory/memory_live.h"

size_t series_reduce(struct series_point *points, size_t n, size_t max)
{
	size_t parts = max / 2, kept = 0;

	if (n <= max)
		return n;
	for (size_t part = 0; part < parts; part++) {
		size_t from = n / parts * part + n % parts * part / parts;
		size_t to = n / parts * (part + 1) + n % parts * (part + 1) / parts;
		size_t low = from, high = from;
		struct series_point a, b;

		for (size_t i = from; i < to; i++) {
			low = points[i].y < points[low].y ? i : low;
			high = points[i].y > points[high].y ? i : high;
		}
		a = points[low < high ? low : high];
		b = points[low < high ? high : low];
		points[kept++] = a;
		if (low != high)
			points[kept++] = b;
	}
	return kept;
}

void series_cover(const struct span *merged, size_t n_spans, int64_t start_ns, int64_t end_ns,
		  double *share, size_t n)
{
	double width = n ? (double)(end_ns - start_ns) / (double)n : 0;

	for (size_t i = 0; i < n; i++)
		share[i] = 0;
	if (!(width > 0))
		return;
	for (size_t s = 0; s < n_spans; s++) {
		double from = (double)(merged[s].start_ns - start_ns) / width;
		double to = (double)(merged[s].end_ns - start_ns) / width;
		size_t first, last;

		from = from > 0 ? from : 0;
		to = to < (double)n ? to : (double)n;
		if (!(to > from))
			continue;
		first = (size_t)from;
		last = (size_t)to < n ? (size_t)to : n - 1;
		for (size_t i = first; i <= last; i++) {
			double a = from > (double)i ? from : (double)i;
			double b = to < (double)(i + 1) ? to : (double)(i + 1);

			share[i] += b > a ? b - a : 0;
		}
	}
	for (size_t i = 0; i < n; i++)
		share[i] = share[i] > 1 ? 1 : share[i];
}

size_t series_clip(const struct span *a, size_t n_a, const struct span *b, size_t n_b,
		   struct span *out)
{
	size_t i = 0, j = 0, n = 0;

	while (i < n_a && j < n_b) {
		struct span both = a[i];

		both.start_ns = b[j].start_ns > both.start_ns ? b[j].start_ns : both.start_ns;
		both.end_ns = b[j].end_ns < both.end_ns ? b[j].end_ns : both.end_ns;
		if (both.end_ns > both.start_ns)
			out[n++] = both;
		if (a[i].end_ns < b[j].end_ns)
			i++;
		else
			j++;
	}
	return n;
}

static int by_step_slowest(const void *a, const void *b)
{
	const struct step_row *x = *(const struct step_row *const *)a;
	const struct step_row *y = *(const struct step_row *const *)b;

	return CMP(x->step, y->step) ?: CMP(y->duration_ns, x->duration_ns) ?:
	       CMP(x->rank, y->rank);
}

static int by_duration(const void *a, const void *b)
{
	const struct step_row *x = *(const struct step_row *const *)a;
	const struct step_row *y = *(const struct step_row *const *)b;

	return CMP(x->duration_ns, y->duration_ns) ?: CMP(x->step, y->step);
}

/* Finished steps in order, one row a step; *ret_ranks: processes that have steps. */
static size_t steps_in_order(const struct steps *steps, const struct step_row **rows,
			     size_t *ret_ranks)
{
	size_t n = 0, kept = 0, ranks = 0;

	for (size_t i = 0; i < steps->n; i++) {
		if (!steps->rows[i].timed)
			continue;
		ranks += !n || steps->rows[i].rank != rows[n - 1]->rank;
		rows[n++] = &steps->rows[i];
	}
	*ret_ranks = ranks;
	if (ranks < 2)
		return n;
	qsort(rows, n, sizeof(*rows), by_step_slowest);
	for (size_t i = 0; i < n; i++)
		if (!kept || rows[kept - 1]->step != rows[i]->step)
			rows[kept++] = rows[i];
	return kept;
}

/* 1, 2, 5, 10, 20, … at or above it, so that bins begin at round numbers. */
static size_t round_count(size_t n)
{
	size_t power = 1;

	while (power < n / 10 + (n % 10 != 0))
		power *= 10;
	return n <= power	? power
	       : n <= 2 * power ? 2 * power
	       : n <= 5 * power ? 5 * power
				: 10 * power;
}

int step_bins_make(const struct steps *steps, size_t max_bins, struct step_bins *ret_bins)
{
	const struct step_row **rows = calloc(steps->n ? steps->n : 1, sizeof(*rows));
	struct step_bins b = { 0 };

	if (!rows)
		return -ENOMEM;
	b.steps = steps_in_order(steps, rows, &b.ranks);
	b.per_bin = round_count(max_bins ? (b.steps + max_bins - 1) / max_bins : 1);
	b.bins = calloc(b.steps ? b.steps : 1, sizeof(*b.bins));
	if (!b.bins) {
		free(rows);
		return -ENOMEM;
	}
	for (size_t i = 0; i < b.steps; i += b.per_bin) {
		struct step_bin *bin = &b.bins[b.n++];

		bin->n = b.steps - i < b.per_bin ? b.steps - i : b.per_bin;
		bin->first = rows[i];
		for (size_t j = 0; j < bin->n; j++)
			bin->outliers += rows[i + j]->outlier;
		qsort(rows + i, bin->n, sizeof(*rows), by_duration);
		bin->median = rows[i + (bin->n - 1) / 2];
		bin->slowest = rows[i + bin->n - 1];
	}
	free(rows);
	*ret_bins = b;
	return 0;
}

static int by_total_step(const void *a, const void *b)
{
	const struct routing_total *x = a, *y = b;

	return CMP(x->step, y->step);
}

static struct routing_total total_of(const struct routing_step *s)
{
	struct routing_total t = { .step = s->step, .layers = 1 };

	if (s->flops_router.known && s->flops_expert.known) {
		t.flops_router = s->flops_router.v;
		t.flops_expert = s->flops_expert.v;
		t.n_flops = 1;
	} else {
		t.no_flops = s->flops_router.known ? s->flops_expert.reason
						   : s->flops_router.reason;
	}
	t.router_ns = s->router_ns.known ? s->router_ns.v : 0;
	t.n_timed = s->router_ns.known;
	t.no_time = s->router_ns.known ? NULL : s->router_ns.reason;
	return t;
}

int routing_totals(const struct routing *routing, int layer, struct routing_total **ret_totals,
		   size_t *ret_n)
{
	struct routing_total *totals;
	size_t n = 0, kept = 0;

	for (size_t l = 0; l < routing->n; l++)
		n += routing->layers[l].n_steps;
	totals = calloc(n ? n : 1, sizeof(*totals));
	if (!totals)
		return -ENOMEM;
	n = 0;
	for (size_t l = 0; l < routing->n; l++)
		for (size_t i = 0; i < routing->layers[l].n_steps; i++)
			if (layer < 0 || routing->layers[l].layer == layer)
				totals[n++] = total_of(&routing->layers[l].steps[i]);
	qsort(totals, n, sizeof(*totals), by_total_step);
	for (size_t i = 0; i < n; i++) {
		struct routing_total *t = kept ? &totals[kept - 1] : NULL;

		if (!t || t->step != totals[i].step) {
			totals[kept++] = totals[i];
			continue;
		}
		t->layers++;
		t->flops_router += totals[i].flops_router;
		t->flops_expert += totals[i].flops_expert;
		t->router_ns += totals[i].router_ns;
		t->n_flops += totals[i].n_flops;
		t->n_timed += totals[i].n_timed;
		t->no_flops = t->no_flops ? t->no_flops : totals[i].no_flops;
		t->no_time = t->no_time ? t->no_time : totals[i].no_time;
	}
	*ret_totals = totals;
	*ret_n = kept;
	return 0;
}

static int by_x(const void *a, const void *b)
{
	const struct series_point *x = a, *y = b;

	return CMP(x->x, y->x);
}

int series_device_used(const struct run *run, uint16_t shard, uint32_t device,
		       struct series_point **ret_points, size_t *ret_n)
{
	const struct table_sample *t = &run->sample;
	struct series_point *points = calloc(t->n ? t->n : 1, sizeof(*points));
	uint32_t metric = 0;
	size_t n = 0;

	if (!points)
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++) {
		if (!metric && !strcmp(run_string(run, t->metric[i]), DEVICE_USED_METRIC))
			metric = t->metric[i];
		if (metric && t->metric[i] == metric && t->shard[i] == shard &&
		    t->device[i] == device && isfinite(t->value[i]))
			points[n++] = (struct series_point){
				(double)(t->time_ns[i] - run->start_ns), t->value[i]
			};
	}
	qsort(points, n, sizeof(*points), by_x);
	*ret_points = points;
	*ret_n = n;
	return 0;
}

struct event {
	int64_t time_ns;
	size_t row;
};

static int by_event_time(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	return CMP(x->time_ns, y->time_ns) ?: CMP(x->row, y->row);
}

/* A step in the line: the old level up to this moment, then the new one. */
static int replay_held(const struct run *run, const struct event *events, size_t n,
		       struct series_point *points, size_t *ret_n)
{
	const struct table_device_memory *t = &run->device_memory;
	struct live_map live = { 0 };
	double held = 0;
	size_t kept = 0;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < n; i++) {
		size_t at = events[i].row;
		double time = (double)(events[i].time_ns - run->start_ns);
		struct live_block block = { 0 };

		/* The free of what is not in the line: pinned memory, or older than the records. */
		if (!live_map_take(&live, t->address[at], &block) && t->event[at])
			continue;
		points[kept++] = (struct series_point){ time, held };
		held -= (double)block.bytes;
		block = (struct live_block){ .address = t->address[at], .bytes = t->bytes[at] };
		if (!t->event[at]) {
			r = live_map_put(&live, &block);
			held += (double)block.bytes;
		}
		points[kept++] = (struct series_point){ time, held };
	}
	live_map_release(&live);
	*ret_n = kept;
	return r;
}

int series_driver_held(const struct run *run, uint16_t shard, uint32_t device,
		       struct series_point **ret_points, size_t *ret_n)
{
	const struct table_device_memory *t = &run->device_memory;
	struct event *events = calloc(t->n ? t->n : 1, sizeof(*events));
	struct series_point *points = calloc(2 * t->n + 1, sizeof(*points));
	size_t n = 0, kept = 0;
	int r = -ENOMEM;

	if (events && points) {
		for (size_t i = 0; i < t->n; i++)
			if (t->shard[i] == shard && t->device[i] == device &&
			    (t->event[i] || !strcmp(device_memory_name(t->memory[i]), "device")))
				events[n++] = (struct event){ t->time_ns[i], i };
		qsort(events, n, sizeof(*events), by_event_time);
		r = replay_held(run, events, n, points, &kept);
	}
	free(events);
	if (r < 0) {
		free(points);
		return r;
	}
	*ret_points = points;
	*ret_n = kept;
	return 0;
}

int phase_spans(const struct run *run, struct span **ret_spans, size_t *ret_n)
{
	const struct table_range *t = &run->range;
	struct span *spans = calloc(t->n ? t->n : 1, sizeof(*spans));
	size_t n = 0;

	if (!spans)
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++) {
		uint8_t phase = run_site(run, t->site[i]).phase;

		if (phase && phase < STEP_PHASES)
			spans[n++] = (struct span){ t->start_ns[i],
						    t->start_ns[i] + t->duration_ns[i], phase, 0,
						    t->shard[i] };
	}
	*ret_n = spans_merge(spans, n);
	*ret_spans = spans;
	return 0;
}
