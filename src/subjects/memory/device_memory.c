/* SPDX-License-Identifier: Apache-2.0
 *
 * Replay of the driver's allocations; see device_memory.h.
 *
 * A free often does not say what kind of memory it frees, so blocks are found by their address in
 * the process and counted where they were allocated.
 */
#include "subjects/memory/device_memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "subjects/memory/memory_live.h"

struct event {
	int64_t time_ns;
	size_t row;
	uint16_t shard;
};

struct replay {
	const struct run *run;
	struct device_memory out;
	size_t driver_capacity, used_capacity;
	struct live_map live; /* of the process at hand; site: index into out.driver */
	struct held *held;    /* bytes of a row after each event, in order of time per process */
	size_t n_held, held_capacity;
};

struct held {
	int64_t time_ns;
	uint64_t live_bytes;
	uint32_t row;
};

const char *device_memory_name(unsigned int memory)
{
	static const char *const names[] = { "unknown",	      "pageable",      "pinned",
					     "device",	      "array",	       "managed",
					     "device static", "managed static" };

	return memory < sizeof(names) / sizeof(names[0]) ? names[memory] : "unknown";
}

static int memory_events_by_time(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	return CMP(x->shard, y->shard) ?: CMP(x->time_ns, y->time_ns) ?: CMP(x->row, y->row);
}

/* Rows are few: devices times kinds of memory. */
static int find_driver_row(struct replay *p, size_t at, uint32_t *ret_row)
{
	const struct table_device_memory *t = &p->run->device_memory;
	const char *memory = device_memory_name(t->memory[at]);
	size_t i = 0;

	while (i < p->out.n_driver && (p->out.driver[i].shard != t->shard[at] ||
				       p->out.driver[i].device != t->device[at] ||
				       strcmp(p->out.driver[i].memory, memory) != 0))
		i++;
	if (i == p->out.n_driver) {
		if (array_grow(&p->out.driver, &p->driver_capacity, i + 1, sizeof(*p->out.driver)) <
		    0)
			return -ENOMEM;
		p->out.driver[p->out.n_driver++] =
			(struct driver_memory){ .shard = t->shard[at],
						.rank = p->run->shards[t->shard[at]].rank,
						.device = t->device[at],
						.memory = memory };
	}
	*ret_row = (uint32_t)i;
	return 0;
}

/* One after another: the row whose bytes an event changed, and how many it has then. */
static int note_held(struct replay *p, size_t at, uint32_t row)
{
	if (array_grow(&p->held, &p->held_capacity, p->n_held + 1, sizeof(*p->held)) < 0)
		return -ENOMEM;
	p->held[p->n_held++] = (struct held){ .time_ns = p->run->device_memory.time_ns[at],
					      .live_bytes = p->out.driver[row].live_bytes,
					      .row = row };
	return 0;
}

static int replay_one(struct replay *p, size_t at)
{
	const struct table_device_memory *t = &p->run->device_memory;
	struct live_block block = { 0 };
	bool was_live = live_map_take(&p->live, t->address[at], &block);
	struct driver_memory *row;

	/* An allocation at a live address means that its free was not recorded. */
	if (was_live)
		p->out.driver[block.site].live_bytes -= block.bytes;
	if (was_live && note_held(p, at, block.site) < 0)
		return -ENOMEM;
	if (t->event[at]) {
		if (!was_live && find_driver_row(p, at, &block.site) < 0)
			return -ENOMEM;
		p->out.driver[block.site].frees += was_live;
		p->out.driver[block.site].unmatched_frees += !was_live;
		return 0;
	}
	block = (struct live_block){ .address = t->address[at], .bytes = t->bytes[at] };
	if (find_driver_row(p, at, &block.site) < 0 || live_map_put(&p->live, &block) < 0)
		return -ENOMEM;
	row = &p->out.driver[block.site];
	row->allocations++;
	row->live_bytes += block.bytes;
	if (row->live_bytes > row->peak_bytes) {
		row->peak_bytes = row->live_bytes;
		row->peak_ns = t->time_ns[at];
	}
	return note_held(p, at, block.site);
}

static int replay_driver(struct replay *p)
{
	const struct table_device_memory *t = &p->run->device_memory;
	struct event *events;
	int r = 0;

	if (!t->n)
		return 0;
	events = calloc(t->n, sizeof(*events));
	if (!events)
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++)
		events[i] = (struct event){ t->time_ns[i], i, t->shard[i] };
	qsort(events, t->n, sizeof(*events), memory_events_by_time);
	for (size_t i = 0; r >= 0 && i < t->n; i++) {
		if (i && events[i].shard != events[i - 1].shard) {
			live_map_release(&p->live);
			p->live = (struct live_map){ 0 };
		}
		r = replay_one(p, events[i].row);
	}
	live_map_release(&p->live);
	free(events);
	return r;
}

static int take_sample(struct replay *p, size_t at)
{
	const struct table_sample *t = &p->run->sample;
	struct device_used *row;
	size_t i = 0;

	while (i < p->out.n_used &&
	       (p->out.used[i].shard != t->shard[at] || p->out.used[i].device != t->device[at]))
		i++;
	if (i == p->out.n_used) {
		if (array_grow(&p->out.used, &p->used_capacity, i + 1, sizeof(*p->out.used)) < 0)
			return -ENOMEM;
		p->out.used[p->out.n_used++] =
			(struct device_used){ .shard = t->shard[at],
					      .rank = p->run->shards[t->shard[at]].rank,
					      .device = t->device[at] };
	}
	row = &p->out.used[i];
	row->last_bytes = t->value[at];
	if (!row->samples++ || t->value[at] > row->peak_bytes) {
		row->peak_bytes = t->value[at];
		row->peak_ns = t->time_ns[at];
	}
	return 0;
}

static int replay_samples(struct replay *p)
{
	const struct table_sample *t = &p->run->sample;
	uint32_t metric = 0; /* string ids are one for one text: compare it once */
	int r = 0;

	for (size_t i = 0; r >= 0 && i < t->n; i++) {
		if (!metric && !strcmp(run_string(p->run, t->metric[i]), DEVICE_USED_METRIC))
			metric = t->metric[i];
		if (metric && t->metric[i] == metric)
			r = take_sample(p, i);
	}
	return r;
}

#define TOTAL_METRIC "memory_total_bytes"

/* Of the device's own record, else what NVML says of it. 0: neither does. */
static double device_total(const struct run *run, const struct device_used *used)
{
	const struct table_device *t = &run->device;
	const struct table_sample *s = &run->sample;

	for (size_t i = 0; i < t->n; i++)
		if (t->shard[i] == used->shard && t->device[i] == used->device &&
		    t->memory_bytes[i])
			return (double)t->memory_bytes[i];
	for (size_t i = 0; i < s->n; i++)
		if (s->shard[i] == used->shard && s->device[i] == used->device &&
		    !strcmp(run_string(run, s->metric[i]), TOTAL_METRIC))
			return s->value[i];
	return 0;
}

/* What the driver had handed out on the device at that moment; false: it recorded nothing there. */
static bool handed_out(const struct replay *p, const struct device_used *used, double *ret_bytes)
{
	uint64_t bytes = 0;
	bool any = false;

	for (uint32_t row = 0; row < p->out.n_driver; row++) {
		const struct driver_memory *d = &p->out.driver[row];
		uint64_t live = 0;

		if (d->shard != used->shard || d->device != used->device ||
		    strcmp(d->memory, device_memory_name(3)) != 0)
			continue;
		any = true;
		for (size_t i = 0; i < p->n_held; i++)
			if (p->held[i].row == row && p->held[i].time_ns <= used->peak_ns)
				live = p->held[i].live_bytes;
		bytes += live;
	}
	*ret_bytes = (double)bytes;
	return any;
}

/* Before the rows are sorted: `held` knows them by their index. */
static void finish_used(struct replay *p)
{
	for (size_t i = 0; i < p->out.n_used; i++) {
		struct device_used *used = &p->out.used[i];
		double total = device_total(p->run, used), driver;

		used->total_bytes = total > 0 ? value_of(total)
					      : value_absent("the run does not say how much memory "
							     "the device has");
		used->headroom_bytes = used->peak_pct = used->total_bytes;
		if (total > 0) {
			used->headroom_bytes = value_of(total - used->peak_bytes);
			used->peak_pct = value_of(100 * used->peak_bytes / total);
		}
		used->driver_at_peak_bytes = used->outside_bytes =
			value_absent("no allocations of the driver in this run");
		if (!handed_out(p, used, &driver))
			continue;
		used->driver_at_peak_bytes = value_of(driver);
		used->outside_bytes =
			used->peak_bytes >= driver
				? value_of(used->peak_bytes - driver)
				: value_absent("more was allocated than the device reports in use");
	}
}

static int driver_order(const void *a, const void *b)
{
	const struct driver_memory *x = a, *y = b;

	return CMP(x->shard, y->shard) ?: CMP(x->device, y->device) ?: strcmp(x->memory, y->memory);
}

static int used_order(const void *a, const void *b)
{
	const struct device_used *x = a, *y = b;

	return CMP(x->shard, y->shard) ?: CMP(x->device, y->device);
}

struct pool_event {
	uint64_t address;
	int64_t time_ns;
	size_t row;
	uint16_t shard;
};

static int by_pool(const void *a, const void *b)
{
	const struct pool_event *x = a, *y = b;

	return CMP(x->shard, y->shard) ?: CMP(x->address, y->address) ?:
	       CMP(x->time_ns, y->time_ns) ?: CMP(x->row, y->row);
}

static int pool_order(const void *a, const void *b)
{
	const struct memory_pool *x = a, *y = b;

	return CMP(x->shard, y->shard) ?: CMP(x->device, y->device) ?:
	       CMP(y->peak_bytes, x->peak_bytes) ?: CMP(x->address, y->address);
}

enum { POOL_CREATED, POOL_DESTROYED, POOL_TRIMMED };

static void take_pool(const struct table_pool *t, size_t row, struct memory_pool *pool)
{
	/* A pool that goes reports nothing any more. */
	if (t->event[row] == POOL_DESTROYED) {
		pool->destroyed = true;
		return;
	}
	pool->trims += t->event[row] == POOL_TRIMMED;
	pool->bytes = t->bytes[row];
	pool->used_bytes = t->used_bytes[row];
	pool->release_bytes = t->release_bytes[row];
	pool->peak_bytes = pool->bytes > pool->peak_bytes ? pool->bytes : pool->peak_bytes;
	pool->peak_used_bytes = pool->used_bytes > pool->peak_used_bytes ? pool->used_bytes
									 : pool->peak_used_bytes;
}

/* An address comes again when its pool was destroyed: that is another pool. */
static int replay_pools(struct replay *p)
{
	const struct table_pool *t = &p->run->pool;
	struct pool_event *events;

	if (!t->n)
		return 0;
	events = calloc(t->n, sizeof(*events));
	p->out.pools = calloc(t->n, sizeof(*p->out.pools));
	if (!events || !p->out.pools) {
		free(events);
		return -ENOMEM;
	}
	for (size_t i = 0; i < t->n; i++)
		events[i] = (struct pool_event){ t->address[i], t->time_ns[i], i, t->shard[i] };
	qsort(events, t->n, sizeof(*events), by_pool);
	for (size_t i = 0; i < t->n; i++) {
		const struct pool_event *e = &events[i];
		bool same = i && e[-1].shard == e->shard && e[-1].address == e->address;

		if (!same || p->out.pools[p->out.n_pools - 1].destroyed)
			p->out.pools[p->out.n_pools++] =
				(struct memory_pool){ .shard = e->shard,
						      .rank = p->run->shards[e->shard].rank,
						      .device = t->device[e->row],
						      .address = e->address };
		take_pool(t, e->row, &p->out.pools[p->out.n_pools - 1]);
	}
	free(events);
	qsort(p->out.pools, p->out.n_pools, sizeof(*p->out.pools), pool_order);
	for (size_t i = 0; i < p->out.n_pools; i++)
		snprintf(p->out.pools[i].name, sizeof(p->out.pools[i].name), "0x%" PRIx64,
			 p->out.pools[i].address);
	return 0;
}

int device_memory_analyze(const struct run *run, struct device_memory *ret_memory)
{
	struct replay p = { .run = run };
	int r = replay_driver(&p);

	if (r >= 0)
		r = replay_samples(&p);
	if (r >= 0)
		r = replay_pools(&p);
	finish_used(&p);
	free(p.held);
	if (r < 0) {
		device_memory_release(&p.out);
		return r;
	}
	if (p.out.n_driver)
		qsort(p.out.driver, p.out.n_driver, sizeof(*p.out.driver), driver_order);
	if (p.out.n_used)
		qsort(p.out.used, p.out.n_used, sizeof(*p.out.used), used_order);
	*ret_memory = p.out;
	return 0;
}

void device_memory_release(struct device_memory *memory)
{
	free(memory->driver);
	free(memory->used);
	free(memory->pools);
	*memory = (struct device_memory){ 0 };
}
