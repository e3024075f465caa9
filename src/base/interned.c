/* SPDX-License-Identifier: Apache-2.0
 *
 * Interning by open addressing; see interned.h.
 */
#include "base/interned.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/crc32c.h"

void interned_release(struct interned *interned)
{
	for (size_t i = 0; i < interned->n; i++)
		free(interned->keys[i]);
	free(interned->keys);
	free(interned->lengths);
	free(interned->slots);
	*interned = (struct interned){ 0 };
}

static int rehash(struct interned *interned)
{
	size_t n_slots = interned->n_slots ? interned->n_slots * 2 : 256;
	uint32_t *slots = calloc(n_slots, sizeof(*slots));

	if (!slots)
		return -1;
	for (size_t i = 0; i < interned->n; i++) {
		size_t at = crc32c(0, interned->keys[i], interned->lengths[i]) & (n_slots - 1);

		while (slots[at])
			at = (at + 1) & (n_slots - 1);
		slots[at] = (uint32_t)i + 1;
	}
	free(interned->slots);
	interned->slots = slots;
	interned->n_slots = n_slots;
	return 0;
}

uint32_t interned_id(struct interned *interned, const void *bytes, size_t length)
{
	size_t at;
	char *key;

	if (interned->n * 2 >= interned->n_slots && rehash(interned) < 0)
		return 0;
	at = crc32c(0, bytes, length) & (interned->n_slots - 1);
	for (; interned->slots[at]; at = (at + 1) & (interned->n_slots - 1)) {
		size_t i = interned->slots[at] - 1;

		if (interned->lengths[i] == length && !memcmp(interned->keys[i], bytes, length))
			return (uint32_t)i + 1;
	}
	if (array_grow(&interned->keys, &interned->keys_capacity, interned->n + 1,
		       sizeof(char *)) ||
	    array_grow(&interned->lengths, &interned->lengths_capacity, interned->n + 1,
		       sizeof(size_t)) ||
	    !(key = malloc(length + 1)))
		return 0;
	memcpy(key, bytes, length);
	key[length] = 0;
	interned->keys[interned->n] = key;
	interned->lengths[interned->n++] = length;
	interned->slots[at] = (uint32_t)interned->n;
	return (uint32_t)interned->n;
}

const char *interned_key(const struct interned *interned, uint32_t id)
{
	return id && id <= interned->n ? interned->keys[id - 1] : NULL;
}
