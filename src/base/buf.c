/* SPDX-License-Identifier: Apache-2.0
 *
 * Growing buffers and arrays; no shared state.
 */
#include "base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void buf_release(struct buf *buf)
{
	free(buf->data);
	*buf = (struct buf){ 0 };
}

void *buf_reserve(struct buf *buf, size_t bytes)
{
	if (buf->failed)
		return NULL;
	if (bytes > SIZE_MAX / 2 - buf->size ||
	    array_grow(&buf->data, &buf->capacity, buf->size + bytes, 1) < 0) {
		buf->failed = true;
		return NULL;
	}
	return buf->data + buf->size;
}

void buf_append(struct buf *buf, const void *bytes, size_t size)
{
	void *to = size ? buf_reserve(buf, size) : NULL;

	if (!to)
		return;
	memcpy(to, bytes, size);
	buf->size += size;
}

void buf_printf(struct buf *buf, const char *format, ...)
{
	va_list args, again;
	int n;

	va_start(args, format);
	va_copy(again, args);
	n = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (n >= 0 && buf_reserve(buf, (size_t)n + 1)) {
		vsnprintf(buf->data + buf->size, (size_t)n + 1, format, again);
		buf->size += (size_t)n;
	} else {
		buf->failed = true;
	}
	va_end(again);
}

int array_grow(void *array, size_t *capacity, size_t need, size_t size)
{
	size_t grown;
	void *data;

	if (need <= *capacity)
		return 0;
	grown = *capacity ? *capacity : 64;
	while (grown < need) {
		if (grown > SIZE_MAX / 2)
			return -ENOMEM;
		grown *= 2;
	}
	if (grown > SIZE_MAX / size)
		return -ENOMEM;
	memcpy(&data, array, sizeof(data));
	data = realloc(data, grown * size);
	if (!data)
		return -ENOMEM;
	memcpy(array, &data, sizeof(data));
	*capacity = grown;
	return 0;
}

void *array_new(size_t n, size_t size)
{
	const size_t huge = (size_t)2 << 20;
	void *data;

	if (n > SIZE_MAX / size)
		return NULL;
	if (n * size < ARRAY_LARGE)
		return malloc(n * size);
	if (posix_memalign(&data, huge, n * size) != 0)
		return NULL;
	madvise(data, n * size, MADV_HUGEPAGE);
	return data;
}
