/* SPDX-License-Identifier: Apache-2.0
 *
 * AdamW with gradient clipping by global norm, and the learning-rate schedule: linear warm-up, then
 * a cosine down to a tenth over config.schedule steps, and that floor afterwards. The schedule does
 * not depend on how many steps this run makes, so N steps and M resumed ones equal N + M.
 */
#ifndef TINYMOE_OPTIMIZER_H
#define TINYMOE_OPTIMIZER_H

#include <stddef.h>
#include <stdint.h>

#include "tinymoe/model/model.h"
#include "tinymoe/system/real.h"

struct segment;

struct optimizer {
	real *mean, *square; /* moments, laid out like the parameters */
	struct segment *segments;
	size_t segment_count;
	double *partial; /* [segment_count] */
};

int optimizer_init(struct optimizer *optimizer, const struct model *model);
void optimizer_release(struct optimizer *optimizer);

/* Learning rate of a step, counted from 0. */
double optimizer_rate(const struct config *config, int64_t step);

/* One update; clears the gradients. Returns the gradient's global norm before clipping. */
double optimizer_step(struct optimizer *optimizer, struct model *model, int64_t step);

#endif
