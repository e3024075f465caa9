/* SPDX-License-Identifier: Apache-2.0
 *
 * All analyses of a run together, as reports and verdicts take them. Pure, any thread.
 */
#ifndef ANALYZE_FINDINGS_H
#define ANALYZE_FINDINGS_H

#include "analyze/inference.h"
#include "analyze/memory.h"
#include "analyze/ops.h"
#include "analyze/overhead.h"
#include "analyze/routing.h"
#include "analyze/steps.h"

struct findings {
	struct ops ops;
	struct steps steps;
	struct routing routing;
	struct memory memory;
	struct inference inference;
	struct overhead overhead;
};

enum finding {
	FIND_OPS = 1 << 0,
	FIND_STEPS = 1 << 1,
	FIND_ROUTING = 1 << 2,
	FIND_MEMORY = 1 << 3,
	FIND_INFERENCE = 1 << 4,
	FIND_OVERHEAD = 1 << 5,
	FIND_ALL = (1 << 6) - 1,
};

struct findings_options {
	unsigned int want; /* enum finding; the others stay empty */
	struct selection sel;
	struct ops_options ops;
	struct routing_options routing;
};

int findings_analyze(const struct run *run, const struct findings_options *options,
		     struct findings *ret_findings);
void findings_release(struct findings *findings);

#endif
