/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention. One task is one head of one sequence; tasks run on any thread of the pool and write
 * only their own head's columns.
 */
#include "tinymoe/math/attention.h"

#include <tgmath.h>

#include "tinymoe/math/gemm.h"

/* Where a head of a sequence starts in each array. */
struct place {
	size_t q, kv, out, prob;
};

static struct place task_place(const struct attention *a, size_t task)
{
	size_t sequence = task / a->heads, column = task % a->heads * a->head_width;

	return (struct place){
		.q = sequence * a->queries * a->q_stride + column,
		.kv = sequence * a->keys * a->kv_stride + column,
		.out = sequence * a->queries * a->heads * a->head_width + column,
		.prob = task * a->queries * a->keys,
	};
}

static size_t out_stride(const struct attention *a)
{
	return a->heads * a->head_width;
}

static real score_scale(const struct attention *a)
{
	return 1 / sqrt((real)a->head_width);
}

static void run(struct pool *pool, const struct attention *a, pool_task *task, const void *arg)
{
	pool_run(pool, a->batch * a->heads, task, (void *)arg);
}

static void scores_task(void *arg, size_t task)
{
	const struct attention *a = arg;
	struct place at = task_place(a, task);

	gemm(a->queries, a->keys, a->head_width, score_scale(a), plain(a->q + at.q, a->q_stride),
	     transposed(a->k + at.kv, a->kv_stride), false, a->prob + at.prob, a->keys);
}

void attention_scores(struct pool *pool, const struct attention *attention)
{
	run(pool, attention, scores_task, attention);
}

static void softmax_task(void *arg, size_t task)
{
	const struct attention *a = arg;
	real *row = a->prob + task_place(a, task).prob;

	for (size_t query = 0; query < a->queries; query++, row += a->keys) {
		size_t seen = a->keys - a->queries + query + 1;
		real most = row[0], sum = 0;

		for (size_t i = 1; i < seen; i++)
			most = row[i] > most ? row[i] : most;
		for (size_t i = 0; i < seen; i++) {
			row[i] = exp(row[i] - most);
			sum += row[i];
		}
		for (size_t i = 0; i < seen; i++)
			row[i] /= sum;
		for (size_t i = seen; i < a->keys; i++)
			row[i] = 0;
	}
}

void attention_softmax(struct pool *pool, const struct attention *attention)
{
	run(pool, attention, softmax_task, attention);
}

static void values_task(void *arg, size_t task)
{
	const struct attention *a = arg;
	struct place at = task_place(a, task);

	gemm(a->queries, a->head_width, a->keys, 1, plain(a->prob + at.prob, a->keys),
	     plain(a->v + at.kv, a->kv_stride), false, a->out + at.out, out_stride(a));
}

void attention_values(struct pool *pool, const struct attention *attention)
{
	run(pool, attention, values_task, attention);
}

static void values_gradient_task(void *arg, size_t task)
{
	const struct attention_gradient *g = arg;
	const struct attention *a = &g->forward;
	struct place at = task_place(a, task);

	gemm(a->queries, a->keys, a->head_width, 1, plain(g->dout + at.out, out_stride(a)),
	     transposed(a->v + at.kv, a->kv_stride), false, g->dprob + at.prob, a->keys);
	gemm(a->keys, a->head_width, a->queries, 1, transposed(a->prob + at.prob, a->keys),
	     plain(g->dout + at.out, out_stride(a)), false, g->dv + at.kv, a->kv_stride);
}

void attention_values_backward(struct pool *pool, const struct attention_gradient *attention)
{
	run(pool, &attention->forward, values_gradient_task, attention);
}

static void softmax_gradient_task(void *arg, size_t task)
{
	const struct attention_gradient *g = arg;
	const struct attention *a = &g->forward;
	size_t at = task_place(a, task).prob;
	const real *prob = a->prob + at;
	real *dprob = g->dprob + at;

	for (size_t query = 0; query < a->queries; query++, prob += a->keys, dprob += a->keys) {
		size_t seen = a->keys - a->queries + query + 1;
		real dot = 0;

		for (size_t i = 0; i < seen; i++)
			dot += prob[i] * dprob[i];
		for (size_t i = 0; i < seen; i++)
			dprob[i] = prob[i] * (dprob[i] - dot);
		for (size_t i = seen; i < a->keys; i++)
			dprob[i] = 0;
	}
}

void attention_softmax_backward(struct pool *pool, const struct attention_gradient *attention)
{
	run(pool, &attention->forward, softmax_gradient_task, attention);
}

static void scores_gradient_task(void *arg, size_t task)
{
	const struct attention_gradient *g = arg;
	const struct attention *a = &g->forward;
	struct place at = task_place(a, task);

	gemm(a->queries, a->head_width, a->keys, score_scale(a), plain(g->dprob + at.prob, a->keys),
	     plain(a->k + at.kv, a->kv_stride), false, g->dq + at.q, a->q_stride);
	gemm(a->keys, a->head_width, a->queries, score_scale(a),
	     transposed(g->dprob + at.prob, a->keys), plain(a->q + at.q, a->q_stride), false,
	     g->dk + at.kv, a->kv_stride);
}

void attention_scores_backward(struct pool *pool, const struct attention_gradient *attention)
{
	run(pool, &attention->forward, scores_gradient_task, attention);
}
