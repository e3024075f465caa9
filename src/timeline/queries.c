/* SPDX-License-Identifier: Apache-2.0
 *
 * What is asked of an index. Its arrays are not trusted: every number from them that becomes an index is
 * checked, arithmetic is unsigned, and every loop goes forward in a range that was checked.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "timeline/lod_index.h"

#define ADDED_MOST 4000000 /* events that are added up one by one */

struct lod_facts lod_facts(const struct lod *lod)
{
	return (struct lod_facts){ .origin_ns = lod->header.origin_ns,
				   /* A file may hold anything. */
				   .since_start_ns = (int64_t)((uint64_t)lod->header.origin_ns -
							       (uint64_t)lod->header.start_ns),
				   .end_ns = lod->header.end_ns,
				   .events = lod->header.n_events,
				   .left_out = lod->header.left_out,
				   .lanes = lod->n_lanes,
				   .names = lod->n_names,
				   .steps = lod->header.steps };
}

static struct lod_text text_at(const struct lod *lod, const struct lod_file_text *text)
{
	return (struct lod_text){ lod->texts + text->offset, text->length };
}

struct lod_lane lod_lane(const struct lod *lod, size_t lane)
{
	const struct lod_file_lane *l = &lod->lanes[lane];

	return (struct lod_lane){ .rank = l->rank,
				  .depth = l->depth,
				  .kind = l->kind,
				  .group = text_at(lod, &l->group),
				  .title = text_at(lod, &l->title),
				  .events = l->n };
}

const char *lod_kind_name(enum lod_kind kind)
{
	static const char *const names[LOD_KINDS] = { "steps", "kernels", "copies", "ranges",
						      "api" };

	return names[kind];
}

struct lod_text lod_name(const struct lod *lod, uint32_t name)
{
	return name < lod->n_names ? text_at(lod, &lod->names[name].text)
				   : (struct lod_text){ "", 0 };
}

/* A lane with its tree. */
struct walk {
	const struct lod *lod;
	const struct lod_file_lane *lane;
	const struct lod_file_node
		*levels[LOD_LEVELS]; /* levels[0] has a node for LOD_FANOUT events */
	uint64_t n[LOD_LEVELS];	     /* nodes of each */
	unsigned int n_levels;
	unsigned int level; /* that the last piece was of; 0: an event */
	uint64_t at, to;    /* what is walked over; lane-relative */
};

static struct walk walk_of(const struct lod *lod, size_t lane)
{
	struct walk w = { .lod = lod, .lane = &lod->lanes[lane] };
	const struct lod_file_node *node = lod->nodes + w.lane->nodes;

	for (uint64_t n = w.lane->n; n > LOD_FANOUT && w.n_levels < LOD_LEVELS; w.n_levels++) {
		n = lod_above(n);
		w.levels[w.n_levels] = node;
		w.n[w.n_levels] = n;
		node += n;
	}
	return w;
}

/* The first event of a lane that starts at or after a moment; lane-relative, n: none. Down the tree, for
 * few pages are read then. */
static uint64_t first_from(const struct walk *w, int64_t moment)
{
	const uint64_t *starts = w->lod->starts + w->lane->first;
	uint64_t from = 0, to = w->n_levels ? w->n[w->n_levels - 1] : w->lane->n;

	if (moment <= 0)
		return 0;
	for (unsigned int l = w->n_levels; l-- > 0;) {
		uint64_t below = l ? w->n[l - 1] : w->lane->n;

		while (to - from > 1 && w->levels[l][to - 1].start >= (uint64_t)moment)
			to--;
		from = (to - 1) * LOD_FANOUT;
		to = from + LOD_FANOUT < below ? from + LOD_FANOUT : below;
	}
	while (from < to && starts[from] < (uint64_t)moment)
		from++;
	return from;
}

/* Events that are in a part: lane-relative, from *ret_from to before the result. Only the first can have
 * begun before. */
static uint64_t events_in(const struct walk *w, const struct lod_part *part, uint64_t *ret_from)
{
	uint64_t from = first_from(w, part->from), to = first_from(w, part->to);

	if (from > 0 && part->from > 0 &&
	    index_end(w->lod, w->lane->first + from - 1) > (uint64_t)part->from)
		from--;
	*ret_from = from;
	return to > from ? to : from; /* in a damaged file they are in no order */
}

/* The node of a level (from 1) that begins at `at`, if it ends before `to` and spans no more time than
 * `most`; NULL: it does not. *ret_n: its events. */
static const struct lod_file_node *node_at(const struct walk *w, unsigned int level, uint64_t most,
					   uint64_t *ret_n)
{
	const struct lod_file_node *node;
	uint64_t index, end;

	/* Before anything is shifted: no file has events for 16 levels. */
	if (level > w->n_levels || w->at & ((UINT64_C(1) << 4 * level) - 1))
		return NULL;
	index = w->at >> 4 * level;
	end = (index + 1) << 4 * level;
	end = end < w->lane->n ? end : w->lane->n;
	node = &w->levels[level - 1][index];
	if (end > w->to || node->end - node->start > most)
		return NULL;
	*ret_n = end - w->at;
	return node;
}

/* The largest node that begins at `at`, ends before `to` and spans no more time than `most`. NULL: not even
 * the lowest. *ret_n: its events. Neighbours are mostly of the same level: lower ones are not looked at, for
 * they are in other pages. */
static const struct lod_file_node *largest_node(struct walk *w, uint64_t most, uint64_t *ret_n)
{
	const struct lod_file_node *best = NULL, *node;

	while (w->level && !(best = node_at(w, w->level, most, ret_n)))
		w->level--;
	while ((node = node_at(w, w->level + 1, most, ret_n))) {
		best = node;
		w->level++;
	}
	return best;
}

/* Columns of a picture. */
struct columns {
	int64_t from;
	uint64_t span, width;
	bool small; /* products fit 64 bits */
};

/* The end of the column that a moment is in. */
static uint64_t column_end(const struct columns *c, uint64_t start)
{
	uint64_t since = start - (uint64_t)c->from, column;

	if (c->small) {
		column = since * c->width / c->span;
		return (uint64_t)c->from + (column + 1) * c->span / c->width;
	}
	column = (uint64_t)((unsigned __int128)since * c->width / c->span);
	return (uint64_t)c->from + (uint64_t)((unsigned __int128)(column + 1) * c->span / c->width);
}

/* The next piece of a lane: a node that is no wider than a column, or an event. */
struct piece {
	uint64_t start, end, n;
	uint32_t longest, name;
};

static struct piece next_piece(struct walk *w, uint64_t column)
{
	const uint64_t event = w->lane->first + w->at;
	const struct lod_file_node *node;
	uint64_t n = 1;

	node = largest_node(w, column, &n);
	if (node)
		return (struct piece){ node->start, node->end, n, node->longest, node->name };
	return (struct piece){ w->lod->starts[event], index_end(w->lod, event), 1,
			       w->lod->durations[event], w->lod->name_ids[event] };
}

static int add_box(struct lod_boxes *boxes, const struct columns *c, const struct piece *piece)
{
	if (array_grow(&boxes->of, &boxes->capacity, boxes->n + 1, sizeof(*boxes->of)) < 0)
		return -ENOMEM;
	boxes->of[boxes->n++] =
		(struct lod_box){ .start = (int64_t)(piece->start - (uint64_t)c->from),
				  .duration = piece->end - piece->start,
				  .merged = piece->n,
				  .name = piece->name };
	return 0;
}

static void merge_piece(struct piece *box, const struct piece *piece)
{
	if (!box->n) {
		*box = *piece;
		return;
	}
	box->end = piece->end;
	box->n += piece->n;
	if (piece->longest > box->longest) {
		box->longest = piece->longest;
		box->name = piece->name;
	}
}

/* Pieces that are inside one column become one box; one that reaches into the next is a box of its own,
 * and the last that begins in its column. */
int lod_boxes(const struct lod *lod, size_t lane, const struct lod_part *part, uint32_t width,
	      struct lod_boxes *boxes)
{
	struct columns c = { .from = part->from,
			     .span = (uint64_t)part->to - (uint64_t)part->from,
			     .width = width };
	struct piece box = { 0 }, piece;
	uint64_t limit = 0; /* the end of the column that `box` is in */
	struct walk w;
	int r = 0;

	c.small = c.span <= UINT64_MAX / 2 / width - 1;
	w = walk_of(lod, lane);
	w.to = part->to > 0 ? events_in(&w, part, &w.at) : 0;
	for (; r == 0 && w.at < w.to; w.at += piece.n) {
		bool before;

		piece = next_piece(&w, c.span / width);
		before = part->from > 0 && piece.start < (uint64_t)part->from;
		if (box.n && (before || piece.end > limit || piece.start >= limit)) {
			r = add_box(boxes, &c, &box);
			box.n = 0;
		}
		if (!before && !box.n)
			limit = column_end(&c, piece.start);
		if (before || piece.end > limit)
			r = r < 0 ? r : add_box(boxes, &c, &piece);
		else
			merge_piece(&box, &piece);
	}
	return r == 0 && box.n ? add_box(boxes, &c, &box) : r;
}

/* What of an event is in a part. */
static uint64_t time_inside(const struct lod *lod, uint64_t event, const struct lod_part *part)
{
	uint64_t start = lod->starts[event], end = index_end(lod, event);

	if (part->from > 0 && start < (uint64_t)part->from)
		start = (uint64_t)part->from;
	if (end > (uint64_t)part->to)
		end = (uint64_t)part->to;
	return end > start ? end - start : 0;
}

struct lod_sum lod_sum(const struct lod *lod, size_t lane, const struct lod_part *part)
{
	struct walk w = walk_of(lod, lane);
	struct lod_sum sum = { 0 };
	uint64_t first = w.lane->first, from, to, n = 0;

	to = part->to > 0 ? events_in(&w, part, &from) : 0;
	if (part->to <= 0 || from >= to)
		return sum;
	sum.events = to - from;
	/* The first and the last may be cut. */
	sum.busy = time_inside(lod, first + from, part);
	if (to - from > 1)
		sum.busy += time_inside(lod, first + to - 1, part);
	w.at = from + 1;
	w.to = to - 1;
	while (w.at < w.to) {
		const struct lod_file_node *node = largest_node(&w, UINT64_MAX, &n);

		sum.busy += node ? node->busy : index_duration(lod, first + w.at);
		w.at += node ? n : 1;
	}
	return sum;
}

static int busiest_first(const void *a, const void *b)
{
	const struct lod_name_sum *x = a, *y = b;

	if (x->sum.busy != y->sum.busy)
		return x->sum.busy < y->sum.busy ? 1 : -1;
	if (x->sum.events != y->sum.events)
		return x->sum.events < y->sum.events ? 1 : -1;
	return x->name < y->name ? -1 : x->name > y->name;
}

static void add_up(const struct lod *lod, size_t lane, const struct lod_part *part,
		   struct lod_name_sum *sums)
{
	struct walk w = walk_of(lod, lane);
	uint64_t from, to = events_in(&w, part, &from);

	for (uint64_t i = from; i < to; i++) {
		uint64_t event = w.lane->first + i;
		uint32_t name = lod->name_ids[event];

		if (name >= lod->n_names)
			continue;
		sums[name].sum.events++;
		sums[name].sum.busy += i == from || i == to - 1 ? time_inside(lod, event, part)
								: index_duration(lod, event);
	}
}

static bool is_everything(const struct lod *lod, size_t n_lanes, const struct lod_part *part)
{
	return n_lanes == lod->n_lanes && part->from <= 0 && part->to > 0 &&
	       (uint64_t)part->to > lod->header.end_ns;
}

int lod_sum_names(const struct lod *lod, const size_t *lanes, size_t n_lanes,
		  const struct lod_part *part, size_t most, struct lod_name_sum **ret_sums,
		  size_t *ret_n)
{
	bool everything = is_everything(lod, n_lanes, part);
	struct lod_name_sum *sums;
	uint64_t events = 0, from;
	size_t n = 0;

	for (size_t i = 0; part->to > 0 && i < n_lanes; i++) {
		struct walk w = walk_of(lod, lanes[i]);

		events += events_in(&w, part, &from) - from;
	}
	if (!everything && events > ADDED_MOST)
		return -E2BIG;
	sums = calloc(lod->n_names + 1, sizeof(*sums));
	if (!sums)
		return -ENOMEM;
	for (size_t i = 0; i < lod->n_names; i++) {
		sums[i].name = (uint32_t)i;
		if (everything)
			sums[i].sum = (struct lod_sum){ lod->names[i].events, lod->names[i].busy };
	}
	for (size_t i = 0; !everything && part->to > 0 && i < n_lanes; i++)
		add_up(lod, lanes[i], part, sums);
	for (size_t i = 0; i < lod->n_names; i++)
		if (sums[i].sum.events)
			sums[n++] = sums[i];
	qsort(sums, n, sizeof(*sums), busiest_first);
	*ret_sums = sums;
	*ret_n = n < most ? n : most;
	return 0;
}

static bool contains(struct lod_text text, const char *word, size_t length)
{
	for (size_t i = 0; i + length <= text.length; i++)
		if (!strncasecmp(text.text + i, word, length))
			return true;
	return false;
}

static size_t lane_of(const struct lod *lod, uint64_t event)
{
	size_t from = 0, to = lod->n_lanes;

	while (from + 1 < to) {
		size_t middle = from + (to - from) / 2;

		if (lod->lanes[middle].first <= event)
			from = middle;
		else
			to = middle;
	}
	return from;
}

static struct lod_event event_at(const struct lod *lod, uint64_t event)
{
	return (struct lod_event){ .lane = lane_of(lod, event),
				   .start = lod->starts[event],
				   .duration = index_duration(lod, event) };
}

int lod_search(const struct lod *lod, const char *text, size_t most, struct lod_found **ret_found,
	       size_t *ret_n)
{
	struct lod_name_sum *sums = calloc(lod->n_names + 1, sizeof(*sums));
	struct lod_found *found;
	size_t n = 0, length = strlen(text);

	for (size_t i = 0; sums && i < lod->n_names; i++)
		if (lod->names[i].events && contains(lod_name(lod, (uint32_t)i), text, length))
			sums[n++] = (struct lod_name_sum){
				(uint32_t)i, { lod->names[i].events, lod->names[i].busy }
			};
	if (n)
		qsort(sums, n, sizeof(*sums), busiest_first);
	n = n < most ? n : most;
	found = sums ? calloc(n + 1, sizeof(*found)) : NULL;
	for (size_t i = 0; found && i < n; i++)
		found[i] = (struct lod_found){ sums[i].name, sums[i].sum,
					       event_at(lod, lod->names[sums[i].name].first) };
	free(sums);
	if (!found)
		return -ENOMEM;
	*ret_found = found;
	*ret_n = n;
	return 0;
}

/* The first event of that name in a lane from one on; lane-relative, n: none. Only the blocks that the
 * name is in are looked at. */
static uint64_t next_of_name(const struct lod *lod, const struct lod_file_lane *lane, uint32_t name,
			     uint64_t from)
{
	const uint32_t *posts = lod->posts + lod->names[name].posts;
	uint64_t low = 0, high = lod->names[name].n_posts, n = lod->names[name].n_posts;
	uint64_t at = lane->first + from, end = lane->first + lane->n;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (posts[middle] < at / LOD_BLOCK)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < n; low++) {
		uint64_t block = (uint64_t)posts[low] * LOD_BLOCK, block_end = block + LOD_BLOCK;

		if (block >= end)
			break;
		for (at = at > block ? at : block; at < block_end && at < end; at++)
			if (lod->name_ids[at] == name)
				return at - lane->first;
	}
	return lane->n;
}

static bool find_after(const struct lod *lod, uint32_t name, int64_t after,
		       struct lod_event *ret_event)
{
	bool found = false;

	for (size_t l = 0; l < lod->n_lanes; l++) {
		struct walk w = walk_of(lod, l);
		uint64_t from = after < 0 ? 0 : first_from(&w, after + 1);
		uint64_t i = next_of_name(lod, w.lane, name, from), event = w.lane->first + i;

		if (i == w.lane->n || (found && lod->starts[event] >= ret_event->start))
			continue;
		*ret_event = (struct lod_event){ l, lod->starts[event],
						 index_duration(lod, event) };
		found = true;
	}
	return found;
}

uint32_t lod_name_id(const struct lod *lod, const char *name)
{
	size_t length = strlen(name);

	for (size_t i = 0; i < lod->n_names; i++) {
		struct lod_text text = lod_name(lod, (uint32_t)i);

		if (text.length == length && !memcmp(text.text, name, length))
			return (uint32_t)i;
	}
	return UINT32_MAX;
}

bool lod_find(const struct lod *lod, uint32_t name, int64_t after, struct lod_event *ret_event)
{
	return name < lod->n_names &&
	       (find_after(lod, name, after, ret_event) || find_after(lod, name, -1, ret_event));
}
