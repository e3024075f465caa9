/* SPDX-License-Identifier: Apache-2.0
 *
 * Things by id, each once: the strings, sites and launches of a run. Keys are bytes and stay where
 * they are; ids are dense from 1. One thread.
 */
#ifndef BASE_INTERNED_H
#define BASE_INTERNED_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash_map.h"

struct interned {
	char **keys; /* index id - 1; NUL-terminated, each a block of its own */
	size_t *lengths;
	size_t n, keys_capacity, lengths_capacity;
	struct hash_map map;
};

void interned_release(struct interned *interned);
/* The id of these bytes; 0: no memory. */
uint32_t interned_id(struct interned *interned, const void *bytes, size_t length);
/* NULL for 0 and ids that were never given out. */
const char *interned_key(const struct interned *interned, uint32_t id);

#endif
