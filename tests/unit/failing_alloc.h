/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocations that fail once, at a chosen one. For programs that are linked with --wrap for the
 * allocators; included once.
 */
#ifndef TESTS_FAILING_ALLOC_H
#define TESTS_FAILING_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

static long countdown = -1; /* allocations until one fails; -1: none fails */

static bool fails(void)
{
	return countdown >= 0 && countdown-- == 0;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_reallocarray(void *old, size_t n, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_reallocarray(void *old, size_t n, size_t size);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
	return fails() ? NULL : __real_realloc(old, size);
}

void *__wrap_reallocarray(void *old, size_t n, size_t size)
{
	return fails() ? NULL : __real_reallocarray(old, n, size);
}

char *__wrap_strdup(const char *text)
{
	return fails() ? NULL : __real_strdup(text);
}

#endif
