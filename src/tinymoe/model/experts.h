/* SPDX-License-Identifier: Apache-2.0
 *
 * The experts of one layer: gather each expert's tokens, compute, add the weighted results to the
 * residual stream. An expert is a gated feed-forward network: down(silu(gate(x)) * up(x)).
 *
 * One task is one expert, so a thread's time in an expert follows from the expert's load: the cost
 * of an unbalanced router is really visible.
 */
#ifndef TINYMOE_EXPERTS_H
#define TINYMOE_EXPERTS_H

#include <moescope.h>
#include <stddef.h>
#include <stdint.h>

#include "tinymoe/model/router.h"
#include "tinymoe/system/pool.h"
#include "tinymoe/system/real.h"

struct report;

struct experts {
	const struct report *report;
	const struct route *route;
	size_t width, inner;
	int32_t layer;
	enum moescope_phase phase;
	const real *gate, *up, *down; /* weights of expert 0 */
	const real *x;		      /* [tokens, width] */
	const real *residual;	      /* [tokens, width] */
	real *gathered;		      /* [rows, width] */
	real *gate_out, *up_out;      /* [rows, inner] */
	real *hidden;		      /* [rows, inner] silu(gate_out) * up_out */
	real *expert_out;	      /* [rows, width] */
	real *y;		      /* [tokens, width] */
	int64_t *executed;	      /* [experts] rows that each expert actually computed */
};

void experts_gather(struct pool *pool, const struct experts *experts);
void experts_forward(struct pool *pool, const struct experts *experts);
void experts_combine(struct pool *pool, const struct experts *experts);

struct experts_gradient {
	struct experts forward;
	const real *dy;			     /* [tokens, width] */
	real *dweight;			     /* [slots] */
	real *dexpert_out;		     /* [rows, width] */
	real *dhidden, *dgate_out, *dup_out; /* [rows, inner] */
	real *dgathered;		     /* [rows, width] */
	real *dx;			     /* [tokens, width] */
	real *dgate, *dup, *ddown;	     /* added to */
};

/* In this order: dy to dexpert_out and dweight, then to dgathered, then to dx. */
void experts_combine_backward(struct pool *pool, const struct experts_gradient *experts);
void experts_backward(struct pool *pool, const struct experts_gradient *experts);
void experts_gather_backward(struct pool *pool, const struct experts_gradient *experts);

#endif
