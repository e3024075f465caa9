/* SPDX-License-Identifier: Apache-2.0
 *
 * The hash map of the project: numbers of things by what makes them equal. The owner keeps the things,
 * mostly in an array, and compares them; the map has their numbers, from 1, and their hashes. So it
 * grows without looking at a key, and what is found has nearly always been the right one:
 *
 *	struct hash_walk walk = hash_map_walk(&map, hash);
 *	uint32_t number;
 *
 *	while ((number = hash_map_next(&map, &walk)))
 *		if (is_it(&things[number - 1]))
 *			return number;
 *
 * Nothing is taken out again. Equal things may be added; until the map grows, they are found in
 * that order. One thread.
 */
#ifndef BASE_HASH_MAP_H
#define BASE_HASH_MAP_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct hash_map {
	uint64_t *slots; /* open addressing: hash << 32 | number; 0: free */
	size_t n, n_slots;
};

void hash_map_release(struct hash_map *map);
/* Room for `n` in all. 0 or -ENOMEM. */
int hash_map_reserve(struct hash_map *map, size_t n);
/* number: not 0. 0 or -ENOMEM, and nothing has changed. */
int hash_map_add(struct hash_map *map, uint32_t hash, uint32_t number);

struct hash_walk {
	size_t at;
	uint32_t hash;
};

static inline struct hash_walk hash_map_walk(const struct hash_map *map, uint32_t hash)
{
	return (struct hash_walk){ .at = hash & (map->n_slots - 1), .hash = hash };
}

/* The next number with that hash; 0: no more. */
static inline uint32_t hash_map_next(const struct hash_map *map, struct hash_walk *walk)
{
	uint64_t slot;

	if (!map->n_slots)
		return 0;
	while ((slot = map->slots[walk->at])) {
		walk->at = (walk->at + 1) & (map->n_slots - 1);
		if (slot >> 32 == walk->hash)
			return (uint32_t)slot;
	}
	return 0;
}

/* Hashes are for maps, not for files: they may change. */
static inline uint64_t hash_mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 32;
}

static inline uint32_t hash_word(uint64_t word)
{
	return (uint32_t)hash_mix(0, word);
}

static inline uint32_t hash_bytes(const void *bytes, size_t length)
{
	const char *p = bytes;
	uint64_t hash = length, word;

	for (; length >= sizeof(word); length -= sizeof(word), p += sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		hash = hash_mix(hash, word);
	}
	word = 0;
	memcpy(&word, p, length);
	return (uint32_t)hash_mix(hash, word);
}

#endif
