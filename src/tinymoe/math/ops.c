/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear maps, RMS norm, embedding and cross-entropy. The functions of ops.h run on the main
 * thread; the static *_task functions on any thread of the pool, each on its own rows (or columns).
 */
#include "tinymoe/math/ops.h"

#include <string.h>
#include <tgmath.h>

#include "tinymoe/math/gemm.h"
#include "tinymoe/parameters/config.h"

/* Tile of a weight gradient's rows and of an embedding gradient's columns. */
enum { OUTPUT_TILE = 32, COLUMN_TILE = 16 };

#define NORM_EPSILON ((real)1e-5)

static void linear_task(void *arg, size_t task)
{
	const struct linear *l = arg;
	struct tile t = tile_at(task, l->rows);

	gemm(t.rows, l->outputs, l->inputs, 1, plain(l->x + t.first * l->inputs, l->inputs),
	     transposed(l->w, l->inputs), l->accumulate, l->y + t.first * l->outputs, l->outputs);
}

void linear_forward(struct pool *pool, const struct linear *linear)
{
	pool_run(pool, pool_tiles(linear->rows, ROW_TILE), linear_task, (void *)linear);
}

/* The first tasks compute dx by rows, the others dw by outputs: one run, so that the few tasks of a
 * small dw do not leave threads idle. */
static void linear_gradient_task(void *arg, size_t task)
{
	const struct linear_gradient *l = arg;
	size_t row_tasks = pool_tiles(l->rows, ROW_TILE);

	if (task < row_tasks) {
		struct tile t = tile_at(task, l->rows);

		gemm(t.rows, l->inputs, l->outputs, 1,
		     plain(l->dy + t.first * l->outputs, l->outputs), plain(l->w, l->inputs),
		     l->accumulate, l->dx + t.first * l->inputs, l->inputs);
		return;
	}

	size_t first = (task - row_tasks) * OUTPUT_TILE;
	size_t outputs = l->outputs - first < OUTPUT_TILE ? l->outputs - first : OUTPUT_TILE;

	gemm(outputs, l->inputs, l->rows, 1, transposed(l->dy + first, l->outputs),
	     plain(l->x, l->inputs), true, l->dw + first * l->inputs, l->inputs);
}

void linear_backward(struct pool *pool, const struct linear_gradient *linear)
{
	pool_run(pool,
		 pool_tiles(linear->rows, ROW_TILE) + pool_tiles(linear->outputs, OUTPUT_TILE),
		 linear_gradient_task, (void *)linear);
}

static void norm_task(void *arg, size_t task)
{
	const struct norm *n = arg;
	struct tile t = tile_at(task, n->rows);

	for (size_t row = t.first; row < t.first + t.rows; row++) {
		const real *x = n->x + row * n->width;
		real *y = n->y + row * n->width;
		real square = 0;

		for (size_t i = 0; i < n->width; i++)
			square += x[i] * x[i];

		real scale = 1 / sqrt(square / (real)n->width + NORM_EPSILON);

		for (size_t i = 0; i < n->width; i++)
			y[i] = x[i] * scale * n->gain[i];
		n->scale[row] = scale;
	}
}

void norm_forward(struct pool *pool, const struct norm *norm)
{
	pool_run(pool, pool_tiles(norm->rows, ROW_TILE), norm_task, (void *)norm);
}

static void norm_gradient_task(void *arg, size_t task)
{
	const struct norm_gradient *n = arg;
	struct tile t = tile_at(task, n->rows);
	real *dgain = n->partial + task * n->width;

	memset(dgain, 0, n->width * sizeof(real));
	for (size_t row = t.first; row < t.first + t.rows; row++) {
		const real *x = n->x + row * n->width, *dy = n->dy + row * n->width;
		real *dx = n->dx + row * n->width;
		real scale = n->scale[row], dot = 0;

		for (size_t i = 0; i < n->width; i++) {
			real unit = x[i] * scale;

			dgain[i] += unit * dy[i];
			dot += unit * (dy[i] * n->gain[i]);
		}
		dot /= (real)n->width;
		for (size_t i = 0; i < n->width; i++)
			dx[i] += scale * (dy[i] * n->gain[i] - x[i] * scale * dot);
	}
}

size_t norm_partials(size_t rows, size_t width)
{
	return pool_tiles(rows, ROW_TILE) * width;
}

void norm_backward(struct pool *pool, const struct norm_gradient *norm)
{
	size_t tiles = pool_tiles(norm->rows, ROW_TILE);

	pool_run(pool, tiles, norm_gradient_task, (void *)norm);
	for (size_t tile = 0; tile < tiles; tile++)
		for (size_t i = 0; i < norm->width; i++)
			norm->dgain[i] += norm->partial[tile * norm->width + i];
}

static void embedding_task(void *arg, size_t task)
{
	const struct embedding *e = arg;
	struct tile t = tile_at(task, e->rows);

	for (size_t row = t.first; row < t.first + t.rows; row++) {
		size_t position = e->first_position + row % e->context;
		const real *token = e->embedding + e->tokens[row] * e->width;
		const real *place = e->position + position * e->width;

		for (size_t i = 0; i < e->width; i++)
			e->y[row * e->width + i] = token[i] + place[i];
	}
}

void embedding_forward(struct pool *pool, const struct embedding *embedding)
{
	pool_run(pool, pool_tiles(embedding->rows, ROW_TILE), embedding_task, (void *)embedding);
}

/* Many rows add to the same token, so tasks own columns and every task walks all rows in order. */
static void embedding_gradient_task(void *arg, size_t task)
{
	const struct embedding_gradient *e = arg;
	size_t first = task * COLUMN_TILE;
	size_t columns = e->width - first < COLUMN_TILE ? e->width - first : COLUMN_TILE;

	for (size_t row = 0; row < e->rows; row++) {
		const real *dy = e->dy + row * e->width + first;
		real *token = e->dembedding + e->tokens[row] * e->width + first;
		real *place = e->dposition + row % e->context * e->width + first;

		for (size_t i = 0; i < columns; i++) {
			token[i] += dy[i];
			place[i] += dy[i];
		}
	}
}

void embedding_backward(struct pool *pool, const struct embedding_gradient *embedding)
{
	pool_run(pool, pool_tiles(embedding->width, COLUMN_TILE), embedding_gradient_task,
		 (void *)embedding);
}

static void cross_entropy_task(void *arg, size_t task)
{
	const struct cross_entropy *c = arg;
	struct tile t = tile_at(task, c->rows);

	for (size_t row = t.first; row < t.first + t.rows; row++) {
		real *logits = c->logits + row * VOCABULARY;
		real target = logits[c->targets[row]], most = logits[0], sum = 0;

		for (int i = 1; i < VOCABULARY; i++)
			most = logits[i] > most ? logits[i] : most;
		for (int i = 0; i < VOCABULARY; i++) {
			logits[i] = exp(logits[i] - most);
			sum += logits[i];
		}
		for (int i = 0; i < VOCABULARY; i++)
			logits[i] /= sum;
		c->loss[row] = log(sum) + most - target;
	}
}

void cross_entropy_forward(struct pool *pool, const struct cross_entropy *loss)
{
	pool_run(pool, pool_tiles(loss->rows, ROW_TILE), cross_entropy_task, (void *)loss);
}

static void cross_entropy_gradient_task(void *arg, size_t task)
{
	const struct cross_entropy *c = arg;
	struct tile t = tile_at(task, c->rows);
	real share = 1 / (real)c->rows;

	for (size_t row = t.first; row < t.first + t.rows; row++) {
		real *logits = c->logits + row * VOCABULARY;

		logits[c->targets[row]] -= 1;
		for (int i = 0; i < VOCABULARY; i++)
			logits[i] *= share;
	}
}

void cross_entropy_backward(struct pool *pool, const struct cross_entropy *loss)
{
	pool_run(pool, pool_tiles(loss->rows, ROW_TILE), cross_entropy_gradient_task, (void *)loss);
}
