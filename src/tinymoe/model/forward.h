/* SPDX-License-Identifier: Apache-2.0
 *
 * The forward pass (model_forward in model.h): what it needs to know about its memory.
 */
#ifndef TINYMOE_FORWARD_H
#define TINYMOE_FORWARD_H

#include <stddef.h>

#include "tinymoe/math/attention.h"
#include "tinymoe/model/model.h"

/* Room for the activations of one step. */
size_t forward_bytes(const struct config *config);

/* Blocks are pushed in the order input, layers, head and dropped in reverse. */
void forward_drop_head(struct model *model);
void forward_drop_layer(struct model *model, int32_t layer);
void forward_drop_input(struct model *model);

/* The attention of a training step, which the backward pass needs again. */
struct attention forward_attention(const struct model *model, const struct layer_activations *at);

/* Query-key pairs of a training step. */
size_t forward_pairs(const struct config *config);

#endif
