/* SPDX-License-Identifier: Apache-2.0
 *
 * Independent tasks on a few threads; see parallel.h.
 */
#include "base/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

struct thread_pool {
	int (*task)(void *, size_t, unsigned int);
	void *context;
	size_t n;
	atomic_size_t next;
	atomic_bool failed;
};

struct worker {
	struct thread_pool *pool;
	unsigned int number;
	size_t failed_at; /* task of `result` */
	int result;
	pthread_t thread;
	bool started;
};

unsigned int parallel_workers(size_t n)
{
	cpu_set_t set;
	int cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
	size_t most = cpus < PARALLEL_MOST ? (size_t)cpus : PARALLEL_MOST;

	return n < most ? (unsigned int)(n ? n : 1) : (unsigned int)most;
}

static void *do_tasks(void *arg)
{
	struct worker *worker = arg;
	struct thread_pool *pool = worker->pool;

	while (!atomic_load(&pool->failed)) {
		size_t i = atomic_fetch_add(&pool->next, 1);
		int r;

		if (i >= pool->n)
			break;
		r = pool->task(pool->context, i, worker->number);
		if (r < 0) {
			worker->result = r;
			worker->failed_at = i;
			atomic_store(&pool->failed, true);
		}
	}
	return NULL;
}

int parallel_run(size_t n, unsigned int workers, int (*task)(void *, size_t, unsigned int),
		 void *context)
{
	struct thread_pool pool = { .task = task, .context = context, .n = n };
	struct worker list[PARALLEL_MOST] = { 0 };
	size_t failed_at = n;
	int result = 0;

	if (workers > PARALLEL_MOST)
		workers = PARALLEL_MOST;
	for (unsigned int w = 0; w < workers || !w; w++) {
		list[w] = (struct worker){ .pool = &pool, .number = w };
		if (w)
			list[w].started = pthread_create(&list[w].thread, NULL, do_tasks,
							 &list[w]) == 0;
	}
	do_tasks(&list[0]);
	for (unsigned int w = 0; w < workers || !w; w++) {
		if (list[w].started)
			pthread_join(list[w].thread, NULL);
		if (list[w].result < 0 && list[w].failed_at < failed_at) {
			failed_at = list[w].failed_at;
			result = list[w].result;
		}
	}
	return result;
}
