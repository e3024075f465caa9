/* SPDX-License-Identifier: Apache-2.0
 *
 * Names, shapes and costs of the operations, and the calls of moescope.h. report.h has the counting
 * rules; each figure below counts what the code in ops.c, attention.c, router.c, experts.c and
 * optimizer.c executes.
 */
#include "tinymoe/model/report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tinymoe/math/gemm.h"

static const char *const op_names[OP_COUNT] = {
#define OP(id, name) name,
	REPORT_OPS(OP)
#undef OP
};

static const char *const range_names[RANGE_COUNT] = {
#define RANGE(id, name) name,
	REPORT_RANGES(RANGE)
#undef RANGE
};

/* y = x * w^T and its backward (two products). */
static void cost_linear(struct report *report, enum report_op op, enum report_op backward,
			uint64_t inputs, uint64_t outputs)
{
	report->cost[op] = (struct report_cost){
		.row_flops = 2 * inputs * outputs,
		.fixed_bytes = inputs * outputs * sizeof(real),
		.row_bytes = (inputs + outputs) * sizeof(real),
	};
	/* dx reads dy and w; dw reads dy and x and updates dw. */
	report->cost[backward] = (struct report_cost){
		.row_flops = 4 * inputs * outputs,
		.fixed_bytes = 3 * inputs * outputs * sizeof(real),
		.row_bytes = (2 * inputs + outputs) * sizeof(real),
	};
}

static void costs_dense(struct report *report, const struct config *c)
{
	uint64_t width = (uint64_t)c->width;
	struct report_cost *cost = report->cost;

	cost[OP_EMBEDDING] = (struct report_cost){
		.row_flops = width,
		.row_bytes = 3 * width * sizeof(real) + 1,
	};
	cost[OP_EMBEDDING_BACKWARD] = (struct report_cost){
		.row_flops = 2 * width,
		.row_bytes = 5 * width * sizeof(real) + 1,
	};
	cost[OP_NORM] = (struct report_cost){
		.row_flops = 4 * width + 4,
		.fixed_bytes = width * sizeof(real),
		.row_bytes = (2 * width + 1) * sizeof(real),
	};
	cost[OP_NORM_BACKWARD] = (struct report_cost){
		.row_flops = 12 * width + 1,
		.fixed_bytes = 3 * width * sizeof(real),
		.row_bytes = (4 * width + 1) * sizeof(real),
	};
	cost_linear(report, OP_QKV, OP_QKV_BACKWARD, width, 3 * width);
	cost_linear(report, OP_OUTPUT, OP_OUTPUT_BACKWARD, width, width);
	cost_linear(report, OP_HEAD, OP_HEAD_BACKWARD, width, VOCABULARY);
	/* The output projection adds to a copy of the residual stream: one more read. */
	cost[OP_OUTPUT].row_bytes += width * sizeof(real);
	cost[OP_CROSS_ENTROPY] = (struct report_cost){
		.row_flops = 5 * VOCABULARY + 3,
		.row_bytes = (2 * VOCABULARY + 1) * sizeof(real) + 1,
	};
	cost[OP_CROSS_ENTROPY_BACKWARD] = (struct report_cost){
		.row_flops = VOCABULARY + 1,
		.row_bytes = 2 * VOCABULARY * sizeof(real) + 1,
	};
	cost[OP_GRADIENT_NORM] = (struct report_cost){
		.row_flops = 2,
		.row_bytes = sizeof(real),
	};
	/* Reads parameter, gradient and both moments; writes parameter and both moments. */
	cost[OP_ADAMW] = (struct report_cost){
		.row_flops = 17,
		.row_bytes = 7 * sizeof(real),
	};
}

static void costs_attention(struct report *report, const struct config *c)
{
	uint64_t width = (uint64_t)c->width, heads = (uint64_t)c->heads;
	struct report_cost *cost = report->cost;

	/* Rows here are those of the queries plus those of the keys. */
	cost[OP_SCORES] = cost[OP_VALUES] = (struct report_cost){
		.pair_flops = 2 * width,
		.row_bytes = width * sizeof(real),
		.pair_bytes = heads * sizeof(real),
	};
	cost[OP_SOFTMAX] = (struct report_cost){
		.pair_flops = 5 * heads,
		.pair_bytes = 2 * heads * sizeof(real),
	};
	/* Reads q, k and dprob; writes dq and dk. */
	cost[OP_SCORES_BACKWARD] = (struct report_cost){
		.pair_flops = 4 * width,
		.row_bytes = 2 * width * sizeof(real),
		.pair_bytes = heads * sizeof(real),
	};
	/* Reads dout, v and prob; writes dv and dprob. In training there are as many keys as
	 * queries, so the three arrays are one and a half per row. */
	cost[OP_VALUES_BACKWARD] = (struct report_cost){
		.pair_flops = 4 * width,
		.row_bytes = 3 * width * sizeof(real) / 2,
		.pair_bytes = 2 * heads * sizeof(real),
	};
	cost[OP_SOFTMAX_BACKWARD] = (struct report_cost){
		.pair_flops = 4 * heads,
		.pair_bytes = 3 * heads * sizeof(real),
	};
}

static void costs_moe(struct report *report, const struct config *c)
{
	uint64_t width = (uint64_t)c->width, inner = (uint64_t)c->expert_width;
	uint64_t experts = (uint64_t)c->experts, top_k = (uint64_t)c->top_k;
	struct report_cost *cost = report->cost;

	cost_linear(report, OP_ROUTER, OP_ROUTER_BACKWARD, width, experts);
	cost[OP_ROUTER].row_flops += 5 * experts;
	cost[OP_ROUTER].row_bytes += top_k * (sizeof(real) + sizeof(int32_t));
	cost[OP_ROUTER_BACKWARD].row_flops += 5 * experts + 6 * top_k;
	cost[OP_ROUTER_BACKWARD].row_bytes += (experts + 2 * top_k) * sizeof(real);
	/* Rows of dispatch and combine are slots that have a row. */
	cost[OP_DISPATCH] = (struct report_cost){ .row_bytes = 2 * width * sizeof(real) };
	cost[OP_DISPATCH_BACKWARD] = (struct report_cost){
		.row_flops = width,
		.row_bytes = 3 * width * sizeof(real),
	};
	cost[OP_COMBINE] = (struct report_cost){
		.row_flops = 2 * width,
		.row_bytes = (3 * width + 1) * sizeof(real),
	};
	cost[OP_COMBINE_BACKWARD] = (struct report_cost){
		.row_flops = 3 * width,
		.row_bytes = (3 * width + 2) * sizeof(real),
	};
	cost_linear(report, OP_EXPERT_GATE, OP_EXPERT_GATE_BACKWARD, width, inner);
	cost_linear(report, OP_EXPERT_UP, OP_EXPERT_UP_BACKWARD, width, inner);
	cost_linear(report, OP_EXPERT_DOWN, OP_EXPERT_DOWN_BACKWARD, inner, width);
	/* The gate's dx is added to that of up. */
	cost[OP_EXPERT_GATE_BACKWARD].row_bytes += width * sizeof(real);
	cost[OP_EXPERT_ACTIVATION] = (struct report_cost){
		.row_flops = 5 * inner,
		.row_bytes = 3 * inner * sizeof(real),
	};
	cost[OP_EXPERT_ACTIVATION_BACKWARD] = (struct report_cost){
		.row_flops = 12 * inner,
		.row_bytes = 5 * inner * sizeof(real),
	};
}

/* "[rows,inputs]x[inputs,outputs]"; the rows of an expert vary. */
static moescope_name shape_linear(const char *rows, int32_t inputs, int32_t outputs)
{
	char text[96];

	snprintf(text, sizeof(text), "[%s,%d]x[%d,%d]", rows, inputs, inputs, outputs);
	return moescope_intern(text);
}

static moescope_name shape_rows(const char *rows, int32_t columns)
{
	char text[64];

	snprintf(text, sizeof(text), "[%s,%d]", rows, columns);
	return moescope_intern(text);
}

static void shapes_linear(struct report *report, const struct config *c, const char *rows)
{
	const struct {
		enum report_op op, backward;
		const char *rows;
		int32_t inputs, outputs;
	} linear[] = {
		{ OP_QKV, OP_QKV_BACKWARD, rows, c->width, 3 * c->width },
		{ OP_OUTPUT, OP_OUTPUT_BACKWARD, rows, c->width, c->width },
		{ OP_ROUTER, OP_ROUTER_BACKWARD, rows, c->width, c->experts },
		{ OP_EXPERT_GATE, OP_EXPERT_GATE_BACKWARD, "*", c->width, c->expert_width },
		{ OP_EXPERT_UP, OP_EXPERT_UP_BACKWARD, "*", c->width, c->expert_width },
		{ OP_EXPERT_DOWN, OP_EXPERT_DOWN_BACKWARD, "*", c->expert_width, c->width },
		{ OP_HEAD, OP_HEAD_BACKWARD, rows, c->width, VOCABULARY },
	};

	for (size_t i = 0; i < sizeof(linear) / sizeof(linear[0]); i++) {
		moescope_name shape = shape_linear(linear[i].rows, linear[i].inputs,
						   linear[i].outputs);

		report->op_shape[linear[i].op] = report->op_shape[linear[i].backward] = shape;
	}
}

static void shapes_rows(struct report *report, const struct config *c, const char *rows)
{
	const struct {
		enum report_op op, backward;
		const char *rows;
		int32_t columns;
	} other[] = {
		{ OP_EMBEDDING, OP_EMBEDDING_BACKWARD, rows, c->width },
		{ OP_NORM, OP_NORM_BACKWARD, rows, c->width },
		{ OP_DISPATCH, OP_DISPATCH_BACKWARD, "*", c->width },
		{ OP_COMBINE, OP_COMBINE_BACKWARD, rows, c->width },
		{ OP_EXPERT_ACTIVATION, OP_EXPERT_ACTIVATION_BACKWARD, "*", c->expert_width },
		{ OP_CROSS_ENTROPY, OP_CROSS_ENTROPY_BACKWARD, rows, VOCABULARY },
	};

	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
		moescope_name shape = shape_rows(other[i].rows, other[i].columns);

		report->op_shape[other[i].op] = report->op_shape[other[i].backward] = shape;
	}
}

/* Attention: sequences and heads times the product of one head. */
static void shapes_attention(struct report *report, const struct config *c, int fixed)
{
	int32_t head = c->width / c->heads;
	char length[16] = "*", batch[16] = "1", text[128];

	if (fixed) {
		snprintf(length, sizeof(length), "%d", c->context);
		snprintf(batch, sizeof(batch), "%d", c->batch);
	}
	snprintf(text, sizeof(text), "%sx%dx[%s,%d]x[%d,%s]", batch, c->heads, length, head, head,
		 length);
	report->op_shape[OP_SCORES] = report->op_shape[OP_SCORES_BACKWARD] = moescope_intern(text);
	snprintf(text, sizeof(text), "%sx%dx[%s,%s]", batch, c->heads, length, length);
	report->op_shape[OP_SOFTMAX] = report->op_shape[OP_SOFTMAX_BACKWARD] =
		moescope_intern(text);
	snprintf(text, sizeof(text), "%sx%dx[%s,%s]x[%s,%d]", batch, c->heads, length, length,
		 length, head);
	report->op_shape[OP_VALUES] = report->op_shape[OP_VALUES_BACKWARD] = moescope_intern(text);
}

int report_init(struct report *report, const struct config *config, size_t tokens, int fixed)
{
	char rows[24] = "*";

	*report = (struct report){ 0 };
	report->weights = calloc(tokens * (size_t)config->top_k, sizeof(float));
	report->scores = calloc(tokens * (size_t)config->experts, sizeof(float));
	if (!report->weights || !report->scores) {
		report_release(report);
		return -ENOMEM;
	}
	for (int i = 0; i < OP_COUNT; i++)
		report->op_name[i] = moescope_intern(op_names[i]);
	for (int i = 0; i < RANGE_COUNT; i++)
		report->range_name[i] = moescope_intern(range_names[i]);
	if (fixed)
		snprintf(rows, sizeof(rows), "%zu", tokens);
	shapes_linear(report, config, rows);
	shapes_rows(report, config, rows);
	shapes_attention(report, config, fixed);
	costs_dense(report, config);
	costs_attention(report, config);
	costs_moe(report, config);
	return 0;
}

void report_release(struct report *report)
{
	free(report->weights);
	free(report->scores);
	report->weights = report->scores = NULL;
}

void report_model(const struct config *config, int threads, size_t parameters)
{
	char text[256];

	snprintf(text, sizeof(text),
		 "tinymoe, %d layers, width %d, %d heads, %d experts of %d, top-%d, context %d, "
		 "%zu parameters",
		 config->layers, config->width, config->heads, config->experts,
		 config->expert_width, config->top_k, config->context, parameters);
	moescope_info("model", text);
	snprintf(text, sizeof(text), "%d", threads);
	moescope_info("threads", text);
	moescope_info("matrix products", gemm_name());
	moescope_info("dtype", sizeof(real) == sizeof(float) ? "fp32" : "fp64");
	for (int32_t layer = 0; layer < config->layers; layer++) {
		struct moescope_moe_layer moe = {
			.struct_size = sizeof(moe),
			.layer = layer,
			.experts = (uint32_t)config->experts,
			.k = (uint32_t)config->top_k,
			.hidden = (uint32_t)config->width,
			.inner = (uint32_t)config->expert_width,
			.matrices = 3,
			.expert_bytes = 3 * (uint64_t)config->width *
					(uint64_t)config->expert_width * sizeof(real),
			.capacity_factor = config->capacity_factor,
		};

		moescope_moe_layer(&moe);
	}
}

void report_begin(const struct report *report, enum report_op op)
{
	moescope_op_begin(report->op_name[op], -1, -1, report->op_shape[op]);
}

void report_end(const struct report *report, enum report_op op, uint64_t rows, uint64_t pairs)
{
	const struct report_cost *cost = &report->cost[op];

	moescope_op_end(rows * cost->row_flops + pairs * cost->pair_flops,
			cost->fixed_bytes + rows * cost->row_bytes + pairs * cost->pair_bytes);
}

void report_range(const struct report *report, enum report_range range, int32_t layer,
		  int32_t expert, enum moescope_phase phase)
{
	moescope_range_begin(report->range_name[range], layer, expert, phase);
}

void report_range_end(void)
{
	moescope_range_end();
}

void report_route(const struct report *report, const struct route *route, int32_t layer,
		  enum moescope_phase phase)
{
	struct moescope_routing routing = {
		.struct_size = sizeof(routing),
		.layer = layer,
		.phase = phase,
		.experts = (uint32_t)route->experts,
		.k = (uint32_t)route->top_k,
		.tokens = route->tokens,
		.indices = route->reported,
		.weights = report->weights,
		.scores = report->scores,
	};

	for (size_t i = 0; i < route->tokens * route->top_k; i++)
		report->weights[i] = (float)route->weight[i];
	for (size_t i = 0; i < route->tokens * route->experts; i++)
		report->scores[i] = (float)route->prob[i];
	moescope_route(&routing);
}
