/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of a pickle's values, and looking at them; see pickle.h.
 */
#include <stdlib.h>
#include <string.h>

#include "ingest/torch_memory/pickle_inside.h"

#define ARENA_BYTES ((size_t)1 << 18)

struct arena_chunk {
	struct arena_chunk *next;
	size_t used, size;
	_Alignas(8) char bytes[];
};

struct pickle_arena {
	struct arena_chunk *chunks;
};

struct pickle_arena *pickle_arena_new(void)
{
	return calloc(1, sizeof(struct pickle_arena));
}

void *pickle_memory(struct pickle_arena *arena, size_t bytes)
{
	struct arena_chunk *chunk = arena->chunks;
	size_t need = (bytes + 7) & ~(size_t)7;
	void *memory;

	if (need < bytes)
		return NULL;
	if (!chunk || chunk->size - chunk->used < need) {
		size_t size = need > ARENA_BYTES ? need : ARENA_BYTES;
		struct arena_chunk *fresh = size < SIZE_MAX - sizeof(*fresh)
						    ? malloc(sizeof(*fresh) + size)
						    : NULL;

		if (!fresh)
			return NULL;
		*fresh = (struct arena_chunk){ .next = chunk, .size = size };
		/* A large piece alone does not end the chunk that is in use. */
		if (chunk && need > ARENA_BYTES / 4) {
			fresh->next = chunk->next;
			chunk->next = fresh;
		} else {
			arena->chunks = fresh;
		}
		chunk = fresh;
	}
	memory = chunk->bytes + chunk->used;
	chunk->used += need;
	return memory;
}

void pickle_release(struct pickle *pickle)
{
	struct arena_chunk *chunk = pickle->arena ? pickle->arena->chunks : NULL;

	while (chunk) {
		struct arena_chunk *next = chunk->next;

		free(chunk);
		chunk = next;
	}
	free(pickle->arena);
	*pickle = (struct pickle){ 0 };
}

bool pickle_is_text(struct pickle_value value, const char *text)
{
	size_t length = strlen(text);

	return value.type == PICKLE_TEXT && value.length == length &&
	       !memcmp(value.text, text, length);
}

struct pickle_value pickle_get(struct pickle_value dict, const char *key)
{
	if (dict.type == PICKLE_DICT)
		for (size_t i = dict.box->n; i >= 2; i -= 2)
			if (pickle_is_text(dict.box->items[i - 2], key))
				return dict.box->items[i - 1];
	return (struct pickle_value){ 0 };
}

bool pickle_natural(struct pickle_value value, uint64_t *ret_number)
{
	if (value.type != PICKLE_UINT && (value.type != PICKLE_INT || value.integer < 0))
		return false;
	*ret_number = value.natural;
	return true;
}

/* Protocols from 2 on say so; before, a snapshot begins with a dictionary or a list, and code with
 * an import. */
bool pickle_looks_like(const char *head, size_t size)
{
	const char *line, *name;

	if (size >= 2 && (unsigned char)head[0] == 0x80)
		return head[1] >= 2 && head[1] <= PICKLE_PROTOCOL &&
		       (size == 2 || pickle_opcodes[(unsigned char)head[2]].name);
	if (size >= 3 && (!memcmp(head, "(dp", 3) || !memcmp(head, "(lp", 3) ||
			  !memcmp(head, "}q", 2) || !memcmp(head, "]q", 2)))
		return true;
	if (!size || head[0] != 'c')
		return false;
	line = memchr(head, '\n', size);
	name = line ? memchr(line + 1, '\n', size - (size_t)(line + 1 - head)) : NULL;
	return name && (size_t)(name + 1 - head) < size &&
	       (name[1] == '(' || name[1] == 'p' || name[1] == 'q');
}
