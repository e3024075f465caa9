/* SPDX-License-Identifier: Apache-2.0
 *
 * Routing, and what its imbalance costs, as subjects; see subject.h.
 */
#include <string.h>

#include "subjects/answers/subject.h"
#include "subjects/routing/imbalance_tax.h"
#include "subjects/routing/routing.h"

static int plan_routing(const struct question *question, const struct run *run, struct plan *plan)
{
	(void)run;
	if (question->routed_tokens)
		plan_kinds(plan, WANT(ROUTED));
	if (question->router_time)
		plan_kinds(plan, WANT(RANGE) | WANT(OP) | WANT(STEP));
	return 0;
}

static int compute_routing(const struct material *m, void *answer)
{
	const struct question *q = m->question;
	struct routing_options options = { .n_capacity_factors = q->n_capacity_factors,
					   .tile_rows = q->tile_rows,
					   .token_level = q->routed_tokens,
					   .router_time = q->router_time };

	_Static_assert(sizeof(options.capacity_factors) == sizeof(q->capacity_factors),
		       "as many as a question can hold");
	memcpy(options.capacity_factors, q->capacity_factors, sizeof(options.capacity_factors));
	return routing_analyze(m->run, &q->sel, &options, answer);
}

SUBJECT_RELEASE(routing)

const struct subject subject_routing = {
	.id = SUBJECT_ID_routing,
	.name = "routing",
	.size = sizeof(struct routing),
	.length = 30,
	.kinds = WANT(ROUTING) | WANT(MOE_LAYER),
	.plan = plan_routing,
	.compute = compute_routing,
	.release = release_routing,
};

static int compute_imbalance_tax(const struct material *m, void *answer)
{
	return imbalance_tax_analyze(m->run, answer_steps(&m->answers), answer_routing(&m->answers),
				     answer_coverage(&m->answers), answer);
}

SUBJECT_RELEASE(imbalance_tax)

const struct subject subject_imbalance_tax = {
	.id = SUBJECT_ID_imbalance_tax,
	.name = "imbalance_tax",
	.size = sizeof(struct imbalance_tax),
	.length = 63,
	.kinds = WANT_DEVICE,
	.reads = READS(&subject_steps, &subject_routing, &subject_coverage),
	.compute = compute_imbalance_tax,
	.release = release_imbalance_tax,
};
