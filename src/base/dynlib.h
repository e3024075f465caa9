/* SPDX-License-Identifier: Apache-2.0
 *
 * Libraries opened at run time: one build serves machines with and without a GPU.
 */
#ifndef BASE_DYNLIB_H
#define BASE_DYNLIB_H

#include <stddef.h>

/* A copy that the process has loaded already, else the first that opens. `names` ends with NULL.
 * `variable` names an environment variable (NULL: none): when it is set, its path alone is tried,
 * since a user who names a library wants that one or a word about it.
 * NULL: none opens. Libraries stay open for the life of the process. */
void *dynlib_open(const char *const *names, const char *variable);

/* Fills an array of function pointers from a list of symbols. The number that is missing; their
 * pointers are NULL. */
struct dynlib_symbol {
	const char *name;
	void *to; /* the address of a function pointer */
};
size_t dynlib_symbols(void *library, const struct dynlib_symbol *symbols, size_t n);

/* The file that an open library came from; "" when the loader does not say. */
void dynlib_path(void *library, char *path, size_t size);

#endif
