/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of threads and streams; see stacks.h.
 *
 * Rows of a kind are ordered by start process by process (order.h is linear for that), then dealt to
 * their tracks; the kinds of a track are merged when it is walked.
 */
#include "exports/stacks/stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash_map.h"
#include "subjects/numbers/order.h"

#define NO_TRACK UINT32_MAX

/* The ends of what is open on a lane, outermost first. */
struct stack_lane {
	int64_t *ends;
	size_t n, capacity;
};

static const struct {
	uint8_t family;
	bool moment;
} kinds[STACK_KINDS] = {
#define KIND(NAME, table, family, moment) { STACK_FAMILY_##family, moment },
	STACK_KINDS_LIST(KIND)
#undef KIND
};

bool stack_kind_is_moment(enum stack_kind kind)
{
	return kinds[kind].moment;
}

static int fill_sources(struct stacks *s)
{
	const struct run *run = s->run;
	struct stack_source *sources = s->sources;

#define THINGS(table)                                                                              \
	.start_ns = run->table.start_ns, .duration_ns = run->table.duration_ns,                    \
	.shard = run->table.shard, .n = run->table.n
#define MOMENTS(table)                                                                             \
	.start_ns = run->table.time_ns, .shard = run->table.shard, .n = run->table.n,              \
	.id = run->table.thread
#define ON_STREAM(table)                                                                           \
	THINGS(table), .device = run->table.device, .id = run->table.stream,                       \
		       .untimed = run->table.untimed
	sources[STACK_FRAME] = (struct stack_source){ THINGS(frame), .id = run->frame.thread };
	sources[STACK_RANGE] = (struct stack_source){ THINGS(range), .id = run->range.thread };
	sources[STACK_OP] = (struct stack_source){ THINGS(op), .id = run->op.thread };
	sources[STACK_LIBRARY_CALL] = (struct stack_source){ THINGS(library_call),
							     .id = run->library_call.thread };
	sources[STACK_API] = (struct stack_source){ THINGS(api), .id = run->api.thread };
	sources[STACK_OS_CALL] = (struct stack_source){ THINGS(os_call),
							.id = run->os_call.thread };
	sources[STACK_MARK] = (struct stack_source){ MOMENTS(mark) };
	sources[STACK_PAYLOAD] = (struct stack_source){ MOMENTS(payload) };
	sources[STACK_KERNEL] = (struct stack_source){ ON_STREAM(kernel) };
	sources[STACK_COPY] = (struct stack_source){ ON_STREAM(copy) };
	sources[STACK_SET] = (struct stack_source){ ON_STREAM(set) };
	sources[STACK_COLLECTIVE] = (struct stack_source){ THINGS(collective),
							   .device = run->collective.device,
							   .id = run->collective.stream };
	sources[STACK_STEP] = (struct stack_source){ THINGS(step) };
	sources[STACK_SPAN] = (struct stack_source){ THINGS(span) };
	sources[STACK_SYNC] = (struct stack_source){ THINGS(sync) };
#undef THINGS
#undef MOMENTS
#undef ON_STREAM
	if (!run->flow.n)
		return 0;
	s->flow_end_ns = array_new(run->flow.n, sizeof(*s->flow_end_ns));
	if (!s->flow_end_ns)
		return -ENOMEM;
	for (size_t i = 0; i < run->flow.n; i++)
		s->flow_end_ns[i] = run->flow.start_ns[i] + run->flow.duration_ns[i];
	sources[STACK_FLOW_BEGIN] = (struct stack_source){ .start_ns = run->flow.start_ns,
							   .id = run->flow.thread,
							   .shard = run->flow.shard,
							   .n = run->flow.n };
	sources[STACK_FLOW_END] = (struct stack_source){ .start_ns = s->flow_end_ns,
							 .id = run->flow.end_thread,
							 .shard = run->flow.shard,
							 .n = run->flow.n };
	return 0;
}

static int compare_tracks(const void *a, const void *b)
{
	const struct stack_track *x = a, *y = b;

	if (x->shard != y->shard)
		return x->shard < y->shard ? -1 : 1;
	if (x->family != y->family)
		return x->family < y->family ? -1 : 1;
	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static struct stack_track track_of(const struct stacks *s, enum stack_kind kind, size_t row)
{
	const struct stack_source *source = &s->sources[kind];

	return (struct stack_track){ .family = kinds[kind].family,
				     .shard = source->shard[row],
				     .device = source->device ? source->device[row] : 0,
				     .id = source->id ? source->id[row] : 0 };
}

static int find_track(struct stacks *s, struct hash_map *map, const struct stack_track *track,
		      uint32_t *ret)
{
	uint32_t hash = (uint32_t)hash_mix(
		hash_mix((uint64_t)track->family << 32 | track->shard, track->device), track->id);
	struct hash_walk walk = hash_map_walk(map, hash);
	uint32_t number;
	int r;

	while ((number = hash_map_next(map, &walk)))
		if (compare_tracks(&s->tracks[number - 1], track) == 0) {
			*ret = number - 1;
			return 0;
		}
	r = array_grow(&s->tracks, &s->capacity, s->n + 1, sizeof(*s->tracks));
	if (r == 0)
		r = hash_map_add(map, hash, (uint32_t)s->n + 1);
	if (r < 0)
		return r;
	*ret = (uint32_t)s->n;
	s->tracks[s->n++] = *track;
	return 0;
}

/* ret_of[row]: its track, NO_TRACK of what has no time. */
static int number_rows(struct stacks *s, struct hash_map *map, enum stack_kind kind,
		       uint32_t *ret_of)
{
	const struct stack_source *source = &s->sources[kind];
	struct stack_track last = { 0 };
	uint32_t number = NO_TRACK;

	for (size_t i = 0; i < source->n; i++) {
		struct stack_track track;
		int r;

		if (source->untimed && source->untimed[i]) {
			s->untimed[kind]++;
			ret_of[i] = NO_TRACK;
			continue;
		}
		track = track_of(s, kind, i);
		if (number == NO_TRACK || compare_tracks(&track, &last) != 0) {
			r = find_track(s, map, &track, &number);
			if (r < 0)
				return r;
			last = track;
		}
		ret_of[i] = number;
	}
	return 0;
}

static unsigned int depth_of(const struct run *run, enum stack_kind kind, uint32_t row)
{
	switch (kind) {
	case STACK_FRAME:
		return run->frame.depth[row];
	case STACK_RANGE:
		return run->range.depth[row];
	case STACK_OP:
		return run->op.depth[row];
	default:
		return 0;
	}
}

/* Whether a comes before b: earlier, longer, less deep, an outer kind. */
static bool comes_first(const struct stacks *s, const struct stack_ref *a,
			const struct stack_ref *b)
{
	int64_t x = stack_start(s, a), y = stack_start(s, b);

	if (x != y)
		return x < y;
	x = stack_end(s, a);
	y = stack_end(s, b);
	if (x != y)
		return x > y;
	/* Ranges and operations share their depths; a frame has its own. */
	if (a->kind <= STACK_OP && b->kind <= STACK_OP &&
	    (a->kind == STACK_FRAME) == (b->kind == STACK_FRAME)) {
		unsigned int depth_a = depth_of(s->run, a->kind, a->row);
		unsigned int depth_b = depth_of(s->run, b->kind, b->row);

		if (depth_a != depth_b)
			return depth_a < depth_b;
	}
	return a->kind != b->kind ? a->kind < b->kind : a->row < b->row;
}

struct tie {
	const struct stacks *stacks;
	uint8_t kind;
};

static int compare_ties(const void *a, const void *b, void *context)
{
	const struct tie *tie = context;
	struct stack_ref x = { .row = *(const uint32_t *)a, .kind = tie->kind };
	struct stack_ref y = { .row = *(const uint32_t *)b, .kind = tie->kind };

	return comes_first(tie->stacks, &x, &y) ? -1 : comes_first(tie->stacks, &y, &x);
}

/* Rows that begin together come by number: the shortest first, where they were recorded at their
 * ends. */
static void sort_ties(const struct stacks *s, enum stack_kind kind, uint32_t *order, size_t n)
{
	const int64_t *start_ns = s->sources[kind].start_ns;
	struct tie tie = { s, (uint8_t)kind };

	for (size_t from = 0, to; from < n; from = to) {
		for (to = from + 1; to < n && start_ns[order[to]] == start_ns[order[from]];)
			to++;
		if (to - from > 1)
			qsort_r(order + from, to - from, sizeof(*order), compare_ties, &tie);
	}
}

/* Deals the rows of `by_start` to their tracks. */
static int deal_rows(struct stacks *s, enum stack_kind kind, const uint32_t *of,
		     const uint32_t *by_start)
{
	size_t n = s->sources[kind].n, sum = 0;
	size_t *first = calloc(s->n + 1, sizeof(*first));

	s->first[kind] = first;
	s->order[kind] = array_new(n ? n : 1, sizeof(*s->order[kind]));
	if (!first || !s->order[kind])
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (of[i] != NO_TRACK)
			first[of[i]]++;
	for (size_t t = 0; t <= s->n; t++) {
		size_t count = first[t];

		first[t] = sum;
		sum += count;
	}
	for (size_t i = 0; i < n; i++)
		if (of[by_start[i]] != NO_TRACK)
			s->order[kind][first[of[by_start[i]]]++] = by_start[i];
	for (size_t t = s->n; t > 0; t--)
		first[t] = first[t - 1];
	first[0] = 0;
	for (size_t t = 0; t < s->n; t++)
		sort_ties(s, kind, s->order[kind] + first[t], first[t + 1] - first[t]);
	return 0;
}

static int order_kind(struct stacks *s, enum stack_kind kind, const uint32_t *of)
{
	const struct stack_source *source = &s->sources[kind];
	struct order_keys keys = { .key = source->start_ns, .flip = ORDER_SIGNED };
	uint32_t *by_start = array_new(source->n ? source->n : 1, sizeof(*by_start));
	int r = by_start ? 0 : -ENOMEM;

	for (size_t from = 0, to; r == 0 && from < source->n; from = to) {
		for (to = from + 1; to < source->n && source->shard[to] == source->shard[from];)
			to++;
		r = order_rows(&keys, from, to - from, by_start + from);
	}
	if (r == 0)
		r = deal_rows(s, kind, of, by_start);
	free(by_start);
	return r;
}

int stacks_init(struct stacks *s, const struct run *run)
{
	struct hash_map map = { 0 };
	uint32_t *of[STACK_KINDS] = { 0 }, *rank = NULL;
	struct stack_track *sorted = NULL;
	int r;

	*s = (struct stacks){ .run = run };
	r = fill_sources(s);
	for (int k = 0; r == 0 && k < STACK_KINDS; k++) {
		of[k] = array_new(s->sources[k].n ? s->sources[k].n : 1, sizeof(*of[k]));
		r = of[k] ? number_rows(s, &map, (enum stack_kind)k, of[k]) : -ENOMEM;
	}
	if (r == 0 && s->n) {
		sorted = array_new(s->n, sizeof(*sorted));
		rank = array_new(s->n, sizeof(*rank));
		r = sorted && rank ? 0 : -ENOMEM;
	}
	if (r == 0 && s->n) {
		memcpy(sorted, s->tracks, s->n * sizeof(*sorted));
		qsort(sorted, s->n, sizeof(*sorted), compare_tracks);
		for (size_t t = 0; r == 0 && t < s->n; t++) {
			uint32_t number = 0;

			r = find_track(s, &map, &sorted[t], &number);
			rank[number] = (uint32_t)t;
		}
		memcpy(s->tracks, sorted, s->n * sizeof(*sorted));
	}
	for (int k = 0; k < STACK_KINDS; k++) {
		for (size_t i = 0; r == 0 && i < s->sources[k].n; i++)
			of[k][i] = of[k][i] == NO_TRACK ? NO_TRACK : rank[of[k][i]];
		if (r == 0)
			r = order_kind(s, (enum stack_kind)k, of[k]);
		free(of[k]);
	}
	hash_map_release(&map);
	free(sorted);
	free(rank);
	if (r < 0)
		stacks_release(s);
	return r;
}

void stacks_release(struct stacks *s)
{
	for (int k = 0; k < STACK_KINDS; k++) {
		free(s->order[k]);
		free(s->first[k]);
	}
	for (size_t l = 0; l < s->lanes_capacity; l++)
		free(s->lanes[l].ends);
	free(s->lanes);
	free(s->tracks);
	free(s->refs);
	free(s->flow_end_ns);
	*s = (struct stacks){ 0 };
}

/* Puts a thing on the first lane where it is inside or after the others. */
static int choose_lane(struct stacks *s, struct stack_ref *ref)
{
	int64_t start_ns = stack_start(s, ref), end_ns = stack_end(s, ref);
	size_t old = s->lanes_capacity, l;
	int r;

	for (l = 0; l < s->n_lanes; l++) {
		struct stack_lane *lane = &s->lanes[l];

		while (lane->n && lane->ends[lane->n - 1] <= start_ns)
			lane->n--;
		if (!lane->n || lane->ends[lane->n - 1] >= end_ns)
			break;
	}
	if (l > UINT16_MAX)
		return -E2BIG;
	if (l == s->n_lanes) {
		r = array_grow(&s->lanes, &s->lanes_capacity, l + 1, sizeof(*s->lanes));
		if (r < 0)
			return r;
		memset(s->lanes + old, 0, (s->lanes_capacity - old) * sizeof(*s->lanes));
		s->lanes[s->n_lanes++].n = 0;
	}
	r = array_grow(&s->lanes[l].ends, &s->lanes[l].capacity, s->lanes[l].n + 1,
		       sizeof(*s->lanes[l].ends));
	if (r < 0)
		return r;
	s->lanes[l].ends[s->lanes[l].n++] = end_ns;
	ref->lane = (uint16_t)l;
	return 0;
}

int stacks_walk(struct stacks *s, size_t track, const struct stack_ref **ret_refs, size_t *ret_n,
		size_t *ret_lanes)
{
	struct stack_ref next[STACK_KINDS];
	size_t at[STACK_KINDS], end[STACK_KINDS], n = 0, n_open = 0;
	int open[STACK_KINDS], r;

	for (int k = 0; k < STACK_KINDS; k++) {
		at[k] = s->first[k][track];
		end[k] = s->first[k][track + 1];
		n += end[k] - at[k];
		if (at[k] == end[k])
			continue;
		open[n_open++] = k;
		next[k] = (struct stack_ref){ .row = s->order[k][at[k]], .kind = (uint8_t)k };
	}
	r = array_grow(&s->refs, &s->refs_capacity, n ? n : 1, sizeof(*s->refs));
	s->n_lanes = 0;
	for (size_t i = 0; r == 0 && i < n; i++) {
		size_t best = 0;
		int k;

		for (size_t o = 1; o < n_open; o++)
			if (comes_first(s, &next[open[o]], &next[open[best]]))
				best = o;
		k = open[best];
		s->refs[i] = next[k];
		r = choose_lane(s, &s->refs[i]);
		if (++at[k] < end[k])
			next[k].row = s->order[k][at[k]];
		else
			open[best] = open[--n_open];
	}
	if (r < 0)
		return r;
	*ret_refs = s->refs;
	*ret_n = n;
	*ret_lanes = s->n_lanes;
	return 0;
}
