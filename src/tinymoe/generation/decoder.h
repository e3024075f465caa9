/* SPDX-License-Identifier: Apache-2.0
 *
 * Generation: feeds the model token by token, with the keys and values of earlier tokens in a
 * cache. No token is dropped here, whatever the capacity factor: a token's result must not depend
 * on which others happen to be fed with it.
 */
#ifndef TINYMOE_DECODER_H
#define TINYMOE_DECODER_H

#include <moescope.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tinymoe/model/model.h"

struct notes;

struct decoder {
	const struct model *model;
	struct report report;
	real *cache;   /* [layers][keys, values][context, width] */
	void *block;   /* activations, shared by the layers in turn */
	size_t filled; /* tokens in the cache */
	struct layer_activations at;
	real *embedded, *last_normed, *last_scale;
	real *logits; /* [256] of the last token fed */
	int64_t *executed;
};

int decoder_new(const struct model *model, struct decoder **ret_decoder, struct failure *failure);
void decoder_free(struct decoder *decoder);

/* Feeds `count` tokens after those in the cache; filled + count must not exceed the context. */
void decoder_feed(struct decoder *decoder, const uint8_t *tokens, size_t count,
		  enum moescope_phase phase);
void decoder_clear(struct decoder *decoder);

struct generation {
	const char *prompt;
	size_t tokens;
	double temperature; /* 0: always the most probable byte */
	uint64_t seed;
	size_t sequences, repeats, warmup; /* repeats: 1 or more; warmup: additional ones before */
	struct notes *notes;		   /* records the times; NULL: not wanted */
};

/* Writes the prompt and what follows as it is generated: of the first sequence, the first time.
 * Several sequences get a token in turn, each from its own cache; they are not computed as a batch.
 * When a cache is full, the later half of the context is fed again and generation continues from
 * there. */
int generate(const struct model *model, const struct generation *generation, FILE *out,
	     struct failure *failure);

#endif
