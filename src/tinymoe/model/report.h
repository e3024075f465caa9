/* SPDX-License-Identifier: Apache-2.0
 *
 * How the model reports to the profiler, through moescope.h alone.
 *
 * FLOPs: each add, multiply, compare, divide, square root, exponential and logarithm counts one; a
 * matrix product [m,k]x[k,n] counts 2*m*n*k; everything executed counts, including the masked half
 * of the attention scores. Bytes: each operand read once, each result written once, as if every
 * cache were empty before the operation and large enough during it.
 */
#ifndef TINYMOE_REPORT_H
#define TINYMOE_REPORT_H

#include <moescope.h>
#include <stddef.h>
#include <stdint.h>

#include "tinymoe/model/router.h"
#include "tinymoe/parameters/config.h"

/* enumerator, name in the report */
#define REPORT_OPS(OP)                                                                             \
	OP(EMBEDDING, "embedding")                                                                 \
	OP(NORM, "rmsnorm")                                                                        \
	OP(QKV, "qkv_projection")                                                                  \
	OP(SCORES, "attention_scores")                                                             \
	OP(SOFTMAX, "attention_softmax")                                                           \
	OP(VALUES, "attention_values")                                                             \
	OP(OUTPUT, "output_projection")                                                            \
	OP(ROUTER, "router")                                                                       \
	OP(DISPATCH, "dispatch")                                                                   \
	OP(EXPERT_GATE, "expert_gate")                                                             \
	OP(EXPERT_UP, "expert_up")                                                                 \
	OP(EXPERT_ACTIVATION, "expert_activation")                                                 \
	OP(EXPERT_DOWN, "expert_down")                                                             \
	OP(COMBINE, "combine")                                                                     \
	OP(HEAD, "head")                                                                           \
	OP(CROSS_ENTROPY, "cross_entropy")                                                         \
	OP(EMBEDDING_BACKWARD, "embedding_backward")                                               \
	OP(NORM_BACKWARD, "rmsnorm_backward")                                                      \
	OP(QKV_BACKWARD, "qkv_projection_backward")                                                \
	OP(SCORES_BACKWARD, "attention_scores_backward")                                           \
	OP(SOFTMAX_BACKWARD, "attention_softmax_backward")                                         \
	OP(VALUES_BACKWARD, "attention_values_backward")                                           \
	OP(OUTPUT_BACKWARD, "output_projection_backward")                                          \
	OP(ROUTER_BACKWARD, "router_backward")                                                     \
	OP(DISPATCH_BACKWARD, "dispatch_backward")                                                 \
	OP(EXPERT_GATE_BACKWARD, "expert_gate_backward")                                           \
	OP(EXPERT_UP_BACKWARD, "expert_up_backward")                                               \
	OP(EXPERT_ACTIVATION_BACKWARD, "expert_activation_backward")                               \
	OP(EXPERT_DOWN_BACKWARD, "expert_down_backward")                                           \
	OP(COMBINE_BACKWARD, "combine_backward")                                                   \
	OP(HEAD_BACKWARD, "head_backward")                                                         \
	OP(CROSS_ENTROPY_BACKWARD, "cross_entropy_backward")                                       \
	OP(GRADIENT_NORM, "gradient_norm")                                                         \
	OP(ADAMW, "adamw")

#define REPORT_RANGES(RANGE)                                                                       \
	RANGE(BATCH, "batch")                                                                      \
	RANGE(FORWARD, "forward")                                                                  \
	RANGE(BACKWARD, "backward")                                                                \
	RANGE(OPTIMIZER, "optimizer")                                                              \
	RANGE(PREFILL, "prefill")                                                                  \
	RANGE(DECODE, "decode")                                                                    \
	RANGE(LAYER, "layer")                                                                      \
	RANGE(ATTENTION, "attention")                                                              \
	RANGE(ROUTING, "routing")                                                                  \
	RANGE(EXPERTS, "experts")                                                                  \
	RANGE(EXPERT, "expert")

enum report_op {
#define OP(id, name) OP_##id,
	REPORT_OPS(OP)
#undef OP
		OP_COUNT
};

enum report_range {
#define RANGE(id, name) RANGE_##id,
	REPORT_RANGES(RANGE)
#undef RANGE
		RANGE_COUNT
};

/* The cost of an operation on n rows (tokens, or the rows of an expert; parameters for the
 * optimizer) and p query-key pairs: fixed + n * per row + p * per pair. */
struct report_cost {
	uint64_t row_flops, pair_flops;
	uint64_t fixed_bytes, row_bytes, pair_bytes;
};

/* Names and shapes are interned at creation, never in a step. Every thread reads it; only the main
 * thread uses the routing buffers. */
struct report {
	moescope_name op_name[OP_COUNT], op_shape[OP_COUNT];
	moescope_name range_name[RANGE_COUNT];
	struct report_cost cost[OP_COUNT];
	float *weights, *scores; /* real may be double; moescope_route takes float */
};

/* `tokens`: rows of every call, at most. `fixed`: always exactly that many, and shapes say so. */
int report_init(struct report *report, const struct config *config, size_t tokens, int fixed);
void report_release(struct report *report);

/* Facts about the run: model, sizes of the MoE layers, threads, matrix library. */
void report_model(const struct config *config, int threads, size_t parameters);

void report_begin(const struct report *report, enum report_op op);
void report_end(const struct report *report, enum report_op op, uint64_t rows, uint64_t pairs);

/* -1 and MOESCOPE_PHASE_NONE as in moescope_range_begin. */
void report_range(const struct report *report, enum report_range range, int32_t layer,
		  int32_t expert, enum moescope_phase phase);
void report_range_end(void);

void report_route(const struct report *report, const struct route *route, int32_t layer,
		  enum moescope_phase phase);

#endif
