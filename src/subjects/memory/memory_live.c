/* SPDX-License-Identifier: Apache-2.0
 *
 * The map of live blocks; see memory_live.h.
 */
#include "subjects/memory/memory_live.h"

#include <errno.h>
#include <stdlib.h>

static size_t home(const struct live_map *map, uint64_t address)
{
	/* Addresses are aligned: their low bits say nothing. */
	uint64_t h = address * UINT64_C(0x9E3779B97F4A7C15);

	return (size_t)(h >> 20) & (map->n_slots - 1);
}

static void place_block(struct live_map *map, const struct live_block *block)
{
	size_t at = home(map, block->address);

	while (map->slots[at].used)
		at = (at + 1) & (map->n_slots - 1);
	map->slots[at] = *block;
	map->slots[at].used = true;
}

static int grow_map(struct live_map *map)
{
	struct live_map bigger = { .n = map->n, .n_slots = map->n_slots ? map->n_slots * 2 : 256 };

	bigger.slots = calloc(bigger.n_slots, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < map->n_slots; i++)
		if (map->slots[i].used)
			place_block(&bigger, &map->slots[i]);
	free(map->slots);
	*map = bigger;
	return 0;
}

void live_map_release(struct live_map *map)
{
	free(map->slots);
	*map = (struct live_map){ 0 };
}

int live_map_put(struct live_map *map, const struct live_block *block)
{
	if ((map->n + 1) * 2 > map->n_slots && grow_map(map) < 0)
		return -ENOMEM;
	place_block(map, block);
	map->n++;
	return 0;
}

bool live_map_take(struct live_map *map, uint64_t address, struct live_block *ret_block)
{
	size_t mask = map->n_slots - 1, at, next;

	if (!map->n)
		return false;
	at = home(map, address);
	while (map->slots[at].used && map->slots[at].address != address)
		at = (at + 1) & mask;
	if (!map->slots[at].used)
		return false;
	*ret_block = map->slots[at];
	for (next = (at + 1) & mask; map->slots[next].used; next = (next + 1) & mask) {
		size_t wants = home(map, map->slots[next].address);

		/* A block may move back into the hole unless that is before its home. */
		if (((next - wants) & mask) >= ((next - at) & mask)) {
			map->slots[at] = map->slots[next];
			at = next;
		}
	}
	map->slots[at].used = false;
	map->n--;
	return true;
}
