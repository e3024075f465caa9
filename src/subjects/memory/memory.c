/* SPDX-License-Identifier: Apache-2.0
 *
 * Replay of allocations and frees; see memory.h. Pure, any thread.
 *
 * The records of a shard come by time per thread only, so they are sorted by time; equal times
 * keep the order of the file. Live bytes per site are sampled at the ends of the last recorded
 * steps, which is what the search for leaks looks at.
 */
#include "subjects/memory/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cmp.h"
#include "moescope.h"
#include "subjects/memory/device_memory.h"
#include "subjects/memory/memory_inside.h"
#include "subjects/memory/memory_live.h"

#define POINTS 512
#define SAMPLES (MEMORY_LEAK_STEPS + 1)

struct site_live {
	uint32_t site;
	uint64_t bytes;
	uint64_t at_step[SAMPLES];
};

struct replay {
	const struct run *run;
	struct memory_device *out;
	struct live_map live;
	struct site_live *sites;
	size_t n_sites, sites_capacity;
	size_t *site_index;	    /* by string id: index into sites + 1; 0: none yet */
	int64_t step_ends[SAMPLES]; /* of the last recorded steps, ascending */
	size_t n_step_ends, next_step;
	uint64_t use[MEMORY_USES];
	int64_t first_ns, span_ns;
	size_t max_points;
	size_t at, peak; /* index of the event at hand, of the one that reached the peak */
	/* What the allocator tells beside its events; without that, outside_bytes stays 0. */
	struct memory_readings totals;
	uint64_t block_bytes;	/* of the live blocks with an allocation */
	uint64_t outside_bytes; /* live beyond them: of before; two's complement */
	/* The moment that is asked for, and how many events made up what was live then. */
	struct given_moment asked; /* on the run's clock */
	size_t asked_events;
};

static int by_device_time(const void *a, const void *b)
{
	const struct memory_event *x = a, *y = b;

	return CMP(x->shard, y->shard) ?: CMP(x->device, y->device) ?:
	       CMP(x->time_ns, y->time_ns) ?: CMP(x->row, y->row);
}

void memory_sort(void *items, size_t n, size_t size, int (*order)(const void *, const void *))
{
	const char *at = items;

	for (size_t i = 1; i < n; i++, at += size) {
		if (order(at, at + size) <= 0)
			continue;
		qsort(items, n, size, order);
		return;
	}
}

static int descending_time(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return CMP(y, x);
}

/* The ends of the last recorded, finished steps of the shard, ascending. */
static int find_step_ends(struct replay *p, uint16_t shard)
{
	const struct table_step *step = &p->run->step;
	int64_t *ends = calloc(step->n ? step->n : 1, sizeof(*ends));
	size_t n = 0;

	if (!ends)
		return -ENOMEM;
	for (size_t i = 0; i < step->n; i++)
		if (step->shard[i] == shard && step->recorded[i] && !step->unfinished[i])
			ends[n++] = step->start_ns[i] + step->duration_ns[i];
	if (n)
		qsort(ends, n, sizeof(*ends), descending_time);
	p->n_step_ends = n < SAMPLES ? n : SAMPLES;
	for (size_t i = 0; i < p->n_step_ends; i++)
		p->step_ends[i] = ends[p->n_step_ends - 1 - i];
	free(ends);
	return 0;
}

/* Room for every site id that the records name. */
static int init_sites(struct replay *p, const struct memory_event *events, size_t n)
{
	uint32_t largest = 0;

	for (size_t i = 0; i < n; i++)
		if (p->run->memory.site[events[i].row] > largest)
			largest = p->run->memory.site[events[i].row];
	p->site_index = calloc((size_t)largest + 1, sizeof(*p->site_index));
	return p->site_index ? 0 : -ENOMEM;
}

static struct site_live *live_at_site(struct replay *p, uint32_t site)
{
	if (p->site_index[site])
		return &p->sites[p->site_index[site] - 1];
	if (p->n_sites == p->sites_capacity) {
		size_t capacity = p->sites_capacity ? p->sites_capacity * 2 : 16;
		struct site_live *grown = reallocarray(p->sites, capacity, sizeof(*grown));

		if (!grown)
			return NULL;
		p->sites = grown;
		p->sites_capacity = capacity;
	}
	p->sites[p->n_sites] = (struct site_live){ .site = site };
	p->site_index[site] = ++p->n_sites;
	return &p->sites[p->n_sites - 1];
}

static void sample_steps(struct replay *p, int64_t until_ns)
{
	while (p->next_step < p->n_step_ends && p->step_ends[p->next_step] < until_ns) {
		for (size_t i = 0; i < p->n_sites; i++)
			p->sites[i].at_step[p->next_step] = p->sites[i].bytes;
		p->next_step++;
	}
}

static void note_point(struct replay *p, int64_t time_ns)
{
	struct memory_device *d = p->out;
	size_t part = 0;

	if (p->span_ns > 0)
		part = (size_t)((double)(time_ns - p->first_ns) / (double)p->span_ns *
				(double)(p->max_points - 1));
	if (part >= p->max_points)
		part = p->max_points - 1;
	/* points[] is max_points parts of the time here, INT64_MIN for those that saw nothing, and
	 * is packed at the end. */
	if (d->points[part].time_ns == INT64_MIN || d->live_bytes >= d->points[part].live_bytes)
		d->points[part] = (struct memory_point){ .time_ns = time_ns,
							 .live_bytes = d->live_bytes };
}

static void release_block(struct replay *p, const struct live_block *block)
{
	p->block_bytes -= block->bytes;
	p->out->live_allocations--;
	p->use[block->use] -= block->bytes;
	/* The site exists since the block was allocated. */
	p->sites[p->site_index[block->site] - 1].bytes -= block->bytes;
}

static int allocate(struct replay *p, size_t row)
{
	const struct table_memory *t = &p->run->memory;
	struct memory_device *d = p->out;
	struct live_block block = { .address = t->address[row],
				    .bytes = t->bytes[row],
				    .site = t->site[row],
				    .use = t->use[row] < MEMORY_USES ? t->use[row] : 0 };
	struct site_live *site = live_at_site(p, block.site);
	struct live_block old;

	if (!site)
		return -ENOMEM;
	if (live_map_take(&p->live, block.address, &old)) {
		d->replaced++;
		release_block(p, &old);
	}
	if (live_map_put(&p->live, &block) < 0)
		return -ENOMEM;
	site->bytes += block.bytes;
	d->allocations++;
	d->allocated_bytes += block.bytes;
	p->block_bytes += block.bytes;
	d->live_allocations++;
	p->use[block.use] += block.bytes;
	if (p->use[block.use] > d->peak_use[block.use])
		d->peak_use[block.use] = p->use[block.use];
	return 0;
}

/* A block without an allocation is of before the first record, where that is known. */
static void release(struct replay *p, size_t row)
{
	const struct table_memory *t = &p->run->memory;
	struct memory_device *d = p->out;
	struct live_block block;

	d->frees++;
	if (live_map_take(&p->live, t->address[row], &block)) {
		release_block(p, &block);
	} else if (d->before_bytes.known && t->bytes[row]) {
		p->outside_bytes -= t->bytes[row];
		d->before_freed_bytes.v += (double)t->bytes[row];
	} else {
		d->unmatched_frees++;
	}
}

static struct value before_now(const struct replay *p)
{
	if (!p->out->before_bytes.known)
		return value_absent(p->out->before_bytes.reason);
	return value_of(p->outside_bytes <= INT64_MAX ? (double)p->outside_bytes : 0);
}

/* The allocator's total is what is live; what the blocks do not make up lived before. */
static void settle(struct replay *p, int64_t time_ns)
{
	struct memory_device *d = p->out;
	double total;

	if (d->before_bytes.known && memory_readings_take(&p->totals, time_ns, &total))
		p->outside_bytes = (uint64_t)total - p->block_bytes;
	d->live_bytes = p->block_bytes + p->outside_bytes;
	if (d->live_bytes <= d->peak_bytes)
		return;
	d->peak_bytes = d->live_bytes;
	d->peak_ns = time_ns;
	p->peak = p->at;
	memcpy(d->use_at_peak, p->use, sizeof(p->use));
	if (d->before_bytes.known)
		d->before_at_peak_bytes = before_now(p);
}

/* What is live now is what was at the moment that is asked for, unless a later event changes that. Of those at
 * the very moment the one with the most counts, as in note_point. */
static void note_asked(struct replay *p, const struct memory_event *event)
{
	struct memory_then *then = &p->out->then;
	bool at_it = event->time_ns == p->asked.ns;

	if (!p->asked.given || event->time_ns > p->asked.ns)
		return;
	if (at_it && p->asked_events && event[-1].time_ns == event->time_ns &&
	    p->out->live_bytes < then->live_bytes)
		return;
	p->asked_events = p->at + 1;
	then->live_bytes = p->out->live_bytes;
	then->before_bytes = before_now(p);
}

static int apply(struct replay *p, const struct memory_event *event)
{
	int r = 0;

	sample_steps(p, event->time_ns);
	if (p->run->memory.event[event->row] == MOESCOPE_EVENT_ALLOC)
		r = allocate(p, event->row);
	else
		release(p, event->row);
	settle(p, event->time_ns);
	note_point(p, event->time_ns);
	note_asked(p, event);
	return r;
}

static int by_growth(const void *a, const void *b)
{
	const struct memory_leak *x = a, *y = b;

	return CMP(y->bytes_per_step, x->bytes_per_step) ?: CMP(x->site, y->site);
}

static int find_leaks(struct replay *p)
{
	struct memory_device *d = p->out;

	if (p->n_step_ends < SAMPLES) {
		d->leaks_known = value_absent("fewer than 11 recorded steps");
		return 0;
	}
	d->leaks = calloc(p->n_sites ? p->n_sites : 1, sizeof(*d->leaks));
	if (!d->leaks)
		return -ENOMEM;
	for (size_t i = 0; i < p->n_sites; i++) {
		const uint64_t *at = p->sites[i].at_step;
		unsigned int grew = 0;

		for (size_t s = 1; s < SAMPLES; s++)
			grew += at[s] > at[s - 1];
		if (grew < 8 || (double)at[SAMPLES - 1] <= 1.01 * (double)at[0])
			continue;
		d->leaks[d->n_leaks++] = (struct memory_leak){
			.site = p->sites[i].site,
			.first_bytes = at[0],
			.last_bytes = at[SAMPLES - 1],
			.grew_steps = grew,
			.bytes_per_step = (double)(at[SAMPLES - 1] - at[0]) / MEMORY_LEAK_STEPS,
		};
	}
	if (d->n_leaks)
		qsort(d->leaks, d->n_leaks, sizeof(*d->leaks), by_growth);
	d->leaks_known = value_of((double)d->n_leaks);
	return 0;
}

static void order_uses(struct memory_device *d)
{
	for (unsigned int u = 0; u < MEMORY_USES; u++) {
		unsigned int at = u;

		while (at && d->use_at_peak[d->order_at_peak[at - 1]] < d->use_at_peak[u]) {
			d->order_at_peak[at] = d->order_at_peak[at - 1];
			at--;
		}
		d->order_at_peak[at] = u;
	}
}

static int finish_device(struct replay *p)
{
	struct memory_device *d = p->out;

	sample_steps(p, INT64_MAX);
	for (size_t i = 0; i < p->max_points; i++)
		if (d->points[i].time_ns != INT64_MIN)
			d->points[d->n_points++] = d->points[i];
	memcpy(d->use_at_end, p->use, sizeof(p->use));
	order_uses(d);
	d->device_used_bytes = d->device_total_bytes = d->headroom_bytes = value_absent(
		d->device < 0 ? "host memory is not sampled" : "the device was not sampled");
	d->oom_steps = d->headroom_bytes;
	return find_leaks(p);
}

/* What the allocator says that was live before its first event. */
static int find_before(struct replay *p)
{
	const struct table_memory *t = &p->run->memory;
	struct memory_device *d = p->out;
	bool known = false;

	for (size_t i = 0; i < t->n; i++) {
		if (t->event[i] != MOESCOPE_EVENT_BEFORE || t->shard[i] != d->shard ||
		    t->device[i] != d->device)
			continue;
		known = true;
		p->outside_bytes += t->bytes[i];
	}
	d->before_bytes = d->before_at_peak_bytes = d->before_freed_bytes = value_absent(
		"the allocator did not tell what was live before its first record here");
	if (!known)
		return 0;
	d->before_bytes = value_of((double)p->outside_bytes);
	d->before_at_peak_bytes = d->before_freed_bytes = value_of(0);
	return memory_readings_find(p->run, d, "allocated_bytes", &p->totals);
}

static void begin_then(struct replay *p)
{
	struct memory_then *then = &p->out->then;

	if (!p->asked.given)
		then->absent = "no moment was asked for";
	else if (p->asked.ns > p->run->end_ns)
		then->absent = "the run had ended by then";
	then->time_ns = p->asked.ns;
	/* Before the first event. */
	then->live_bytes = p->outside_bytes;
	then->before_bytes = before_now(p);
}

/* events[0..n): those of one shard and device, by time. at: on the run's clock. */
static int replay_device(const struct run *run, const struct memory_place *places,
			 const struct memory_event *events, size_t n, size_t max_points,
			 struct given_moment at, struct memory_device *out)
{
	struct replay p = { .run = run,
			    .out = out,
			    .asked = at,
			    .first_ns = events[0].time_ns,
			    .span_ns = events[n - 1].time_ns - events[0].time_ns,
			    .max_points = max_points };
	int r;

	*out = (struct memory_device){
		.shard = events[0].shard,
		.rank = events[0].shard < run->n_shards ? run->shards[events[0].shard].rank : 0,
		.device = events[0].device,
	};
	out->points = calloc(max_points + 1, sizeof(*out->points)); /* one more for the end */
	r = out->points ? find_step_ends(&p, out->shard) : -ENOMEM;
	if (r >= 0)
		r = find_before(&p);
	if (r >= 0)
		r = init_sites(&p, events, n);
	begin_then(&p);
	for (size_t i = 0; r >= 0 && i < max_points; i++)
		out->points[i].time_ns = INT64_MIN;
	for (p.at = 0; r >= 0 && p.at < n; p.at++)
		r = apply(&p, &events[p.at]);
	if (r >= 0)
		r = finish_device(&p);
	if (r >= 0)
		r = memory_sites_fill(run, places, events, n, p.peak, out);
	if (r >= 0 && !out->then.absent)
		r = memory_then_fill(run, places, events, p.asked_events, out);
	if (r >= 0)
		r = memory_held_fill(run, events, n, p.peak, out);
	if (r >= 0)
		memory_account_fill(run, out);
	live_map_release(&p.live);
	free(p.totals.list);
	free(p.sites);
	free(p.site_index);
	return r;
}

static bool same_device(const struct memory_event *x, const struct memory_event *y)
{
	return x->shard == y->shard && x->device == y->device;
}

int memory_analyze(const struct run *run, size_t max_points, struct memory *ret_memory)
{
	return memory_analyze_at(run, max_points, (struct given_moment){ 0 }, ret_memory);
}

int memory_analyze_at(const struct run *run, size_t max_points, struct given_moment at,
		      struct memory *ret_memory)
{
	const struct table_memory *t = &run->memory;
	struct memory out = { 0 };
	struct memory_event *events = calloc(t->n ? t->n : 1, sizeof(*events));
	struct memory_place *places = NULL;
	size_t n = 0, n_devices = 0;
	int r = events ? memory_places_find(run, &places) : -ENOMEM;

	if (r < 0) {
		free(events);
		return r;
	}
	if (__builtin_add_overflow(at.ns, run->start_ns, &at.ns))
		at.ns = INT64_MAX;
	for (size_t i = 0; i < t->n; i++)
		if (t->event[i] <= MOESCOPE_EVENT_FREE)
			events[n++] = (struct memory_event){ t->time_ns[i], i, t->device[i],
							     t->shard[i] };
	memory_sort(events, n, sizeof(*events), by_device_time);
	for (size_t i = 0; i < n; i++)
		n_devices += !i || !same_device(&events[i - 1], &events[i]);
	out.devices = calloc(n_devices ? n_devices : 1, sizeof(*out.devices));
	if (!out.devices)
		r = -ENOMEM;
	for (size_t from = 0; r >= 0 && from < n;) {
		size_t to = from;

		while (to < n && same_device(&events[from], &events[to]))
			to++;
		r = replay_device(run, places, events + from, to - from,
				  max_points ? max_points : POINTS, at, &out.devices[out.n++]);
		from = to;
	}
	free(events);
	free(places);
	if (r < 0) {
		memory_release(&out);
		return r;
	}
	*ret_memory = out;
	return 0;
}

static struct value steps_left(const struct memory_device *d, const struct device_used *used)
{
	double growth = 0, left;

	if (!d->leaks_known.known)
		return value_absent(d->leaks_known.reason);
	for (size_t i = 0; i < d->n_leaks; i++)
		growth += d->leaks[i].bytes_per_step;
	if (growth <= 0)
		return value_absent("nothing grows with the steps");
	left = used->total_bytes.v - used->last_bytes;
	return value_of(left > 0 ? left / growth : 0);
}

void memory_join(struct memory *memory, const struct device_memory *devices)
{
	for (size_t i = 0; i < memory->n; i++) {
		struct memory_device *d = &memory->devices[i];

		for (size_t u = 0; u < devices->n_used; u++) {
			const struct device_used *used = &devices->used[u];

			if (used->shard != d->shard || d->device < 0 ||
			    used->device != (uint32_t)d->device)
				continue;
			d->device_used_bytes = value_of(used->last_bytes);
			d->device_total_bytes = used->total_bytes;
			d->headroom_bytes = used->headroom_bytes;
			d->oom_steps = used->total_bytes.known
					       ? steps_left(d, used)
					       : value_absent(used->total_bytes.reason);
		}
	}
}

void memory_release(struct memory *memory)
{
	for (size_t i = 0; i < memory->n; i++) {
		free(memory->devices[i].points);
		free(memory->devices[i].leaks);
		free(memory->devices[i].sites);
		free(memory->devices[i].parts);
		free(memory->devices[i].then.sites);
		free(memory->devices[i].then.blocks);
	}
	free(memory->devices);
	*memory = (struct memory){ 0 };
}
