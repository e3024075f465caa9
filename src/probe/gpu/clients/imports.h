/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of a loaded library, redirected for everybody in the process but that library and us.
 *
 * Two places are changed. Calls that are bound already go through slots in the calling modules
 * (GOT, tables of pointers): a slot that holds the original gets the replacement. Everything that
 * asks for the function later, dlsym as well as the dynamic linker, reads the symbol table of the
 * library itself: there the value of the symbol becomes the replacement's address.
 *
 * Nothing is remembered: putting back is the same walk with the roles exchanged, so a module that
 * has been unloaded meanwhile is no danger, and slots that the linker has filled with a
 * replacement are found too. Pointers that a program got from dlsym and keeps for itself are out of
 * reach both ways, so replacements must stay callable for ever.
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

/* Walks the loaded modules; when no library was loaded since the last walk it does nothing. The
 * number of changed places, or -errno: ENOTSUP for an architecture without rules, else what a page
 * could not be made writable for (the other places are changed all the same). One thread at a time;
 * not while a lock is held that a library's constructor may want. */
int imports_redirect(const struct import *imports, size_t n);
/* Everything that holds a replacement holds the original again. Returns as above. */
int imports_restore(const struct import *imports, size_t n);

/* The other way round, for good: how the module that has `address` in it calls one function of
 * another. A slot that is not bound yet stays as it is. Returns as above. */
int imports_redirect_in(const void *address, const struct import *import);

/* The addresses [start, end) of the module that has `address` in it. -ENOENT: none has. */
int imports_module_of(const void *address, uintptr_t *ret_start, uintptr_t *ret_end);

#endif
