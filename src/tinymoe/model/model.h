/* SPDX-License-Identifier: Apache-2.0
 *
 * The model: a decoder-only transformer over bytes with a mixture of experts in every layer.
 *
 *   x = embedding[token] + position
 *   per layer: x += attention(norm(x)); x += experts(norm(x))
 *   logits = head(norm(x))
 *
 * The loss is the mean cross-entropy plus, for each layer, balance * (load-balancing loss) and
 * z_loss * (router z-loss).
 *
 * A training step is model_forward, then model_backward (or model_discard). The main thread calls;
 * the pool's threads help inside. Results do not depend on the number of threads.
 */
#ifndef TINYMOE_MODEL_H
#define TINYMOE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tinymoe/model/layer.h"
#include "tinymoe/model/report.h"
#include "tinymoe/parameters/config.h"
#include "tinymoe/parameters/params.h"
#include "tinymoe/system/memory.h"
#include "tinymoe/system/pool.h"
#include "tinymoe/system/real.h"

struct failure;

/* Before the first layer and after the last. */
struct edge_activations {
	void *input_block, *head_block;
	real *embedded;
	real *normed, *norm_scale;
	real *logits; /* then probabilities, then their gradient */
	real *loss;   /* [tokens] */
};

struct losses {
	double cross_entropy;
	double balance, z; /* sums over the layers, without coefficients */
	double total;	   /* what is differentiated */
};

struct model {
	struct config config;
	struct param_layout layout;
	struct pool *pool;
	real *params;
	real *grads; /* NULL in a model that only generates */
	struct report report;

	struct arena activations, scratch;
	struct edge_activations edge;
	struct layer_activations *layers;
	const uint8_t *tokens, *targets; /* of the step in progress */
	int64_t *executed;		 /* [layers, experts] rows computed in the last forward */
};

/* A model with random parameters from config->seed. `training` adds gradients and the room for
 * a step. */
int model_new(const struct config *config, int threads, bool training, struct model **ret_model,
	      struct failure *failure);
void model_free(struct model *model);

static inline real *model_param(const struct model *model, enum param param, int32_t layer)
{
	return model->params + param_at(&model->layout, param, layer);
}

static inline real *model_grad(const struct model *model, enum param param, int32_t layer)
{
	return model->grads + param_at(&model->layout, param, layer);
}

/* tokens and targets: config_tokens() bytes each, alive until the backward pass is done. */
void model_forward(struct model *model, const uint8_t *tokens, const uint8_t *targets,
		   struct losses *ret_losses);

/* Adds the gradient of losses.total to model->grads and ends the step. */
void model_backward(struct model *model);

/* Ends the step without a backward pass. */
void model_discard(struct model *model);

#endif
