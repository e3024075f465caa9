/* SPDX-License-Identifier: Apache-2.0
 *
 * The dashboard: one screen (80 x 24) of a run that may be growing or empty: only what is known, n/a for
 * the rest. Repainted several times a second by live views, so steps and routing are the last ones.
 */
#include <errno.h>
#include <stdlib.h>

#include "documents/dashboard_lines.h"
#include "documents/document.h"
#include "subjects/answers/subject.h"
#include "subjects/routing/routing.h"

#define LAYERS 4

/* Whether any range names an expert: looking up the place of every kernel is dear. */
static bool names_experts(const struct run *run)
{
	uint32_t last = 0;

	for (size_t i = 0; i < run->range.n; i++) {
		uint32_t site = run->range.site[i];

		if (site != last && run_site(run, site).expert >= 0)
			return true;
		last = site;
	}
	return false;
}

/* Its questions. Two windows, both ending at the last step: a longer one for times, a shorter for
 * routing. Times of kernels are those of the whole run. */
enum { ASKED_TIMES, ASKED_ROUTING, ASKED_CLASSES, ASKED_EXPERTS, ASKED };
_Static_assert(ASKED <= ASKED_MAX, "as many as a section can ask");

static const struct subject *const routing_reads[] = { &subject_routing, NULL };
static const struct subject *const kernel_reads[] = { &subject_kernels, NULL };

static size_t dashboard_ask(const struct run *run, const struct question *question,
			    struct asked *ret_asked)
{
	struct question q = *question;

	dashboard_recent(run, RECENT_STEPS, &q.sel);
	ret_asked[ASKED_TIMES] = (struct asked){ q, { "dashboard", section_dashboard.reads } };
	q.sel = question->sel;
	dashboard_recent(run, RECENT_ROUTING, &q.sel);
	ret_asked[ASKED_ROUTING] = (struct asked){ q, { "dashboard, experts", routing_reads } };
	q.sel = SELECT_ALL;
	q.kernels_by = KERNELS_BY_CLASS;
	ret_asked[ASKED_CLASSES] = (struct asked){ q, { "dashboard, classes", kernel_reads } };
	q.kernels_by = KERNELS_BY_EXPERT;
	ret_asked[ASKED_EXPERTS] = (struct asked){ q, { "dashboard, kernels", kernel_reads } };
	return run && !names_experts(run) ? ASKED_EXPERTS : ASKED;
}

static int dashboard_make(const struct scene *scenes, size_t n, void **ret_own)
{
	const struct answers *times = scenes[ASKED_TIMES].answers;
	struct overview_parts parts = {
		.memory = answer_memory(times),
		.device_memory = answer_device_memory(times),
		.device_states = answer_device_states(times),
		.timeline = answer_timeline(times),
		.routing = answer_routing(scenes[ASKED_ROUTING].answers),
		.by_class = answer_kernels(scenes[ASKED_CLASSES].answers),
		.by_expert = n > ASKED_EXPERTS ? answer_kernels(scenes[ASKED_EXPERTS].answers)
					       : NULL,
	};
	struct overview *o = calloc(1, sizeof(*o));
	int r = o ? overview_make(scenes->run, &parts, o) : -ENOMEM;

	if (r < 0) {
		free(o);
		return r;
	}
	*ret_own = o;
	return 0;
}

static void dashboard_release(void *own)
{
	overview_release(own);
	free(own);
}

static void dashboard_page(const struct scene *scenes, const void *own, struct page *page)
{
	const struct scene *times = &scenes[ASKED_TIMES];
	const struct routing *routing = answer_routing(scenes[ASKED_ROUTING].answers);

	dashboard_head(times->run, times->run->info.status, page);
	dashboard_loss(times->run, page);
	dashboard_speed(times, page);
	dashboard_memory(own, page);
	dashboard_device(times->run, own, page);
	page_empty_line(page);
	dashboard_layers(routing, LAYERS, page);
	dashboard_experts(own, page);
	dashboard_cost(times, routing, page);
}

#define TEXT_ONLY "the dashboard is text only; the report has the same as JSON"

/* The series of the loss is made of counters. */
static const struct document dashboard = {
	.kinds = WANT(COUNTER) | WANT(STEP),
	.ask = dashboard_ask,
	.make = dashboard_make,
	.release = dashboard_release,
	.narrowest = 80,
	.page = dashboard_page,
	.not_json = TEXT_ONLY,
	.not_csv = TEXT_ONLY,
};

const struct section section_dashboard = {
	.name = "dashboard",
	.reads = READS(&subject_steps, &subject_memory, &subject_device_memory,
		       &subject_device_states, &subject_overhead, &subject_timeline,
		       &subject_coverage),
	.document = &dashboard,
};
