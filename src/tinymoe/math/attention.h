/* SPDX-License-Identifier: Apache-2.0
 *
 * Causal multi-head attention, in the three operations a profile shows. Training sees a batch of
 * whole sequences; the decoder sees one sequence whose earlier keys and values are in a cache. Both
 * are the same: query i of `queries` sees the first keys - queries + i + 1 of `keys`.
 */
#ifndef TINYMOE_ATTENTION_H
#define TINYMOE_ATTENTION_H

#include <stddef.h>

#include "tinymoe/system/pool.h"
#include "tinymoe/system/real.h"

struct attention {
	size_t batch, heads, head_width, queries, keys;
	const real *q, *k, *v;	    /* of sequence 0, head 0 */
	size_t q_stride, kv_stride; /* from one token to the next */
	real *prob;		    /* [batch, heads, queries, keys] */
	real *out;		    /* [batch*queries, heads*head_width] */
};

/* Query-key pairs over all sequences: those computed, and those visible. */
static inline size_t attention_pairs(const struct attention *a)
{
	return a->batch * a->queries * a->keys;
}

static inline size_t attention_seen_pairs(const struct attention *a)
{
	return a->batch * (a->queries * (a->keys - a->queries) + a->queries * (a->queries + 1) / 2);
}

/* prob = q * k^T / sqrt(head_width), all of it: the masked half is computed and counted too. */
void attention_scores(struct pool *pool, const struct attention *attention);
/* prob = softmax over what each row may see, 0 elsewhere. */
void attention_softmax(struct pool *pool, const struct attention *attention);
/* out = prob * v. */
void attention_values(struct pool *pool, const struct attention *attention);

struct attention_gradient {
	struct attention forward;
	const real *dout;
	real *dq, *dk, *dv; /* same strides as q, k and v */
	real *dprob;	    /* same shape as prob */
};

/* dprob = dout * v^T; dv = prob^T * dout. */
void attention_values_backward(struct pool *pool, const struct attention_gradient *attention);
/* dprob becomes the gradient of the scores. */
void attention_softmax_backward(struct pool *pool, const struct attention_gradient *attention);
/* dq = dprob * k; dk = dprob^T * q. */
void attention_scores_backward(struct pool *pool, const struct attention_gradient *attention);

#endif
