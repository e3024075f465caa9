/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory that a model needs, from its configuration (Hugging Face's config.json, or the output
 * of 'tinymoe --describe'): before anything runs, to compare with the measurement. Pure, except for
 * reading.
 */
#ifndef LAB_ESTIMATE_H
#define LAB_ESTIMATE_H

#include "lab/engines/engine.h"

struct estimate {
	double parameters; /* of the main model: without additional prediction heads */
	double weights_bytes, cache_bytes, activation_bytes; /* on one GPU */
	double training_bytes; /* gradients, and two moments of AdamW in 32 bits */
	double total_bytes;
};

/* How activations are estimated. */
#define ESTIMATE_ACTIVATIONS                                                                       \
	"rough: the widest layer for every token of the prompts, or every layer for those of a training step, and the logits"

/* text: the configuration; what: its name in messages. -EINVAL: a size is missing or impossible. */
int estimate_from(const char *what, const char *text, size_t length, const struct experiment *e,
		  struct estimate *ret_estimate, struct err *err);
/* Finds the configuration of the experiment's model. -ENOENT with a sentence: there is none. */
int estimate_model(const struct experiment *e, const struct lab_tools *tools,
		   struct estimate *ret_estimate, struct err *err);

#endif
