/* SPDX-License-Identifier: Apache-2.0
 *
 * See interned.h.
 */
#include "base/interned.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

void interned_release(struct interned *interned)
{
	for (size_t i = 0; i < interned->n; i++)
		free(interned->keys[i]);
	free(interned->keys);
	free(interned->lengths);
	hash_map_release(&interned->map);
	*interned = (struct interned){ 0 };
}

uint32_t interned_id(struct interned *interned, const void *bytes, size_t length)
{
	uint32_t hash = hash_bytes(bytes, length), id;
	struct hash_walk walk = hash_map_walk(&interned->map, hash);
	char *key;

	while ((id = hash_map_next(&interned->map, &walk)))
		if (interned->lengths[id - 1] == length &&
		    !memcmp(interned->keys[id - 1], bytes, length))
			return id;
	if (array_grow(&interned->keys, &interned->keys_capacity, interned->n + 1,
		       sizeof(char *)) ||
	    array_grow(&interned->lengths, &interned->lengths_capacity, interned->n + 1,
		       sizeof(size_t)) ||
	    !(key = malloc(length + 1)))
		return 0;
	id = (uint32_t)interned->n + 1;
	if (hash_map_add(&interned->map, hash, id) < 0) {
		free(key);
		return 0;
	}
	memcpy(key, bytes, length);
	key[length] = 0;
	interned->keys[interned->n] = key;
	interned->lengths[interned->n++] = length;
	return id;
}

const char *interned_key(const struct interned *interned, uint32_t id)
{
	return id && id <= interned->n ? interned->keys[id - 1] : NULL;
}
