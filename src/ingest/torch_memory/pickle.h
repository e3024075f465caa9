/* SPDX-License-Identifier: Apache-2.0
 *
 * Python pickles, protocols 0 to 5, as data: numbers, texts, lists, tuples, sets and dictionaries.
 * Untrusted input. Nothing is executed, ever: a pickle with an opcode that would import or call
 * anything is refused as a whole, wherever the opcode stands.
 *
 * Memory is proportional to the file. Values that the pickle shares are shared here: the same box
 * may be met often, and may even lie inside itself. Who walks a pickle bounds the walk, with `tag`.
 * One thread at a time for one pickle.
 */
#ifndef INGEST_PICKLE_H
#define INGEST_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum pickle_type {
	PICKLE_ABSENT, /* not there at all */
	PICKLE_NONE,
	PICKLE_BOOL,  /* integer 0 or 1 */
	PICKLE_INT,   /* integer */
	PICKLE_UINT,  /* natural: beyond int64_t */
	PICKLE_HUGE,  /* an integer beyond both; its value is not kept */
	PICKLE_FLOAT, /* real */
	PICKLE_TEXT,  /* text[0..length): as it stands, UTF-8 is not checked */
	PICKLE_BYTES,
	PICKLE_LIST, /* from here on: box */
	PICKLE_TUPLE,
	PICKLE_SET,
	PICKLE_DICT, /* keys and values in turns */
};

struct pickle_value {
	uint8_t type; /* enum pickle_type */
	uint32_t length;
	union {
		int64_t integer;
		uint64_t natural;
		double real;
		const char *text; /* into the pickle's bytes, or its memory; no NUL behind it */
		struct pickle_box *box;
	};
};

struct pickle_box {
	struct pickle_value *items;
	size_t n, capacity;
	uint64_t offset; /* of the opcode that began it */
	uint32_t tag;	 /* 0 at first; of use to who walks */
	bool open;	 /* the pickle ended before it was complete */
};

struct pickle {
	struct pickle_value root; /* PICKLE_ABSENT: nothing was complete enough to keep */
	/* Why and at which byte the reading ended early; NULL: it did not. */
	const char *damage;
	uint64_t damage_offset;
	struct pickle_arena *arena;
};

/* name: of the file, for the message. The bytes stay the caller's, and must live as long as the
 * pickle. A pickle that is cut or damaged gives what was read until there. -EPERM: it contains code;
 * -ENOMEM. */
int pickle_read(const char *name, const void *bytes, size_t size, struct pickle *ret_pickle,
		struct err *err);
void pickle_release(struct pickle *pickle);

/* Whether the first bytes of a file may be a pickle's. */
bool pickle_looks_like(const char *head, size_t size);

/* The value of a key of a dictionary, the last where it stands there twice. PICKLE_ABSENT when there
 * is none, or it is not a dictionary. */
struct pickle_value pickle_get(struct pickle_value dict, const char *key);

static inline bool pickle_is_box(struct pickle_value value)
{
	return value.type >= PICKLE_LIST;
}

static inline bool pickle_is_sequence(struct pickle_value value)
{
	return value.type == PICKLE_LIST || value.type == PICKLE_TUPLE;
}

bool pickle_is_text(struct pickle_value value, const char *text);
/* false for anything that is not an integer in this range. */
bool pickle_natural(struct pickle_value value, uint64_t *ret_number);

#endif
