/* SPDX-License-Identifier: Apache-2.0
 *
 * A growing byte buffer. A failed growth sets `failed` and later appends do nothing, so that a
 * sequence of appends is checked once, at its end.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	char *data;
	size_t size, capacity;
	bool failed;
};

void buf_release(struct buf *buf);
/* Room for `bytes` more; NULL when there is no memory. The caller then adds to `size`. */
void *buf_reserve(struct buf *buf, size_t bytes);
void buf_append(struct buf *buf, const void *bytes, size_t size);
void buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Grows *array (elements of `size` bytes) so that it holds at least `need`. 0 or -ENOMEM. */
int array_grow(void *array, size_t *capacity, size_t need, size_t size);

/* Memory for n elements, not cleared; free() it. Large ones ask the system for huge pages, whose
 * faults cost less. NULL: there is none. */
void *array_new(size_t n, size_t size);
#define ARRAY_LARGE ((size_t)4 << 20) /* bytes */

#endif
