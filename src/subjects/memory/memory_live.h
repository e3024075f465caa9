/* SPDX-License-Identifier: Apache-2.0
 *
 * The blocks that are allocated now, by address: open addressing with linear probing and
 * backward-shift deletion, so that a long run of allocations and frees leaves no tombstones. A map
 * of its own, because base/hash_map.h never forgets a key.
 */
#ifndef SUBJECTS_MEMORY_LIVE_H
#define SUBJECTS_MEMORY_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct live_block {
	uint64_t address, bytes;
	size_t row; /* the caller's */
	uint32_t site;
	uint8_t use;
	bool used; /* the slot holds a block */
};

/* Zero-initialised: empty. */
struct live_map {
	struct live_block *slots;
	size_t n, n_slots;
};

void live_map_release(struct live_map *map);
/* The address must not be in the map. 0 or -ENOMEM. */
int live_map_put(struct live_map *map, const struct live_block *block);
/* Removes the block at `address` into *ret_block; false when there is none. */
bool live_map_take(struct live_map *map, uint64_t address, struct live_block *ret_block);

#endif
