/* SPDX-License-Identifier: Apache-2.0
 *
 * All analyses of a run together; see findings.h.
 *
 * What several of them need is made first. Then each is a task of its own, and large runs have them
 * done by several threads: they only read the run and what was made.
 */
#include "subjects/findings.h"

#include "base/parallel.h"
#include "subjects/shared/attribution.h"
#include "subjects/shared/lanes.h"

/* Runs with fewer device records, calls and ranges are done before a thread has begun. */
#define PARALLEL_ROWS 100000
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct work {
	const struct run *run;
	const struct findings_options *options;
	struct findings f;
	struct attribution at;
	struct device_lanes lanes;
	const struct analysis *tasks[32]; /* of the stage at hand */
	size_t n_tasks;
	unsigned int needs; /* of all of the first stage */
	bool parallel;
};

/* What an analysis needs of what is shared. */
enum { NEEDS_CALLS = 1, NEEDS_PLACES = 2, NEEDS_PLACES_SELECTED = 4, NEEDS_LANES = 8 };

struct analysis {
	enum finding wanted;
	unsigned int needs;
	int (*analyze)(struct work *work);
};

#define ANALYSIS(name, call)                                                                       \
	static int find_##name(struct work *w)                                                     \
	{                                                                                          \
		return call;                                                                       \
	}
ANALYSIS(ops, ops_analyze_at(&w->at, &w->options->sel, &w->options->ops, &w->f.ops))
ANALYSIS(steps, steps_analyze(w->run, &w->options->sel, &w->f.steps))
ANALYSIS(routing, routing_analyze(w->run, &w->options->sel, &w->options->routing, &w->f.routing))
ANALYSIS(memory, memory_analyze(w->run, 0, &w->f.memory))
ANALYSIS(device_memory, device_memory_analyze(w->run, &w->f.device_memory))
ANALYSIS(device_states, device_states_analyze(w->run, &w->f.device_states))
ANALYSIS(inference, inference_analyze(w->run, &w->f.inference))
ANALYSIS(overhead, overhead_analyze(w->run, &w->f.overhead))
ANALYSIS(kernels, kernels_analyze_at(&w->at, &w->options->sel, &w->options->kernels, &w->f.kernels))
ANALYSIS(api, api_calls_analyze_at(&w->at, &w->options->sel, &w->f.api_calls))
ANALYSIS(transfers, transfers_analyze_at(&w->at, &w->lanes, &w->options->sel, &w->f.transfers))
ANALYSIS(comm, comm_analyze_at(&w->at, &w->lanes, &w->options->sel, w->options->kernels.classes,
			       &w->f.comm))
ANALYSIS(moe, moe_lens_analyze_at(&w->at, &w->lanes, &w->options->sel, w->options->kernels.classes,
				  &w->f.moe_lens))
ANALYSIS(timeline, timeline_analyze_at(&w->at, &w->lanes, &w->options->sel, &w->f.timeline))
ANALYSIS(spans, named_spans_analyze(w->run, &w->f.named_spans))
ANALYSIS(launches, launches_analyze_at(&w->at, &w->options->sel, &w->f.launches))
ANALYSIS(counters, launch_metrics_analyze(w->run, &w->f.launch_metrics))
ANALYSIS(slow, slow_steps_analyze(w->run, &w->f.steps, &w->f.coverage, &w->f.slow_steps))
ANALYSIS(device_phases,
	 device_phases_analyze(w->run, &w->f.steps, &w->f.coverage, &w->f.device_phases))
ANALYSIS(tax, imbalance_tax_analyze(w->run, &w->f.steps, &w->f.routing, &w->f.coverage,
				    &w->f.imbalance_tax))
ANALYSIS(use,
	 device_use_analyze(&w->at, &w->lanes, &w->options->sel, &w->f.timeline, &w->f.device_use))
ANALYSIS(efficiency, efficiency_analyze(w->run, &w->options->sel,
					&(struct efficiency_options){ w->options->peaks,
								      w->options->kernels.classes },
					&w->f.ops, &w->f.routing, &w->f.efficiency))

static int find_memory_joined(struct work *w)
{
	memory_join(&w->f.memory, &w->f.device_memory);
	return 0;
}

static int find_limits(struct work *w)
{
	transfer_limits_fill(w->run, w->options->peaks, &w->f.transfers);
	return 0;
}

/* The longest first, so that none is left over for one thread at the end. */
static const struct analysis analyses[] = {
	{ FIND_API, NEEDS_CALLS | NEEDS_PLACES_SELECTED, find_api },
	{ FIND_TIMELINE, NEEDS_CALLS | NEEDS_LANES, find_timeline },
	{ FIND_KERNELS, NEEDS_PLACES_SELECTED, find_kernels },
	{ FIND_COMM, NEEDS_LANES | NEEDS_PLACES_SELECTED, find_comm },
	{ FIND_MOE, NEEDS_LANES | NEEDS_PLACES, find_moe },
	{ FIND_OPS, NEEDS_PLACES, find_ops },
	{ FIND_TRANSFERS, NEEDS_LANES | NEEDS_PLACES_SELECTED, find_transfers },
	{ FIND_STEPS, 0, find_steps },
	{ FIND_ROUTING, 0, find_routing },
	{ FIND_MEMORY, 0, find_memory },
	{ FIND_MEMORY, 0, find_device_memory },
	{ FIND_MEMORY, 0, find_device_states },
	{ FIND_INFERENCE, 0, find_inference },
	{ FIND_OVERHEAD, 0, find_overhead },
	{ FIND_SPANS, 0, find_spans },
	{ FIND_LAUNCHES, NEEDS_CALLS | NEEDS_PLACES_SELECTED, find_launches },
	{ FIND_COUNTERS, 0, find_counters },
};

/* The second stage: what stands on findings of the first. */
static const struct analysis joins[] = {
	{ FIND_EFFICIENCY, 0, find_efficiency },
	{ FIND_SLOW, 0, find_slow },
	{ FIND_TAX, 0, find_tax },
	{ FIND_DEVICE_PHASES, 0, find_device_phases },
	{ FIND_TIMELINE, 0, find_use },
	{ FIND_MEMORY, 0, find_memory_joined },
	{ FIND_TRANSFERS, 0, find_limits },
};

/* The analyses of a stage that are wanted; what they share. */
static unsigned int choose(struct work *w, const struct analysis *stage, size_t n)
{
	unsigned int needs = 0;

	w->n_tasks = 0;
	for (size_t i = 0; i < n; i++) {
		if (!(w->options->want & stage[i].wanted))
			continue;
		w->tasks[w->n_tasks++] = &stage[i];
		needs |= stage[i].needs;
	}
	return needs;
}

/* w->needs, from those of the chosen analyses. */
static int settle_needs(struct work *w, unsigned int needs)
{
	const struct run *run = w->run;
	bool places = false;
	int r = 0;

	if (!run->kernel.n && !run->copy.n && !run->set.n && !run->api.n)
		return 0;
	if (w->options->want & FIND_KERNELS)
		r = kernels_need_places(run, &w->options->kernels, &places);
	if (places ||
	    ((needs & NEEDS_PLACES_SELECTED) && attribution_needed(run, &w->options->sel)))
		needs |= NEEDS_PLACES;
	w->needs = needs;
	return r;
}

/* The two things that are shared do not need each other. */
static int make_shared(void *context, size_t i, unsigned int worker)
{
	struct work *w = context;
	int r = 0;

	(void)worker;
	if (i == 1)
		return w->needs & NEEDS_LANES ? device_lanes_init(&w->lanes, w->run) : 0;
	if (w->needs & NEEDS_PLACES)
		r = attribution_init(&w->at, w->run);
	else if (w->needs & NEEDS_CALLS)
		r = attribution_init_calls(&w->at, w->run);
	/* Every device record has its call by now. */
	if (r >= 0)
		attribution_close(&w->at);
	return r;
}

static int do_task(void *context, size_t i, unsigned int worker)
{
	struct work *w = context;

	(void)worker;
	return w->tasks[i]->analyze(w);
}

static int do_stage(struct work *w)
{
	return parallel_run(w->n_tasks, w->parallel ? parallel_workers(w->n_tasks) : 1, do_task, w);
}

int findings_analyze(const struct run *run, const struct findings_options *options,
		     struct findings *ret_findings)
{
	size_t rows = run->kernel.n + run->api.n + run->range.n + run->op.n + run->routing.n +
		      run->memory.n;
	struct work w = { .run = run, .options = options };
	unsigned int needs;
	int r = coverage_analyze(run, &w.f.coverage);

	w.f.launches = launches_absent("not looked at here; 'moescope kernels' does");
	w.at.run = run;
	w.parallel = rows >= PARALLEL_ROWS;
	needs = choose(&w, analyses, COUNT(analyses));
	if (r >= 0)
		r = settle_needs(&w, needs);
	if (r >= 0)
		r = parallel_run(2, w.parallel ? parallel_workers(2) : 1, make_shared, &w);
	if (r >= 0)
		r = do_stage(&w);
	choose(&w, joins, COUNT(joins));
	if (r >= 0)
		r = do_stage(&w);
	attribution_release(&w.at);
	device_lanes_release(&w.lanes);
	if (r < 0) {
		findings_release(&w.f);
		return r;
	}
	*ret_findings = w.f;
	return 0;
}

void findings_release(struct findings *findings)
{
	ops_release(&findings->ops);
	steps_release(&findings->steps);
	slow_steps_release(&findings->slow_steps);
	routing_release(&findings->routing);
	imbalance_tax_release(&findings->imbalance_tax);
	memory_release(&findings->memory);
	device_memory_release(&findings->device_memory);
	device_states_release(&findings->device_states);
	inference_release(&findings->inference);
	kernels_release(&findings->kernels);
	launches_release(&findings->launches);
	launch_metrics_release(&findings->launch_metrics);
	api_calls_release(&findings->api_calls);
	transfers_release(&findings->transfers);
	comm_release(&findings->comm);
	moe_lens_release(&findings->moe_lens);
	timeline_release(&findings->timeline);
	coverage_release(&findings->coverage);
	named_spans_release(&findings->named_spans);
	efficiency_release(&findings->efficiency);
	*findings = (struct findings){ 0 };
}
