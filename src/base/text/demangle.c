/* SPDX-License-Identifier: Apache-2.0
 *
 * C++ symbols as their source has them; see demangle.h.
 *
 * libiberty, which hands out the text in pieces: what the C++ runtime offers gives up on symbols of
 * more than 1,024 characters, which those of CUTLASS have, and takes all memory for a made-up one of
 * 250. The library keeps everything on its stack, as much as the symbol is long.
 */
#include "base/text/demangle.h"

#include <errno.h>
#include <libiberty/demangle.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MOST ((size_t)128 << 10)
#define SYMBOL_MOST ((size_t)32 << 10)
#define HERE_MOST 1000		/* longer symbols get a stack of their own */
#define STACK_OF_CHARACTER 1024 /* five times what was seen */

struct demangling {
	const char *symbol;
	char *text;
	size_t n, capacity;
	jmp_buf end;
};

/* Leaves the library, which has no other way to be stopped and holds nothing but its stack. */
static void take(const char *piece, size_t n, void *context)
{
	struct demangling *d = context;

	if (d->n + n >= d->capacity) {
		size_t capacity = 2 * (d->n + n) + 128;
		char *text = d->n + n < TEXT_MOST ? realloc(d->text, capacity) : NULL;

		if (!text)
			longjmp(d->end, 1);
		d->text = text;
		d->capacity = capacity;
	}
	memcpy(d->text + d->n, piece, n);
	d->n += n;
	d->text[d->n] = '\0';
}

static void *demangle(void *context)
{
	struct demangling *d = context;
	bool whole = false;

	if (!setjmp(d->end))
		whole = cplus_demangle_v3_callback(
			d->symbol, DMGL_PARAMS | DMGL_ANSI | DMGL_TYPES | DMGL_NO_RECURSE_LIMIT,
			take, d);
	if (!whole) {
		free(d->text);
		d->text = NULL;
	}
	return NULL;
}

static void demangle_apart(struct demangling *d, size_t length)
{
	pthread_attr_t attributes;
	pthread_t thread;

	if (pthread_attr_init(&attributes))
		return;
	if (!pthread_attr_setstacksize(&attributes, (length + 64) * STACK_OF_CHARACTER) &&
	    !pthread_create(&thread, &attributes, demangle, d))
		pthread_join(thread, NULL);
	pthread_attr_destroy(&attributes);
}

int demangled(const char *name, char **ret_text)
{
	struct demangling d = { .symbol = name };
	size_t length = strncmp(name, "_Z", 2) == 0 ? strlen(name) : SIZE_MAX;

	if (length <= HERE_MOST)
		demangle(&d);
	else if (length <= SYMBOL_MOST)
		demangle_apart(&d, length);
	*ret_text = d.text ? d.text : strdup(name);
	return *ret_text ? 0 : -ENOMEM;
}
