/* SPDX-License-Identifier: Apache-2.0
 *
 * The decoder. Main thread; the operations run on the pool.
 */
#include "tinymoe/generation/decoder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tinymoe/math/attention.h"
#include "tinymoe/math/ops.h"
#include "tinymoe/system/failure.h"

static void decoder_layout(struct decoder *decoder, struct carver *carver)
{
	const struct config *c = &decoder->model->config;
	size_t context = (size_t)c->context, width = (size_t)c->width;

	layer_layout(&decoder->at, carver, c, context, context * context);
	decoder->embedded = carve(carver, context * width, sizeof(real));
	decoder->last_normed = carve(carver, width, sizeof(real));
	decoder->last_scale = carve(carver, 1, sizeof(real));
	decoder->logits = carve(carver, VOCABULARY, sizeof(real));
	decoder->executed = carve(carver, (size_t)c->experts, sizeof(int64_t));
}

int decoder_new(const struct model *model, struct decoder **ret_decoder, struct failure *failure)
{
	const struct config *c = &model->config;
	struct decoder *decoder = calloc(1, sizeof(*decoder));
	struct carver carver = { 0 };
	size_t cache_values = (size_t)c->layers * 2 * (size_t)c->context * (size_t)c->width;

	if (!decoder)
		return failure_set(failure, ENOMEM, "there is not enough memory to generate");
	decoder->model = model;
	decoder_layout(decoder, &carver);
	decoder->block = memory_new(carver.used, MOESCOPE_MEMORY_ACTIVATIONS,
				    "decoder activations");
	decoder->cache = memory_new(cache_values * sizeof(real), MOESCOPE_MEMORY_CACHE, "kv cache");
	if (!decoder->block || !decoder->cache ||
	    report_init(&decoder->report, c, (size_t)c->context, 0) < 0) {
		decoder_free(decoder);
		return failure_set(failure, ENOMEM,
				   "there is not enough memory to generate with --context %d",
				   c->context);
	}
	carver = (struct carver){ .base = decoder->block };
	decoder_layout(decoder, &carver);
	*ret_decoder = decoder;
	return 0;
}

void decoder_free(struct decoder *decoder)
{
	if (!decoder)
		return;
	report_release(&decoder->report);
	memory_free(decoder->cache);
	memory_free(decoder->block);
	free(decoder);
}

void decoder_clear(struct decoder *decoder)
{
	decoder->filled = 0;
}

static void store_keys_and_values(struct decoder *decoder, real *keys, real *values, size_t count)
{
	size_t width = (size_t)decoder->model->config.width;

	for (size_t i = 0; i < count; i++) {
		const real *row = decoder->at.qkv + i * 3 * width;
		size_t to = (decoder->filled + i) * width;

		memcpy(keys + to, row + width, width * sizeof(real));
		memcpy(values + to, row + 2 * width, width * sizeof(real));
	}
}

static void feed_layer(struct decoder *decoder, int32_t layer, const real *x, size_t count,
		       enum moescope_phase phase)
{
	const struct config *c = &decoder->model->config;
	size_t width = (size_t)c->width, plane = (size_t)c->context * width;
	real *keys = decoder->cache + (size_t)layer * 2 * plane, *values = keys + plane;
	struct layer_block block = {
		.model = decoder->model,
		.report = &decoder->report,
		.at = &decoder->at,
		.layer = layer,
		.tokens = count,
		.capacity = INT32_MAX,
		.phase = phase,
		.executed = decoder->executed,
	};
	struct attention attention = {
		.batch = 1,
		.heads = (size_t)c->heads,
		.head_width = width / (size_t)c->heads,
		.queries = count,
		.keys = decoder->filled + count,
		.q = decoder->at.qkv,
		.k = keys,
		.v = values,
		.q_stride = 3 * width,
		.kv_stride = width,
		.prob = decoder->at.prob,
		.out = decoder->at.attended,
	};

	report_range(&decoder->report, RANGE_LAYER, layer, -1, MOESCOPE_PHASE_NONE);
	report_range(&decoder->report, RANGE_ATTENTION, -1, -1, MOESCOPE_PHASE_NONE);
	layer_project(&block, x);
	store_keys_and_values(decoder, keys, values, count);
	layer_attend(&block, &attention, x);
	report_range_end();
	layer_moe(&block);
	report_range_end();
}

/* Only the last token's logits matter. */
static void feed_head(struct decoder *decoder, const real *x, size_t count)
{
	const struct model *model = decoder->model;
	const struct report *report = &decoder->report;
	size_t width = (size_t)model->config.width;

	report_begin(report, OP_NORM);
	norm_forward(model->pool, &(struct norm){ .rows = 1,
						  .width = width,
						  .x = x + (count - 1) * width,
						  .gain = model_param(model, PARAM_FINAL_NORM, 0),
						  .y = decoder->last_normed,
						  .scale = decoder->last_scale });
	report_end(report, OP_NORM, 1, 0);
	report_begin(report, OP_HEAD);
	linear_forward(model->pool, &(struct linear){ .rows = 1,
						      .inputs = width,
						      .outputs = VOCABULARY,
						      .x = decoder->last_normed,
						      .w = model_param(model, PARAM_HEAD, 0),
						      .y = decoder->logits });
	report_end(report, OP_HEAD, 1, 0);
}

void decoder_feed(struct decoder *decoder, const uint8_t *tokens, size_t count,
		  enum moescope_phase phase)
{
	const struct model *model = decoder->model;
	const struct report *report = &decoder->report;
	const real *x = decoder->embedded;

	report_range(report, phase == MOESCOPE_PREFILL ? RANGE_PREFILL : RANGE_DECODE, -1, -1,
		     phase);
	decoder->at.route.tokens = count;
	report_begin(report, OP_EMBEDDING);
	embedding_forward(model->pool, &(struct embedding){
					       .rows = count,
					       .width = (size_t)model->config.width,
					       .context = (size_t)model->config.context,
					       .first_position = decoder->filled,
					       .tokens = tokens,
					       .embedding = model_param(model, PARAM_EMBEDDING, 0),
					       .position = model_param(model, PARAM_POSITION, 0),
					       .y = decoder->embedded,
				       });
	report_end(report, OP_EMBEDDING, count, 0);
	for (int32_t layer = 0; layer < model->config.layers; layer++) {
		feed_layer(decoder, layer, x, count, phase);
		x = decoder->at.out;
	}
	feed_head(decoder, x, count);
	decoder->filled += count;
	report_range_end();
}
