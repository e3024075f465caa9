/* SPDX-License-Identifier: Apache-2.0
 *
 * The experts. Gather and combine run on tiles of rows or tokens; the experts themselves are one
 * task each, on any thread of the pool, and report from there: the profiler inherits layer, expert
 * and phase along a thread's ranges, so the expert's range names all three.
 */
#include "tinymoe/model/experts.h"

#include <string.h>
#include <tgmath.h>

#include "tinymoe/math/gemm.h"
#include "tinymoe/math/ops.h"
#include "tinymoe/model/report.h"

static void gather_task(void *arg, size_t task)
{
	const struct experts *x = arg;
	const struct route *r = x->route;
	struct tile t = tile_at(task, route_rows(r));

	for (size_t row = t.first; row < t.first + t.rows; row++) {
		size_t token = (size_t)r->slot_of[row] / r->top_k;

		memcpy(x->gathered + row * x->width, x->x + token * x->width,
		       x->width * sizeof(real));
	}
}

void experts_gather(struct pool *pool, const struct experts *experts)
{
	pool_run(pool, pool_tiles(route_rows(experts->route), ROW_TILE), gather_task,
		 (void *)experts);
}

static void activation(size_t count, const real *gate, const real *up, real *hidden)
{
	for (size_t i = 0; i < count; i++)
		hidden[i] = gate[i] / (1 + exp(-gate[i])) * up[i];
}

/* The rows of one expert and where its matrices start. */
struct share {
	size_t first, rows, weights;
};

static struct share share_of(const struct experts *x, size_t expert)
{
	size_t first = (size_t)x->route->first[expert];

	return (struct share){
		.first = first,
		.rows = (size_t)x->route->first[expert + 1] - first,
		.weights = expert * x->inner * x->width,
	};
}

static void expert_task(void *arg, size_t expert)
{
	const struct experts *x = arg;
	struct share s = share_of(x, expert);
	const real *in = x->gathered + s.first * x->width;
	size_t inner_at = s.first * x->inner;

	x->executed[expert] = (int64_t)s.rows;
	if (!s.rows)
		return;
	report_range(x->report, RANGE_EXPERT, x->layer, (int32_t)expert, x->phase);

	report_begin(x->report, OP_EXPERT_GATE);
	gemm(s.rows, x->inner, x->width, 1, plain(in, x->width),
	     transposed(x->gate + s.weights, x->width), false, x->gate_out + inner_at, x->inner);
	report_end(x->report, OP_EXPERT_GATE, s.rows, 0);

	report_begin(x->report, OP_EXPERT_UP);
	gemm(s.rows, x->inner, x->width, 1, plain(in, x->width),
	     transposed(x->up + s.weights, x->width), false, x->up_out + inner_at, x->inner);
	report_end(x->report, OP_EXPERT_UP, s.rows, 0);

	report_begin(x->report, OP_EXPERT_ACTIVATION);
	activation(s.rows * x->inner, x->gate_out + inner_at, x->up_out + inner_at,
		   x->hidden + inner_at);
	report_end(x->report, OP_EXPERT_ACTIVATION, s.rows, 0);

	report_begin(x->report, OP_EXPERT_DOWN);
	gemm(s.rows, x->width, x->inner, 1, plain(x->hidden + inner_at, x->inner),
	     transposed(x->down + s.weights, x->inner), false, x->expert_out + s.first * x->width,
	     x->width);
	report_end(x->report, OP_EXPERT_DOWN, s.rows, 0);

	report_range_end();
}

void experts_forward(struct pool *pool, const struct experts *experts)
{
	pool_run(pool, experts->route->experts, expert_task, (void *)experts);
}

static void combine_task(void *arg, size_t task)
{
	const struct experts *x = arg;
	const struct route *r = x->route;
	struct tile t = tile_at(task, r->tokens);

	for (size_t token = t.first; token < t.first + t.rows; token++) {
		real *y = x->y + token * x->width;

		memcpy(y, x->residual + token * x->width, x->width * sizeof(real));
		for (size_t slot = token * r->top_k; slot < (token + 1) * r->top_k; slot++) {
			if (r->row_of[slot] == ROW_NONE)
				continue;

			const real *out = x->expert_out + (size_t)r->row_of[slot] * x->width;

			for (size_t i = 0; i < x->width; i++)
				y[i] += r->weight[slot] * out[i];
		}
	}
}

void experts_combine(struct pool *pool, const struct experts *experts)
{
	pool_run(pool, pool_tiles(experts->route->tokens, ROW_TILE), combine_task, (void *)experts);
}

static void combine_gradient_task(void *arg, size_t task)
{
	const struct experts_gradient *g = arg;
	const struct experts *x = &g->forward;
	const struct route *r = x->route;
	struct tile t = tile_at(task, r->tokens);

	for (size_t slot = t.first * r->top_k; slot < (t.first + t.rows) * r->top_k; slot++) {
		const real *dy = g->dy + slot / r->top_k * x->width;

		g->dweight[slot] = 0;
		if (r->row_of[slot] == ROW_NONE)
			continue;

		const real *out = x->expert_out + (size_t)r->row_of[slot] * x->width;
		real *dout = g->dexpert_out + (size_t)r->row_of[slot] * x->width;
		real dot = 0;

		for (size_t i = 0; i < x->width; i++) {
			dot += dy[i] * out[i];
			dout[i] = r->weight[slot] * dy[i];
		}
		g->dweight[slot] = dot;
	}
}

void experts_combine_backward(struct pool *pool, const struct experts_gradient *experts)
{
	pool_run(pool, pool_tiles(experts->forward.route->tokens, ROW_TILE), combine_gradient_task,
		 (void *)experts);
}

static void activation_backward(const struct experts_gradient *g, size_t first, size_t count)
{
	for (size_t i = first; i < first + count; i++) {
		real gate = g->forward.gate_out[i], up = g->forward.up_out[i];
		real sigmoid = 1 / (1 + exp(-gate));

		g->dup_out[i] = g->dhidden[i] * (gate * sigmoid);
		g->dgate_out[i] = g->dhidden[i] * up * (sigmoid * (1 + gate * (1 - sigmoid)));
	}
}

/* Backward of y = x * w^T for an expert's rows: dx (or +=) and dw +=. */
static void expert_linear_backward(size_t rows, size_t inputs, size_t outputs, const real *x,
				   const real *w, const real *dy, bool accumulate, real *dx,
				   real *dw)
{
	gemm(rows, inputs, outputs, 1, plain(dy, outputs), plain(w, inputs), accumulate, dx,
	     inputs);
	gemm(outputs, inputs, rows, 1, transposed(dy, outputs), plain(x, inputs), true, dw, inputs);
}

static void expert_gradient_task(void *arg, size_t expert)
{
	const struct experts_gradient *g = arg;
	const struct experts *x = &g->forward;
	struct share s = share_of(x, expert);
	size_t outer_at = s.first * x->width, inner_at = s.first * x->inner;

	if (!s.rows)
		return;
	report_range(x->report, RANGE_EXPERT, x->layer, (int32_t)expert, x->phase);

	report_begin(x->report, OP_EXPERT_DOWN_BACKWARD);
	expert_linear_backward(s.rows, x->inner, x->width, x->hidden + inner_at,
			       x->down + s.weights, g->dexpert_out + outer_at, false,
			       g->dhidden + inner_at, g->ddown + s.weights);
	report_end(x->report, OP_EXPERT_DOWN_BACKWARD, s.rows, 0);

	report_begin(x->report, OP_EXPERT_ACTIVATION_BACKWARD);
	activation_backward(g, inner_at, s.rows * x->inner);
	report_end(x->report, OP_EXPERT_ACTIVATION_BACKWARD, s.rows, 0);

	report_begin(x->report, OP_EXPERT_UP_BACKWARD);
	expert_linear_backward(s.rows, x->width, x->inner, x->gathered + outer_at,
			       x->up + s.weights, g->dup_out + inner_at, false,
			       g->dgathered + outer_at, g->dup + s.weights);
	report_end(x->report, OP_EXPERT_UP_BACKWARD, s.rows, 0);

	report_begin(x->report, OP_EXPERT_GATE_BACKWARD);
	expert_linear_backward(s.rows, x->width, x->inner, x->gathered + outer_at,
			       x->gate + s.weights, g->dgate_out + inner_at, true,
			       g->dgathered + outer_at, g->dgate + s.weights);
	report_end(x->report, OP_EXPERT_GATE_BACKWARD, s.rows, 0);

	report_range_end();
}

void experts_backward(struct pool *pool, const struct experts_gradient *experts)
{
	pool_run(pool, experts->forward.route->experts, expert_gradient_task, (void *)experts);
}

static void gather_gradient_task(void *arg, size_t task)
{
	const struct experts_gradient *g = arg;
	const struct experts *x = &g->forward;
	const struct route *r = x->route;
	struct tile t = tile_at(task, r->tokens);

	memset(g->dx + t.first * x->width, 0, t.rows * x->width * sizeof(real));
	for (size_t slot = t.first * r->top_k; slot < (t.first + t.rows) * r->top_k; slot++) {
		if (r->row_of[slot] == ROW_NONE)
			continue;

		const real *from = g->dgathered + (size_t)r->row_of[slot] * x->width;
		real *to = g->dx + slot / r->top_k * x->width;

		for (size_t i = 0; i < x->width; i++)
			to[i] += from[i];
	}
}

void experts_gather_backward(struct pool *pool, const struct experts_gradient *experts)
{
	pool_run(pool, pool_tiles(experts->forward.route->tokens, ROW_TILE), gather_gradient_task,
		 (void *)experts);
}
