/* SPDX-License-Identifier: Apache-2.0
 *
 * How long the router of a layer took in a step: the ranges and operations named "router" with that
 * layer and phase, by the host's clock. Pure, any thread.
 */
#include "subjects/routing/routing.h"

#include <string.h>

#include "subjects/numbers/order.h"

/* The layer's step of that number, or NULL; steps are ascending. */
static struct routing_step *find_step(struct routing_layer *layer, int64_t step)
{
	size_t low;

	ORDER_FIND(low, layer->n_steps, layer->n_steps, layer->steps[probe].step < step);
	return low < layer->n_steps && layer->steps[low].step == step ? &layer->steps[low] : NULL;
}

static void add_time(struct routing *routing, struct site site, int64_t step, int64_t duration_ns)
{
	for (size_t i = 0; i < routing->n; i++) {
		struct routing_layer *layer = &routing->layers[i];
		struct routing_step *found;

		if (layer->layer != site.layer || layer->phase != site.phase)
			continue;
		found = find_step(layer, step);
		if (found)
			found->router_ns =
				value_of((found->router_ns.known ? found->router_ns.v : 0) +
					 (double)duration_ns);
	}
}

int routing_times_fill(const struct run *run, struct routing *routing)
{
	const struct table_range *range = &run->range;
	const struct table_op *op = &run->op;
	struct step_index index;
	int r = step_index_init(&index, run);

	if (r < 0)
		return r;
	for (size_t i = 0; i < range->n + op->n; i++) {
		bool is_op = i >= range->n;
		size_t row = is_op ? i - range->n : i;
		struct site site = run_site(run, is_op ? op->site[row] : range->site[row]);
		int64_t start = is_op ? op->start_ns[row] : range->start_ns[row];
		size_t at;

		if (site.layer < 0 || strcmp(run_string(run, site.name), "router") != 0 ||
		    (is_op ? op->unfinished[row] : range->unfinished[row]))
			continue;
		at = step_index_find(&index, run, is_op ? op->shard[row] : range->shard[row],
				     start);
		/* Records outside of all steps have the step -1. */
		add_time(routing, site, at == SIZE_MAX ? -1 : run->step.step[at],
			 is_op ? op->duration_ns[row] : range->duration_ns[row]);
	}
	step_index_release(&index);
	return 0;
}
