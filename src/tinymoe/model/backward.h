/* SPDX-License-Identifier: Apache-2.0
 *
 * The backward pass (model_backward in model.h): what it needs to know about its memory.
 */
#ifndef TINYMOE_BACKWARD_H
#define TINYMOE_BACKWARD_H

#include <stddef.h>

#include "tinymoe/parameters/config.h"

/* Room for the gradients of the activations, one layer at a time. */
size_t backward_bytes(const struct config *config);

#endif
