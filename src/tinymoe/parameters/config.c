/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks a configuration. The ranges of single values are checked at their source (options.c,
 * checkpoint.c); this file checks what depends on several of them.
 */
#include "tinymoe/parameters/config.h"

#include <errno.h>
#include <math.h>
#include <unistd.h>

#include "tinymoe/system/failure.h"
#include "tinymoe/system/real.h"

struct config config_default(void)
{
	return (struct config){
		.layers = 4,
		.width = 64,
		.heads = 2,
		.experts = 8,
		.top_k = 2,
		.expert_width = 128,
		.context = 64,
		.batch = 32,
		.schedule = 240,
		.learning_rate = 4e-3,
		.balance = 0.01,
		.z_loss = 1e-3,
		.seed = 1,
	};
}

static int within(int32_t value, int32_t most)
{
	return value >= 1 && value <= most;
}

/* Also false for NaN. */
static int not_negative(double value)
{
	return value >= 0 && isfinite(value);
}

int config_in_range(const struct config *c)
{
	return within(c->layers, CONFIG_MAX_LAYERS) && within(c->width, CONFIG_MAX_SIZE) &&
	       within(c->heads, CONFIG_MAX_SIZE) && within(c->experts, CONFIG_MAX_EXPERTS) &&
	       within(c->top_k, CONFIG_MAX_TOP_K) && within(c->expert_width, CONFIG_MAX_SIZE) &&
	       within(c->context, CONFIG_MAX_SIZE) && within(c->batch, CONFIG_MAX_SIZE) &&
	       within(c->schedule, INT32_MAX) && not_negative(c->learning_rate) &&
	       not_negative(c->capacity_factor) && not_negative(c->dynamic_k) &&
	       not_negative(c->balance) && not_negative(c->z_loss);
}

uint64_t config_machine_bytes(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);

	return pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : UINT64_MAX;
}

/* In double, because these are computed before overflow is ruled out; close to what params.c and
 * activations.c use, up to the small arrays. */
static double parameter_values(const struct config *c)
{
	double width = c->width;
	double expert = 3 * width * c->expert_width;
	double layer = 4 * width * width + 2 * width + c->experts * (expert + width);

	return c->layers * layer + width * (2.0 * VOCABULARY + c->context + 1);
}

static double layer_values(const struct config *c, double sequences)
{
	double tokens = sequences * c->context;

	return tokens * (8.0 * c->width + c->experts) + tokens * c->heads * c->context +
	       tokens * c->top_k * (2.0 * c->width + 3.0 * c->expert_width + 3);
}

/* The half is for the backward pass, which has the gradients of one layer at a time. */
static double activation_values(const struct config *c)
{
	return (c->layers + 1.5) * layer_values(c, c->batch) +
	       (double)c->batch * c->context * VOCABULARY;
}

static double generation_values(const struct config *c)
{
	return layer_values(c, 1) + 2.0 * c->layers * c->context * c->width;
}

static int check_memory(const struct config *c, int uses, uint64_t memory_bytes,
			struct failure *failure)
{
	const double gib = 1024.0 * 1024 * 1024, memory = (double)memory_bytes;
	/* Training adds gradients and two moments to each parameter. */
	double copies = uses & CONFIG_TRAINS ? 4 : 1;
	double parameters = copies * parameter_values(c) * sizeof(real);
	double step = uses & CONFIG_TRAINS ? activation_values(c) * sizeof(real) : 0;
	double generation = uses & CONFIG_GENERATES ? generation_values(c) * sizeof(real) : 0;

	if (parameters > memory)
		return failure_set(failure, EINVAL,
				   "these sizes need %.1f GiB for the parameters and this machine "
				   "has %.1f GiB: lower --layers, --width, --experts or "
				   "--expert-width",
				   parameters / gib, memory / gib);
	if (parameters + step > memory)
		return failure_set(failure, EINVAL,
				   "these sizes need %.1f GiB for the activations of a step and "
				   "this machine has %.1f GiB: lower --batch or --context",
				   step / gib, memory / gib);
	if (parameters + step + generation > memory)
		return failure_set(failure, EINVAL,
				   "these sizes need %.1f GiB for generation and this machine has "
				   "%.1f GiB: lower --context",
				   generation / gib, memory / gib);
	return 0;
}

int config_check(const struct config *c, int uses, uint64_t memory_bytes, struct failure *failure)
{
	if (c->width % c->heads)
		return failure_set(failure, EINVAL,
				   "--heads %d does not divide --width %d: choose a divisor",
				   c->heads, c->width);
	if (c->top_k > c->experts)
		return failure_set(failure, EINVAL,
				   "--top-k %d is more than --experts %d: lower one or raise the "
				   "other",
				   c->top_k, c->experts);
	if ((int64_t)c->batch * c->context * c->top_k > INT32_MAX)
		return failure_set(failure, EINVAL,
				   "--batch %d times --context %d times --top-k %d is more than a "
				   "step can hold: lower --batch",
				   c->batch, c->context, c->top_k);
	return check_memory(c, uses, memory_bytes, failure);
}
