/* SPDX-License-Identifier: Apache-2.0
 *
 * The model's memory, reported to the profiler by use.
 *
 * Long-lived arrays come from memory_new. What one step needs comes from an arena: a region
 * allocated once, and a stack of blocks in it that grows in the forward and shrinks in the backward
 * pass. So a step has no page faults, and the profiler still sees memory change.
 */
#ifndef TINYMOE_MEMORY_H
#define TINYMOE_MEMORY_H

#include <moescope.h>
#include <stddef.h>

/* Zeroed, aligned to a cache line; NULL if there is not enough. */
void *memory_new(size_t bytes, enum moescope_memory_use use, const char *site);
void memory_free(void *memory);

struct arena {
	unsigned char *base;
	size_t capacity, used;
	enum moescope_memory_use use;
	moescope_name site;
};

int arena_init(struct arena *arena, size_t capacity, enum moescope_memory_use use,
	       const char *site);
void arena_release(struct arena *arena);

/* The capacity was computed from the same layout functions: a push that does not fit is a
 * programming error. arena_pop removes the last block. */
void *arena_push(struct arena *arena, size_t bytes);
void arena_pop(struct arena *arena, void *block);

/* Cuts a block into arrays. With base NULL it only counts: run the same layout function twice, once
 * for the size and once for the pointers. */
struct carver {
	unsigned char *base;
	size_t used;
};
void *carve(struct carver *carver, size_t count, size_t size);

#endif
