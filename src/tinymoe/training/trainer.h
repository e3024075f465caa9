/* SPDX-License-Identifier: Apache-2.0
 *
 * Training: the model with its optimizer, its text and its position in it.
 */
#ifndef TINYMOE_TRAINER_H
#define TINYMOE_TRAINER_H

#include <stdint.h>

#include "tinymoe/model/model.h"
#include "tinymoe/parameters/checkpoint.h"
#include "tinymoe/system/rng.h"
#include "tinymoe/training/corpus.h"
#include "tinymoe/training/optimizer.h"

struct trainer {
	struct model *model;	     /* owned */
	const struct corpus *corpus; /* borrowed; NULL if no step will be made */
	struct optimizer optimizer;
	struct rng batches;
	int64_t step; /* number of the next step */
	uint8_t *tokens, *targets;
};

int trainer_new(const struct config *config, int threads, const struct corpus *corpus,
		struct trainer **ret_trainer, struct failure *failure);
void trainer_free(struct trainer *trainer);

struct step_result {
	struct losses losses;
	double gradient_norm, learning_rate;
};

/* One step, reported with its number. Fails if the loss is not finite; the parameters are then those
 * before the step. */
int trainer_step(struct trainer *trainer, struct step_result *ret_result, struct failure *failure);

int trainer_save(const struct trainer *trainer, const char *path, struct failure *failure);

/* From an open checkpoint of the same architecture. */
int trainer_load(struct trainer *trainer, struct checkpoint_reader *reader,
		 struct failure *failure);

#endif
