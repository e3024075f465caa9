/* SPDX-License-Identifier: Apache-2.0
 *
 * Causes of idle time; see idle.h for what they are.
 */
#include "subjects/device/idle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "subjects/shared/coverage.h"
#include "subjects/transfers/transfers.h"

/* Groups of idle_index.host. Only peer copies have a device. */
enum { HOST_CALL, HOST_SYNC, HOST_COPY, HOST_PREPARE, PEER_COPY }; /* plain calls are not in it */
enum { SYNC_STREAM_WAITS = 2 }; /* of a sync record: the host does not */
enum { COPY_PTOP = 10 };

struct idle_edge {
	int64_t first_ns, last_ns;
};

const char *idle_cause_name(enum idle_cause cause)
{
	static const char *const names[] = { "host",   "launch",   "sync",   "copy",
					     "queued", "profiler", "unknown" };

	return names[cause];
}

/* Of calls that load code or capture and build graphs. */
static const char *const preparing[] = { "ModuleLoad", "LibraryLoad", "LinkComplete",
					 "StreamEndCapture", "GraphInstantiate" };

static uint32_t call_group(const char *name)
{
	if (strstr(name, "Synchronize"))
		return HOST_SYNC;
	if (strstr(name, "Memcpy") && !strstr(name, "Async"))
		return HOST_COPY;
	for (size_t i = 0; i < sizeof(preparing) / sizeof(preparing[0]); i++)
		if (strstr(name, preparing[i]))
			return HOST_PREPARE;
	return HOST_CALL;
}

/* Calls have few names and many rows: each name is looked at once. */
static int name_groups(const struct run *run, uint8_t **ret_groups)
{
	const struct table_api *api = &run->api;
	uint32_t most = 0;
	uint8_t *groups;

	for (size_t i = 0; i < api->n; i++)
		most = api->name[i] > most ? api->name[i] : most;
	groups = calloc((size_t)most + 1, sizeof(*groups));
	if (!groups)
		return -ENOMEM;
	for (size_t i = 0; i < api->n; i++)
		if (!groups[api->name[i]])
			groups[api->name[i]] =
				(uint8_t)(1 + call_group(run_string(run, api->name[i])));
	*ret_groups = groups;
	return 0;
}

static int add_host_span(struct idle_index *index, size_t *capacity, const struct span *span)
{
	if (array_grow(&index->host, capacity, index->n_host + 1, sizeof(*index->host)) < 0)
		return -ENOMEM;
	index->host[index->n_host++] = *span;
	return 0;
}

/* A call that took no time still says that calls were recorded then. */
static int64_t call_end(const struct table_api *api, size_t i)
{
	return api->start_ns[i] + (api->duration_ns[i] > 0 ? api->duration_ns[i] : 1);
}

/* Blocking copies of a few bytes: those calls of the run, as bits. NULL: there are none. */
static int small_copies(const struct attribution *at, const uint8_t *groups, uint64_t **ret_bits)
{
	const struct table_copy *copy = &at->run->copy;
	uint64_t *bits = NULL;

	for (size_t i = 0; at->copy_call && i < copy->n; i++) {
		uint32_t call = at->copy_call[i];

		if (call == NO_CALL32 || copy->bytes[i] >= TRANSFER_SMALL_BYTES ||
		    groups[at->run->api.name[call]] != 1 + HOST_COPY)
			continue;
		if (!bits)
			bits = calloc(at->run->api.n / 64 + 1, sizeof(*bits));
		if (!bits)
			return -ENOMEM;
		bits[call / 64] |= UINT64_C(1) << call % 64;
	}
	*ret_bits = bits;
	return 0;
}

/* Group after group, so that what was recorded in order needs no sorting. */
static int add_calls(struct idle_index *index, const uint8_t *groups, const uint64_t *small,
		     size_t *capacity)
{
	const struct table_api *api = &index->run->api;
	int r = 0;

	for (uint32_t group = HOST_SYNC; group <= HOST_PREPARE; group++)
		for (size_t i = 0; r >= 0 && i < api->n; i++) {
			uint32_t own = groups[api->name[i]] - 1U;

			if (own == HOST_COPY && small && small[i / 64] >> i % 64 & 1)
				own = HOST_SYNC;
			if (own == group)
				r = add_host_span(index, capacity,
						  &(struct span){ api->start_ns[i],
								  call_end(api, i), group, 0,
								  api->shard[i] });
		}
	return r;
}

static int add_syncs(struct idle_index *index, size_t *capacity)
{
	const struct table_sync *sync = &index->run->sync;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < sync->n; i++)
		if (sync->type[i] != SYNC_STREAM_WAITS)
			r = add_host_span(index, capacity,
					  &(struct span){ sync->start_ns[i],
							  sync->start_ns[i] + sync->duration_ns[i],
							  HOST_SYNC, 0, sync->shard[i] });
	return r;
}

static int add_peer_copies(struct idle_index *index, size_t *capacity)
{
	const struct table_copy *copy = &index->run->copy;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < copy->n; i++) {
		struct span span = { copy->start_ns[i], copy->start_ns[i] + copy->duration_ns[i],
				     PEER_COPY, 0, copy->shard[i] };

		if (copy->kind[i] != COPY_PTOP || copy->untimed[i])
			continue;
		span.device = copy->device[i] == copy->source_device[i] ? copy->target_device[i]
									: copy->source_device[i];
		r = add_host_span(index, capacity, &span);
	}
	return r;
}

static inline bool ends_by(const struct span *window, uint16_t shard, int64_t time_ns)
{
	return window->shard != shard ? window->shard < shard : window->end_ns <= time_ns;
}

/* What calls say of the windows that they lie in. */
static void note_calls(struct idle_index *index)
{
	const struct table_api *api = &index->run->api;
	const struct coverage *c = index->coverage;
	size_t window = 0;

	for (size_t w = 0; w < c->n_windows; w++)
		index->edges[w] = (struct idle_edge){ INT64_MAX, INT64_MIN };
	for (size_t i = 0; i < api->n; i++) {
		int64_t start = api->start_ns[i], end = call_end(api, i);
		uint16_t shard = api->shard[i];

		index->has_calls[shard] = true;
		ORDER_FIND(window, c->n_windows, window, ends_by(&c->windows[probe], shard, start));
		for (size_t w = window; w < c->n_windows && c->windows[w].shard == shard &&
					c->windows[w].start_ns < end;
		     w++) {
			struct idle_edge *edge = &index->edges[w];

			edge->first_ns = start < edge->first_ns ? start : edge->first_ns;
			edge->last_ns = end > edge->last_ns ? end : edge->last_ns;
		}
	}
}

int idle_index_init(struct idle_index *index, const struct attribution *at,
		    const struct coverage *coverage)
{
	const struct run *run = at->run;
	uint64_t *small = NULL;
	uint8_t *groups = NULL;
	size_t capacity = 0;
	int r;

	*index = (struct idle_index){ .run = run, .coverage = coverage };
	index->has_calls = calloc(run->n_shards + 1, sizeof(*index->has_calls));
	index->edges = calloc(coverage->n_windows + 1, sizeof(*index->edges));
	r = index->has_calls && index->edges ? name_groups(run, &groups) : -ENOMEM;
	if (r >= 0)
		r = small_copies(at, groups, &small);
	if (r >= 0)
		r = add_calls(index, groups, small, &capacity);
	if (r >= 0)
		r = add_syncs(index, &capacity);
	if (r >= 0)
		r = add_peer_copies(index, &capacity);
	free(groups);
	free(small);
	if (r < 0) {
		idle_index_release(index);
		return r;
	}
	index->n_host = spans_merge(index->host, index->n_host);
	note_calls(index);
	return 0;
}

void idle_index_release(struct idle_index *index)
{
	free(index->host);
	free(index->has_calls);
	free(index->edges);
	*index = (struct idle_index){ 0 };
}

static struct idle_lane lane_of(const struct idle_index *index, uint16_t shard, uint32_t group,
				uint32_t device)
{
	struct span key = { .group = group, .device = device, .shard = shard };
	struct idle_lane lane = { 0 };

	lane.spans = spans_lane(index->host, index->n_host, &key, &lane.n);
	return lane;
}

struct idle_device idle_device(const struct idle_index *index, uint16_t shard, uint32_t device)
{
	return (struct idle_device){
		.index = index,
		.shard = shard,
		.sync = lane_of(index, shard, HOST_SYNC, 0),
		.copy = lane_of(index, shard, HOST_COPY, 0),
		.peer = lane_of(index, shard, PEER_COPY, device),
		.prepare = lane_of(index, shard, HOST_PREPARE, 0),
	};
}

/* The first span that ends after the moment; NULL: none. */
static const struct span *first_ending_after(struct idle_lane *lane, int64_t time_ns)
{
	ORDER_FIND(lane->hint, lane->n, lane->hint, lane->spans[probe].end_ns <= time_ns);
	return lane->hint < lane->n ? &lane->spans[lane->hint] : NULL;
}

static int64_t at_most(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t at_least(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* How much of [start, end) lies in copies that are waited for. */
static int64_t copy_time(struct idle_device *device, int64_t start, int64_t end)
{
	int64_t length = 0;

	while (start < end) {
		const struct span *call = first_ending_after(&device->copy, start);
		const struct span *peer = first_ending_after(&device->peer, start);
		const struct span *next = !call || (peer && peer->start_ns < call->start_ns) ? peer
											     : call;
		int64_t from;

		if (!next || next->start_ns >= end)
			break;
		from = at_least(start, next->start_ns);
		start = at_most(end, next->end_ns);
		length += start - from;
	}
	return length;
}

static void split(struct idle_device *device, int64_t start, int64_t end,
		  enum idle_cause else_cause, int64_t *causes)
{
	int64_t copy = copy_time(device, start, end);

	causes[IDLE_COPY] += copy;
	causes[else_cause] += end - start - copy;
}

/* The window that holds the gap, whose edges are those of windows. */
static const struct idle_edge *edge_at(const struct idle_device *device, int64_t start_ns)
{
	const struct coverage *c = device->index->coverage;
	size_t low;

	ORDER_FIND(low, c->n_windows, 0, ends_by(&c->windows[probe], device->shard, start_ns));
	return &device->index->edges[low];
}

/* Cuts what attaching and detaching hide off the gap. */
static void cut_edges(const struct idle_device *device, struct idle_gap *gap, int64_t *causes)
{
	const struct idle_edge *edge;

	if (!gap->edge_before && !gap->edge_after)
		return;
	edge = edge_at(device, gap->start_ns);
	if (gap->edge_before) {
		int64_t seen = at_most(at_least(edge->first_ns, gap->start_ns), gap->end_ns);

		causes[IDLE_PROFILER] += seen - gap->start_ns;
		gap->start_ns = seen;
	}
	if (gap->edge_after) {
		int64_t seen = at_most(at_least(edge->last_ns, gap->start_ns), gap->end_ns);

		causes[IDLE_PROFILER] += gap->end_ns - seen;
		gap->end_ns = seen;
	}
}

void idle_account(struct idle_device *device, const struct idle_gap *gap, int64_t *causes)
{
	struct idle_gap rest = *gap;
	const struct span *sync;
	int64_t begin, called;
	bool no_call;

	cut_edges(device, &rest, causes);
	if (rest.end_ns <= rest.start_ns)
		return;
	no_call = !rest.has_next || rest.call == NO_CALL32;
	called = no_call ? rest.end_ns : device->index->run->api.start_ns[rest.call];
	begin = at_least(rest.start_ns, at_most(called, rest.end_ns));
	sync = first_ending_after(&device->sync, rest.start_ns);
	if (sync && sync->start_ns <= rest.start_ns)
		causes[IDLE_SYNC] += begin - rest.start_ns;
	else if (!device->index->has_calls[device->shard] || (rest.has_next && no_call))
		split(device, rest.start_ns, begin, IDLE_UNKNOWN, causes);
	else
		split(device, rest.start_ns, begin, IDLE_HOST, causes);
	split(device, begin, rest.end_ns,
	      called >= rest.start_ns - IDLE_LAUNCH_NS ? IDLE_LAUNCH : IDLE_QUEUED, causes);
}

bool idle_prepares(struct idle_device *device, const struct idle_gap *gap)
{
	const struct span *call = first_ending_after(&device->prepare, gap->start_ns);

	return call && call->start_ns < gap->end_ns;
}
