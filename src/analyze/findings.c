/* SPDX-License-Identifier: Apache-2.0
 *
 * All analyses of a run together; see findings.h.
 */
#include "analyze/findings.h"

int findings_analyze(const struct run *run, const struct findings_options *options,
		     struct findings *ret_findings)
{
	struct findings f = {
		.launches = launches_absent("not looked at here; 'moescope kernels' does"),
	};
	int r = coverage_analyze(run, &f.coverage);

	if (r >= 0 && (options->want & FIND_OPS))
		r = ops_analyze(run, &options->sel, &options->ops, &f.ops);
	if (r >= 0 && (options->want & FIND_STEPS))
		r = steps_analyze(run, &options->sel, &f.steps);
	if (r >= 0 && (options->want & FIND_ROUTING))
		r = routing_analyze(run, &options->sel, &options->routing, &f.routing);
	if (r >= 0 && (options->want & FIND_SLOW))
		r = slow_steps_analyze(run, &f.steps, &f.coverage, &f.slow);
	if (r >= 0 && (options->want & FIND_TAX))
		r = imbalance_tax_analyze(run, &f.steps, &f.routing, &f.coverage, &f.tax);
	if (r >= 0 && (options->want & FIND_MEMORY))
		r = memory_analyze(run, 0, &f.memory);
	if (r >= 0 && (options->want & FIND_MEMORY))
		r = device_memory_analyze(run, &f.device_memory);
	if (r >= 0 && (options->want & FIND_MEMORY))
		memory_join(&f.memory, &f.device_memory);
	if (r >= 0 && (options->want & FIND_MEMORY))
		r = device_states_analyze(run, &f.device_states);
	if (r >= 0 && (options->want & FIND_INFERENCE))
		r = inference_analyze(run, &f.inference);
	if (r >= 0 && (options->want & FIND_OVERHEAD))
		r = overhead_analyze(run, &f.overhead);
	if (r >= 0 && (options->want & FIND_KERNELS))
		r = kernels_analyze(run, &options->sel, &options->kernels, &f.kernels);
	if (r >= 0 && (options->want & FIND_LAUNCHES))
		r = launches_analyze(run, &options->sel, &f.launches);
	if (r >= 0 && (options->want & FIND_API))
		r = api_calls_analyze(run, &options->sel, &f.api);
	if (r >= 0 && (options->want & FIND_TRANSFERS))
		r = transfers_analyze(run, &options->sel, &f.transfers);
	if (r >= 0 && (options->want & FIND_TRANSFERS))
		transfer_limits_fill(run, options->peaks, &f.transfers);
	if (r >= 0 && (options->want & FIND_TIMELINE))
		r = timeline_analyze(run, &options->sel, &f.timeline);
	if (r >= 0 && (options->want & FIND_TIMELINE))
		r = device_use_analyze(run, &options->sel, &f.timeline, &f.coverage, &f.use);
	if (r >= 0 && (options->want & FIND_SPANS))
		r = named_spans_analyze(run, &f.spans);
	if (r >= 0 && (options->want & FIND_EFFICIENCY))
		r = efficiency_analyze(
			run, &options->sel,
			&(struct efficiency_options){ options->peaks, options->kernels.classes },
			&f.ops, &f.routing, &f.efficiency);
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
	slow_steps_release(&findings->slow);
	routing_release(&findings->routing);
	imbalance_tax_release(&findings->tax);
	memory_release(&findings->memory);
	device_memory_release(&findings->device_memory);
	device_states_release(&findings->device_states);
	inference_release(&findings->inference);
	kernels_release(&findings->kernels);
	launches_release(&findings->launches);
	api_calls_release(&findings->api);
	transfers_release(&findings->transfers);
	timeline_release(&findings->timeline);
	coverage_release(&findings->coverage);
	named_spans_release(&findings->spans);
	efficiency_release(&findings->efficiency);
	*findings = (struct findings){ 0 };
}
