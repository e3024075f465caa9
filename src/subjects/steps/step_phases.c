/* SPDX-License-Identifier: Apache-2.0
 *
 * Phases of steps; the rule is in steps.h. Pure, any thread.
 *
 * Spans that name a phase, sorted by thread and start, are first cut into pieces, so that each moment
 * of a thread is that of the innermost one. The leading thread's are taken whole; those of the others are merged
 * by start and keep only what neither the leader nor an earlier span covers.
 */
#include "subjects/steps/step_phases.h"

#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cmp.h"

struct span {
	int64_t start_ns, end_ns;
	size_t order; /* outer ones first, where times are equal */
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

	return CMP(x->shard, y->shard) ?: CMP(x->thread, y->thread) ?:
	       CMP(x->start_ns, y->start_ns) ?: CMP(y->end_ns, x->end_ns) ?:
	       CMP(x->order, y->order);
}

static int phase_spans_by_start(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return CMP(x->start_ns, y->start_ns) ?: CMP(y->end_ns, x->end_ns);
}

static bool same_thread(const struct span *x, const struct span *y)
{
	return x->shard == y->shard && x->thread == y->thread;
}

/* Ranges lie in the order of their end, so that from the last one on outer ones come before those
 * inside them: the span that was kept last of each of a few threads leads to those around it. Most
 * ranges have the phase of the one around them and need not be kept. */
#define THREADS_KNOWN 64
struct kept {
	size_t last[THREADS_KNOWN]; /* + 1; 0: none */
	size_t *around;		    /* of each item, likewise */
	size_t capacity;
};

static bool is_inside(const struct span *span, const struct span *outer)
{
	return same_thread(outer, span) && span->start_ns >= outer->start_ns &&
	       span->end_ns <= outer->end_ns;
}

/* The innermost kept span around this one, + 1; 0: none is known. */
static size_t find_around(const struct kept *kept, const struct span *items,
			  const struct span *span)
{
	size_t outer = kept->last[span->thread % THREADS_KNOWN];

	if (outer && !same_thread(&items[outer - 1], span))
		return 0;
	while (outer && !is_inside(span, &items[outer - 1]))
		outer = kept->around[outer - 1];
	return outer;
}

/* The spans that change the phase of their thread and end after `from_ns`. */
static int collect_phase_spans(const struct run *run, int64_t from_ns, struct spans *ret_spans)
{
	const struct table_range *range = &run->range;
	struct kept kept = { 0 };
	size_t n = 0, capacity = 0, around;
	struct span *items = NULL;
	int r = 0;

	for (size_t i = range->n; r == 0 && i-- > 0;) {
		struct span span = { .start_ns = range->start_ns[i],
				     .end_ns = range->start_ns[i] + range->duration_ns[i],
				     .order = n,
				     .thread = range->thread[i],
				     .shard = range->shard[i] };

		/* A window of recent steps costs little however long the run is. */
		if (span.end_ns <= from_ns)
			continue;
		span.phase = run_site(run, range->site[i]).phase;
		if (!span.phase || span.phase >= STEP_PHASES)
			continue;
		around = find_around(&kept, items, &span);
		if (around && items[around - 1].phase == span.phase)
			continue;
		r = array_grow(&items, &capacity, n + 1, sizeof(*items));
		if (r == 0)
			r = array_grow(&kept.around, &kept.capacity, n + 1, sizeof(*kept.around));
		if (r < 0)
			break;
		kept.around[n] = around;
		items[n++] = span;
		kept.last[span.thread % THREADS_KNOWN] = n;
	}
	free(kept.around);
	if (r < 0) {
		free(items);
		return -ENOMEM;
	}
	if (n)
		qsort(items, n, sizeof(*items), by_thread_start);
	*ret_spans = (struct spans){ items, n };
	return 0;
}

/* Pieces of one thread, in the order of time, none over another. */
struct pieces {
	struct span *items;
	size_t n;
	size_t *open; /* the spans that are open at `at`, by their start */
	size_t n_open;
	int64_t at;
};

/* The innermost open span goes on until `to`. */
static void add_piece(struct pieces *p, const struct span *from, int64_t to)
{
	struct span *last = p->n ? &p->items[p->n - 1] : NULL;

	if (to <= p->at)
		return;
	if (last && same_thread(last, from) && last->end_ns == p->at &&
	    last->phase == from->phase) {
		last->end_ns = to;
	} else {
		p->items[p->n] = *from;
		p->items[p->n].start_ns = p->at;
		p->items[p->n++].end_ns = to;
	}
	p->at = to;
}

/* Spans that have ended by `to` give way to those around them. */
static void go_on(struct pieces *p, const struct spans *s, int64_t to)
{
	while (p->n_open) {
		const struct span *top = &s->items[p->open[p->n_open - 1]];

		add_piece(p, top, top->end_ns < to ? top->end_ns : to);
		if (top->end_ns > to)
			break;
		p->n_open--;
	}
}

/* Cuts the spans so that each moment of a thread belongs to the innermost one. */
static int cut_to_innermost(struct spans *s)
{
	struct pieces p = { .items = calloc(2 * s->n + 1, sizeof(*p.items)),
			    .open = calloc(s->n + 1, sizeof(*p.open)) };

	if (!p.items || !p.open) {
		free(p.items);
		free(p.open);
		return -ENOMEM;
	}
	for (size_t i = 0; i < s->n; i++) {
		if (i && !same_thread(&s->items[i - 1], &s->items[i]))
			go_on(&p, s, INT64_MAX);
		go_on(&p, s, s->items[i].start_ns);
		p.at = s->items[i].start_ns;
		p.open[p.n_open++] = i;
	}
	go_on(&p, s, INT64_MAX);
	free(p.open);
	free(s->items);
	*s = (struct spans){ p.items, p.n };
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
static void add_to_steps(struct step_row *rows, size_t n, size_t *cursor, const struct span *span,
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
		add_to_steps(rows, n, &cursor, &lead[i], lead[i].start_ns, lead[i].end_ns);
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
			add_to_steps(rows, n, &cursor, &others[i], at, stop);
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
	qsort(others, n_others, sizeof(*others), phase_spans_by_start);
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
	r = collect_phase_spans(run, from_ns, &s);
	if (r < 0)
		return r;
	r = cut_to_innermost(&s);
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
