/* SPDX-License-Identifier: Apache-2.0
 *
 * One layer forward. Main thread; each operation is reported around its run on the pool, except
 * the experts, which report from the threads that run them.
 */
#include "tinymoe/model/layer.h"

#include <string.h>

#include "tinymoe/math/attention.h"
#include "tinymoe/math/ops.h"
#include "tinymoe/model/experts.h"
#include "tinymoe/model/model.h"

void layer_layout(struct layer_activations *at, struct carver *carver, const struct config *config,
		  size_t tokens, size_t pairs)
{
	size_t width = (size_t)config->width, inner = (size_t)config->expert_width;
	size_t rows = tokens * (size_t)config->top_k;

	at->normed = carve(carver, tokens * width, sizeof(real));
	at->norm_scale = carve(carver, tokens, sizeof(real));
	at->qkv = carve(carver, tokens * 3 * width, sizeof(real));
	at->prob = carve(carver, (size_t)config->heads * pairs, sizeof(real));
	at->attended = carve(carver, tokens * width, sizeof(real));
	at->middle = carve(carver, tokens * width, sizeof(real));
	at->moe_normed = carve(carver, tokens * width, sizeof(real));
	at->moe_norm_scale = carve(carver, tokens, sizeof(real));
	route_layout(&at->route, carver, config, tokens);
	at->gathered = carve(carver, rows * width, sizeof(real));
	at->gate_out = carve(carver, rows * inner, sizeof(real));
	at->up_out = carve(carver, rows * inner, sizeof(real));
	at->hidden = carve(carver, rows * inner, sizeof(real));
	at->expert_out = carve(carver, rows * width, sizeof(real));
	at->out = carve(carver, tokens * width, sizeof(real));
}

void layer_project(const struct layer_block *block, const real *x)
{
	const struct model *model = block->model;
	const struct report *report = block->report;
	const struct layer_activations *at = block->at;
	size_t width = (size_t)model->config.width;

	report_begin(report, OP_NORM);
	norm_forward(model->pool,
		     &(struct norm){ .rows = block->tokens,
				     .width = width,
				     .x = x,
				     .gain = model_param(model, PARAM_ATTENTION_NORM, block->layer),
				     .y = at->normed,
				     .scale = at->norm_scale });
	report_end(report, OP_NORM, block->tokens, 0);

	report_begin(report, OP_QKV);
	linear_forward(model->pool,
		       &(struct linear){ .rows = block->tokens,
					 .inputs = width,
					 .outputs = 3 * width,
					 .x = at->normed,
					 .w = model_param(model, PARAM_QUERY, block->layer),
					 .y = at->qkv });
	report_end(report, OP_QKV, block->tokens, 0);
}

void layer_attend(const struct layer_block *block, const struct attention *attention, const real *x)
{
	const struct model *model = block->model;
	const struct report *report = block->report;
	const struct layer_activations *at = block->at;
	size_t width = (size_t)model->config.width;
	size_t rows = attention->batch * (attention->queries + attention->keys);

	report_begin(report, OP_SCORES);
	attention_scores(model->pool, attention);
	report_end(report, OP_SCORES, rows, attention_pairs(attention));
	report_begin(report, OP_SOFTMAX);
	attention_softmax(model->pool, attention);
	report_end(report, OP_SOFTMAX, 0, attention_seen_pairs(attention));
	report_begin(report, OP_VALUES);
	attention_values(model->pool, attention);
	report_end(report, OP_VALUES, rows, attention_pairs(attention));

	report_begin(report, OP_OUTPUT);
	memcpy(at->middle, x, block->tokens * width * sizeof(real));
	linear_forward(model->pool,
		       &(struct linear){ .rows = block->tokens,
					 .inputs = width,
					 .outputs = width,
					 .x = at->attended,
					 .w = model_param(model, PARAM_OUTPUT, block->layer),
					 .y = at->middle,
					 .accumulate = true });
	report_end(report, OP_OUTPUT, block->tokens, 0);
}

struct experts layer_experts(const struct layer_block *block)
{
	const struct model *model = block->model;
	struct layer_activations *at = block->at;

	return (struct experts){
		.report = block->report,
		.route = &at->route,
		.width = (size_t)model->config.width,
		.inner = (size_t)model->config.expert_width,
		.layer = block->layer,
		.phase = block->phase,
		.gate = model_param(model, PARAM_GATE, block->layer),
		.up = model_param(model, PARAM_UP, block->layer),
		.down = model_param(model, PARAM_DOWN, block->layer),
		.x = at->moe_normed,
		.residual = at->middle,
		.gathered = at->gathered,
		.gate_out = at->gate_out,
		.up_out = at->up_out,
		.hidden = at->hidden,
		.expert_out = at->expert_out,
		.y = at->out,
		.executed = block->executed,
	};
}

void layer_moe(const struct layer_block *block)
{
	const struct model *model = block->model;
	const struct report *report = block->report;
	struct layer_activations *at = block->at;
	struct experts experts = layer_experts(block);
	size_t rows;

	report_range(report, RANGE_ROUTING, -1, -1, MOESCOPE_PHASE_NONE);
	report_begin(report, OP_NORM);
	norm_forward(model->pool,
		     &(struct norm){ .rows = block->tokens,
				     .width = experts.width,
				     .x = at->middle,
				     .gain = model_param(model, PARAM_MOE_NORM, block->layer),
				     .y = at->moe_normed,
				     .scale = at->moe_norm_scale });
	report_end(report, OP_NORM, block->tokens, 0);

	report_begin(report, OP_ROUTER);
	router_forward(model->pool, &model->config, at->moe_normed,
		       model_param(model, PARAM_ROUTER, block->layer), block->layer, &at->route);
	report_end(report, OP_ROUTER, block->tokens, 0);

	report_begin(report, OP_DISPATCH);
	router_dispatch(&at->route, block->capacity);
	experts_gather(model->pool, &experts);
	rows = route_rows(&at->route);
	report_end(report, OP_DISPATCH, rows, 0);
	report_route(report, &at->route, block->layer, block->phase);
	report_range_end();

	report_range(report, RANGE_EXPERTS, -1, -1, MOESCOPE_PHASE_NONE);
	experts_forward(model->pool, &experts);
	report_begin(report, OP_COMBINE);
	experts_combine(model->pool, &experts);
	report_end(report, OP_COMBINE, rows, 0);
	report_range_end();
}
