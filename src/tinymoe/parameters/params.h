/* SPDX-License-Identifier: Apache-2.0
 *
 * The place of each parameter in the one flat array that holds them all. Gradients and optimizer
 * moments use the same layout, and a checkpoint is these arrays.
 *
 * Matrices are [outputs, inputs], row-major: y = x * W^T. Q, K and V of a layer are adjacent, so
 * they are also one [3*width, width] matrix.
 */
#ifndef TINYMOE_PARAMS_H
#define TINYMOE_PARAMS_H

#include <stdbool.h>
#include <stddef.h>

#include "tinymoe/parameters/config.h"
#include "tinymoe/system/real.h"

struct rng;

enum param {
	PARAM_EMBEDDING, /* [256, width] */
	PARAM_POSITION,	 /* [context, width] */
	PARAM_ATTENTION_NORM,
	PARAM_QUERY,
	PARAM_KEY,
	PARAM_VALUE,
	PARAM_OUTPUT,
	PARAM_MOE_NORM,
	PARAM_ROUTER, /* [experts, width] */
	PARAM_GATE,   /* [experts, expert_width, width] */
	PARAM_UP,     /* [experts, expert_width, width] */
	PARAM_DOWN,   /* [experts, width, expert_width] */
	PARAM_FINAL_NORM,
	PARAM_HEAD, /* [256, width] */
	PARAM_COUNT,
};

struct param_layout {
	size_t offset[PARAM_COUNT]; /* of layer 0 */
	size_t size[PARAM_COUNT];   /* of one layer */
	size_t layer_stride;
	size_t total;
	int32_t layers;
};

void param_layout_init(struct param_layout *layout, const struct config *config);
const char *param_name(enum param param);
bool param_in_layers(enum param param);

/* Norm gains are not pulled towards zero. */
bool param_decays(enum param param);

/* `layer` is ignored for parameters outside layers. */
size_t param_at(const struct param_layout *layout, enum param param, int32_t layer);

void params_randomize(const struct param_layout *layout, const struct config *config,
		      struct rng *rng, real *values);

#endif
