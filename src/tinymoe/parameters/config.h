/* SPDX-License-Identifier: Apache-2.0
 *
 * The sizes of the model and how it is trained: everything needed to reuse a checkpoint.
 */
#ifndef TINYMOE_CONFIG_H
#define TINYMOE_CONFIG_H

#include <stddef.h>
#include <stdint.h>

struct failure;

/* Tokens are bytes. */
enum { VOCABULARY = 256 };

struct config {
	/* The architecture, which a checkpoint fixes. */
	int32_t layers, width, heads, experts, top_k, expert_width, context;

	/* The training, which a resumed run may change. */
	int32_t batch;
	int32_t schedule; /* steps over which the learning rate falls to its floor */
	int32_t collapse; /* bool: a fixed bias pulls the tokens to two experts */
	double learning_rate;
	double capacity_factor; /* 0: tokens are never dropped */
	double dynamic_k;	/* least probability of a slot after the first; 0: always top_k */
	double balance;		/* coefficient of the load-balancing loss */
	double z_loss;		/* coefficient of the router z-loss */
	uint64_t seed;
};

/* Upper limits of single values; config_check checks combinations. Experts and top-k are limits of
 * moescope_route. */
enum {
	CONFIG_MAX_LAYERS = 4096,
	CONFIG_MAX_SIZE = 1 << 20,
	CONFIG_MAX_EXPERTS = 65535,
	CONFIG_MAX_TOP_K = 64,
};

/* True if every value by itself is possible. Options check this one by one; for checkpoints it
 * happens here. */
int config_in_range(const struct config *config);

/* The defaults: the demonstration. */
struct config config_default(void);

/* What the configuration will be used for; parameters are always needed. */
enum config_use {
	CONFIG_TRAINS = 1,
	CONFIG_GENERATES = 2,
};

/* 0, or -EINVAL and a sentence that names the option to change: sizes that do not fit together, or
 * that need more than `memory_bytes` for these uses (a set of enum config_use). Once it has passed,
 * no size computed for these uses overflows. */
int config_check(const struct config *config, int uses, uint64_t memory_bytes,
		 struct failure *failure);

/* The memory of this machine. */
uint64_t config_machine_bytes(void);

static inline size_t config_tokens(const struct config *config)
{
	return (size_t)config->batch * (size_t)config->context;
}

#endif
