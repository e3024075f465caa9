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
#include "subjects/shared/attribution.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "base/hash_map.h"
#include "base/parallel.h"
#include "subjects/numbers/leaders.h"

#define NOTHING SIZE_MAX
/* A node is a copy of a copy at most: captured, put into a parent, instantiated, cloned again.
 * The bound is for damaged files, whose nodes may name each other in a circle. */
#define COPIES_MAX 8

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

/* Nodes come in the order of their making: often there is nothing to sort. */
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

static bool calls_in_order(const struct table_api *api)
{
	for (size_t i = 1; i < api->n; i++) {
		if (api->shard[i - 1] != api->shard[i]) {
			if (api->shard[i - 1] > api->shard[i])
				return false;
		} else if (api->correlation[i - 1] != api->correlation[i]) {
			if (api->correlation[i - 1] > api->correlation[i])
				return false;
		} else if (api->start_ns[i - 1] > api->start_ns[i]) {
			return false;
		}
	}
	return true;
}

static int collect_calls(struct attribution *at)
{
	const struct table_api *api = &at->run->api;
	struct order_keys keys = { .key = api->correlation, .then = api->start_ns };
	int r;

	if (api->n >= ORDER_MOST)
		return -EFBIG;
	at->n_calls = api->n;
	if (calls_in_order(api))
		return 0;
	at->calls = array_new(api->n, sizeof(*at->calls));
	if (!at->calls)
		return -ENOMEM;
	r = order_rows(&keys, 0, api->n, at->calls);
	return r < 0 ? r : order_group(api->shard, at->calls, api->n);
}

static size_t call_row(const struct attribution *at, size_t i)
{
	return at->calls ? at->calls[i] : i;
}

struct call_key {
	uint64_t correlation;
	int64_t start_ns;
	uint16_t shard;
};

static bool same_id(const struct attribution *at, size_t i, const struct call_key *key)
{
	size_t row = call_row(at, i);

	return at->run->api.shard[row] == key->shard &&
	       at->run->api.correlation[row] == key->correlation;
}

/* Whether the i-th call comes before all of that id that began later. */
static inline bool begun_by(const struct attribution *at, size_t i, const struct call_key *key)
{
	const struct table_api *api = &at->run->api;
	size_t row = call_row(at, i);

	if (api->shard[row] != key->shard)
		return api->shard[row] < key->shard;
	if (api->correlation[row] != key->correlation)
		return api->correlation[row] < key->correlation;
	return api->start_ns[row] <= key->start_ns;
}

/* *hint: where the last one was found. */
static size_t find_call(const struct attribution *at, const struct call_key *key, size_t *hint)
{
	const struct table_api *api = &at->run->api;
	size_t low, last;

	if (!key->correlation)
		return NO_CALL;
	ORDER_FIND(low, at->n_calls, *hint, begun_by(at, probe, key));
	*hint = low;
	if (!low || !same_id(at, low - 1, key))
		/* Clocks of host and device differ a little: one that began just after counts. */
		return low < at->n_calls && same_id(at, low, key) ? call_row(at, low) : NO_CALL;
	last = call_row(at, low - 1);
	for (size_t i = low; api->driver[last] && i-- > 0;) {
		size_t row = call_row(at, i);

		if (!same_id(at, i, key))
			break;
		if (!api->driver[row] &&
		    api->duration_ns[row] >= api->start_ns[last] - api->start_ns[row])
			return row;
	}
	return last;
}

size_t attribution_call(const struct attribution *at, uint16_t shard, uint64_t correlation,
			int64_t start_ns)
{
	size_t hint = at->n_calls;

	return find_call(at, &(struct call_key){ correlation, start_ns, shard }, &hint);
}

/* A part of a table of device records, of which one thread finds the calls. */
#define JOIN_ROWS 262144
struct join {
	const struct attribution *at;
	const uint64_t *correlation;
	const int64_t *start_ns;
	const uint16_t *shard;
	size_t n;
	uint32_t *call;
};

static int join_part(void *context, size_t part, unsigned int worker)
{
	const struct join *join = context;
	size_t from = part * JOIN_ROWS, hint = join->at->n_calls;
	size_t to = join->n - from < JOIN_ROWS ? join->n : from + JOIN_ROWS;

	(void)worker;
	for (size_t i = from; i < to; i++) {
		struct call_key key = { join->correlation[i], join->start_ns[i], join->shard[i] };

		join->call[i] = (uint32_t)find_call(join->at, &key, &hint);
	}
	return 0;
}

static int join_table(const struct attribution *at, const struct join *table, uint32_t **ret_call)
{
	size_t parts = (table->n + JOIN_ROWS - 1) / JOIN_ROWS;
	struct join join = *table;

	join.at = at;
	if (!join.n)
		return 0;
	*ret_call = join.call = array_new(join.n, sizeof(*join.call));
	if (!join.call)
		return -ENOMEM;
	return parallel_run(parts, parallel_workers(parts), join_part, &join);
}

#define JOIN(table)                                                                                \
	&(struct join)                                                                             \
	{                                                                                          \
		.correlation = (table)->correlation, .start_ns = (table)->start_ns,                \
		.shard = (table)->shard, .n = (table)->n                                           \
	}

static int join_calls(struct attribution *at)
{
	int r = join_table(at, JOIN(&at->run->kernel), &at->kernel_call);

	if (r >= 0)
		r = join_table(at, JOIN(&at->run->copy), &at->copy_call);
	return r < 0 ? r : join_table(at, JOIN(&at->run->set), &at->set_call);
}

static int find_path(struct attribution *at, struct hash_map *map, struct path_node key,
		     uint32_t *ret_path)
{
	uint32_t hash = hash_word((uint64_t)key.parent << 32 | key.name), path;
	struct hash_walk walk = hash_map_walk(map, hash);

	while ((path = hash_map_next(map, &walk)))
		if (at->paths[path - 1].parent == key.parent &&
		    at->paths[path - 1].name == key.name)
			break;
	if (!path) {
		path = (uint32_t)at->n_paths + 1;
		if (array_grow(&at->paths, &at->paths_capacity, path, sizeof(*at->paths)) < 0 ||
		    hash_map_add(map, hash, path) < 0)
			return -ENOMEM;
		at->paths[at->n_paths++] = key;
	}
	*ret_path = path;
	return 0;
}

static int place_range(struct attribution *at, struct hash_map *paths, size_t i, size_t below)
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
	return find_path(at, paths, (struct path_node){ outer->path, site.name }, &place->path);
}

static int place_ranges(struct attribution *at)
{
	struct hash_map paths = { 0 };
	size_t open = NOTHING;
	int r = 0;

	at->range_places = array_new(at->n_ranges, sizeof(*at->range_places));
	if (!at->range_places)
		return -ENOMEM;
	for (size_t i = 0; r >= 0 && i < at->n_ranges; i++) {
		const struct nested *item = &at->ranges[i];

		if (i && (item->shard != item[-1].shard || item->thread != item[-1].thread))
			open = NOTHING;
		while (open != NOTHING && at->ranges[open].end_ns <= item->start_ns)
			open = at->range_places[open].below;
		r = place_range(at, &paths, i, open);
		open = i;
	}
	hash_map_release(&paths);
	return r;
}

static inline bool nested_begins_by(const struct nested *item, uint16_t shard, uint32_t thread,
				    int64_t time_ns)
{
	return item->shard != shard	? item->shard < shard
	       : item->thread != thread ? item->thread < thread
					: item->start_ns <= time_ns;
}

size_t attribution_outer(const struct attribution *at, size_t range)
{
	return at->range_places[range].below;
}

size_t attribution_innermost(const struct attribution *at, uint16_t shard, uint32_t thread,
			     int64_t time_ns, size_t *hint)
{
	size_t low;

	ORDER_FIND(low, at->n_ranges, *hint,
		   nested_begins_by(&at->ranges[probe], shard, thread, time_ns));
	*hint = low;
	if (!low-- || at->ranges[low].shard != shard || at->ranges[low].thread != thread)
		return NOTHING;
	while (low != NOTHING && at->ranges[low].end_ns <= time_ns)
		low = at->range_places[low].below;
	return low;
}

static int by_node(const void *a, const void *b)
{
	const struct node_entry *x = a, *y = b;

	return CMP(x->shard, y->shard) ?: CMP(x->node, y->node) ?: CMP(x->time_ns, y->time_ns) ?:
	       CMP(x->row, y->row);
}

/* Ids come again when graphs are destroyed: the last node of that id made by then. */
static const struct node_entry *find_node(const struct attribution *at, uint16_t shard,
					  uint64_t node, int64_t time_ns)
{
	struct node_entry key = { node, time_ns, SIZE_MAX, 0, shard };
	size_t low;

	ORDER_FIND(low, at->n_nodes, at->n_nodes, by_node(&at->nodes[probe], &key) <= 0);
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
		size_t hint = at->n_ranges;
		size_t here = attribution_innermost(at, node->shard, t->thread[node->row],
						    node->time_ns, &hint);

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
	if (r >= 0)
		r = join_calls(at);
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
	if (r >= 0 && at->n_ranges)
		r = leaders_find(run, at->ranges, at->n_ranges, &at->leaders);
	if (r >= 0)
		r = collect_nodes(at);
	if (r >= 0)
		r = join_calls(at);
	if (r < 0)
		attribution_release(at);
	return r;
}

void attribution_close(struct attribution *at)
{
	free(at->calls);
	at->calls = NULL;
	at->n_calls = 0;
}

void attribution_release(struct attribution *at)
{
	step_index_release(&at->steps);
	free(at->calls);
	free(at->kernel_call);
	free(at->copy_call);
	free(at->set_call);
	free(at->ranges);
	free(at->range_places);
	free(at->leaders);
	free(at->paths);
	free(at->nodes);
	*at = (struct attribution){ 0 };
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

/* A thread whose own ranges name no phase works for the one that leads the phases. */
static size_t lent_range(const struct attribution *at, uint16_t shard, uint32_t thread,
			 int64_t time_ns, size_t *hint)
{
	uint32_t leader = at->leaders && shard < at->run->n_shards ? at->leaders[shard] : 0;
	size_t range;

	if (!leader || leader == thread)
		return NOTHING;
	range = attribution_innermost(at, shard, leader, time_ns, hint);
	return range != NOTHING && at->range_places[range].phase ? range : NOTHING;
}

struct place attribution_place_of(const struct attribution *at, struct attribution_cursor *cursor,
				  uint16_t shard, uint32_t thread, int64_t time_ns)
{
	struct place place = { .layer = -1, .expert = -1 };
	size_t range;

	place.step = step_index_find_near(&at->steps, at->run, shard, time_ns, &cursor->step);
	range = attribution_innermost(at, shard, thread, time_ns, &cursor->range);
	if (range == NOTHING) {
		enter_range(at, lent_range(at, shard, thread, time_ns, &cursor->lent), &place);
	} else {
		enter_range(at, range, &place);
		if (!place.phase) {
			range = lent_range(at, shard, thread, time_ns, &cursor->lent);
			place.phase = range == NOTHING ? 0 : at->range_places[range].phase;
		}
	}
	return place;
}

struct place attribution_place_near(const struct attribution *at, struct attribution_cursor *cursor,
				    size_t call)
{
	const struct table_api *api = &at->run->api;

	return attribution_place_of(at, cursor, api->shard[call], api->thread[call],
				    api->start_ns[call]);
}

struct place attribution_place(const struct attribution *at, size_t call)
{
	struct attribution_cursor cursor = { at->n_ranges, at->steps.n };

	return attribution_place_near(at, &cursor, call);
}

bool attribution_find_near(const struct attribution *at, struct attribution_cursor *cursor,
			   const struct device_work *work, uint32_t call, struct place *ret_place)
{
	const struct node_entry *node =
		work->graph_node ? find_node(at, work->shard, work->graph_node, work->start_ns)
				 : NULL;
	struct place place = { .layer = -1, .expert = -1, .range = NO_RANGE };

	if (call == NO_CALL32 && !node)
		return false;
	if (call != NO_CALL32)
		place = attribution_place_near(at, cursor, call);
	else
		place.step = step_index_find_near(&at->steps, at->run, work->shard, work->start_ns,
						  &cursor->step);
	if (node && node->range != NOTHING) {
		place.layer = place.expert = -1;
		place.phase = 0;
		enter_range(at, node->range, &place);
	}
	*ret_place = place;
	return true;
}

bool attribution_find(const struct attribution *at, const struct device_work *work,
		      struct place *ret_place)
{
	struct attribution_cursor cursor = { at->n_ranges, at->steps.n };
	size_t call = attribution_call(at, work->shard, work->correlation, work->start_ns);

	return attribution_find_near(at, &cursor, work, (uint32_t)call, ret_place);
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

uint32_t attribution_path_outer(const struct attribution *at, uint32_t path)
{
	return at->paths[path - 1].parent;
}

uint32_t attribution_path_name(const struct attribution *at, uint32_t path)
{
	return at->paths[path - 1].name;
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
