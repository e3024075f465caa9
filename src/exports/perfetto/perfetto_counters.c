/* SPDX-License-Identifier: Apache-2.0
 *
 * Counter tracks of a Perfetto trace: readings of the program and of devices, memory, tokens, and
 * the routing of every MoE layer.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "exports/perfetto/perfetto.h"
#include "subjects/host/host_points.h"
#include "subjects/memory/memory.h"
#include "subjects/routing/routing.h"

#define POINTS_MOST ((size_t)1 << 17) /* of the memory of a device */

static void perfetto_count(struct perfetto *p, uint64_t track, int64_t time_ns, double value)
{
	uint8_t *at = isfinite(value) && track ? perfetto_room(p, PERFETTO_EVENT_MOST) : NULL;
	struct perfetto_event event;

	if (!at)
		return; /* no memory shows when the buffer is written */
	at = perfetto_event(at, &event, perfetto_time(p, time_ns), TYPE_COUNTER, track);
	at = proto_double(at, EVENT_COUNTER_DOUBLE, value);
	perfetto_commit(p, perfetto_event_end(&event, at));
}

/* Tracks of readings: few, by process, device and name. */
struct reading {
	uint16_t shard;
	uint32_t device, name;
	uint64_t track;
};

struct readings {
	struct reading *list;
	size_t n, capacity, last;
};

static int find_reading(struct perfetto *p, struct readings *readings, struct reading key,
			bool device, uint64_t *ret_track)
{
	char name[256];
	size_t i = readings->last;

#define SAME(x) ((x)->shard == key.shard && (x)->device == key.device && (x)->name == key.name)
	if (i >= readings->n || !SAME(&readings->list[i]))
		for (i = 0; i < readings->n && !SAME(&readings->list[i]);)
			i++;
#undef SAME
	if (i == readings->n) {
		if (array_grow(&readings->list, &readings->capacity, i + 1,
			       sizeof(*readings->list)) < 0)
			return -ENOMEM;
		if (device)
			snprintf(name, sizeof(name), "GPU %u %s", key.device,
				 run_string(p->run, key.name));
		else
			snprintf(name, sizeof(name), "%s", run_string(p->run, key.name));
		key.track = perfetto_counter_track(p, name, key.shard + UINT64_C(1));
		readings->list[readings->n++] = key;
	}
	readings->last = i;
	*ret_track = readings->list[i].track;
	return 0;
}

static int put_readings(struct perfetto *p)
{
	const struct table_counter *counter = &p->run->counter;
	const struct table_sample *sample = &p->run->sample;
	struct readings counters = { 0 }, samples = { 0 };
	uint64_t track;
	int r = 0;

	for (size_t i = 0; r == 0 && i < counter->n; i++) {
		r = find_reading(p, &counters,
				 (struct reading){ counter->shard[i], 0, counter->name[i], 0 },
				 false, &track);
		if (r == 0)
			perfetto_count(p, track, counter->time_ns[i], counter->value[i]);
	}
	for (size_t i = 0; r == 0 && i < sample->n; i++) {
		r = find_reading(p, &samples,
				 (struct reading){ sample->shard[i], sample->device[i],
						   sample->metric[i], 0 },
				 true, &track);
		if (r == 0)
			perfetto_count(p, track, sample->time_ns[i], sample->value[i]);
	}
	free(counters.list);
	free(samples.list);
	return r;
}

/* Tracks of the machine's readings, by curve. */
struct machine_tracks {
	struct perfetto *p;
	uint64_t *tracks;
	size_t n, capacity;
	uint64_t parent;
};

static int put_point(void *arg, const struct host_point *point)
{
	struct machine_tracks *m = arg;
	char name[256];

	if (array_grow(&m->tracks, &m->capacity, point->curve + (size_t)1, sizeof(*m->tracks)) < 0)
		return -ENOMEM;
	if (point->curve >= m->n) {
		if (!m->parent)
			m->parent = perfetto_track(m->p, "machine", 0, 0);
		snprintf(name, sizeof(name), "%s: %s", point->of, point->what);
		m->tracks[m->n++] = perfetto_counter_track(m->p, name, m->parent);
	}
	perfetto_count(m->p, m->tracks[point->curve], point->time_ns, point->value);
	return 0;
}

static int put_machine(struct perfetto *p)
{
	struct machine_tracks m = { .p = p };
	int r = host_points_each(p->run, put_point, &m);

	free(m.tracks);
	return r;
}

/* Live and reserved bytes; every allocation is a row, too. */
static int put_memory(struct perfetto *p)
{
	struct memory memory;
	int r;

	if (!p->run->memory.n)
		return 0;
	r = memory_analyze(p->run, p->run->memory.n < POINTS_MOST ? p->run->memory.n : POINTS_MOST,
			   &memory);
	if (r < 0)
		return r;
	for (size_t i = 0; i < memory.n; i++) {
		const struct memory_device *d = &memory.devices[i];
		uint64_t parent = d->shard + UINT64_C(1), live, reserved = 0;
		char where[32], name[64];

		snprintf(where, sizeof(where), d->device < 0 ? "host" : "GPU %d", d->device);
		snprintf(name, sizeof(name), "%s allocated bytes", where);
		live = perfetto_counter_track(p, name, parent);
		for (size_t m = 0; m < d->n_points; m++) {
			const struct memory_point *point = &d->points[m];

			perfetto_count(p, live, point->time_ns, (double)point->live_bytes);
			if (!point->reserved_bytes.known)
				continue;
			snprintf(name, sizeof(name), "%s reserved bytes", where);
			if (!reserved)
				reserved = perfetto_counter_track(p, name, parent);
			perfetto_count(p, reserved, point->time_ns, point->reserved_bytes.v);
		}
	}
	memory_release(&memory);
	return 0;
}

static void put_tokens(struct perfetto *p)
{
	const struct table_step *step = &p->run->step;
	uint64_t track = 0;
	uint16_t shard = 0;

	for (size_t i = 0; i < step->n; i++) {
		if (!step->tokens_known[i])
			continue;
		if (!track || step->shard[i] != shard)
			track = perfetto_counter_track(p, "tokens of the step",
						       step->shard[i] + UINT64_C(1));
		shard = step->shard[i];
		perfetto_count(p, track, step->start_ns[i], (double)step->tokens[i]);
	}
}

static void put_experts(struct perfetto *p, const struct routing_layer *layer, uint64_t parent)
{
	for (uint32_t e = 0; e < layer->experts; e++) {
		uint64_t track;
		char name[32];

		snprintf(name, sizeof(name), "load expert %u", e);
		track = perfetto_counter_track(p, name, parent);
		for (size_t s = 0; s < layer->n_steps; s++)
			perfetto_count(p, track, layer->steps[s].time_ns,
				       (double)layer->steps[s].n[e]);
	}
}

static void put_layer(struct perfetto *p, const struct routing_layer *layer, uint64_t parent)
{
	const char *phase = phase_name(layer->phase);
	uint64_t imbalance, share, dropped, entropy;
	char name[64];

	snprintf(name, sizeof(name), "layer %d%s%s", layer->layer, *phase ? " " : "", phase);
	parent = perfetto_track(p, name, parent, layer->layer);
	imbalance = perfetto_counter_track(p, "imbalance", parent);
	share = perfetto_counter_track(p, "utilization_pct of the busiest expert", parent);
	dropped = perfetto_counter_track(p, "dropped tokens", parent);
	entropy = perfetto_counter_track(p, "entropy_norm", parent);
	for (size_t s = 0; s < layer->n_steps; s++) {
		const struct routing_step *step = &layer->steps[s];

		perfetto_count(p, dropped, step->time_ns, (double)step->dropped);
		if (!step->load.known)
			continue;
		perfetto_count(p, imbalance, step->time_ns, step->load.imbalance);
		perfetto_count(p, share, step->time_ns, load_busiest_pct(&step->load));
		perfetto_count(p, entropy, step->time_ns, step->load.entropy_norm);
	}
	if (layer->experts <= PERFETTO_EXPERTS_MOST)
		put_experts(p, layer, parent);
}

static int put_routing(struct perfetto *p)
{
	struct selection all = SELECT_ALL;
	struct routing_options options = { 0 };
	struct routing routing;
	uint64_t parent;
	int r;

	if (!p->run->routing.n)
		return 0;
	r = routing_analyze(p->run, &all, &options, &routing);
	if (r < 0)
		return r;
	parent = perfetto_track(p, "routing", 0, 0);
	for (size_t i = 0; i < routing.n; i++)
		put_layer(p, &routing.layers[i], parent);
	routing_release(&routing);
	return 0;
}

int perfetto_counters(struct perfetto *p)
{
	int r = put_readings(p);

	if (r == 0)
		r = put_machine(p);
	if (r == 0)
		r = put_memory(p);
	put_tokens(p);
	return r == 0 ? put_routing(p) : r;
}
