/* SPDX-License-Identifier: Apache-2.0
 *
 * The router of one layer: which experts a token goes to, with what weight, and in which row of the
 * experts' input.
 *
 * A slot is one of the top_k places of a token, slot = token * top_k + rank, by falling probability
 * (ties: lower expert first). A slot is unused (its probability is under the dynamic-k threshold),
 * dropped (its expert was full) or has a row. Rows are sorted by expert, and within an expert by
 * slot: rows first[e] .. first[e+1]-1 are what expert e computes.
 */
#ifndef TINYMOE_ROUTER_H
#define TINYMOE_ROUTER_H

#include <stddef.h>
#include <stdint.h>

#include "tinymoe/parameters/config.h"
#include "tinymoe/system/memory.h"
#include "tinymoe/system/pool.h"
#include "tinymoe/system/real.h"

enum { SLOT_UNUSED = -1, ROW_NONE = -1 };

struct route {
	size_t tokens;
	size_t experts, top_k;
	real *prob;	   /* [tokens, experts] softmax over all experts */
	real *log_sum;	   /* [tokens] log of the sum of exp(logit): the z-loss squares it */
	int32_t *chosen;   /* [slots] expert or SLOT_UNUSED, before capacity */
	real *weight;	   /* [slots] probabilities of the used slots, summing to 1 per token */
	int32_t *row_of;   /* [slots] row or ROW_NONE */
	int32_t *slot_of;  /* [rows] */
	int32_t *first;	   /* [experts + 1] */
	int32_t *load;	   /* [experts] slots that chose the expert, before capacity */
	int32_t *filled;   /* [experts] scratch of the dispatch */
	int32_t *reported; /* [slots] as moescope_route takes it */
	real *pull;	   /* [experts] gradient of the balancing loss for every token's prob */
};

void route_layout(struct route *route, struct carver *carver, const struct config *config,
		  size_t tokens);

static inline size_t route_rows(const struct route *route)
{
	return (size_t)route->first[route->experts];
}

/* Probabilities, choice and weights from x[tokens,width]. */
void router_forward(struct pool *pool, const struct config *config, const real *x, const real *w,
		    int32_t layer, struct route *route);

/* Rows from the choice. `capacity`: the most rows an expert takes. */
void router_dispatch(struct route *route, int32_t capacity);

/* ceil(factor * tokens * k / experts), or no limit at factor 0. */
int32_t router_capacity(const struct config *config, size_t tokens);

/* The two auxiliary losses of this layer, without their coefficients: experts * sum of (share of
 * slots * mean probability), which is 1 when balanced, and mean of log_sum squared. Stores in
 * route->pull what the backward pass needs. */
struct router_loss {
	double balance, z;
};
struct router_loss router_losses(const struct config *config, struct route *route);

/* From dweight[slots] to dlogits[tokens,experts], including auxiliary losses. */
void router_backward(struct pool *pool, const struct config *config, const struct route *route,
		     const real *dweight, real *dlogits);

#endif
