/* SPDX-License-Identifier: Apache-2.0
 *
 * Causes of idle time; see idle.h for what they are.
 */
#include "analyze/idle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Groups of idle_index.host. Only peer copies have a device. */
enum { HOST_CALL, HOST_SYNC, HOST_COPY, PEER_COPY };
enum { SYNC_STREAM_WAITS = 2 }; /* of a sync record: the host does not */
enum { COPY_PTOP = 10 };

const char *idle_cause_name(enum idle_cause cause)
{
	static const char *const names[] = { "host",   "launch",   "sync",   "copy",
					     "queued", "profiler", "unknown" };

	return names[cause];
}

static uint32_t call_group(const char *name)
{
	if (strstr(name, "Synchronize"))
		return HOST_SYNC;
	if (strstr(name, "Memcpy") && !strstr(name, "Async"))
		return HOST_COPY;
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

/* Group after group, so that what was recorded in order needs no sorting. */
static void add_calls(const struct run *run, const uint8_t *groups, struct idle_index *index)
{
	const struct table_api *api = &run->api;

	for (uint32_t group = HOST_CALL; group <= HOST_COPY; group++)
		for (size_t i = 0; i < api->n; i++)
			/* A call that took no time still says that calls were recorded then. */
			if (group == HOST_CALL || groups[api->name[i]] == 1 + group)
				index->host[index->n_host++] = (struct span){
					api->start_ns[i],
					api->start_ns[i] +
						(api->duration_ns[i] > 0 ? api->duration_ns[i] : 1),
					group, 0, api->shard[i]
				};
}

static void add_syncs(const struct run *run, struct idle_index *index)
{
	const struct table_sync *sync = &run->sync;

	for (size_t i = 0; i < sync->n; i++)
		if (sync->type[i] != SYNC_STREAM_WAITS)
			index->host[index->n_host++] =
				(struct span){ sync->start_ns[i],
					       sync->start_ns[i] + sync->duration_ns[i], HOST_SYNC,
					       0, sync->shard[i] };
}

static void add_peer_copies(const struct run *run, struct idle_index *index)
{
	const struct table_copy *copy = &run->copy;

	for (size_t i = 0; i < copy->n; i++) {
		struct span span = { copy->start_ns[i], copy->start_ns[i] + copy->duration_ns[i],
				     PEER_COPY, 0, copy->shard[i] };

		if (copy->kind[i] != COPY_PTOP || copy->untimed[i])
			continue;
		span.device = copy->device[i] == copy->source_device[i] ? copy->target_device[i]
									: copy->source_device[i];
		index->host[index->n_host++] = span;
	}
}

int idle_index_init(struct idle_index *index, const struct run *run)
{
	size_t most = run->api.n * 2 + run->sync.n + run->copy.n;
	uint8_t *groups = NULL;
	int r;

	*index = (struct idle_index){ 0 };
	r = attribution_init_calls(&index->at, run);
	if (r < 0)
		return r;
	index->host = calloc(most + 1, sizeof(*index->host));
	r = index->host ? name_groups(run, &groups) : -ENOMEM;
	if (r < 0) {
		idle_index_release(index);
		return r;
	}
	add_calls(run, groups, index);
	add_syncs(run, index);
	add_peer_copies(run, index);
	free(groups);
	index->n_host = spans_merge(index->host, index->n_host);
	return 0;
}

void idle_index_release(struct idle_index *index)
{
	attribution_release(&index->at);
	free(index->host);
	*index = (struct idle_index){ 0 };
}

/* The first span of a group that ends after the moment; NULL: none. */
static const struct span *first_after(const struct idle_index *index, const struct idle_gap *gap,
				      uint32_t group, int64_t time_ns)
{
	struct span lane = { .group = group,
			     .device = group == PEER_COPY ? gap->device : 0,
			     .shard = gap->shard };
	size_t low = 0, high = index->n_host;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = span_lane_order(&index->host[middle], &lane);

		if (order < 0 || (!order && index->host[middle].end_ns <= time_ns))
			low = middle + 1;
		else
			high = middle;
	}
	return low < index->n_host && !span_lane_order(&index->host[low], &lane) ? index->host + low
										 : NULL;
}

/* The end of the last call that began before the moment; INT64_MIN: none. */
static int64_t last_call_end(const struct idle_index *index, const struct idle_gap *gap,
			     int64_t time_ns)
{
	struct span lane = { .group = HOST_CALL, .shard = gap->shard };
	size_t low = 0, high = index->n_host;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = span_lane_order(&index->host[middle], &lane);

		if (order < 0 || (!order && index->host[middle].start_ns < time_ns))
			low = middle + 1;
		else
			high = middle;
	}
	return low && !span_lane_order(&index->host[low - 1], &lane) ? index->host[low - 1].end_ns
								     : INT64_MIN;
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
static int64_t copy_time(const struct idle_index *index, const struct idle_gap *gap, int64_t start,
			 int64_t end)
{
	int64_t length = 0;

	while (start < end) {
		const struct span *call = first_after(index, gap, HOST_COPY, start);
		const struct span *peer = first_after(index, gap, PEER_COPY, start);
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

static void split(const struct idle_index *index, const struct idle_gap *gap, int64_t start,
		  int64_t end, enum idle_cause else_cause, int64_t *causes)
{
	int64_t copy = copy_time(index, gap, start, end);

	causes[IDLE_COPY] += copy;
	causes[else_cause] += end - start - copy;
}

/* Cuts what attaching and detaching hide off the gap. */
static void cut_edges(const struct idle_index *index, struct idle_gap *gap, int64_t *causes)
{
	if (gap->edge_before) {
		const struct span *call = first_after(index, gap, HOST_CALL, gap->start_ns);
		int64_t seen = call ? at_most(at_least(call->start_ns, gap->start_ns), gap->end_ns)
				    : gap->end_ns;

		causes[IDLE_PROFILER] += seen - gap->start_ns;
		gap->start_ns = seen;
	}
	if (gap->edge_after) {
		int64_t seen =
			at_most(at_least(last_call_end(index, gap, gap->end_ns), gap->start_ns),
				gap->end_ns);

		causes[IDLE_PROFILER] += gap->end_ns - seen;
		gap->end_ns = seen;
	}
}

void idle_account(const struct idle_index *index, const struct idle_gap *gap, int64_t *causes)
{
	struct idle_gap rest = *gap;
	const struct span *sync;
	int64_t begin, called;
	size_t call = NO_CALL;

	cut_edges(index, &rest, causes);
	if (rest.end_ns <= rest.start_ns)
		return;
	if (rest.has_next)
		call = attribution_call(&index->at, rest.shard, rest.correlation, rest.end_ns);
	called = call == NO_CALL ? rest.end_ns : index->at.run->api.start_ns[call];
	begin = at_least(rest.start_ns, at_most(called, rest.end_ns));
	sync = first_after(index, &rest, HOST_SYNC, rest.start_ns);
	if (sync && sync->start_ns <= rest.start_ns)
		causes[IDLE_SYNC] += begin - rest.start_ns;
	else if (!first_after(index, &rest, HOST_CALL, INT64_MIN) ||
		 (rest.has_next && call == NO_CALL))
		split(index, &rest, rest.start_ns, begin, IDLE_UNKNOWN, causes);
	else
		split(index, &rest, rest.start_ns, begin, IDLE_HOST, causes);
	split(index, &rest, begin, rest.end_ns,
	      called >= rest.start_ns - IDLE_LAUNCH_NS ? IDLE_LAUNCH : IDLE_QUEUED, causes);
}
