/* SPDX-License-Identifier: Apache-2.0
 *
 * A training loop that decodes each batch when it needs it. With --fixed a thread decodes the next
 * one meanwhile, which needs a second core; with --cached each batch is decoded once and kept. All
 * compute the same in the same order and print the same sum.
 *
 *   moescope run -o bad.mscope -- loader          'moescope report bad.mscope' says what to change
 *   moescope run -o good.mscope -- loader --fixed
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "moescope.h"

#define BATCH 4096
#define BATCHES 4	  /* in an epoch */
#define DECODE_ROUNDS 700 /* about 7 ms */
#define SIDE 128
#define PRODUCTS 5 /* about 10 ms */

static moescope_name data_name, decode_name, compute_name;

static void decode(float *batch, unsigned int number)
{
	unsigned int x = number % BATCHES * 2654435761u + 1;

	moescope_range_begin(decode_name, -1, -1, MOESCOPE_DATA);
	for (int i = 0; i < BATCH; i++)
		batch[i] = 0;
	for (int round = 0; round < DECODE_ROUNDS; round++)
		for (int i = 0; i < BATCH; i++) {
			x = x * 1664525u + 1013904223u;
			batch[i] += (float)(x >> 24) * (1.0f / 256.0f);
		}
	moescope_range_end();
}

static double compute(const float *batch)
{
	static float product[SIDE * SIDE], a[SIDE * SIDE];
	double sum = 0;

	moescope_range_begin(compute_name, -1, -1, MOESCOPE_FORWARD);
	for (int i = 0; i < SIDE * SIDE; i++)
		a[i] = batch[i % BATCH] / DECODE_ROUNDS;
	for (int n = 0; n < PRODUCTS; n++)
		for (int i = 0; i < SIDE; i++)
			for (int j = 0; j < SIDE; j++) {
				float cell = 0;

				for (int k = 0; k < SIDE; k++)
					cell += a[i * SIDE + k] * a[k * SIDE + j];
				product[i * SIDE + j] = cell;
			}
	for (int i = 0; i < SIDE * SIDE; i++)
		sum += (double)product[i];
	moescope_range_end();
	return sum;
}

/* Two batches: one is used while the other is decoded. Batch n is in n % 2. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	float batch[2][BATCH];
	int decoded, taken, steps; /* so many were decoded; those before `taken` are done with */
} queue = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void *decode_ahead(void *arg)
{
	(void)arg;
	for (int n = 0; n < queue.steps; n++) {
		pthread_mutex_lock(&queue.lock);
		while (n - queue.taken >= 2)
			pthread_cond_wait(&queue.changed, &queue.lock);
		pthread_mutex_unlock(&queue.lock);
		decode(queue.batch[n % 2], (unsigned int)n);
		pthread_mutex_lock(&queue.lock);
		queue.decoded = n + 1;
		pthread_cond_broadcast(&queue.changed);
		pthread_mutex_unlock(&queue.lock);
	}
	return NULL;
}

static const float *wait_for(int n)
{
	pthread_mutex_lock(&queue.lock);
	while (queue.decoded <= n)
		pthread_cond_wait(&queue.changed, &queue.lock);
	pthread_mutex_unlock(&queue.lock);
	return queue.batch[n % 2];
}

static void done_with(int n)
{
	pthread_mutex_lock(&queue.lock);
	queue.taken = n + 1;
	pthread_cond_broadcast(&queue.changed);
	pthread_mutex_unlock(&queue.lock);
}

/* Decoded on first use. */
static const float *cached(int n)
{
	static float batches[BATCHES][BATCH];
	static bool known[BATCHES];

	if (!known[n % BATCHES])
		decode(batches[n % BATCHES], (unsigned int)n);
	known[n % BATCHES] = true;
	return batches[n % BATCHES];
}

enum how { NEEDED, AHEAD, CACHED };

static double train(int steps, enum how how)
{
	double sum = 0;

	for (int n = 0; n < steps; n++) {
		const float *batch = queue.batch[0];

		moescope_step_begin(n);
		moescope_range_begin(data_name, -1, -1, MOESCOPE_DATA);
		if (how == AHEAD)
			batch = wait_for(n);
		else if (how == CACHED)
			batch = cached(n);
		else
			decode(queue.batch[0], (unsigned int)n);
		moescope_range_end();
		sum += compute(batch);
		if (how == AHEAD)
			done_with(n);
		moescope_step_end(BATCH);
	}
	return sum;
}

int main(int argc, char **argv)
{
	enum how how = argc > 1 && !strcmp(argv[1], "--fixed")	  ? AHEAD
		       : argc > 1 && !strcmp(argv[1], "--cached") ? CACHED
								  : NEEDED;
	int given = how == NEEDED ? 1 : 2;
	int steps = argc > given ? atoi(argv[given]) : 60;
	pthread_t thread;
	double sum;
	int error;

	if (steps < 1 || argc > given + 1) {
		fprintf(stderr, "usage: loader [--fixed | --cached] [STEPS]\n");
		return 2;
	}
	data_name = moescope_intern("next batch");
	decode_name = moescope_intern("decode");
	compute_name = moescope_intern("compute");
	queue.steps = steps;
	error = how == AHEAD ? pthread_create(&thread, NULL, decode_ahead, NULL) : 0;
	if (error) {
		fprintf(stderr, "loader: cannot start a thread: %s\n", strerror(error));
		return 1;
	}
	sum = train(steps, how);
	if (how == AHEAD)
		pthread_join(thread, NULL);
	printf("%d steps, sum %.6g\n", steps, sum);
	return 0;
}
