/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the routers sent the tokens: per MoE layer and phase over a window of steps, and step by
 * step. Formulas are in routing_metrics.h; k in the floors is the mean number of slots a token
 * used, so that they hold for dynamic k.
 */
#ifndef SUBJECTS_ROUTING_H
#define SUBJECTS_ROUTING_H

#include "subjects/numbers/value.h"
#include "subjects/routing/routing_metrics.h"
#include "subjects/shared/selection.h"

#define ROUTING_FACTORS_MAX 8
#define ROUTING_PAIRS 16    /* of experts, the most remarkable ones */
#define ROUTING_ENDS_MAX 16 /* experts at either end of the order of loads */

struct routing_options {
	double capacity_factors[ROUTING_FACTORS_MAX]; /* what-ifs */
	unsigned int n_capacity_factors;	      /* 0: 1.25 alone */
	uint32_t tile_rows;			      /* what-if; 0: 64 */
	bool token_level; /* also co-activation, affinity, repetition, from ROUTED records */
	bool router_time; /* also the time of the ranges named "router" */
};

#define ROUTING_CAPACITY_FACTOR 1.25
#define ROUTING_TILE_ROWS 64
#define ROUTING_MATRIX_EXPERTS 1024 /* no E*E matrices above this many experts */
#define ROUTING_LIFT_EXPERTS 256    /* nor what they are of chance: the pairs tell it */

/* Tokens by how many slots they used: hist[j] used j. */
struct k_counts {
	uint64_t *hist;
	uint32_t n;
	struct value mean, min, max;
};

struct routing_step {
	int64_t step;
	int64_t time_ns;     /* of its last record */
	int64_t realtime_ns; /* the same since 1970 */
	uint64_t tokens, dropped;
	struct load_metrics load;
	struct value cv_floor, imbalance_floor, cv_excess;
	uint64_t *n; /* assignments per expert */
	struct k_counts k;
	uint64_t weighted; /* tokens whose router weights were read, and their summed confidence */
	double confidence;
	struct value router_confidence, router_confidence_k;
	struct value flops_router, flops_expert;
	struct value router_ns; /* with router_time */
};

/* What a capacity of factor * T * k / E would do, per batch and summed over the window. */
struct routing_capacity_case {
	double factor;
	struct value drop_rate, pad_waste;
};

/* Two experts that tokens visit together, or one after the other. */
struct routing_pair {
	uint32_t from, to;
	uint64_t tokens; /* that visited both */
	double share;	 /* of the tokens of `from`, as in the matrix */
	double chance;	 /* what the loads alone would give */
};

struct routing_layer {
	int32_t layer;
	uint8_t phase;
	uint32_t experts;
	uint32_t k; /* slots per token; the largest seen */

	struct routing_step *steps; /* ascending */
	size_t n_steps;
	size_t records;
	uint64_t tokens, padding, assignments, unused, dropped, invalid;
	uint64_t *n; /* assignments per expert over the window */
	/* The k experts with the most assignments, then the k with the fewest; no expert twice. */
	uint32_t ends[2 * ROUTING_ENDS_MAX];
	uint32_t n_ends;
	struct load_metrics load;
	struct value cv_floor, imbalance_floor, cv_excess;
	struct value max_violation_step_mean, max_violation_step_max;

	struct k_counts slots;

	struct value router_confidence,
		router_confidence_k; /* _k: 0 where the k weights are equal */
	struct value router_entropy, top1_prob, topk_mass, margin;
	struct value drop_rate_measured; /* dropped / (assignments + dropped) */
	struct routing_capacity_case capacity[ROUTING_FACTORS_MAX];
	unsigned int n_capacity; /* at least 1 */
	uint32_t tile_rows;
	struct value tile_waste;

	uint32_t hot_h; /* experts in the hot set; the distance is one step */
	struct value hot_persistence;
	struct value unique_step_mean, unique_step_expected;
	struct value expert_bytes_touched;	     /* over the window */
	struct value expert_bytes_touched_step_mean; /* per step */
	struct value expert_bytes_touched_step_uniform;
	struct value flops_router, flops_expert;

	/* From ROUTED records. */
	uint64_t routed_tokens;
	struct value repeat_rate, repeat_null;
	struct value coactivation_known;		       /* v is 1 when the matrix is there */
	double *coactivation;				       /* [i * experts + j] */
	double *routed_load;				       /* tokens sent to each expert */
	double routed_slots;				       /* their sum */
	struct routing_pair coactivation_pairs[ROUTING_PAIRS]; /* most tokens beyond chance first */
	unsigned int n_coactivation_pairs;
	struct value affinity_known;
	double *affinity;	 /* [i * affinity_experts + j]: layer -> affinity_layer */
	double *affinity_chance; /* [j]: its share of the slots in the next layer */
	struct value affinity_layer;
	uint32_t affinity_experts;
	struct value affinity_tokens; /* found in both layers */
	struct value affinity_bits, affinity_bits_floor, affinity_bits_most;
	struct routing_pair affinity_pairs[ROUTING_PAIRS];
	unsigned int n_affinity_pairs;
};

struct routing {
	struct routing_layer *layers; /* by phase, layer, experts */
	size_t n;
	uint64_t records, invalid, dropped;
	uint64_t failed_counts; /* records whose loads do not add up to the slots tokens used */
	uint64_t failed_slots;	/* records whose slots do not add up */
	char self_check[160];	/* "ok", or what failed */
	bool self_check_ok;
};

int routing_analyze(const struct run *run, const struct selection *sel,
		    const struct routing_options *options, struct routing *ret_routing);
void routing_release(struct routing *routing);

/* Fills the ROUTED part of the layers; used by routing_analyze. */
int routing_tokens_fill(const struct run *run, const struct selection *sel,
			struct routing *routing);
/* Fills router_ns of the steps; likewise. */
int routing_times_fill(const struct run *run, struct routing *routing);

/* What the loads alone would give for coactivation[i * experts + j]; at most 1. */
double routing_coactivation_chance(const struct routing_layer *layer, uint32_t i, uint32_t j);

/* Its fields; see routing_fields.c. */
struct field_set;
/* Of one layer alone also what is long. */
enum routing_form { ROUTING_ALL_LAYERS = 1 << 0, ROUTING_ONE_LAYER = 1 << 1 };

extern const struct field_set routing_fields, routing_total;
extern const struct field_set
	routing_ends_fields; /* the hottest and coldest experts of the layers */
/* With the columns that users of router profilers know. */
extern const struct field_set routing_steps_fields, routing_experts_fields;
/* Pairs of experts of all layers, and tokens by the slots they used. */
extern const struct field_set routing_pairs_fields, routing_k_fields;

#endif
