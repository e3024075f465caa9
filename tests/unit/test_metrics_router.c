/* SPDX-License-Identifier: Apache-2.0
 *
 * The metrics of the router's own weights and scores, from the C API to the analysis, against
 * values computed by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "probe_child.h"
#include "subjects/routing/routing.h"

/* Two tokens, two of four experts each. */
static void route(void)
{
	static const int32_t indices[] = { 0, 1, 2, 3 };
	static const float weights[] = { 0.5f, 0.5f, 3, 0 };
	static const float scores[] = { 0.5f, 0.25f, 0.125f, 0.125f, 0, 0, 1, 0 };
	struct moescope_routing routing = { .struct_size = sizeof(routing),
					    .experts = 4,
					    .k = 2,
					    .tokens = 2,
					    .indices = indices,
					    .weights = weights,
					    .scores = scores };

	start_at(MOESCOPE_FULL);
	moescope_route(&routing);
	moescope_stop();
}

#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-6)

static void test_weights_and_scores(void **state)
{
	struct run *run = run_of(route);
	struct routing_options options = { 0 };
	struct selection sel = SELECT_ALL;
	struct routing r;

	(void)state;
	assert_int_equal(routing_analyze(run, &sel, &options, &r), 0);
	assert_int_equal(r.n, 1);
	/* 1 - ln 2 / ln 4 and, with all weight on one expert, 1. */
	NEAR(r.layers[0].router_confidence.v, (0.5 + 1) / 2);
	/* Among the two chosen: indifferent is 0, all weight on one 1. */
	NEAR(r.layers[0].router_confidence_k.v, (0.0 + 1) / 2);
	NEAR(r.layers[0].steps[0].router_confidence_k.v, (0.0 + 1) / 2);
	/* 1/2 of 1 bit, 1/4 of 2, 2/8 of 3, in nats; and none. */
	NEAR(r.layers[0].router_entropy.v, 1.75 * log(2) / 2);
	NEAR(r.layers[0].top1_prob.v, (0.5 + 1) / 2);
	NEAR(r.layers[0].topk_mass.v, (0.75 + 1) / 2);
	/* Second minus third: 1/8, and 0. */
	NEAR(r.layers[0].margin.v, 0.125 / 2);
	routing_release(&r);
	run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_weights_and_scores, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
