/* SPDX-License-Identifier: Apache-2.0
 *
 * What the libraries of wrappers share. Each wraps the functions of one library, from one table, and is preloaded into
 * the program by `run --calls`: what is not asked for is not there.
 *
 * A wrapper reads the clock before and after the function itself and hands both to the probe (probe/core/calls.h).
 * It changes neither arguments, results nor errno, takes no lock and keeps nothing between: a thread may be cancelled
 * inside, or jump out of it.
 */
#ifndef CALLS_WRAPPED_H
#define CALLS_WRAPPED_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "probe/core/calls.h"

#define EXPORT __attribute__((visibility("default")))

struct wrapped {
	const char *name;
	_Atomic(void *) real; /* NULL: not looked for yet, or not there */
	uint32_t function;    /* the probe's number */
};

/* Any object of the program's: of the functions of that name the one behind ours; NULL: none. */
typedef void *(*find_function)(const char *name);

/* The function itself. It is looked for when the library is loaded; calls that come before, from constructors of others,
 * look for themselves. */
static inline void *wrapped_real(struct wrapped *wrapped, find_function find)
{
	void *real = atomic_load_explicit(&wrapped->real, memory_order_relaxed);

	if (__builtin_expect(!real, 0)) {
		real = find(wrapped->name);
		atomic_store_explicit(&wrapped->real, real, memory_order_relaxed);
	}
	return real;
}

static inline void wrapped_register(struct wrapped *wrapped, size_t n, const char *library)
{
	for (size_t i = 0; i < n; i++)
		wrapped[i].function = moescope_calls_function(library, wrapped[i].name);
}

#endif
