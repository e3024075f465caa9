/* SPDX-License-Identifier: Apache-2.0
 *
 * The forward pass of a training step. Main thread; the operations run on the pool.
 */
#include "tinymoe/model/forward.h"

#include "tinymoe/math/ops.h"

static void input_layout(struct edge_activations *at, struct carver *carver,
			 const struct config *config)
{
	at->embedded = carve(carver, config_tokens(config) * (size_t)config->width, sizeof(real));
}

static void head_layout(struct edge_activations *at, struct carver *carver,
			const struct config *config)
{
	size_t tokens = config_tokens(config);

	at->normed = carve(carver, tokens * (size_t)config->width, sizeof(real));
	at->norm_scale = carve(carver, tokens, sizeof(real));
	at->logits = carve(carver, tokens * VOCABULARY, sizeof(real));
	at->loss = carve(carver, tokens, sizeof(real));
}

size_t forward_pairs(const struct config *config)
{
	return config_tokens(config) * (size_t)config->context;
}

static size_t input_bytes(const struct config *config)
{
	struct edge_activations at;
	struct carver carver = { 0 };

	input_layout(&at, &carver, config);
	return carver.used;
}

static size_t layer_bytes(const struct config *config)
{
	struct layer_activations at;
	struct carver carver = { 0 };

	layer_layout(&at, &carver, config, config_tokens(config), forward_pairs(config));
	return carver.used;
}

static size_t head_bytes(const struct config *config)
{
	struct edge_activations at;
	struct carver carver = { 0 };

	head_layout(&at, &carver, config);
	return carver.used;
}

size_t forward_bytes(const struct config *config)
{
	return input_bytes(config) + (size_t)config->layers * layer_bytes(config) +
	       head_bytes(config);
}

void forward_drop_head(struct model *model)
{
	arena_pop(&model->activations, model->edge.head_block);
}

void forward_drop_layer(struct model *model, int32_t layer)
{
	arena_pop(&model->activations, model->layers[layer].block);
}

void forward_drop_input(struct model *model)
{
	arena_pop(&model->activations, model->edge.input_block);
}

struct attention forward_attention(const struct model *model, const struct layer_activations *at)
{
	const struct config *c = &model->config;
	size_t width = (size_t)c->width;

	return (struct attention){
		.batch = (size_t)c->batch,
		.heads = (size_t)c->heads,
		.head_width = width / (size_t)c->heads,
		.queries = (size_t)c->context,
		.keys = (size_t)c->context,
		.q = at->qkv,
		.k = at->qkv + width,
		.v = at->qkv + 2 * width,
		.q_stride = 3 * width,
		.kv_stride = 3 * width,
		.prob = at->prob,
		.out = at->attended,
	};
}

static void embed(struct model *model)
{
	const struct config *c = &model->config;
	struct carver carver;
	struct embedding embedding;

	model->edge.input_block = arena_push(&model->activations, input_bytes(c));
	carver = (struct carver){ .base = model->edge.input_block };
	input_layout(&model->edge, &carver, c);
	embedding = (struct embedding){
		.rows = config_tokens(c),
		.width = (size_t)c->width,
		.context = (size_t)c->context,
		.tokens = model->tokens,
		.embedding = model_param(model, PARAM_EMBEDDING, 0),
		.position = model_param(model, PARAM_POSITION, 0),
		.y = model->edge.embedded,
	};
	report_begin(&model->report, OP_EMBEDDING);
	embedding_forward(model->pool, &embedding);
	report_end(&model->report, OP_EMBEDDING, embedding.rows, 0);
}

static void head(struct model *model, const real *x)
{
	const struct config *c = &model->config;
	const struct report *report = &model->report;
	size_t tokens = config_tokens(c), width = (size_t)c->width;
	struct edge_activations *at = &model->edge;
	struct carver carver;

	at->head_block = arena_push(&model->activations, head_bytes(c));
	carver = (struct carver){ .base = at->head_block };
	head_layout(at, &carver, c);

	report_begin(report, OP_NORM);
	norm_forward(model->pool, &(struct norm){ .rows = tokens,
						  .width = width,
						  .x = x,
						  .gain = model_param(model, PARAM_FINAL_NORM, 0),
						  .y = at->normed,
						  .scale = at->norm_scale });
	report_end(report, OP_NORM, tokens, 0);

	report_begin(report, OP_HEAD);
	linear_forward(model->pool, &(struct linear){ .rows = tokens,
						      .inputs = width,
						      .outputs = VOCABULARY,
						      .x = at->normed,
						      .w = model_param(model, PARAM_HEAD, 0),
						      .y = at->logits });
	report_end(report, OP_HEAD, tokens, 0);

	report_begin(report, OP_CROSS_ENTROPY);
	cross_entropy_forward(model->pool, &(struct cross_entropy){ .rows = tokens,
								    .targets = model->targets,
								    .logits = at->logits,
								    .loss = at->loss });
	report_end(report, OP_CROSS_ENTROPY, tokens, 0);
}

static void sum_losses(struct model *model, struct losses *losses)
{
	const struct config *c = &model->config;
	size_t tokens = config_tokens(c);

	*losses = (struct losses){ 0 };
	for (size_t i = 0; i < tokens; i++)
		losses->cross_entropy += model->edge.loss[i];
	losses->cross_entropy /= (double)tokens;
	for (int32_t layer = 0; layer < c->layers; layer++) {
		struct router_loss router = router_losses(c, &model->layers[layer].route);

		losses->balance += router.balance;
		losses->z += router.z;
	}
	losses->total = losses->cross_entropy + c->balance * losses->balance +
			c->z_loss * losses->z;
}

static const real *run_layer(struct model *model, int32_t layer, const real *x)
{
	const struct config *c = &model->config;
	const struct report *report = &model->report;
	struct layer_activations *at = &model->layers[layer];
	struct layer_block block = {
		.model = model,
		.report = report,
		.at = at,
		.layer = layer,
		.tokens = config_tokens(c),
		.capacity = router_capacity(c, config_tokens(c)),
		.phase = MOESCOPE_FORWARD,
		.executed = model->executed + layer * c->experts,
	};
	struct carver carver;
	struct attention attention;

	at->block = arena_push(&model->activations, layer_bytes(c));
	carver = (struct carver){ .base = at->block };
	layer_layout(at, &carver, c, config_tokens(c), forward_pairs(c));
	attention = forward_attention(model, at);

	report_range(report, RANGE_LAYER, layer, -1, MOESCOPE_PHASE_NONE);
	report_range(report, RANGE_ATTENTION, -1, -1, MOESCOPE_PHASE_NONE);
	layer_project(&block, x);
	layer_attend(&block, &attention, x);
	report_range_end();
	layer_moe(&block);
	report_range_end();
	return at->out;
}

void model_forward(struct model *model, const uint8_t *tokens, const uint8_t *targets,
		   struct losses *ret_losses)
{
	const real *x;

	model->tokens = tokens;
	model->targets = targets;
	report_range(&model->report, RANGE_FORWARD, -1, -1, MOESCOPE_FORWARD);
	embed(model);
	x = model->edge.embedded;
	for (int32_t layer = 0; layer < model->config.layers; layer++)
		x = run_layer(model, layer, x);
	head(model, x);
	sum_losses(model, ret_losses);
	report_range_end();
}

void model_discard(struct model *model)
{
	forward_drop_head(model);
	for (int32_t layer = model->config.layers - 1; layer >= 0; layer--)
		forward_drop_layer(model, layer);
	forward_drop_input(model);
}
