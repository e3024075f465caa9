/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks onto one clock. A collective ends on all ranks at nearly the same time, for none can finish
 * before the last has come: the median difference of the ends of those that two ranks took part in
 * together is the difference of their clocks. Groups and sequence numbers say which ones those are.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ingest/intake_inside.h"

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
	int order = strcmp(x->group, y->group);

	if (order)
		return order;
	if (x->sequence != y->sequence)
		return x->sequence < y->sequence ? -1 : 1;
	return x->end_ns < y->end_ns ? -1 : x->end_ns > y->end_ns;
}

static int collect(struct intake_process *process, struct meetings *ret)
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

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static int64_t median(int64_t *values, size_t n)
{
	qsort(values, n, sizeof(*values), by_value);
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

static int align_one(struct intake *intake, const struct meetings *reference,
		     const struct intake_process *first, struct intake_process *process,
		     const struct meetings *own)
{
	size_t room = reference->n < own->n ? reference->n : own->n, n;
	int64_t *d = calloc(room + 1, sizeof(*d)), shift;

	if (!d)
		return -ENOMEM;
	n = differences(reference, own, d);
	if (!n) {
		intake_note(intake,
			    "rank %" PRIu32 ": no collective with rank %" PRIu32
			    " could be matched, so its times are those of its own host's clock%s.",
			    process->rank, first->rank,
			    process->wall_clock && first->wall_clock ? ""
								     : ", whose zero is not known");
		free(d);
		return 0;
	}
	shift = median(d, n);
	for (size_t i = 0; i < n; i++) {
		int64_t off = (int64_t)((uint64_t)d[i] - (uint64_t)shift);

		d[i] = off < 0 ? (int64_t) - (uint64_t)off : off;
	}
	process->shift_ns = (int64_t)((uint64_t)process->shift_ns + (uint64_t)shift);
	intake_note(intake,
		    "rank %" PRIu32 ": moved by %" PRId64 " ns onto the clock of rank %" PRIu32
		    ", by the ends of %zu collectives; half of them then fit to %" PRId64 " ns.",
		    process->rank, shift, first->rank, n, median(d, n));
	free(d);
	return 0;
}

int align_clocks(struct intake *intake)
{
	struct meetings reference = { 0 };
	int r;

	if (intake->n_processes < 2 || !intake_wants(intake, RECORD_COLLECTIVE))
		return 0;
	r = collect(intake->processes[0], &reference);
	for (size_t i = 1; r == 0 && i < intake->n_processes; i++) {
		struct meetings own = { 0 };

		/* Processes of one file have one clock already. */
		if (intake->processes[i]->inside->file == intake->processes[0]->inside->file)
			continue;
		r = collect(intake->processes[i], &own);
		if (r == 0)
			r = align_one(intake, &reference, intake->processes[0],
				      intake->processes[i], &own);
		free(own.v);
	}
	free(reference.v);
	return r;
}
