/* SPDX-License-Identifier: Apache-2.0
 *
 * The training text, and batches of it.
 */
#ifndef TINYMOE_CORPUS_H
#define TINYMOE_CORPUS_H

#include <stddef.h>
#include <stdint.h>

#include "tinymoe/parameters/config.h"
#include "tinymoe/system/rng.h"

struct failure;

struct corpus {
	char *path;
	uint8_t *text;
	size_t bytes;
};

/* `path` NULL uses the text that comes with the program. Fails if it is shorter than a whole
 * context plus one byte. */
int corpus_load(struct corpus *corpus, const char *path, int32_t context, struct failure *failure);
void corpus_release(struct corpus *corpus);

/* config->batch random windows: tokens, and targets one byte further. */
void corpus_batch(const struct corpus *corpus, const struct config *config, struct rng *rng,
		  uint8_t *tokens, uint8_t *targets);

#endif
