/* SPDX-License-Identifier: Apache-2.0
 *
 * One layer forward: the attention half in two parts, between which the decoder puts keys and
 * values into its cache, and the expert half. Shared by training and generation.
 */
#ifndef TINYMOE_LAYER_H
#define TINYMOE_LAYER_H

#include <moescope.h>
#include <stddef.h>
#include <stdint.h>

#include "tinymoe/model/router.h"
#include "tinymoe/parameters/config.h"
#include "tinymoe/system/memory.h"
#include "tinymoe/system/real.h"

struct attention;
struct experts;
struct model;
struct report;

/* What one layer keeps from the forward for the backward pass. The layer's input is the previous
 * layer's output. */
struct layer_activations {
	void *block;
	real *normed, *norm_scale; /* of the attention */
	real *qkv;		   /* [tokens, 3*width] */
	real *prob;		   /* [batch, heads, context, context] */
	real *attended;		   /* [tokens, width] */
	real *middle;		   /* residual stream after the attention */
	real *moe_normed, *moe_norm_scale;
	struct route route;
	real *gathered, *gate_out, *up_out, *hidden, *expert_out;
	real *out; /* residual stream after the experts */
};

/* `pairs`: query-key pairs over all sequences. */
void layer_layout(struct layer_activations *at, struct carver *carver, const struct config *config,
		  size_t tokens, size_t pairs);

struct layer_block {
	const struct model *model;
	const struct report *report;
	struct layer_activations *at;
	int32_t layer;
	size_t tokens;
	int32_t capacity; /* as in router_dispatch */
	enum moescope_phase phase;
	int64_t *executed; /* [experts] */
};

/* x to at->qkv; then x and the attention over it to at->middle; then that to at->out. */
void layer_project(const struct layer_block *block, const real *x);
void layer_attend(const struct layer_block *block, const struct attention *attention,
		  const real *x);
void layer_moe(const struct layer_block *block);

/* The experts of the block; the backward pass starts from them too. */
struct experts layer_experts(const struct layer_block *block);

#endif
