/* SPDX-License-Identifier: Apache-2.0
 *
 * The router. Tasks work on token tiles and run on any thread of the pool; the main thread makes
 * the dispatch lists and the losses, in token order.
 */
#include "tinymoe/model/router.h"

#include <moescope.h>
#include <string.h>
#include <tgmath.h>

#include "tinymoe/math/ops.h"

/* --collapse: added to the logits of two experts of each layer. The first then takes a slot of
 * nearly every token, the second most of the others. */
static const real collapse_bias[2] = { 8, 4 };

void route_layout(struct route *route, struct carver *carver, const struct config *config,
		  size_t tokens)
{
	size_t experts = (size_t)config->experts, top_k = (size_t)config->top_k;
	size_t slots = tokens * top_k;

	route->tokens = tokens;
	route->experts = experts;
	route->top_k = top_k;
	route->prob = carve(carver, tokens * experts, sizeof(real));
	route->log_sum = carve(carver, tokens, sizeof(real));
	route->chosen = carve(carver, slots, sizeof(int32_t));
	route->weight = carve(carver, slots, sizeof(real));
	route->row_of = carve(carver, slots, sizeof(int32_t));
	route->slot_of = carve(carver, slots, sizeof(int32_t));
	route->first = carve(carver, experts + 1, sizeof(int32_t));
	route->load = carve(carver, experts, sizeof(int32_t));
	route->filled = carve(carver, experts, sizeof(int32_t));
	route->reported = carve(carver, slots, sizeof(int32_t));
	route->pull = carve(carver, experts, sizeof(real));
}

/* The next best expert after `last` by falling probability, or SLOT_UNUSED. */
static int32_t next_best(const real *prob, size_t experts, int32_t last)
{
	int32_t best = SLOT_UNUSED;

	for (int32_t e = 0; e < (int32_t)experts; e++) {
		if (last >= 0 && (prob[e] > prob[last] || (prob[e] == prob[last] && e <= last)))
			continue;
		if (best < 0 ? prob[e] >= 0 : prob[e] > prob[best])
			best = e;
	}
	return best;
}

static void choose_experts(const struct config *config, const real *prob, int32_t *chosen,
			   real *weight)
{
	int32_t last = SLOT_UNUSED;
	int used = 0;
	real sum = 0;

	while (used < config->top_k) {
		int32_t expert = next_best(prob, (size_t)config->experts, last);

		if (expert < 0 || (used > 0 && prob[expert] < (real)config->dynamic_k))
			break;
		chosen[used++] = last = expert;
		sum += prob[expert];
	}
	for (int i = 0; i < config->top_k; i++) {
		if (i >= used)
			chosen[i] = SLOT_UNUSED;
		weight[i] = i < used ? prob[chosen[i]] / sum : 0;
	}
}

struct router_job {
	const struct config *config;
	const struct route *route;
	const real *dweight;
	real *dlogits;
	int32_t layer;
};

static void router_task(void *arg, size_t task)
{
	const struct router_job *job = arg;
	const struct route *r = job->route;
	struct tile t = tile_at(task, r->tokens);

	for (size_t token = t.first; token < t.first + t.rows; token++) {
		real *prob = r->prob + token * r->experts;
		real most, sum = 0;

		for (size_t i = 0; i < 2 && job->config->collapse; i++)
			prob[((size_t)job->layer + i) % r->experts] += collapse_bias[i];
		most = prob[0];
		for (size_t e = 1; e < r->experts; e++)
			most = prob[e] > most ? prob[e] : most;
		for (size_t e = 0; e < r->experts; e++) {
			prob[e] = exp(prob[e] - most);
			sum += prob[e];
		}
		for (size_t e = 0; e < r->experts; e++)
			prob[e] /= sum;
		r->log_sum[token] = most + log(sum);
		choose_experts(job->config, prob, r->chosen + token * r->top_k,
			       r->weight + token * r->top_k);
	}
}

void router_forward(struct pool *pool, const struct config *config, const real *x, const real *w,
		    int32_t layer, struct route *route)
{
	struct linear linear = {
		.rows = route->tokens,
		.inputs = (size_t)config->width,
		.outputs = route->experts,
		.x = x,
		.w = w,
		.y = route->prob,
	};
	struct router_job job = { .config = config, .route = route, .layer = layer };

	linear_forward(pool, &linear);
	pool_run(pool, pool_tiles(route->tokens, ROW_TILE), router_task, &job);
}

int32_t router_capacity(const struct config *config, size_t tokens)
{
	double slots = (double)tokens * config->top_k;

	if (!(config->capacity_factor > 0))
		return INT32_MAX;

	double capacity = ceil(config->capacity_factor * slots / config->experts);

	return capacity < INT32_MAX ? (int32_t)capacity : INT32_MAX;
}

void router_dispatch(struct route *route, int32_t capacity)
{
	size_t slots = route->tokens * route->top_k;
	int32_t next = 0;

	memset(route->load, 0, route->experts * sizeof(*route->load));
	for (size_t slot = 0; slot < slots; slot++)
		if (route->chosen[slot] >= 0)
			route->load[route->chosen[slot]]++;
	for (size_t e = 0; e < route->experts; e++) {
		route->first[e] = next;
		next += route->load[e] < capacity ? route->load[e] : capacity;
	}
	route->first[route->experts] = next;

	/* Filled counts the slots assigned to each expert, including dropped ones. */
	memset(route->filled, 0, route->experts * sizeof(*route->filled));
	for (size_t slot = 0; slot < slots; slot++) {
		int32_t expert = route->chosen[slot];

		route->row_of[slot] = ROW_NONE;
		if (expert < 0) {
			route->reported[slot] = MOESCOPE_SLOT_UNUSED;
		} else if (route->filled[expert]++ >= capacity) {
			route->reported[slot] = MOESCOPE_SLOT_DROPPED;
		} else {
			int32_t row = route->first[expert] + route->filled[expert] - 1;

			route->reported[slot] = expert;
			route->row_of[slot] = row;
			route->slot_of[row] = (int32_t)slot;
		}
	}
}

struct router_loss router_losses(const struct config *config, struct route *route)
{
	double tokens = (double)route->tokens, experts = (double)route->experts, slots = 0;
	struct router_loss loss = { 0 };

	for (size_t e = 0; e < route->experts; e++)
		slots += route->load[e];
	for (size_t e = 0; e < route->experts; e++) {
		double share = route->load[e] / slots, prob = 0;

		for (size_t token = 0; token < route->tokens; token++)
			prob += route->prob[token * route->experts + e];
		loss.balance += experts * share * prob / tokens;
		route->pull[e] = (real)(config->balance * experts * share / tokens);
	}
	for (size_t token = 0; token < route->tokens; token++)
		loss.z += (double)route->log_sum[token] * route->log_sum[token] / tokens;
	return loss;
}

static void router_gradient_task(void *arg, size_t task)
{
	const struct router_job *job = arg;
	const struct route *r = job->route;
	struct tile t = tile_at(task, r->tokens);
	real z_share = (real)(2 * job->config->z_loss / (double)r->tokens);

	for (size_t token = t.first; token < t.first + t.rows; token++) {
		const real *prob = r->prob + token * r->experts;
		const real *weight = r->weight + token * r->top_k;
		const real *dweight = job->dweight + token * r->top_k;
		const int32_t *chosen = r->chosen + token * r->top_k;
		real *dlogits = job->dlogits + token * r->experts;
		real mean = 0, sum = 0, dot = 0;

		/* dlogits first holds the gradient of the probabilities. */
		memcpy(dlogits, r->pull, r->experts * sizeof(real));
		for (size_t i = 0; i < r->top_k && chosen[i] >= 0; i++) {
			mean += weight[i] * dweight[i];
			sum += prob[chosen[i]];
		}
		for (size_t i = 0; i < r->top_k && chosen[i] >= 0; i++)
			dlogits[chosen[i]] += (dweight[i] - mean) / sum;
		for (size_t e = 0; e < r->experts; e++)
			dot += prob[e] * dlogits[e];
		for (size_t e = 0; e < r->experts; e++)
			dlogits[e] = prob[e] * (dlogits[e] - dot + z_share * r->log_sum[token]);
	}
}

void router_backward(struct pool *pool, const struct config *config, const struct route *route,
		     const real *dweight, real *dlogits)
{
	struct router_job job = {
		.config = config,
		.route = route,
		.dweight = dweight,
		.dlogits = dlogits,
	};

	pool_run(pool, pool_tiles(route->tokens, ROW_TILE), router_gradient_task, &job);
}
