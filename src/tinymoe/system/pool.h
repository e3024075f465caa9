/* SPDX-License-Identifier: Apache-2.0
 *
 * A pool of threads that runs numbered tasks.
 *
 * The rule that makes training reproducible: how work is split into tasks never depends on the
 * number of threads, every task writes to its own places, and no result depends on which thread ran
 * a task or when. The caller sums over tasks afterwards, in task order.
 */
#ifndef TINYMOE_POOL_H
#define TINYMOE_POOL_H

#include <stddef.h>

struct pool;
typedef void pool_task(void *arg, size_t task);

/* `threads` includes the caller, who works too: 1 starts none. */
int pool_new(int threads, struct pool **ret_pool);
void pool_free(struct pool *pool);

/* Runs task 0 .. count-1 and returns when all are done. One caller at a time. */
void pool_run(struct pool *pool, size_t count, pool_task *task, void *arg);

/* ceil(total / tile): how many tasks cover `total` items. */
static inline size_t pool_tiles(size_t total, size_t tile)
{
	return (total + tile - 1) / tile;
}

#endif
