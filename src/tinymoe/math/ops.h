/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations around attention and experts, forward and backward, split into tasks of fixed size
 * and run on the pool. Every backward function adds to the parameter gradients it is given.
 */
#ifndef TINYMOE_OPS_H
#define TINYMOE_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tinymoe/system/pool.h"
#include "tinymoe/system/real.h"

/* Rows of a token tile. Part of the result: sums over tokens are taken tile by tile. */
enum { ROW_TILE = 128 };

/* The rows of task `tile`. */
struct tile {
	size_t first, rows;
};
static inline struct tile tile_at(size_t tile, size_t rows)
{
	size_t first = tile * ROW_TILE;

	return (struct tile){ first, rows - first < ROW_TILE ? rows - first : ROW_TILE };
}

/* y[rows,outputs] = x[rows,inputs] * w[outputs,inputs]^T, or += with `accumulate`. */
struct linear {
	size_t rows, inputs, outputs;
	const real *x, *w;
	real *y;
	bool accumulate;
};
void linear_forward(struct pool *pool, const struct linear *linear);

/* dx = dy * w (or +=); dw += dy^T * x. */
struct linear_gradient {
	size_t rows, inputs, outputs;
	const real *x, *w, *dy;
	real *dx, *dw;
	bool accumulate;
};
void linear_backward(struct pool *pool, const struct linear_gradient *linear);

/* y = x * scale * gain, scale = 1/sqrt(mean(x^2) + 1e-5), kept for the backward pass. */
struct norm {
	size_t rows, width;
	const real *x, *gain;
	real *y, *scale;
};
void norm_forward(struct pool *pool, const struct norm *norm);

/* dx += ...; dgain += ... . `partial` has norm_partials() values of room. */
struct norm_gradient {
	size_t rows, width;
	const real *x, *gain, *scale, *dy;
	real *dx, *dgain, *partial;
};
size_t norm_partials(size_t rows, size_t width);
void norm_backward(struct pool *pool, const struct norm_gradient *norm);

/* y[row] = embedding[tokens[row]] + position[first_position + row % context]. */
struct embedding {
	size_t rows, width, context, first_position;
	const uint8_t *tokens;
	const real *embedding, *position;
	real *y;
};
void embedding_forward(struct pool *pool, const struct embedding *embedding);

struct embedding_gradient {
	size_t rows, width, context;
	const uint8_t *tokens;
	const real *dy;
	real *dembedding, *dposition;
};
void embedding_backward(struct pool *pool, const struct embedding_gradient *embedding);

/* Turns logits[rows,256] into probabilities in place and loss[row] = -ln p(target). */
struct cross_entropy {
	size_t rows;
	const uint8_t *targets;
	real *logits, *loss;
};
void cross_entropy_forward(struct pool *pool, const struct cross_entropy *loss);

/* Turns the probabilities into the gradient of the mean loss, in place. */
void cross_entropy_backward(struct pool *pool, const struct cross_entropy *loss);

#endif
