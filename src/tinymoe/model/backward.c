/* SPDX-License-Identifier: Apache-2.0
 *
 * The backward pass of a training step: the forward pass in reverse. Main thread; the operations
 * run on the pool.
 *
 * `stream` is the gradient of the residual stream: each half of a layer adds what flows through its
 * branch. Activations of a layer are dropped as soon as its gradients are computed.
 */
#include "tinymoe/model/backward.h"

#include "tinymoe/math/ops.h"
#include "tinymoe/model/experts.h"
#include "tinymoe/model/forward.h"
#include "tinymoe/model/model.h"

struct scratch {
	real *stream;  /* [tokens, width] */
	real *dnormed; /* [tokens, width] gradient after a norm */
	real *dattended;
	real *dqkv;
	real *dprob;
	real *partial; /* of the norm gains */
	real *dweight, *dlogits;
	real *dexpert_out, *dhidden, *dgate_out, *dup_out, *dgathered;
};

static void scratch_layout(struct scratch *s, struct carver *carver, const struct config *c)
{
	size_t tokens = config_tokens(c), width = (size_t)c->width;
	size_t rows = tokens * (size_t)c->top_k, inner = (size_t)c->expert_width;

	s->stream = carve(carver, tokens * width, sizeof(real));
	s->dnormed = carve(carver, tokens * width, sizeof(real));
	s->dattended = carve(carver, tokens * width, sizeof(real));
	s->dqkv = carve(carver, tokens * 3 * width, sizeof(real));
	s->dprob = carve(carver, (size_t)c->heads * forward_pairs(c), sizeof(real));
	s->partial = carve(carver, norm_partials(tokens, width), sizeof(real));
	s->dweight = carve(carver, rows, sizeof(real));
	s->dlogits = carve(carver, tokens * (size_t)c->experts, sizeof(real));
	s->dexpert_out = carve(carver, rows * width, sizeof(real));
	s->dhidden = carve(carver, rows * inner, sizeof(real));
	s->dgate_out = carve(carver, rows * inner, sizeof(real));
	s->dup_out = carve(carver, rows * inner, sizeof(real));
	s->dgathered = carve(carver, rows * width, sizeof(real));
}

size_t backward_bytes(const struct config *config)
{
	struct scratch scratch;
	struct carver carver = { 0 };

	scratch_layout(&scratch, &carver, config);
	return carver.used;
}

/* dnormed through a norm into the stream. */
static void norm_gradient(struct model *model, struct scratch *s, enum param gain, int32_t layer,
			  const real *x, const real *scale)
{
	size_t tokens = config_tokens(&model->config);

	report_begin(&model->report, OP_NORM_BACKWARD);
	norm_backward(model->pool, &(struct norm_gradient){
					   .rows = tokens,
					   .width = (size_t)model->config.width,
					   .x = x,
					   .gain = model_param(model, gain, layer),
					   .scale = scale,
					   .dy = s->dnormed,
					   .dx = s->stream,
					   .dgain = model_grad(model, gain, layer),
					   .partial = s->partial,
				   });
	report_end(&model->report, OP_NORM_BACKWARD, tokens, 0);
}

static void head_gradient(struct model *model, struct scratch *s, const real *x)
{
	const struct report *report = &model->report;
	size_t tokens = config_tokens(&model->config), width = (size_t)model->config.width;
	struct edge_activations *at = &model->edge;

	report_begin(report, OP_CROSS_ENTROPY_BACKWARD);
	cross_entropy_backward(model->pool, &(struct cross_entropy){ .rows = tokens,
								     .targets = model->targets,
								     .logits = at->logits });
	report_end(report, OP_CROSS_ENTROPY_BACKWARD, tokens, 0);

	report_begin(report, OP_HEAD_BACKWARD);
	linear_backward(model->pool, &(struct linear_gradient){
					     .rows = tokens,
					     .inputs = width,
					     .outputs = VOCABULARY,
					     .x = at->normed,
					     .w = model_param(model, PARAM_HEAD, 0),
					     .dy = at->logits,
					     .dx = s->dnormed,
					     .dw = model_grad(model, PARAM_HEAD, 0),
				     });
	report_end(report, OP_HEAD_BACKWARD, tokens, 0);

	/* The last norm has no residual: the stream starts here. */
	for (size_t i = 0; i < tokens * width; i++)
		s->stream[i] = 0;
	norm_gradient(model, s, PARAM_FINAL_NORM, 0, x, at->norm_scale);
	forward_drop_head(model);
}

static struct experts_gradient experts_of(struct model *model, struct scratch *s, int32_t layer)
{
	struct layer_block block = {
		.model = model,
		.report = &model->report,
		.at = &model->layers[layer],
		.layer = layer,
		.phase = MOESCOPE_BACKWARD,
	};

	return (struct experts_gradient){
		.forward = layer_experts(&block),
		.dy = s->stream,
		.dweight = s->dweight,
		.dexpert_out = s->dexpert_out,
		.dhidden = s->dhidden,
		.dgate_out = s->dgate_out,
		.dup_out = s->dup_out,
		.dgathered = s->dgathered,
		.dx = s->dnormed,
		.dgate = model_grad(model, PARAM_GATE, layer),
		.dup = model_grad(model, PARAM_UP, layer),
		.ddown = model_grad(model, PARAM_DOWN, layer),
	};
}

static void moe_gradient(struct model *model, struct scratch *s, int32_t layer)
{
	const struct report *report = &model->report;
	const struct config *c = &model->config;
	struct layer_activations *at = &model->layers[layer];
	struct experts_gradient experts = experts_of(model, s, layer);
	size_t rows = route_rows(&at->route);

	report_range(report, RANGE_EXPERTS, -1, -1, MOESCOPE_PHASE_NONE);
	report_begin(report, OP_COMBINE_BACKWARD);
	experts_combine_backward(model->pool, &experts);
	report_end(report, OP_COMBINE_BACKWARD, rows, 0);
	experts_backward(model->pool, &experts);
	report_range_end();

	report_range(report, RANGE_ROUTING, -1, -1, MOESCOPE_PHASE_NONE);
	report_begin(report, OP_DISPATCH_BACKWARD);
	experts_gather_backward(model->pool, &experts);
	report_end(report, OP_DISPATCH_BACKWARD, rows, 0);

	report_begin(report, OP_ROUTER_BACKWARD);
	router_backward(model->pool, c, &at->route, s->dweight, s->dlogits);
	linear_backward(model->pool, &(struct linear_gradient){
					     .rows = config_tokens(c),
					     .inputs = (size_t)c->width,
					     .outputs = (size_t)c->experts,
					     .x = at->moe_normed,
					     .w = model_param(model, PARAM_ROUTER, layer),
					     .dy = s->dlogits,
					     .dx = s->dnormed,
					     .dw = model_grad(model, PARAM_ROUTER, layer),
					     .accumulate = true,
				     });
	report_end(report, OP_ROUTER_BACKWARD, config_tokens(c), 0);
	norm_gradient(model, s, PARAM_MOE_NORM, layer, at->middle, at->moe_norm_scale);
	report_range_end();
}

static void attention_core_gradient(struct model *model, struct scratch *s,
				    const struct layer_activations *at)
{
	const struct report *report = &model->report;
	size_t width = (size_t)model->config.width, tokens = config_tokens(&model->config);
	struct attention_gradient attention = {
		.forward = forward_attention(model, at),
		.dout = s->dattended,
		.dq = s->dqkv,
		.dk = s->dqkv + width,
		.dv = s->dqkv + 2 * width,
		.dprob = s->dprob,
	};

	report_begin(report, OP_VALUES_BACKWARD);
	attention_values_backward(model->pool, &attention);
	report_end(report, OP_VALUES_BACKWARD, 2 * tokens, attention_pairs(&attention.forward));
	report_begin(report, OP_SOFTMAX_BACKWARD);
	attention_softmax_backward(model->pool, &attention);
	report_end(report, OP_SOFTMAX_BACKWARD, 0, attention_seen_pairs(&attention.forward));
	report_begin(report, OP_SCORES_BACKWARD);
	attention_scores_backward(model->pool, &attention);
	report_end(report, OP_SCORES_BACKWARD, 2 * tokens, attention_pairs(&attention.forward));
}

static void attention_block_gradient(struct model *model, struct scratch *s, int32_t layer,
				     const real *x)
{
	const struct report *report = &model->report;
	size_t tokens = config_tokens(&model->config), width = (size_t)model->config.width;
	const struct layer_activations *at = &model->layers[layer];

	report_range(report, RANGE_ATTENTION, -1, -1, MOESCOPE_PHASE_NONE);
	report_begin(report, OP_OUTPUT_BACKWARD);
	linear_backward(model->pool, &(struct linear_gradient){
					     .rows = tokens,
					     .inputs = width,
					     .outputs = width,
					     .x = at->attended,
					     .w = model_param(model, PARAM_OUTPUT, layer),
					     .dy = s->stream,
					     .dx = s->dattended,
					     .dw = model_grad(model, PARAM_OUTPUT, layer),
				     });
	report_end(report, OP_OUTPUT_BACKWARD, tokens, 0);

	attention_core_gradient(model, s, at);

	report_begin(report, OP_QKV_BACKWARD);
	linear_backward(model->pool, &(struct linear_gradient){
					     .rows = tokens,
					     .inputs = width,
					     .outputs = 3 * width,
					     .x = at->normed,
					     .w = model_param(model, PARAM_QUERY, layer),
					     .dy = s->dqkv,
					     .dx = s->dnormed,
					     .dw = model_grad(model, PARAM_QUERY, layer),
				     });
	report_end(report, OP_QKV_BACKWARD, tokens, 0);
	norm_gradient(model, s, PARAM_ATTENTION_NORM, layer, x, at->norm_scale);
	report_range_end();
}

static void embedding_gradient(struct model *model, const struct scratch *s)
{
	const struct config *c = &model->config;
	size_t tokens = config_tokens(c);

	report_begin(&model->report, OP_EMBEDDING_BACKWARD);
	embedding_backward(model->pool, &(struct embedding_gradient){
						.rows = tokens,
						.width = (size_t)c->width,
						.context = (size_t)c->context,
						.tokens = model->tokens,
						.dy = s->stream,
						.dembedding = model_grad(model, PARAM_EMBEDDING, 0),
						.dposition = model_grad(model, PARAM_POSITION, 0),
					});
	report_end(&model->report, OP_EMBEDDING_BACKWARD, tokens, 0);
	forward_drop_input(model);
}

/* The input of a layer is the output of the previous one. */
static const real *layer_input(const struct model *model, int32_t layer)
{
	return layer ? model->layers[layer - 1].out : model->edge.embedded;
}

void model_backward(struct model *model)
{
	const struct report *report = &model->report;
	void *block = arena_push(&model->scratch, backward_bytes(&model->config));
	struct carver carver = { .base = block };
	struct scratch scratch;

	scratch_layout(&scratch, &carver, &model->config);
	report_range(report, RANGE_BACKWARD, -1, -1, MOESCOPE_BACKWARD);
	head_gradient(model, &scratch, layer_input(model, model->config.layers));
	for (int32_t layer = model->config.layers - 1; layer >= 0; layer--) {
		report_range(report, RANGE_LAYER, layer, -1, MOESCOPE_PHASE_NONE);
		moe_gradient(model, &scratch, layer);
		attention_block_gradient(model, &scratch, layer, layer_input(model, layer));
		forward_drop_layer(model, layer);
		report_range_end();
	}
	embedding_gradient(model, &scratch);
	report_range_end();
	arena_pop(&model->scratch, block);
}
