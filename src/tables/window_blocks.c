/* SPDX-License-Identifier: Apache-2.0
 *
 * Which allocations outlive their window; see window.h. A replay of the rows that stay has the same live bytes at
 * the end and at the peak, and never more in between: peak, what was live there and what is live now stay what
 * they were. One thread.
 *
 * A block has two rows, where it begins and where it ends: its free, or an allocation at the same address, if its
 * free was not recorded. If a block stays, both do.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "moescope.h"
#include "tables/window.h"

#define NO_ROW SIZE_MAX

/* What happened at a row of either table. */
struct happening {
	int64_t time_ns;
	size_t row;
	uint64_t address, bytes;
	uint64_t space; /* in which the address is the only one */
	uint64_t
		place; /* of an allocation: device, and kind of memory if live bytes are counted by it */
	uint16_t shard;
	bool is_segment; /* of the driver's memory that an allocator divides */
	bool is_alloc;
};

/* The live bytes of a place, of blocks or of segments. */
struct level {
	uint64_t live, peak;
	size_t peak_at; /* index of the happening that reached it */
};

struct block {
	size_t begin, end; /* happenings; end NO_ROW: live */
	size_t place;	   /* number */
};

struct replay {
	const struct happening *items;
	size_t n;
	struct window_keys addresses, places;
	size_t *live;		   /* by address: index into blocks + 1, or 0 */
	struct level (*levels)[2]; /* by place: of blocks, of segments */
	struct block *blocks;
	size_t n_blocks, live_capacity, levels_capacity, blocks_capacity;
};

static int by_time(const void *a, const void *b)
{
	const struct happening *x = a, *y = b;

	return CMP(x->time_ns, y->time_ns) ?: CMP(x->row, y->row);
}

static void end_block(struct replay *p, size_t address, size_t at)
{
	struct block *block = &p->blocks[p->live[address] - 1];
	const struct happening *begin = &p->items[block->begin];

	block->end = at;
	p->levels[block->place][begin->is_segment].live -= begin->bytes;
	p->live[address] = 0;
}

static int begin_block(struct replay *p, size_t address, size_t at)
{
	const struct happening *h = &p->items[at];
	size_t place, before = p->places.n;
	struct level *level;
	int r = window_number(&p->places, (struct window_key){ h->shard, h->place, 0 }, &place);

	if (r == 0)
		r = array_grow(&p->levels, &p->levels_capacity, place + 1, sizeof(*p->levels));
	if (r < 0)
		return r;
	if (p->places.n > before)
		p->levels[place][0] = p->levels[place][1] = (struct level){ 0 };
	level = &p->levels[place][h->is_segment];
	if (array_grow(&p->blocks, &p->blocks_capacity, p->n_blocks + 1, sizeof(*p->blocks)) < 0)
		return -ENOMEM;
	p->blocks[p->n_blocks++] = (struct block){ at, NO_ROW, place };
	p->live[address] = p->n_blocks;
	level->live += h->bytes;
	if (level->live > level->peak) {
		level->peak = level->live;
		level->peak_at = at;
	}
	return 0;
}

static int replay_one(struct replay *p, size_t at)
{
	const struct happening *h = &p->items[at];
	size_t address, before = p->addresses.n;
	int r = window_number(&p->addresses, (struct window_key){ h->shard, h->space, h->address },
			      &address);

	if (r == 0)
		r = array_grow(&p->live, &p->live_capacity, address + 1, sizeof(*p->live));
	if (r < 0)
		return r;
	if (p->addresses.n > before)
		p->live[address] = 0;
	if (p->live[address])
		end_block(p, address, at);
	return h->is_alloc ? begin_block(p, address, at) : 0;
}

static bool was_live(const struct block *block, const struct level *level)
{
	return level->peak && block->begin <= level->peak_at && level->peak_at < block->end;
}

/* In the order of their begins, so that what ends a block that stays begins one that does. */
static void mark(const struct replay *p, int64_t since_ns, bool *keep)
{
	for (size_t i = 0; i < p->n_blocks; i++) {
		const struct block *block = &p->blocks[i];
		const struct level *levels = p->levels[block->place];
		size_t begin = p->items[block->begin].row;

		if (!keep[begin] && block->end != NO_ROW &&
		    p->items[block->end].time_ns < since_ns && !was_live(block, &levels[0]) &&
		    !was_live(block, &levels[1]))
			continue;
		keep[begin] = true;
		if (block->end != NO_ROW)
			keep[p->items[block->end].row] = true;
	}
}

/* Frees the items. */
static int keep_blocks(struct happening *items, size_t n, int64_t since_ns, bool *keep)
{
	struct replay p = { .items = items, .n = n };
	int r = 0;

	if (n)
		qsort(items, n, sizeof(*items), by_time);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = replay_one(&p, i);
	if (r == 0)
		mark(&p, since_ns, keep);
	window_keys_release(&p.addresses);
	window_keys_release(&p.places);
	free(p.live);
	free(p.levels);
	free(p.blocks);
	free(items);
	return r;
}

int window_keep_blocks(const struct table_memory *table, int64_t since_ns, bool *keep)
{
	struct happening *items = calloc(table->n ? table->n : 1, sizeof(*items));
	size_t n = 0;

	if (!items)
		return -ENOMEM;
	for (size_t i = 0; i < table->n; i++) {
		unsigned int event = table->event[i];

		if (event >= MOESCOPE_EVENT_BEFORE) { /* of the whole run */
			keep[i] = true;
			continue;
		}
		items[n++] = (struct happening){
			.time_ns = table->time_ns[i],
			.row = i,
			.address = table->address[i],
			.bytes = table->bytes[i],
			.space = (uint64_t)(uint32_t)table->device[i] << 1 |
				 (event >= MOESCOPE_EVENT_RESERVE),
			.place = (uint32_t)table->device[i],
			.shard = table->shard[i],
			.is_segment = event >= MOESCOPE_EVENT_RESERVE,
			.is_alloc = event == MOESCOPE_EVENT_ALLOC ||
				    event == MOESCOPE_EVENT_RESERVE,
		};
	}
	return keep_blocks(items, n, since_ns, keep);
}

int window_keep_device_blocks(const struct table_device_memory *table, int64_t since_ns, bool *keep)
{
	struct happening *items = calloc(table->n ? table->n : 1, sizeof(*items));

	if (!items)
		return -ENOMEM;
	/* A free may not say what it frees: addresses are those of the process. */
	for (size_t i = 0; i < table->n; i++)
		items[i] = (struct happening){
			.time_ns = table->time_ns[i],
			.row = i,
			.address = table->address[i],
			.bytes = table->bytes[i],
			.place = (uint64_t)table->device[i] << 8 | table->memory[i],
			.shard = table->shard[i],
			.is_alloc = !table->event[i],
		};
	return keep_blocks(items, table->n, since_ns, keep);
}
