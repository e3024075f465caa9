/* SPDX-License-Identifier: Apache-2.0
 *
 * See hash_map.h.
 */
#include "base/hash_map.h"

#include <errno.h>
#include <stdlib.h>

#define FIRST_SLOTS 64

void hash_map_release(struct hash_map *map)
{
	free(map->slots);
	*map = (struct hash_map){ 0 };
}

static void put_slot(uint64_t *slots, size_t n_slots, uint64_t slot)
{
	size_t at = (slot >> 32) & (n_slots - 1);

	while (slots[at])
		at = (at + 1) & (n_slots - 1);
	slots[at] = slot;
}

/* At most half full, so that walks stay short. */
int hash_map_reserve(struct hash_map *map, size_t n)
{
	size_t n_slots = map->n_slots ? map->n_slots : FIRST_SLOTS;
	uint64_t *slots;

	while (n_slots / 2 < n)
		n_slots *= 2;
	if (n_slots == map->n_slots)
		return 0;
	slots = calloc(n_slots, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < map->n_slots; i++)
		if (map->slots[i])
			put_slot(slots, n_slots, map->slots[i]);
	free(map->slots);
	map->slots = slots;
	map->n_slots = n_slots;
	return 0;
}

int hash_map_add(struct hash_map *map, uint32_t hash, uint32_t number)
{
	int r = hash_map_reserve(map, map->n + 1);

	if (r < 0)
		return r;
	put_slot(map->slots, map->n_slots, (uint64_t)hash << 32 | number);
	map->n++;
	return 0;
}
