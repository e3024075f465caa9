/* SPDX-License-Identifier: Apache-2.0
 *
 * Generation: the model fed token by token, with the keys and values of earlier tokens in a cache.
 * No token is dropped here, whatever the capacity factor: what a token gets must not depend on
 * which others happen to be fed with it.
 */
#ifndef TINYMOE_DECODER_H
#define TINYMOE_DECODER_H

#include <moescope.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "model.h"

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
	size_t sequences, repeats, warmup; /* repeats: 1 or more; warmup: further ones before */
	struct notes *notes;		   /* takes the times; NULL: nobody wants them */
};

/* Writes the prompt and what follows, as it is made: of the first sequence, the first time. Several
 * sequences get a token in turn, each from its own cache; they are not computed as one. When a cache
 * is full the later half of the context is fed again and generation goes on from there. */
int generate(const struct model *model, const struct generation *generation, FILE *out,
	     struct failure *failure);

#endif
