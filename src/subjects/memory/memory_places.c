/* SPDX-License-Identifier: Apache-2.0
 *
 * Which range an allocation was made in: the allocations of a thread by time, walked beside its
 * ranges and operations. Pure, any thread; n log n.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "subjects/memory/memory_inside.h"
#include "subjects/numbers/nesting.h"

struct moment {
	int64_t time_ns;
	size_t row;
	uint32_t thread;
	uint16_t shard;
};

static int by_thread_time(const void *a, const void *b)
{
	const struct moment *x = a, *y = b;

	return CMP(x->shard, y->shard) ?: CMP(x->thread, y->thread) ?:
	       CMP(x->time_ns, y->time_ns) ?: CMP(x->row, y->row);
}

struct walk {
	const struct run *run;
	const struct nested *ranges;
	size_t n_ranges, next;
	const struct nested **open;
	size_t n_open, capacity;
};

/* Of the open ones, the innermost that names a layer, an expert, a phase. */
static struct memory_place place_now(const struct walk *w)
{
	struct memory_place place = { -1, -1, 0 };

	for (size_t i = w->n_open; i-- > 0;) {
		const struct nested *item = w->open[i];
		struct site site = run_site(w->run, item->is_op ? w->run->op.site[item->row]
								: w->run->range.site[item->row]);

		place.layer = place.layer < 0 ? site.layer : place.layer;
		place.expert = place.expert < 0 ? site.expert : place.expert;
		place.phase = place.phase ? place.phase : site.phase;
	}
	return place;
}

static bool lane_before(const struct nested *item, const struct moment *m)
{
	return item->shard != m->shard ? item->shard < m->shard : item->thread < m->thread;
}

static void close_until(struct walk *w, int64_t time_ns)
{
	while (w->n_open && w->open[w->n_open - 1]->end_ns <= time_ns)
		w->n_open--;
}

/* Opens what has begun by the moment, closes what has ended. */
static int advance(struct walk *w, const struct moment *m)
{
	for (; w->next < w->n_ranges; w->next++) {
		const struct nested *item = &w->ranges[w->next];

		if (lane_before(item, m))
			continue;
		if (item->shard != m->shard || item->thread != m->thread ||
		    item->start_ns > m->time_ns)
			break;
		close_until(w, item->start_ns);
		if (array_grow(&w->open, &w->capacity, w->n_open + 1, sizeof(*w->open)) < 0)
			return -ENOMEM;
		w->open[w->n_open++] = item;
	}
	close_until(w, m->time_ns);
	return 0;
}

int memory_places_find(const struct run *run, struct memory_place **ret_places)
{
	const struct table_memory *t = &run->memory;
	struct memory_place *places = calloc(t->n ? t->n : 1, sizeof(*places));
	struct moment *moments = calloc(t->n ? t->n : 1, sizeof(*moments));
	struct nested *ranges = NULL;
	struct walk w = { .run = run };
	int r = places && moments ? 0 : -ENOMEM;

	if (r >= 0 && t->n)
		r = nesting_collect(run, NESTING_BY_START, &ranges, &w.n_ranges);
	w.ranges = ranges;
	for (size_t i = 0; r >= 0 && i < t->n; i++)
		moments[i] = (struct moment){ t->time_ns[i], i, t->thread[i], t->shard[i] };
	if (r >= 0)
		memory_sort(moments, t->n, sizeof(*moments), by_thread_time);
	for (size_t i = 0; r >= 0 && i < t->n; i++) {
		if (i && (moments[i].shard != moments[i - 1].shard ||
			  moments[i].thread != moments[i - 1].thread))
			w.n_open = 0;
		r = advance(&w, &moments[i]);
		if (r >= 0)
			places[moments[i].row] = place_now(&w);
	}
	free(moments);
	free(ranges);
	free(w.open);
	if (r < 0) {
		free(places);
		return r;
	}
	*ret_places = places;
	return 0;
}
