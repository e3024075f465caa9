/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks onto one clock. A collective ends on all ranks at nearly the same time, for none can finish
 * before the last has come: the median difference of the ends of those that two ranks took part in
 * together is the difference of their clocks. Groups and sequence numbers say which ones those are.
 *
 * Not every rank meets the first one: with tensor and data parallelism each has a few neighbours. So a
 * rank is compared with all that are on the common clock already, one after the other.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cmp.h"
#include "ingest/shared/intake_inside.h"

struct meeting {
	const char *group;
	uint64_t sequence;
	int64_t end_ns;
};

struct meetings {
	struct meeting *v;
	size_t n;
};

static int by_key(const void *a, const void *b)
{
	const struct meeting *x = a, *y = b;

	return strcmp(x->group, y->group) ?: CMP(x->sequence, y->sequence) ?:
	       CMP(x->end_ns, y->end_ns);
}

static int collect_meetings(struct intake_process *process, struct meetings *ret)
{
	struct row_collective *rows;
	void *taken;
	size_t n;
	int r = held_collect(process, HELD_COLLECTIVE, false, &taken, &n);

	if (r < 0)
		return r;
	rows = taken;
	*ret = (struct meetings){ calloc(n + 1, sizeof(*ret->v)), 0 };
	for (size_t i = 0; ret->v && i < n; i++)
		if (rows[i].sequence_known)
			ret->v[ret->n++] = (struct meeting){
				lexicon_text(&process->inside->lexicon, rows[i].group),
				rows[i].sequence,
				(int64_t)((uint64_t)rows[i].start_ns +
					  (uint64_t)rows[i].duration_ns +
					  (uint64_t)process->shift_ns)
			};
	free(taken);
	if (!ret->v)
		return -ENOMEM;
	qsort(ret->v, ret->n, sizeof(*ret->v), by_key);
	return 0;
}

static int offsets_ascending(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return CMP(x, y);
}

static int64_t median_ns(int64_t *values, size_t n)
{
	qsort(values, n, sizeof(*values), offsets_ascending);
	return values[n / 2];
}

/* Differences of the ends of what both took part in; those that one of them has twice are left out. */
static size_t differences(const struct meetings *a, const struct meetings *b, int64_t *ret)
{
	size_t i = 0, j = 0, n = 0;

	while (i < a->n && j < b->n) {
		const struct meeting *x = &a->v[i], *y = &b->v[j];
		int order = strcmp(x->group, y->group);
		size_t more_x = 1, more_y = 1;

		if (!order && x->sequence != y->sequence)
			order = x->sequence < y->sequence ? -1 : 1;
		if (order) {
			i += order < 0;
			j += order > 0;
			continue;
		}
		while (i + more_x < a->n && !strcmp(x[more_x].group, x->group) &&
		       x[more_x].sequence == x->sequence)
			more_x++;
		while (j + more_y < b->n && !strcmp(y[more_y].group, y->group) &&
		       y[more_y].sequence == y->sequence)
			more_y++;
		if (more_x == 1 && more_y == 1)
			ret[n++] = (int64_t)((uint64_t)x->end_ns - (uint64_t)y->end_ns);
		i += more_x;
		j += more_y;
	}
	return n;
}

/* A process on its way onto the clock of the first one of those that it met. */
struct rank_clock {
	struct meetings met;
	size_t from; /* the process whose clock it is on */
	bool placed;
};

struct clocks {
	struct intake *intake;
	struct rank_clock *v; /* of each process */
	size_t *placed;	      /* those that are on a clock, in the order in which they came */
	size_t n_placed;
};

static void shift_times(struct clocks *clocks, size_t i, size_t from, int64_t shift)
{
	struct intake_process *process = clocks->intake->processes[i];
	struct rank_clock *clock = &clocks->v[i];

	process->shift_ns = (int64_t)((uint64_t)process->shift_ns + (uint64_t)shift);
	for (size_t m = 0; m < clock->met.n; m++)
		clock->met.v[m].end_ns =
			(int64_t)((uint64_t)clock->met.v[m].end_ns + (uint64_t)shift);
	clock->from = from;
	clock->placed = true;
	clocks->placed[clocks->n_placed++] = i;
}

/* With all of its file: they have one clock already. */
static void place_clocks(struct clocks *clocks, size_t i, size_t from, int64_t shift)
{
	struct intake_process **processes = clocks->intake->processes;

	shift_times(clocks, i, from, shift);
	for (size_t k = 0; k < clocks->intake->n_processes; k++)
		if (!clocks->v[k].placed &&
		    processes[k]->inside->file == processes[i]->inside->file) {
			shift_times(clocks, k, from, shift);
			if (shift)
				intake_note(clocks->intake,
					    "rank %" PRIu32 ": moved with rank %" PRIu32
					    ", which is in the same file.",
					    processes[k]->rank, processes[i]->rank);
		}
}

static void note_moved(const struct clocks *clocks, size_t reference, size_t i, int64_t shift,
		       size_t n, int64_t fit)
{
	struct intake_process **processes = clocks->intake->processes;
	size_t from = clocks->v[reference].from;
	char with[32] = "";

	if (reference != from)
		snprintf(with, sizeof(with), " with rank %" PRIu32, processes[reference]->rank);
	intake_note(clocks->intake,
		    "rank %" PRIu32 ": moved by %" PRId64 " ns onto the clock of rank %" PRIu32
		    ", by the ends of %zu collectives%s; half of them then fit to %" PRId64 " ns.",
		    processes[i]->rank, shift, processes[from]->rank, n, with, fit);
}

/* By what it and the reference, which is on a clock, took part in; nothing happens without. */
static int align_one(struct clocks *clocks, size_t reference, size_t i)
{
	const struct meetings *others = &clocks->v[reference].met, *own = &clocks->v[i].met;
	size_t room = others->n < own->n ? others->n : own->n, n;
	int64_t *d = calloc(room + 1, sizeof(*d)), shift;

	if (!d)
		return -ENOMEM;
	n = differences(others, own, d);
	if (n) {
		shift = median_ns(d, n);
		for (size_t k = 0; k < n; k++) {
			int64_t off = (int64_t)((uint64_t)d[k] - (uint64_t)shift);

			d[k] = off < 0 ? (int64_t) - (uint64_t)off : off;
		}
		note_moved(clocks, reference, i, shift, n, median_ns(d, n));
		place_clocks(clocks, i, clocks->v[reference].from, shift);
	}
	free(d);
	return 0;
}

/* Those that no chain of collectives joins to the ones before have a clock of their own. */
static void start_clock(struct clocks *clocks)
{
	struct intake_process **processes = clocks->intake->processes;
	size_t i = 0;

	while (clocks->v[i].placed)
		i++;
	if (i)
		intake_note(clocks->intake,
			    "rank %" PRIu32 ": no collective with rank %" PRIu32
			    " could be matched, so its times are those of its own host's clock%s.",
			    processes[i]->rank, processes[0]->rank,
			    processes[i]->wall_clock && processes[0]->wall_clock
				    ? ""
				    : ", whose zero is unknown");
	place_clocks(clocks, i, i, 0);
}

static int align_all(struct clocks *clocks)
{
	size_t n = clocks->intake->n_processes;
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = collect_meetings(clocks->intake->processes[i], &clocks->v[i].met);
	for (size_t reference = 0; r == 0 && reference < n; reference++) {
		if (reference == clocks->n_placed)
			start_clock(clocks);
		for (size_t i = 0; r == 0 && clocks->n_placed < n && i < n; i++)
			if (!clocks->v[i].placed)
				r = align_one(clocks, clocks->placed[reference], i);
	}
	return r;
}

int align_clocks(struct intake *intake)
{
	size_t n = intake->n_processes;
	struct clocks clocks = { .intake = intake };
	int r = -ENOMEM;

	if (n < 2 || !intake_wants(intake, RECORD_COLLECTIVE))
		return 0;
	clocks.v = calloc(n, sizeof(*clocks.v));
	clocks.placed = calloc(n, sizeof(*clocks.placed));
	if (clocks.v && clocks.placed)
		r = align_all(&clocks);
	for (size_t i = 0; clocks.v && i < n; i++)
		free(clocks.v[i].met.v);
	free(clocks.v);
	free(clocks.placed);
	return r;
}
