/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of views: a new one is one file and one line here.
 */
#include <string.h>

#include "present/frame/present.h"
#include "present/frame/scene.h"
#include "present/frame/whole_views.h"

static int render_ops(const struct run *run, const struct present_options *options, FILE *out,
		      struct err *err)
{
	return section_render(&section_ops, run, options, out, err);
}

static int render_steps(const struct run *run, const struct present_options *options, FILE *out,
			struct err *err)
{
	return section_render(&section_steps, run, options, out, err);
}

static int render_routing(const struct run *run, const struct present_options *options, FILE *out,
			  struct err *err)
{
	return section_render(&section_routing, run, options, out, err);
}

static int render_routing_steps(const struct run *run, const struct present_options *options,
				FILE *out, struct err *err)
{
	return section_render(&section_routing_steps, run, options, out, err);
}

static int render_routing_experts(const struct run *run, const struct present_options *options,
				  FILE *out, struct err *err)
{
	return section_render(&section_routing_experts, run, options, out, err);
}

static int render_memory(const struct run *run, const struct present_options *options, FILE *out,
			 struct err *err)
{
	return section_render(&section_memory, run, options, out, err);
}

static int render_kernels(const struct run *run, const struct present_options *options, FILE *out,
			  struct err *err)
{
	return section_render(&section_kernels, run, options, out, err);
}

static int render_api(const struct run *run, const struct present_options *options, FILE *out,
		      struct err *err)
{
	return section_render(&section_api, run, options, out, err);
}

static int render_transfers(const struct run *run, const struct present_options *options, FILE *out,
			    struct err *err)
{
	return section_render(&section_transfers, run, options, out, err);
}

static int render_comm(const struct run *run, const struct present_options *options, FILE *out,
		       struct err *err)
{
	return section_render(&section_comm, run, options, out, err);
}

static int render_moe(const struct run *run, const struct present_options *options, FILE *out,
		      struct err *err)
{
	return section_render(&section_moe, run, options, out, err);
}

static int render_counters(const struct run *run, const struct present_options *options, FILE *out,
			   struct err *err)
{
	return section_render(&section_counters, run, options, out, err);
}

static int render_efficiency(const struct run *run, const struct present_options *options,
			     FILE *out, struct err *err)
{
	return section_render(&section_efficiency, run, options, out, err);
}

/* Device records, what places them in the program, and when they were collected. */
#define WANT_DEVICE                                                                                \
	(WANT(KERNEL) | WANT(COPY) | WANT(SET) | WANT(API) | WANT(RANGE) | WANT(OP) | WANT(STEP) | \
	 WANT(GRAPH_NODE) | WANT(GEAR) | WANT(DEVICE))

/* Without what only rows by context or graph are made of; streams are for iterations.h. */
#define KERNEL_COLUMNS                                                                             \
	(WANT_COLUMN(kernel, launch) | WANT_COLUMN(kernel, start_ns) |                             \
	 WANT_COLUMN(kernel, duration_ns) | WANT_COLUMN(kernel, device) |                          \
	 WANT_COLUMN(kernel, correlation) | WANT_COLUMN(kernel, untimed) |                         \
	 WANT_COLUMN(kernel, graph_node) | WANT_COLUMN(kernel, stream))

/* What finds the call of a kernel, and says what it cost. */
#define CALL_COLUMNS                                                                               \
	(WANT_COLUMN(api, start_ns) | WANT_COLUMN(api, duration_ns) | WANT_COLUMN(api, thread) |   \
	 WANT_COLUMN(api, correlation) | WANT_COLUMN(api, driver))

static void narrow_kernels(const struct present_options *options, struct run_want *want)
{
	const struct kernels_options by = { .by = (enum kernels_by)options->kernels_by };
	const struct selection sel = { options->step_first, options->step_last, options->layer,
				       options->phase };

	if (by.by != KERNELS_BY_STREAM && by.by != KERNELS_BY_GRAPH)
		want->columns[RECORD_KERNEL] = KERNEL_COLUMNS;
	want->columns[RECORD_API] = CALL_COLUMNS;
	/* All kernels by what they are alone, wherever in the program: without ranges and operations,
	 * which are most of a foreign trace. */
	if (selection_is_all(&sel) && !kernels_need_ranges(&by))
		want->kinds &= ~(WANT(RANGE) | WANT(OP));
}

static const struct view views[] = {
	{ "report", WANT_ALL, view_report, KERNEL_COLUMNS },
	{ "dashboard",
	  WANT_DEVICE | WANT(ROUTING) | WANT(MOE_LAYER) | WANT(MEMORY) | WANT(COUNTER) |
		  WANT(COST) | WANT(TOKEN) | WANT(SAMPLE) | WANT(DEVICE_MEMORY) | WANT(POOL) |
		  WANT(PROCESS),
	  view_dashboard },
	{ "ops", WANT_DEVICE, render_ops, KERNEL_COLUMNS },
	{ "steps", WANT_DEVICE | WANT(SYNC) | WANT(SAMPLE), render_steps },
	{ "routing", WANT_DEVICE | WANT(ROUTING) | WANT(ROUTED) | WANT(MOE_LAYER), render_routing },
	{ "routing-steps",
	  WANT(ROUTING) | WANT(MOE_LAYER) | WANT(RANGE) | WANT(OP) | WANT(STEP) | WANT(KERNEL),
	  render_routing_steps },
	{ "routing-experts", WANT(ROUTING) | WANT(KERNEL), render_routing_experts },
	{ "memory",
	  WANT(MEMORY) | WANT(STEP) | WANT(KERNEL) | WANT(DEVICE_MEMORY) | WANT(SAMPLE) |
		  WANT(POOL) | WANT(PROCESS) | WANT(RANGE) | WANT(OP) | WANT(COUNTER) |
		  WANT(DEVICE),
	  render_memory },
	{ "kernels", WANT_DEVICE, render_kernels, 0, narrow_kernels },
	{ "api", WANT_DEVICE, render_api, KERNEL_COLUMNS },
	{ "transfers", WANT_DEVICE, render_transfers, KERNEL_COLUMNS },
	{ "comm", WANT_DEVICE | WANT(COLLECTIVE), render_comm, KERNEL_COLUMNS },
	{ "moe", WANT_DEVICE | WANT(FRAME) | WANT(FLOW), render_moe, KERNEL_COLUMNS },
	{ "counters", WANT(METRIC) | WANT(KERNEL), render_counters },
	{ "efficiency", WANT_DEVICE | WANT(ROUTING) | WANT(MOE_LAYER) | WANT(FACT) | WANT(SAMPLE),
	  render_efficiency },
};

const struct view *view_find(const char *name)
{
	for (size_t i = 0; i < sizeof(views) / sizeof(views[0]); i++)
		if (!strcmp(views[i].name, name))
			return &views[i];
	return NULL;
}

struct run_want view_want(const struct view *view, const struct present_options *options)
{
	struct run_want want = { .kinds = view->want_kinds,
				 .columns = { [RECORD_KERNEL] = view->kernel_columns } };

	if (view->narrow)
		view->narrow(options, &want);
	/* Imports make the stacks of operations from frames; a run that is there has them. */
	if (options->by_stack && want.kinds & WANT(OP)) {
		want.kinds |= WANT(FRAME);
		want.columns[RECORD_FRAME] = WANT_COLUMN(frame, depth);
	}
	return want;
}
