/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory over time; see memory_history.h.
 */
#include "subjects/memory/memory_history.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

static const char not_reserved[] = "the program does not report what its allocator reserves";

/* The first row from `from` on of that counter in the shard; run->counter.n: none. */
static size_t next_counter(const struct run *run, uint32_t name, uint16_t shard, size_t from)
{
	size_t i = from;

	while (i < run->counter.n &&
	       (run->counter.name[i] != name || run->counter.shard[i] != shard ||
		!isfinite(run->counter.value[i])))
		i++;
	return i;
}

/* The string id of a counter's name; 0: the run has no such counter. */
static uint32_t counter_name(const struct run *run, const char *name)
{
	for (size_t i = 0; i < run->counter.n; i++)
		if ((!i || run->counter.name[i] != run->counter.name[i - 1]) &&
		    !strcmp(run_string(run, run->counter.name[i]), name))
			return run->counter.name[i];
	return 0;
}

static int add_moment_row(struct memory_history *h, const struct memory_moment *row)
{
	if (array_grow(&h->rows, &h->capacity, h->n + 1, sizeof(*h->rows)) < 0)
		return -ENOMEM;
	h->rows[h->n++] = *row;
	return 0;
}

static struct value held(const struct run *run, size_t last)
{
	return last < run->counter.n ? value_of(run->counter.value[last])
				     : value_absent(not_reserved);
}

static int add_device_history(const struct run *run, const struct memory_device *d,
			      uint32_t reserved, struct memory_history *h)
{
	size_t last = run->counter.n;
	size_t next = reserved && d->device >= 0 ? next_counter(run, reserved, d->shard, 0)
						 : run->counter.n;
	double peak = 0;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < d->n_points; i++) {
		double live = (double)d->points[i].live_bytes;

		while (next < run->counter.n &&
		       run->counter.time_ns[next] <= d->points[i].time_ns) {
			last = next;
			next = next_counter(run, reserved, d->shard, next + 1);
		}
		peak = fmax(peak, live);
		r = add_moment_row(h,
				   &(struct memory_moment){
					   .realtime_ns = d->points[i].time_ns +
							  run->shards[d->shard].realtime_offset_ns,
					   .rank = d->rank,
					   .device = value_of(d->device),
					   .allocated_bytes = live,
					   .peak_bytes = peak,
					   .reserved_bytes = d->points[i].reserved_bytes.known
								     ? d->points[i].reserved_bytes
								     : held(run, last) });
	}
	return r;
}

/* The two counters are one reading, written one after the other. */
static int add_counters(const struct run *run, uint16_t shard, uint32_t allocated,
			uint32_t reserved, struct memory_history *h)
{
	size_t n = run->counter.n, i = next_counter(run, allocated, shard, 0), next;
	double peak = 0;
	int r = 0;

	for (; r >= 0 && i < n; i = next) {
		size_t beside = reserved ? next_counter(run, reserved, shard, i + 1) : n;

		next = next_counter(run, allocated, shard, i + 1);
		peak = fmax(peak, run->counter.value[i]);
		r = add_moment_row(
			h, &(struct memory_moment){
				   .realtime_ns = run->counter.time_ns[i] +
						  run->shards[shard].realtime_offset_ns,
				   .rank = run->shards[shard].rank,
				   .device = value_absent("the counters do not name a device"),
				   .allocated_bytes = run->counter.value[i],
				   .peak_bytes = peak,
				   .reserved_bytes = held(run, beside < next ? beside : n) });
	}
	return r;
}

int memory_history_make(const struct run *run, const struct memory *memory,
			struct memory_history *ret_history)
{
	uint32_t allocated = counter_name(run, "torch allocated_bytes");
	uint32_t reserved = counter_name(run, "torch reserved_bytes");
	struct memory_history h = { 0 };
	int r = 0;

	for (size_t s = 0; r >= 0 && s < run->n_shards; s++) {
		bool replayed = false;

		for (size_t i = 0; r >= 0 && i < memory->n; i++) {
			if (memory->devices[i].shard != s)
				continue;
			replayed = true;
			r = add_device_history(run, &memory->devices[i], reserved, &h);
		}
		if (r >= 0 && !replayed && allocated)
			r = add_counters(run, (uint16_t)s, allocated, reserved, &h);
	}
	if (r < 0) {
		memory_history_release(&h);
		return r;
	}
	*ret_history = h;
	return 0;
}

void memory_history_release(struct memory_history *history)
{
	free(history->rows);
	*history = (struct memory_history){ 0 };
}
