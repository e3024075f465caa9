/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocation. Main thread only; arenas are not locked.
 */
#include "tinymoe/system/memory.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

static size_t aligned_size(size_t bytes)
{
	return (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

void *memory_new(size_t bytes, enum moescope_memory_use use, const char *site)
{
	size_t size = aligned_size(bytes ? bytes : 1);
	void *memory = aligned_alloc(ALIGNMENT, size);

	if (!memory)
		return NULL;
	memset(memory, 0, size);
	moescope_alloc(memory, size, -1, use, moescope_intern(site));
	return memory;
}

void memory_free(void *memory)
{
	if (!memory)
		return;
	moescope_free(memory, -1);
	free(memory);
}

int arena_init(struct arena *arena, size_t capacity, enum moescope_memory_use use, const char *site)
{
	*arena = (struct arena){
		.capacity = aligned_size(capacity ? capacity : 1),
		.use = use,
		.site = moescope_intern(site),
	};
	arena->base = aligned_alloc(ALIGNMENT, arena->capacity);
	return arena->base ? 0 : -ENOMEM;
}

void arena_release(struct arena *arena)
{
	free(arena->base);
	*arena = (struct arena){ 0 };
}

void *arena_push(struct arena *arena, size_t bytes)
{
	unsigned char *block = arena->base + arena->used;

	bytes = aligned_size(bytes);
	assert(bytes <= arena->capacity - arena->used);
	arena->used += bytes;
	moescope_alloc(block, bytes, -1, arena->use, arena->site);
	return block;
}

void arena_pop(struct arena *arena, void *block)
{
	moescope_free(block, -1);
	arena->used = (size_t)((unsigned char *)block - arena->base);
}

void *carve(struct carver *carver, size_t count, size_t size)
{
	void *array = carver->base ? carver->base + carver->used : NULL;

	carver->used += aligned_size(count * size);
	return array;
}
