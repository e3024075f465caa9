/* SPDX-License-Identifier: Apache-2.0
 *
 * From device records to the program; see attribution.h.
 *
 * Ranges in order of their start, outer before inner, with a link to the one that was open below:
 * those that hold a moment are all on the chain of the last one that began by then.
 *
 * Graph nodes are placed once, when all is set up: graphs replay the same few nodes millions of
 * times.
 */
#include "analyze/attribution.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define NOTHING SIZE_MAX
/* A node is a copy of a copy at most: captured, put into a parent, instantiated, cloned again.
 * The bound is for damaged files, whose nodes may name each other in a circle. */
#define COPIES_MAX 8

struct call_entry {
	uint64_t correlation;
	int64_t start_ns;
	size_t row;
	uint16_t shard;
};

struct range_place {
	size_t below; /* NOTHING: none */
	uint32_t path;
	int32_t layer, expert;
	uint8_t phase;
};

struct path_node {
	uint32_t parent, name;
};

struct node_entry {
	uint64_t node;
	int64_t time_ns;
	size_t row;   /* of run->graph_node */
	size_t range; /* that it was made in, or NOTHING */
	uint16_t shard;
};

static int by_id(const void *a, const void *b)
{
	const struct call_entry *x = a, *y = b;

	if (x->shard != y->shard)
		return x->shard < y->shard ? -1 : 1;
	if (x->correlation != y->correlation)
		return x->correlation < y->correlation ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

/* Rows of one thread come in the order of their ids: often there is nothing to sort. */
static void sort_unless_sorted(void *items, size_t n, size_t size,
			       int (*order)(const void *, const void *))
{
	const char *at = items;
	size_t i = 1;

	while (i < n && order(at + (i - 1) * size, at + i * size) <= 0)
		i++;
	if (i < n)
		qsort(items, n, size, order);
}

static int collect_calls(struct attribution *at)
{
	const struct table_api *api = &at->run->api;

	if (!api->n)
		return 0;
	at->calls = calloc(api->n, sizeof(*at->calls));
	if (!at->calls)
		return -ENOMEM;
	for (size_t i = 0; i < api->n; i++)
		at->calls[i] = (struct call_entry){ api->correlation[i], api->start_ns[i], i,
						    api->shard[i] };
	sort_unless_sorted(at->calls, api->n, sizeof(*at->calls), by_id);
	at->n_calls = api->n;
	return 0;
}

/* Paths by parent and name, found again through an open hash. */
struct path_hash {
	uint32_t *slots; /* path; 0: free */
	size_t n_slots;
};

static size_t path_slot(const struct attribution *at, const struct path_hash *hash,
			struct path_node key)
{
	uint64_t h = ((uint64_t)key.parent << 32 | key.name) * UINT64_C(0x9E3779B97F4A7C15);
	size_t slot = (size_t)(h ^ h >> 32) & (hash->n_slots - 1);

	while (hash->slots[slot] && (at->paths[hash->slots[slot] - 1].parent != key.parent ||
				     at->paths[hash->slots[slot] - 1].name != key.name))
		slot = (slot + 1) & (hash->n_slots - 1);
	return slot;
}

static int grow_hash(const struct attribution *at, struct path_hash *hash)
{
	struct path_hash grown = { .n_slots = hash->n_slots ? hash->n_slots * 2 : 256 };

	grown.slots = calloc(grown.n_slots, sizeof(*grown.slots));
	if (!grown.slots)
		return -ENOMEM;
	for (size_t i = 0; i < at->n_paths; i++)
		grown.slots[path_slot(at, &grown, at->paths[i])] = (uint32_t)i + 1;
	free(hash->slots);
	*hash = grown;
	return 0;
}

static int find_path(struct attribution *at, struct path_hash *hash, struct path_node key,
		     uint32_t *ret_path)
{
	size_t slot;

	if (at->n_paths * 2 >= hash->n_slots && grow_hash(at, hash) < 0)
		return -ENOMEM;
	slot = path_slot(at, hash, key);
	if (!hash->slots[slot]) {
		if (array_grow(&at->paths, &at->paths_capacity, at->n_paths + 1,
			       sizeof(*at->paths)) < 0)
			return -ENOMEM;
		at->paths[at->n_paths++] = key;
		hash->slots[slot] = (uint32_t)at->n_paths;
	}
	*ret_path = hash->slots[slot];
	return 0;
}

static int place_range(struct attribution *at, struct path_hash *hash, size_t i, size_t below)
{
	const struct nested *item = &at->ranges[i];
	const struct run *run = at->run;
	struct site site = run_site(run, item->is_op ? run->op.site[item->row]
						     : run->range.site[item->row]);
	struct range_place *place = &at->range_places[i];
	struct range_place none = { .layer = -1, .expert = -1 };
	const struct range_place *outer = below == NOTHING ? &none : &at->range_places[below];

	*place = (struct range_place){
		.below = below,
		.layer = site.layer >= 0 ? site.layer : outer->layer,
		.expert = site.expert >= 0 ? site.expert : outer->expert,
		.phase = site.phase ? site.phase : outer->phase,
	};
	return find_path(at, hash, (struct path_node){ outer->path, site.name }, &place->path);
}

static int place_ranges(struct attribution *at)
{
	struct path_hash hash = { 0 };
	size_t open = NOTHING;
	int r = 0;

	at->range_places = calloc(at->n_ranges, sizeof(*at->range_places));
	if (!at->range_places)
		return -ENOMEM;
	for (size_t i = 0; r >= 0 && i < at->n_ranges; i++) {
		const struct nested *item = &at->ranges[i];

		if (i && (item->shard != item[-1].shard || item->thread != item[-1].thread))
			open = NOTHING;
		while (open != NOTHING && at->ranges[open].end_ns <= item->start_ns)
			open = at->range_places[open].below;
		r = place_range(at, &hash, i, open);
		open = i;
	}
	free(hash.slots);
	return r;
}

/* The innermost range of the thread that holds the moment. */
static size_t innermost(const struct attribution *at, uint16_t shard, uint32_t thread,
			int64_t time_ns)
{
	size_t low = 0, high = at->n_ranges;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct nested *item = &at->ranges[middle];
		bool before = item->shard != shard     ? item->shard < shard
			      : item->thread != thread ? item->thread < thread
						       : item->start_ns <= time_ns;

		if (before)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low-- || at->ranges[low].shard != shard || at->ranges[low].thread != thread)
		return NOTHING;
	while (low != NOTHING && at->ranges[low].end_ns <= time_ns)
		low = at->range_places[low].below;
	return low;
}

static int by_node(const void *a, const void *b)
{
	const struct node_entry *x = a, *y = b;

	if (x->shard != y->shard)
		return x->shard < y->shard ? -1 : 1;
	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

/* Ids come again when graphs are destroyed: the last node of that id made by then. */
static const struct node_entry *find_node(const struct attribution *at, uint16_t shard,
					  uint64_t node, int64_t time_ns)
{
	struct node_entry key = { node, time_ns, SIZE_MAX, 0, shard };
	size_t low = 0, high = at->n_nodes;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (by_node(&at->nodes[middle], &key) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || at->nodes[low - 1].shard != shard || at->nodes[low - 1].node != node)
		return NULL;
	return &at->nodes[low - 1];
}

/* Where a node was first made: instantiation copies nodes far from the code that they stand for,
 * so what a node is a copy of counts before the copy. */
static size_t node_range(const struct attribution *at, const struct node_entry *node)
{
	const struct table_graph_node *t = &at->run->graph_node;
	size_t range = NOTHING;

	for (int i = 0; node && i < COPIES_MAX; i++) {
		uint64_t source = t->source[node->row];
		size_t here = innermost(at, node->shard, t->thread[node->row], node->time_ns);

		if (here != NOTHING)
			range = here;
		node = source && source != node->node
			       ? find_node(at, node->shard, source, node->time_ns)
			       : NULL;
	}
	return range;
}

static int collect_nodes(struct attribution *at)
{
	const struct table_graph_node *t = &at->run->graph_node;

	if (!t->n)
		return 0;
	at->nodes = calloc(t->n, sizeof(*at->nodes));
	if (!at->nodes)
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++)
		at->nodes[i] = (struct node_entry){ t->node[i], t->time_ns[i], i, NOTHING,
						    t->shard[i] };
	sort_unless_sorted(at->nodes, t->n, sizeof(*at->nodes), by_node);
	at->n_nodes = t->n;
	for (size_t i = 0; i < t->n; i++)
		at->nodes[i].range = node_range(at, &at->nodes[i]);
	return 0;
}

int attribution_init_calls(struct attribution *at, const struct run *run)
{
	int r;

	*at = (struct attribution){ .run = run };
	r = collect_calls(at);
	if (r < 0)
		attribution_release(at);
	return r;
}

int attribution_init(struct attribution *at, const struct run *run)
{
	int r;

	*at = (struct attribution){ .run = run };
	r = step_index_init(&at->steps, run);
	if (r >= 0)
		r = collect_calls(at);
	if (r >= 0)
		r = nesting_collect(run, NESTING_BY_START, &at->ranges, &at->n_ranges);
	if (r >= 0 && at->n_ranges)
		r = place_ranges(at);
	if (r >= 0)
		r = collect_nodes(at);
	if (r < 0)
		attribution_release(at);
	return r;
}

void attribution_release(struct attribution *at)
{
	step_index_release(&at->steps);
	free(at->calls);
	free(at->ranges);
	free(at->range_places);
	free(at->paths);
	free(at->nodes);
	*at = (struct attribution){ 0 };
}

static bool same_id(const struct call_entry *a, const struct call_entry *b)
{
	return a->shard == b->shard && a->correlation == b->correlation;
}

size_t attribution_call(const struct attribution *at, uint16_t shard, uint64_t correlation,
			int64_t start_ns)
{
	const struct table_api *api = &at->run->api;
	struct call_entry key = { correlation, start_ns, SIZE_MAX, shard };
	size_t low = 0, high = at->n_calls; /* one past the last that began by then */

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (by_id(&at->calls[middle], &key) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || !same_id(&at->calls[low - 1], &key))
		/* Clocks of host and device differ a little: one that began just after counts. */
		return low < at->n_calls && same_id(&at->calls[low], &key) ? at->calls[low].row
									   : NO_CALL;
	for (size_t i = low; api->driver[at->calls[low - 1].row] && i-- > 0;) {
		const struct call_entry *call = &at->calls[i];

		if (!same_id(call, &key))
			break;
		if (!api->driver[call->row] &&
		    api->duration_ns[call->row] >= at->calls[low - 1].start_ns - call->start_ns)
			return call->row;
	}
	return at->calls[low - 1].row;
}

static void enter_range(const struct attribution *at, size_t range, struct place *place)
{
	place->range = range;
	if (range == NOTHING)
		return;
	place->path = at->range_places[range].path;
	place->layer = at->range_places[range].layer;
	place->expert = at->range_places[range].expert;
	place->phase = at->range_places[range].phase;
}

struct place attribution_place(const struct attribution *at, size_t call)
{
	const struct table_api *api = &at->run->api;
	struct place place = { .layer = -1, .expert = -1 };

	place.step = step_index_find(&at->steps, at->run, api->shard[call], api->start_ns[call]);
	enter_range(at, innermost(at, api->shard[call], api->thread[call], api->start_ns[call]),
		    &place);
	return place;
}

bool attribution_find(const struct attribution *at, const struct device_work *work,
		      struct place *ret_place)
{
	size_t call = attribution_call(at, work->shard, work->correlation, work->start_ns);
	const struct node_entry *node =
		work->graph_node ? find_node(at, work->shard, work->graph_node, work->start_ns)
				 : NULL;
	struct place place = { .layer = -1, .expert = -1, .range = NO_RANGE };

	if (call == NO_CALL && !node)
		return false;
	if (call != NO_CALL)
		place = attribution_place(at, call);
	else
		place.step = step_index_find(&at->steps, at->run, work->shard, work->start_ns);
	if (node && node->range != NOTHING) {
		place.layer = place.expert = -1;
		place.phase = 0;
		enter_range(at, node->range, &place);
	}
	*ret_place = place;
	return true;
}

bool attribution_needed(const struct run *run, const struct selection *sel)
{
	for (size_t i = 0; run->step.recorded && i < run->step.n; i++)
		if (!run->step.recorded[i])
			return true;
	return !selection_is_all(sel);
}

bool attribution_selects(const struct attribution *at, const struct selection *sel,
			 const struct place *place)
{
	if (place->step != NO_STEP && !at->run->step.recorded[place->step])
		return false;
	if (!selection_has_place(sel, place->layer, place->phase))
		return false;
	return !selection_is_window(sel) ||
	       (place->step != NO_STEP && selection_has_step(sel, at->run->step.step[place->step]));
}

int attribution_path_text(const struct attribution *at, uint32_t path, char **ret_text)
{
	size_t length = 0, n;
	char *text;

	for (uint32_t p = path; p; p = at->paths[p - 1].parent)
		length += strlen(run_string(at->run, at->paths[p - 1].name)) + 1;
	text = malloc(length + 1);
	if (!text)
		return -ENOMEM;
	text[length ? length - 1 : 0] = '\0';
	/* From the innermost backwards, each behind a slash but the first. */
	for (uint32_t p = path; p; p = at->paths[p - 1].parent) {
		const char *name = run_string(at->run, at->paths[p - 1].name);

		n = strlen(name);
		length -= n + 1;
		memcpy(text + length, name, n);
		if (length)
			text[length - 1] = '/';
	}
	*ret_text = text;
	return 0;
}
