/* SPDX-License-Identifier: Apache-2.0
 *
 * What the program's allocator holds from the driver, and how its free bytes are cut up. Pure, any
 * thread.
 *
 * Segments are what the program's allocator says that it took from the driver. When it says nothing, a
 * segment is an allocation of device memory by the driver in which at least one of the program's
 * blocks lay while it lived: what libraries take for themselves is none. Allocations out of the
 * driver's own pools are no segments either: where the pool keeps its free bytes is not recorded.
 * Free bytes are the segments less the live blocks in them, so fragmentation is known only where
 * the program's addresses are those of the device. Without segments nothing is said: gaps between
 * the blocks of a heap may belong to others.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "moescope.h"
#include "subjects/memory/memory_inside.h"
#include "subjects/memory/memory_live.h"
#include "subjects/numbers/order.h"

#define MEMORY_DEVICE 3 /* as CUPTI numbers them */
#define MEMORY_MANAGED 5
#define INSIDE_SHARE 0.99 /* of the live bytes must lie in segments for them to be the arena */
#define RESERVED_COUNTER "torch reserved_bytes"
#define ALLOCATED_COUNTER "torch allocated_bytes"

struct driver_event {
	int64_t time_ns;
	size_t row; /* of run->device_memory, or of run->memory when the program told it */
};

struct segment {
	uint64_t address, bytes;
	int64_t start_ns, end_ns;
	size_t start_order, end_order; /* among the events: several may have one time */
	bool held;		       /* a block lay in it */
};

struct piece {
	uint64_t address, bytes;
};

/* The blocks that were live at a moment. */
struct snapshot {
	int64_t time_ns;
	struct piece *blocks; /* by address */
	size_t n;
	uint64_t bytes;
};

struct held {
	const struct run *run;
	const struct memory_device *device;
	struct driver_event *driver;
	size_t n_driver;
	bool told;		  /* by the program's allocator itself: they are the segments */
	struct segment *segments; /* in order of their allocation */
	size_t n_segments, capacity;
	size_t *live; /* indices of the live segments, by address */
	size_t n_live;
	struct live_map blocks;
	struct snapshot peak, end;
	struct level *levels; /* bytes of the held segments from a moment on, by time */
	size_t n_levels;
};

struct level {
	int64_t time_ns;
	size_t order;
	int64_t bytes; /* a change, until they are summed up */
};

static int driver_events_by_time(const void *a, const void *b)
{
	const struct driver_event *x = a, *y = b;

	return CMP(x->time_ns, y->time_ns) ?: CMP(x->row, y->row);
}

static void collect_told(struct held *h)
{
	const struct table_memory *t = &h->run->memory;

	for (size_t i = 0; i < t->n; i++)
		if ((t->event[i] == MOESCOPE_EVENT_RESERVE ||
		     t->event[i] == MOESCOPE_EVENT_RELEASE) &&
		    t->shard[i] == h->device->shard && t->device[i] == h->device->device)
			h->driver[h->n_driver++] = (struct driver_event){ t->time_ns[i], i };
	h->told = h->n_driver > 0;
}

/* Frees are of any device: they often do not say whose memory it is. */
static int collect_driver(struct held *h)
{
	const struct table_device_memory *t = &h->run->device_memory;
	size_t most = t->n + h->run->memory.n + 1;

	h->driver = calloc(most, sizeof(*h->driver));
	h->live = calloc(most, sizeof(*h->live));
	if (!h->driver || !h->live)
		return -ENOMEM;
	collect_told(h);
	for (size_t i = 0; !h->told && i < t->n; i++) {
		bool ours = t->event[i] ||
			    (t->device[i] == (uint32_t)h->device->device &&
			     (t->memory[i] == MEMORY_DEVICE || t->memory[i] == MEMORY_MANAGED) &&
			     !t->pool[i]);

		if (t->shard[i] == h->device->shard && ours)
			h->driver[h->n_driver++] = (struct driver_event){ t->time_ns[i], i };
	}
	if (h->n_driver)
		qsort(h->driver, h->n_driver, sizeof(*h->driver), driver_events_by_time);
	return 0;
}

/* The first live segment that begins behind the address. */
static size_t upper(const struct held *h, uint64_t address)
{
	size_t low;

	ORDER_FIND(low, h->n_live, h->n_live, h->segments[h->live[probe]].address <= address);
	return low;
}

static struct segment *segment_at(const struct held *h, uint64_t address)
{
	size_t at = upper(h, address);
	struct segment *s = at ? &h->segments[h->live[at - 1]] : NULL;

	return s && address - s->address < s->bytes ? s : NULL;
}

static void end_segment(struct held *h, uint64_t address, const struct driver_event *event)
{
	size_t at = upper(h, address);
	struct segment *segment = at ? &h->segments[h->live[at - 1]] : NULL;

	if (!segment || segment->address != address)
		return;
	segment->end_ns = event->time_ns;
	segment->end_order = (size_t)(event - h->driver);
	memmove(h->live + at - 1, h->live + at, (h->n_live - at) * sizeof(*h->live));
	h->n_live--;
}

static bool gives_back(const struct held *h, const struct driver_event *event)
{
	return h->told ? h->run->memory.event[event->row] == MOESCOPE_EVENT_RELEASE
		       : h->run->device_memory.event[event->row] != 0;
}

static int apply_driver(struct held *h, const struct driver_event *event)
{
	uint64_t address = h->told ? h->run->memory.address[event->row]
				   : h->run->device_memory.address[event->row];
	uint64_t bytes = h->told ? h->run->memory.bytes[event->row]
				 : h->run->device_memory.bytes[event->row];
	size_t at;

	/* Also before an allocation: then its free was not recorded. */
	end_segment(h, address, event);
	if (gives_back(h, event))
		return 0;
	if (array_grow(&h->segments, &h->capacity, h->n_segments + 1, sizeof(*h->segments)) < 0)
		return -ENOMEM;
	h->segments[h->n_segments] = (struct segment){ .address = address,
						       .bytes = bytes,
						       .start_ns = event->time_ns,
						       .start_order = (size_t)(event - h->driver),
						       .end_ns = INT64_MAX,
						       .held = h->told };
	at = upper(h, address);
	memmove(h->live + at + 1, h->live + at, (h->n_live - at) * sizeof(*h->live));
	h->live[at] = h->n_segments++;
	h->n_live++;
	return 0;
}

static int by_address(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	return CMP(x->address, y->address);
}

static int take_snapshot(const struct held *h, int64_t time_ns, struct snapshot *ret_snapshot)
{
	struct snapshot s = { .time_ns = time_ns };

	s.blocks = calloc(h->blocks.n ? h->blocks.n : 1, sizeof(*s.blocks));
	if (!s.blocks)
		return -ENOMEM;
	for (size_t i = 0; i < h->blocks.n_slots; i++) {
		const struct live_block *b = &h->blocks.slots[i];

		if (!b->used)
			continue;
		s.blocks[s.n++] = (struct piece){ b->address, b->bytes };
		s.bytes += b->bytes;
	}
	if (s.n)
		qsort(s.blocks, s.n, sizeof(*s.blocks), by_address);
	*ret_snapshot = s;
	return 0;
}

static int apply_program(struct held *h, const struct memory_event *event)
{
	const struct table_memory *t = &h->run->memory;
	struct live_block block = { .address = t->address[event->row],
				    .bytes = t->bytes[event->row] };
	struct live_block old;
	struct segment *segment;

	live_map_take(&h->blocks, block.address, &old);
	if (t->event[event->row])
		return 0;
	segment = segment_at(h, block.address);
	if (segment)
		segment->held = true;
	return live_map_put(&h->blocks, &block);
}

/* The end is that of the program's own records, of its segments too where it tells them. What the
 * driver is given back afterwards is a process at its end. */
static int64_t end_of(const struct held *h, int64_t last_ns)
{
	int64_t told_ns = h->told ? h->driver[h->n_driver - 1].time_ns : last_ns;

	return told_ns > last_ns ? told_ns : last_ns;
}

static int replay(struct held *h, const struct memory_event *events, size_t n, size_t peak)
{
	size_t next = 0;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < n; i++) {
		/* A segment is there before the first block of it is handed out. */
		while (r >= 0 && next < h->n_driver &&
		       (h->driver[next].time_ns < events[i].time_ns ||
			(h->driver[next].time_ns == events[i].time_ns &&
			 !gives_back(h, &h->driver[next]))))
			r = apply_driver(h, &h->driver[next++]);
		if (r >= 0)
			r = apply_program(h, &events[i]);
		if (r >= 0 && i == peak)
			r = take_snapshot(h, events[i].time_ns, &h->peak);
	}
	while (r >= 0 && next < h->n_driver)
		r = apply_driver(h, &h->driver[next++]);
	return r < 0 ? r : take_snapshot(h, end_of(h, events[n - 1].time_ns), &h->end);
}

static bool live_at(const struct segment *s, int64_t time_ns)
{
	return s->held && s->start_ns <= time_ns && time_ns < s->end_ns;
}

/* Times of a snapshot are microseconds: what is told first was first. An allocation at the address
 * of a segment whose free was not recorded ends it first. */
static int by_level(const void *a, const void *b)
{
	const struct level *x = a, *y = b;

	return CMP(x->time_ns, y->time_ns) ?: CMP(x->order, y->order) ?: CMP(x->bytes, y->bytes);
}

static int sum_levels(struct held *h)
{
	h->levels = calloc(2 * h->n_segments + 1, sizeof(*h->levels));
	if (!h->levels)
		return -ENOMEM;
	for (size_t i = 0; i < h->n_segments; i++) {
		const struct segment *s = &h->segments[i];

		if (!s->held)
			continue;
		h->levels[h->n_levels++] = (struct level){ s->start_ns, s->start_order,
							   (int64_t)s->bytes };
		if (s->end_ns != INT64_MAX)
			h->levels[h->n_levels++] = (struct level){ s->end_ns, s->end_order,
								   (int64_t)(0 - s->bytes) };
	}
	qsort(h->levels, h->n_levels, sizeof(*h->levels), by_level);
	for (size_t i = 1; i < h->n_levels; i++)
		h->levels[i].bytes =
			(int64_t)((uint64_t)h->levels[i].bytes + (uint64_t)h->levels[i - 1].bytes);
	return 0;
}

static double reserved_at(const struct held *h, int64_t time_ns)
{
	size_t low;

	ORDER_FIND(low, h->n_levels, h->n_levels, h->levels[probe].time_ns <= time_ns);
	return low ? (double)h->levels[low - 1].bytes : 0;
}

struct holes {
	uint64_t free_bytes, largest_bytes, inside_bytes;
};

static void add_hole(struct holes *holes, uint64_t from, uint64_t to)
{
	if (to <= from)
		return;
	holes->free_bytes += to - from;
	if (to - from > holes->largest_bytes)
		holes->largest_bytes = to - from;
}

/* The gaps between the blocks of one segment. */
static void walk_segment(const struct snapshot *s, const struct segment *segment,
			 struct holes *holes)
{
	uint64_t at = segment->address, end = segment->address + segment->bytes;
	size_t low;

	ORDER_FIND(low, s->n, s->n, s->blocks[probe].address < at);
	for (; low < s->n && s->blocks[low].address < end; low++) {
		uint64_t block_end = s->blocks[low].address + s->blocks[low].bytes;

		add_hole(holes, at, s->blocks[low].address);
		holes->inside_bytes += s->blocks[low].bytes;
		at = block_end > at ? block_end : at;
	}
	add_hole(holes, at, end);
}

static struct value fragmentation(const struct held *h, const struct snapshot *s,
				  struct value *ret_free_bytes, struct value *ret_largest_bytes)
{
	struct holes holes = { 0 };
	struct value absent = value_absent(
		"the program's allocations do not lie in the memory that "
		"the driver allocated");

	*ret_free_bytes = *ret_largest_bytes = absent;
	for (size_t i = 0; i < h->n_segments; i++)
		if (live_at(&h->segments[i], s->time_ns))
			walk_segment(s, &h->segments[i], &holes);
	if ((double)holes.inside_bytes < INSIDE_SHARE * (double)s->bytes)
		return absent;
	*ret_free_bytes = value_of((double)holes.free_bytes);
	*ret_largest_bytes = value_of((double)holes.largest_bytes);
	if (!holes.free_bytes)
		return value_absent("the allocator has no free byte");
	return value_of(100.0 * (1 - (double)holes.largest_bytes / (double)holes.free_bytes));
}

static struct value slack(struct value reserved, double allocated)
{
	if (!reserved.known)
		return value_absent(reserved.reason);
	if (reserved.v <= 0)
		return value_absent("the allocator holds nothing");
	return allocated > reserved.v ? value_absent("more is allocated than the segments hold")
				      : value_of(100.0 * (reserved.v - allocated) / reserved.v);
}

static void from_segments(const struct held *h, struct memory_device *d)
{
	struct value free_bytes, largest;
	size_t segments = 0;
	int64_t peak = 0;

	for (size_t i = 0; i < h->n_levels; i++)
		peak = h->levels[i].bytes > peak ? h->levels[i].bytes : peak;
	d->reserved_bytes = value_of(reserved_at(h, h->end.time_ns));
	d->peak_reserved_bytes = value_of((double)peak);
	for (size_t i = 0; i < h->n_segments; i++)
		segments += live_at(&h->segments[i], h->end.time_ns);
	d->segments = value_of((double)segments);
	d->cache_slack_pct = slack(d->reserved_bytes, (double)h->end.bytes);
	d->fragmentation_pct = fragmentation(h, &h->end, &free_bytes, &largest);
	d->fragmentation_at_peak_pct = fragmentation(h, &h->peak, &d->free_at_peak_bytes,
						     &d->largest_free_at_peak_bytes);
	/* What it took and gave back after the last block changes only this. */
	if (d->n_points && d->points[d->n_points - 1].time_ns < h->end.time_ns)
		d->points[d->n_points++] = (struct memory_point){ .time_ns = h->end.time_ns,
								  .live_bytes = d->live_bytes };
	for (size_t i = 0; i < d->n_points; i++)
		d->points[i].reserved_bytes = value_of(reserved_at(h, d->points[i].time_ns));
}

/* A program that asks its framework reports the figures as counters, which name no device. */
static bool from_counters(const struct run *run, struct memory_device *d)
{
	const struct table_counter *t = &run->counter;
	double reserved = -1, allocated = -1, peak = 0;

	for (size_t i = 0; i < t->n; i++) {
		const char *name = t->shard[i] == d->shard ? run_string(run, t->name[i]) : "";

		if (!strcmp(name, ALLOCATED_COUNTER))
			allocated = t->value[i];
		if (strcmp(name, RESERVED_COUNTER) != 0 || !(t->value[i] >= 0))
			continue;
		reserved = t->value[i];
		peak = reserved > peak ? reserved : peak;
	}
	if (reserved < 0)
		return false;
	d->reserved_bytes = value_of(reserved);
	d->peak_reserved_bytes = value_of(peak);
	d->segments = value_absent("the program tells the sum of its segments only");
	d->cache_slack_pct = allocated >= 0 ? slack(d->reserved_bytes, allocated)
					    : value_absent("the program does not say what is live");
	return true;
}

/* An allocator that tells its totals with each event. */
static int from_readings(const struct run *run, struct memory_device *d)
{
	struct value sum_only = value_absent("the allocator tells the sum of its segments only");
	struct memory_readings readings;
	double peak = 0;
	int r = memory_readings_find(run, d, "reserved_bytes", &readings);

	if (r < 0 || !readings.n)
		return r;
	for (size_t i = 0; i < readings.n; i++)
		peak = readings.list[i].bytes > peak ? readings.list[i].bytes : peak;
	d->reserved_bytes = value_of(readings.list[readings.n - 1].bytes);
	d->peak_reserved_bytes = value_of(peak);
	d->cache_slack_pct = slack(d->reserved_bytes, (double)d->live_bytes);
	d->segments = d->fragmentation_pct = d->fragmentation_at_peak_pct = sum_only;
	d->free_at_peak_bytes = d->largest_free_at_peak_bytes = sum_only;
	for (size_t i = 0; i < d->n_points; i++)
		d->points[i].reserved_bytes = memory_readings_at(&readings, d->points[i].time_ns);
	free(readings.list);
	return 0;
}

static void nothing_held(struct memory_device *d, const char *reason)
{
	struct value absent = value_absent(reason);

	d->reserved_bytes = d->peak_reserved_bytes = d->cache_slack_pct = absent;
	d->segments = absent;
	d->fragmentation_pct = d->fragmentation_at_peak_pct = absent;
	d->free_at_peak_bytes = d->largest_free_at_peak_bytes = absent;
	for (size_t i = 0; i < d->n_points; i++)
		d->points[i].reserved_bytes = absent;
}

static bool one_gpu(const struct run *run, const struct memory_device *d)
{
	const struct table_memory *t = &run->memory;

	for (size_t i = 0; i < t->n; i++)
		if (t->shard[i] == d->shard && t->device[i] >= 0 && t->device[i] != d->device)
			return false;
	return true;
}

int memory_held_fill(const struct run *run, const struct memory_event *events, size_t n,
		     size_t peak, struct memory_device *device)
{
	struct held h = { .run = run, .device = device };
	bool any = false;
	int r;

	if (device->device < 0) {
		nothing_held(device, "host memory: what malloc holds and where it is free is not "
				     "recorded");
		return 0;
	}
	nothing_held(device, "none of the driver's allocations in this run holds the program's "
			     "blocks");
	r = collect_driver(&h);
	if (r >= 0 && h.n_driver)
		r = replay(&h, events, n, peak);
	for (size_t i = 0; i < h.n_segments; i++)
		any = any || h.segments[i].held;
	if (r >= 0 && any)
		r = sum_levels(&h);
	if (r >= 0 && any)
		from_segments(&h, device);
	else if (r >= 0 && device->before_bytes.known)
		r = from_readings(run, device);
	else if (r >= 0 && one_gpu(run, device))
		from_counters(run, device);
	live_map_release(&h.blocks);
	free(h.driver);
	free(h.segments);
	free(h.live);
	free(h.levels);
	free(h.peak.blocks);
	free(h.end.blocks);
	return r;
}
