/* SPDX-License-Identifier: Apache-2.0
 *
 * Phases of steps; the rule is in steps.h. Pure, any thread.
 *
 * Spans that name a phase, sorted by thread and start, are first cut to the outermost ones
 * (disjoint per thread). The leading thread's are taken whole; those of the others are merged
 * by start and keep only what neither the leader nor an earlier span covers.
 */
#include "analyze/step_phases.h"

#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"

struct span {
	int64_t start_ns, end_ns;
	uint32_t thread;
	uint16_t shard;
	uint8_t phase;
};

struct spans {
	struct span *items;
	size_t n;
};

static int by_thread_start(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	if (x->shard != y->shard)
		return x->shard < y->shard ? -1 : 1;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->end_ns > y->end_ns ? -1 : x->end_ns < y->end_ns;
}

static int by_time(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->end_ns > y->end_ns ? -1 : x->end_ns < y->end_ns;
}

static bool same_thread(const struct span *x, const struct span *y)
{
	return x->shard == y->shard && x->thread == y->thread;
}

/* The span that was kept last of each of a few threads: ranges lie in the order of their end, so
 * that from the last one on outer ones come before those inside them. */
#define THREADS_KNOWN 64
struct kept {
	size_t last[THREADS_KNOWN]; /* + 1; 0: none */
};

/* True when the span lies inside the one kept last of its thread; else that one it is. */
static bool is_inside(struct kept *kept, const struct span *items, size_t n,
		      const struct span *span)
{
	size_t *last = &kept->last[span->thread % THREADS_KNOWN];
	const struct span *outer = *last ? &items[*last - 1] : NULL;

	if (outer && same_thread(outer, span) && span->start_ns >= outer->start_ns &&
	    span->end_ns <= outer->end_ns)
		return true;
	*last = n + 1;
	return false;
}

/* The outermost spans with a phase of every thread that end after `from_ns`, sorted by shard,
 * thread and start. */
static int collect_outermost(const struct run *run, int64_t from_ns, struct spans *ret_spans)
{
	const struct table_range *range = &run->range;
	struct kept kept_last = { 0 };
	size_t n = 0, kept = 0, capacity = 0;
	struct span *items = NULL;

	for (size_t i = range->n; i-- > 0;) {
		struct span span = { range->start_ns[i], range->start_ns[i] + range->duration_ns[i],
				     range->thread[i], range->shard[i], 0 };

		/* A window of recent steps costs little however long the run is. */
		if (span.end_ns <= from_ns)
			continue;
		span.phase = run_site(run, range->site[i]).phase;
		if (!span.phase || span.phase >= STEP_PHASES ||
		    is_inside(&kept_last, items, n, &span))
			continue;
		if (array_grow(&items, &capacity, n + 1, sizeof(*items)) < 0) {
			free(items);
			return -ENOMEM;
		}
		items[n++] = span;
	}
	if (n)
		qsort(items, n, sizeof(*items), by_thread_start);
	for (size_t i = 0; i < n; i++) {
		if (kept && same_thread(&items[kept - 1], &items[i]) &&
		    items[i].end_ns <= items[kept - 1].end_ns)
			continue;
		items[kept++] = items[i];
	}
	*ret_spans = (struct spans){ items, kept };
	return 0;
}

/* The end of the run of spans of one thread (or shard) that begins at `from`. */
static size_t thread_end(const struct spans *s, size_t from)
{
	size_t to = from;

	while (to < s->n && same_thread(&s->items[to], &s->items[from]))
		to++;
	return to;
}

static size_t shard_end(const struct spans *s, size_t from)
{
	size_t to = from;

	while (to < s->n && s->items[to].shard == s->items[from].shard)
		to++;
	return to;
}

/* Where in [from, to), the spans of one shard, those of its leading thread begin. */
static size_t find_leader(const struct spans *s, size_t from, size_t to)
{
	size_t leader = from;
	int most_phases = -1;
	int64_t most_ns = -1;

	while (from < to) {
		size_t end = thread_end(s, from);
		unsigned int seen = 0;
		int64_t covered = 0;
		int phases;

		for (size_t i = from; i < end; i++) {
			seen |= 1u << s->items[i].phase;
			covered += s->items[i].end_ns - s->items[i].start_ns;
		}
		phases = __builtin_popcount(seen);
		if (phases > most_phases || (phases == most_phases && covered > most_ns)) {
			leader = from;
			most_phases = phases;
			most_ns = covered;
		}
		from = end;
	}
	return leader;
}

/* Adds [start, end) of a phase to the steps it touches. `cursor`: the first of rows[0..n) that
 * may still matter, as callers come in order of time. */
static void add(struct step_row *rows, size_t n, size_t *cursor, const struct span *span,
		int64_t start, int64_t end)
{
	while (*cursor < n && rows[*cursor].start_ns + rows[*cursor].duration_ns <= start)
		(*cursor)++;
	for (size_t i = *cursor; i < n && rows[i].start_ns < end; i++) {
		int64_t step_end = rows[i].start_ns + rows[i].duration_ns;
		int64_t from = start > rows[i].start_ns ? start : rows[i].start_ns;
		int64_t to = end < step_end ? end : step_end;

		if (to <= from || !rows[i].recorded)
			continue;
		rows[i].phase_ns[span->phase] += to - from;
		rows[i].phases_known = true;
	}
}

static void add_leader(const struct span *lead, size_t n_lead, struct step_row *rows, size_t n)
{
	size_t cursor = 0;

	for (size_t i = 0; i < n_lead; i++)
		add(rows, n, &cursor, &lead[i], lead[i].start_ns, lead[i].end_ns);
}

/* The other threads' spans, sorted by time: what the leader leaves free, each moment once. */
static void add_others(const struct span *others, size_t n_others, const struct span *lead,
		       size_t n_lead, struct step_row *rows, size_t n)
{
	size_t cursor = 0, l = 0;
	int64_t covered = INT64_MIN;

	for (size_t i = 0; i < n_others; i++) {
		int64_t at = others[i].start_ns > covered ? others[i].start_ns : covered;

		while (at < others[i].end_ns) {
			int64_t stop = others[i].end_ns;

			while (l < n_lead && lead[l].end_ns <= at)
				l++;
			if (l < n_lead && lead[l].start_ns <= at) {
				at = lead[l].end_ns;
				continue;
			}
			if (l < n_lead && lead[l].start_ns < stop)
				stop = lead[l].start_ns;
			add(rows, n, &cursor, &others[i], at, stop);
			at = stop;
		}
		if (others[i].end_ns > covered)
			covered = others[i].end_ns;
	}
}

static int fill_shard(const struct spans *s, size_t from, size_t to, struct step_row *rows,
		      size_t n)
{
	size_t lead = find_leader(s, from, to), lead_end = thread_end(s, lead);
	size_t n_others = (to - from) - (lead_end - lead), k = 0;
	struct span *others;

	add_leader(s->items + lead, lead_end - lead, rows, n);
	if (!n_others)
		return 0;
	others = calloc(n_others, sizeof(*others));
	if (!others)
		return -ENOMEM;
	for (size_t i = from; i < to; i++)
		if (i < lead || i >= lead_end)
			others[k++] = s->items[i];
	qsort(others, n_others, sizeof(*others), by_time);
	add_others(others, n_others, s->items + lead, lead_end - lead, rows, n);
	free(others);
	return 0;
}

int step_phases_fill(const struct run *run, struct step_row *rows, size_t n)
{
	struct spans s;
	size_t row = 0;
	int64_t from_ns = INT64_MAX;
	int r;

	for (size_t i = 0; i < n; i++)
		from_ns = rows[i].start_ns < from_ns ? rows[i].start_ns : from_ns;
	r = collect_outermost(run, from_ns, &s);
	if (r < 0)
		return r;
	for (size_t from = 0; r >= 0 && from < s.n;) {
		size_t to = shard_end(&s, from), end;

		while (row < n && run->step.shard[rows[row].row] < s.items[from].shard)
			row++;
		end = row;
		while (end < n && run->step.shard[rows[end].row] == s.items[from].shard)
			end++;
		r = fill_shard(&s, from, to, rows + row, end - row);
		row = end;
		from = to;
	}
	free(s.items);
	for (size_t i = 0; i < n; i++) {
		int64_t named = 0;

		for (int p = 1; p < STEP_PHASES; p++)
			named += rows[i].phase_ns[p];
		rows[i].phase_ns[0] = rows[i].duration_ns - named;
	}
	return r;
}
