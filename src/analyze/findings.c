/* SPDX-License-Identifier: Apache-2.0
 *
 * All analyses of a run together; see findings.h.
 */
#include "analyze/findings.h"

int findings_analyze(const struct run *run, const struct findings_options *options,
		     struct findings *ret_findings)
{
	struct findings f = { 0 };
	int r = 0;

	if (options->want & FIND_OPS)
		r = ops_analyze(run, &options->sel, &options->ops, &f.ops);
	if (r >= 0 && (options->want & FIND_STEPS))
		r = steps_analyze(run, &options->sel, &f.steps);
	if (r >= 0 && (options->want & FIND_ROUTING))
		r = routing_analyze(run, &options->sel, &options->routing, &f.routing);
	if (r >= 0 && (options->want & FIND_MEMORY))
		r = memory_analyze(run, 0, &f.memory);
	if (r >= 0 && (options->want & FIND_INFERENCE))
		r = inference_analyze(run, &f.inference);
	if (r >= 0 && (options->want & FIND_OVERHEAD))
		r = overhead_analyze(run, &f.overhead);
	if (r < 0) {
		findings_release(&f);
		return r;
	}
	*ret_findings = f;
	return 0;
}

void findings_release(struct findings *findings)
{
	ops_release(&findings->ops);
	steps_release(&findings->steps);
	routing_release(&findings->routing);
	memory_release(&findings->memory);
	*findings = (struct findings){ 0 };
}
