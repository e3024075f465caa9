/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory for what runs inside an allocation of the program: it must not come from the program's allocator. The
 * sources that the library shares with moescope are compiled with these in place of malloc and the like. One
 * thread at a time.
 */
#ifndef HEAP_OWN_MEMORY_H
#define HEAP_OWN_MEMORY_H

#include <stddef.h>

void *own_malloc(size_t size);
void *own_calloc(size_t n, size_t size);
void *own_realloc(void *p, size_t size);
void own_free(void *p);

#endif
