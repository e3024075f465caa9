/* SPDX-License-Identifier: Apache-2.0
 *
 * Redirects functions of a loaded library for everyone in the process except that library and us.
 *
 * Two places change. Calls that are already bound go through slots in the calling modules (GOT,
 * pointer tables): a slot that holds the original gets the replacement. Later look-ups, by dlsym or
 * the dynamic linker, read the library's own symbol table: there the symbol's value becomes the
 * replacement's address.
 *
 * Nothing is remembered: restoring is the same walk with the roles swapped, so a module unloaded
 * meanwhile is no danger, and slots that the linker has filled with a replacement are found too.
 * Pointers that a program got from dlsym and keeps are out of reach both ways, so replacements must
 * stay callable forever.
 */
#ifndef PROBE_GPU_CLIENTS_IMPORTS_H
#define PROBE_GPU_CLIENTS_IMPORTS_H

#include <stddef.h>
#include <stdint.h>

struct import {
	const char *symbol;
	void *original; /* all of the same library */
	void *replacement;
};

/* Walks the loaded modules; does nothing if no library was loaded since the last walk. Returns the
 * number of changed places, or -errno: ENOTSUP for an unsupported architecture, otherwise why a
 * page could not be made writable (the other places are changed anyway). One thread at a time; not
 * while holding a lock that a library's constructor may want. */
int imports_redirect(const struct import *imports, size_t n);
/* Everything that holds a replacement holds the original again. Returns as above. */
int imports_restore(const struct import *imports, size_t n);

/* The other way round, for good: how the module that has `address` in it calls one function of
 * another. A slot that is not bound yet stays as it is. Returns as above. */
int imports_redirect_in(const void *address, const struct import *import);
/* What that module calls as `symbol`, other than `but`; NULL: nothing, or not bound yet. First what it
 * calls directly: the address that others take of a function may be a stub of the program's. */
void *imports_bound_in(const void *address, const char *symbol, const void *but);

/* The addresses [start, end) of the module that has `address` in it. -ENOENT: none has. */
int imports_module_of(const void *address, uintptr_t *ret_start, uintptr_t *ret_end);

#endif
