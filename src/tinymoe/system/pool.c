/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread pool. The caller of pool_run publishes a job under the lock and wakes everyone; each
 * thread takes task numbers from one counter until none is left, and checks out.
 *
 * Invariant: between two jobs `checked_in` is 0 and every worker waits for `generation` to change,
 * so the job's fields change only while nobody reads them.
 */
#include "tinymoe/system/pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

struct pool {
	pthread_mutex_t lock;
	pthread_cond_t job_ready, job_done;
	pthread_t *workers;
	int worker_count;
	int checked_in;
	unsigned generation;
	bool stop;

	pool_task *task;
	void *arg;
	size_t count;
	atomic_size_t next;
};

static void take_tasks(struct pool *pool)
{
	size_t task;

	while ((task = atomic_fetch_add(&pool->next, 1)) < pool->count)
		pool->task(pool->arg, task);
}

static void *worker_main(void *arg)
{
	struct pool *pool = arg;
	unsigned seen = 0;

	pthread_mutex_lock(&pool->lock);
	for (;;) {
		while (pool->generation == seen && !pool->stop)
			pthread_cond_wait(&pool->job_ready, &pool->lock);
		if (pool->stop)
			break;
		seen = pool->generation;
		pthread_mutex_unlock(&pool->lock);
		take_tasks(pool);
		pthread_mutex_lock(&pool->lock);
		if (--pool->checked_in == 0)
			pthread_cond_signal(&pool->job_done);
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

int pool_new(int threads, struct pool **ret_pool)
{
	struct pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return -ENOMEM;
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->job_ready, NULL);
	pthread_cond_init(&pool->job_done, NULL);
	pool->workers = calloc((size_t)threads, sizeof(*pool->workers));
	if (!pool->workers) {
		pool_free(pool);
		return -ENOMEM;
	}
	while (pool->worker_count < threads - 1) {
		int error = pthread_create(&pool->workers[pool->worker_count], NULL, worker_main,
					   pool);

		if (error) {
			pool_free(pool);
			return -error;
		}
		pool->worker_count++;
	}
	*ret_pool = pool;
	return 0;
}

void pool_free(struct pool *pool)
{
	if (!pool)
		return;
	pthread_mutex_lock(&pool->lock);
	pool->stop = true;
	pthread_cond_broadcast(&pool->job_ready);
	pthread_mutex_unlock(&pool->lock);
	for (int i = 0; i < pool->worker_count; i++)
		pthread_join(pool->workers[i], NULL);
	pthread_cond_destroy(&pool->job_done);
	pthread_cond_destroy(&pool->job_ready);
	pthread_mutex_destroy(&pool->lock);
	free(pool->workers);
	free(pool);
}

void pool_run(struct pool *pool, size_t count, pool_task *task, void *arg)
{
	if (count <= 1 || pool->worker_count == 0) {
		for (size_t i = 0; i < count; i++)
			task(arg, i);
		return;
	}
	pthread_mutex_lock(&pool->lock);
	pool->task = task;
	pool->arg = arg;
	pool->count = count;
	atomic_store(&pool->next, 0);
	pool->checked_in = pool->worker_count;
	pool->generation++;
	pthread_cond_broadcast(&pool->job_ready);
	pthread_mutex_unlock(&pool->lock);

	take_tasks(pool);

	pthread_mutex_lock(&pool->lock);
	while (pool->checked_in > 0)
		pthread_cond_wait(&pool->job_done, &pool->lock);
	pthread_mutex_unlock(&pool->lock);
}
