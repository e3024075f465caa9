/* SPDX-License-Identifier: Apache-2.0
 *
 * All analyses of a run together, as reports and verdicts take them. Pure, any thread.
 */
#ifndef SUBJECTS_FINDINGS_H
#define SUBJECTS_FINDINGS_H

#include "subjects/api/api_calls.h"
#include "subjects/comm/comm.h"
#include "subjects/shared/coverage.h"
#include "subjects/memory/device_memory.h"
#include "subjects/device/device_phases.h"
#include "subjects/device/device_state.h"
#include "subjects/efficiency/efficiency.h"
#include "subjects/device/device_use.h"
#include "subjects/routing/imbalance_tax.h"
#include "subjects/inference/inference.h"
#include "subjects/kernels/kernels.h"
#include "subjects/shared/launch_metrics.h"
#include "subjects/kernels/launches.h"
#include "subjects/memory/memory.h"
#include "subjects/moe/moe_lens.h"
#include "subjects/shared/named_spans.h"
#include "subjects/ops/ops.h"
#include "subjects/overhead/overhead.h"
#include "subjects/routing/routing.h"
#include "subjects/steps/slow_steps.h"
#include "subjects/steps/steps.h"
#include "subjects/device/timeline.h"
#include "subjects/transfers/transfers.h"

struct findings {
	struct ops ops;
	struct steps steps;
	struct device_phases device_phases; /* needs FIND_STEPS */
	struct slow_steps slow_steps;	    /* with FIND_SLOW and FIND_STEPS */
	struct routing routing;
	struct imbalance_tax imbalance_tax; /* with FIND_TAX, FIND_STEPS and FIND_ROUTING */
	struct memory memory;
	struct device_memory device_memory; /* with FIND_MEMORY */
	struct device_states device_states; /* likewise */
	struct inference inference;
	struct overhead overhead;
	struct kernels kernels;
	struct launches launches;	      /* with FIND_LAUNCHES */
	struct launch_metrics launch_metrics; /* with FIND_COUNTERS */
	struct api_calls api_calls;
	struct transfers transfers;
	struct comm comm;
	struct moe_lens moe_lens;
	struct timeline timeline;
	struct device_use device_use; /* with FIND_TIMELINE */
	struct coverage coverage;     /* always */
	struct named_spans named_spans;
	struct efficiency efficiency; /* needs FIND_OPS and FIND_ROUTING */
};

enum finding {
	FIND_OPS = 1 << 0,
	FIND_STEPS = 1 << 1,
	FIND_ROUTING = 1 << 2,
	FIND_MEMORY = 1 << 3,
	FIND_INFERENCE = 1 << 4,
	FIND_OVERHEAD = 1 << 5,
	FIND_KERNELS = 1 << 6,
	FIND_API = 1 << 7,
	FIND_TRANSFERS = 1 << 8,
	FIND_TIMELINE = 1 << 9,
	FIND_SPANS = 1 << 10,
	FIND_SLOW = 1 << 11,
	FIND_TAX = 1 << 12,
	FIND_EFFICIENCY = 1 << 13,
	FIND_DEVICE_PHASES = 1 << 14,
	FIND_COMM = 1 << 15,
	FIND_MOE = 1 << 16,
	FIND_ALL = (1 << 17) - 1,
	/* Parts that only some views show. */
	FIND_ROUTER_TIME = 1 << 17,
	FIND_LAUNCHES = 1 << 18, /* of kernels: it looks up the call of every one */
	FIND_COUNTERS = 1 << 19,
};

struct findings_options {
	unsigned int want; /* enum finding; the others stay empty */
	struct selection sel;
	struct ops_options ops;
	struct routing_options routing;
	struct kernels_options kernels;
	const struct peaks_file *peaks; /* NULL: none were measured */
};

int findings_analyze(const struct run *run, const struct findings_options *options,
		     struct findings *ret_findings);
void findings_release(struct findings *findings);

#endif
