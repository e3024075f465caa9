/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocations of the program's allocator as Kineto's [memory] instants, and what was live as counters.
 *
 * Kineto's frees tell their bytes, ours do not: they are those of the allocation at that address. A
 * free of something older, an allocation of nothing, and what the allocator took from the driver
 * have no such instant and go out as records. Kineto's instants also tell the totals after them,
 * which are readings of the device here; those that go with an instant are told by it.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exports/chrome/chrome_inside.h"
#include "subjects/host/host_points.h"
#include "subjects/memory/memory.h"
#include "subjects/memory/memory_live.h"
#include "subjects/routing/routing.h"

#define MEMORY_POINTS 4096

/* Live blocks of one process and device. */
struct heap {
	struct live_map live;
	int32_t device;
	uint16_t shard;
};

struct heaps {
	struct heap *list;
	size_t n, capacity, last;
};

static struct heap *find_heap(struct heaps *heaps, uint16_t shard, int32_t device)
{
	for (size_t i = 0; i < heaps->n; i++) {
		size_t at = (heaps->last + i) % heaps->n;

		if (heaps->list[at].shard == shard && heaps->list[at].device == device) {
			heaps->last = at;
			return &heaps->list[at];
		}
	}
	if (array_grow(&heaps->list, &heaps->capacity, heaps->n + 1, sizeof(*heaps->list)) < 0)
		return NULL;
	heaps->last = heaps->n;
	heaps->list[heaps->n] = (struct heap){ .shard = shard, .device = device };
	return &heaps->list[heaps->n++];
}

static void heaps_release(struct heaps *heaps)
{
	for (size_t i = 0; i < heaps->n; i++)
		live_map_release(&heaps->list[i].live);
	free(heaps->list);
}

/* Readings of the totals, in the order of their rows. */
struct totals {
	const char *metric, *key;
	uint32_t name; /* its string id; 0: not known yet */
	size_t next;   /* row of run->sample */
};

static bool is_metric(const struct trace *t, struct totals *totals, size_t sample)
{
	uint32_t metric = t->run->sample.metric[sample];

	if (!totals->name && !strcmp(run_string(t->run, metric), totals->metric))
		totals->name = metric;
	return totals->name && metric == totals->name;
}

/* The reading that belongs to a row of run->memory: readings of a metric come in the order of their
 * rows. SIZE_MAX: none. */
static size_t find_total(const struct trace *t, struct totals *totals, size_t row)
{
	const struct table_sample *sample = &t->run->sample;
	const struct table_memory *memory = &t->run->memory;
	size_t i = totals->next;

	while (i < sample->n && (sample->shard[i] < memory->shard[row] || !is_metric(t, totals, i)))
		i++;
	totals->next = i;
	if (i >= sample->n || sample->shard[i] != memory->shard[row] ||
	    sample->time_ns[i] != memory->time_ns[row] || memory->device[row] < 0 ||
	    sample->device[i] != (uint32_t)memory->device[row])
		return SIZE_MAX;
	totals->next++;
	t->told[i] = 1;
	return i;
}

static bool is_whole(double value)
{
	return value >= 0 && value <= 9007199254740992.0 && value == (double)(uint64_t)value;
}

/* in_event: as arguments of the instant; else as readings, at the same place of the file. */
static void put_totals(struct trace *t, struct totals *totals, size_t row, bool in_event)
{
	for (int k = 0; k < 2; k++) {
		size_t sample = find_total(t, &totals[k], row);

		if (sample == SIZE_MAX)
			continue;
		if (!in_event) {
			put_sample(t, sample);
		} else if (is_whole(t->run->sample.value[sample])) {
			arg_key(t, totals[k].key, strlen(totals[k].key));
			emit_uint(&t->out, (uint64_t)t->run->sample.value[sample]);
		} else {
			t->told[sample] = 0; /* it is none of Kineto's */
		}
	}
}

static void put_instant(struct trace *t, size_t i, int64_t bytes, struct totals *totals)
{
	const struct table_memory *memory = &t->run->memory;

	event_begin(t, "i", "cpu_instant_event");
	EMIT(&t->out, ",\"s\":\"t\",\"name\":\"[memory]\"");
	event_place(t, t->process[memory->shard[i]].pid, memory->thread[i]);
	event_time(t, memory->time_ns[i]);
	args_begin(t);
	put_totals(t, totals, i, true);
	ARG(t, "Bytes");
	emit_int(&t->out, bytes);
	ARG(t, "Device Id");
	emit_int(&t->out, memory->device[i]);
	ARG(t, "Device Type");
	emit_uint(&t->out, memory->device[i] >= 0);
	ARG(t, "Addr");
	emit_uint(&t->out, memory->address[i]);
	if (memory->event[i] && memory->bytes[i]) {
		EXTRA(t, "bytes");
		emit_uint(&t->out, memory->bytes[i]);
	}
	if (memory->use[i]) {
		EXTRA(t, "use");
		emit_uint(&t->out, memory->use[i]);
	}
	if (memory->site[i]) {
		EXTRA(t, "site");
		put_string(t, memory->site[i]);
	}
	args_end(t);
}

/* The signed bytes of Kineto's instant; 0: it has none for this. */
static int change_of(struct trace *t, struct heaps *heaps, size_t i, int64_t *ret_bytes)
{
	const struct table_memory *memory = &t->run->memory;
	struct live_block block = { .address = memory->address[i], .bytes = memory->bytes[i] }, old;
	struct heap *heap;
	int r = 0;

	*ret_bytes = 0;
	if (memory->event[i] > 1)
		return 0;
	heap = find_heap(heaps, memory->shard[i], memory->device[i]);
	if (!heap)
		return -ENOMEM;
	if (memory->event[i]) {
		if (live_map_take(&heap->live, memory->address[i], &old) && old.bytes <= INT64_MAX)
			*ret_bytes = -(int64_t)old.bytes;
		return 0;
	}
	live_map_take(&heap->live, memory->address[i], &old); /* its free was lost */
	r = live_map_put(&heap->live, &block);
	*ret_bytes = block.bytes <= INT64_MAX ? (int64_t)block.bytes : 0;
	return r;
}

int put_allocations(struct trace *t)
{
	const struct table_memory *memory = &t->run->memory;
	struct totals totals[] = { { .metric = "allocated_bytes", .key = "\"Total Allocated\":" },
				   { .metric = "reserved_bytes", .key = "\"Total Reserved\":" } };
	struct heaps heaps = { 0 };
	int r = 0;

	t->told = calloc(t->run->sample.n + 1, 1);
	if (!t->told)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < memory->n; i++) {
		int64_t bytes;

		if (!is_on(t, memory->shard[i]))
			continue;
		r = change_of(t, &heaps, i, &bytes);
		if (r == 0 && bytes)
			put_instant(t, i, bytes, totals);
		if (r == 0 && !bytes) {
			put_record(t, RECORD_MEMORY, i);
			put_totals(t, totals, i, false);
		}
	}
	heaps_release(&heaps);
	return r;
}

/* For people: an event that names no record is none. */
static void put_counter(struct trace *t, const char *name, uint16_t shard, int64_t time_ns,
			double value)
{
	if (!isfinite(value) || !is_on(t, shard))
		return;
	event_begin(t, "C", "moescope");
	event_name(t, name);
	event_place(t, t->process[shard].pid, 0);
	event_time(t, time_ns);
	args_begin(t);
	ARG(t, "value");
	emit_double(&t->out, value);
	args_end(t);
}

static int put_imbalance(struct trace *t)
{
	struct selection all = SELECT_ALL;
	struct routing_options options = { 0 };
	struct routing routing;
	int r = routing_analyze(t->run, &all, &options, &routing);

	if (r < 0)
		return r;
	for (size_t i = 0; i < routing.n; i++) {
		const struct routing_layer *layer = &routing.layers[i];
		char name[64];

		snprintf(name, sizeof(name), "imbalance layer %d %s", layer->layer,
			 phase_name(layer->phase));
		for (size_t s = 0; s < layer->n_steps; s++)
			if (layer->steps[s].load.known)
				put_counter(t, name, 0, layer->steps[s].time_ns,
					    layer->steps[s].load.imbalance);
	}
	routing_release(&routing);
	return 0;
}

static int put_point(void *trace, const struct host_point *point)
{
	char name[256];

	snprintf(name, sizeof(name), "%s: %s", point->of, point->what);
	put_counter(trace, name, point->shard, point->time_ns, point->value);
	return 0;
}

int put_derived(struct trace *t)
{
	struct memory memory;
	int r = put_imbalance(t);

	if (r == 0)
		r = host_points_each(t->run, put_point, t);

	if (r == 0)
		r = memory_analyze(t->run, MEMORY_POINTS, &memory);
	if (r < 0)
		return r;
	for (size_t i = 0; i < memory.n; i++) {
		const struct memory_device *d = &memory.devices[i];
		char name[64];

		if (d->device < 0)
			snprintf(name, sizeof(name), "live bytes, host");
		else
			snprintf(name, sizeof(name), "live bytes, device %d", d->device);
		for (size_t p = 0; p < d->n_points; p++)
			put_counter(t, name, d->shard, d->points[p].time_ns,
				    (double)d->points[p].live_bytes);
	}
	memory_release(&memory);
	return 0;
}
