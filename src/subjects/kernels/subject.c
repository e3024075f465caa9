/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels and their launches as subjects; see subject.h.
 */
#include "subjects/answers/subject.h"
#include "subjects/kernels/kernels.h"
#include "subjects/kernels/launches.h"
#include "subjects/shared/attribution.h"

/* What finds the call of a kernel, and says what it cost. */
#define CALL_COLUMNS                                                                               \
	(WANT_COLUMN(api, start_ns) | WANT_COLUMN(api, duration_ns) | WANT_COLUMN(api, thread) |   \
	 WANT_COLUMN(api, correlation) | WANT_COLUMN(api, driver))

static struct kernels_options options_of(const struct question *question)
{
	return (struct kernels_options){ .by = (enum kernels_by)question->kernels_by,
					 .classes = question->classes };
}

/* All kernels, wherever in the program, need neither ranges nor operations. */
static void plan_calls(struct plan *plan, const struct question *question)
{
	plan_columns(plan, RECORD_API, CALL_COLUMNS);
	if (!selection_is_all(&question->sel))
		plan_kinds(plan, WANT(RANGE) | WANT(OP));
}

static int plan_kernels(const struct question *question, const struct run *run, struct plan *plan)
{
	struct kernels_options options = options_of(question);
	bool places = false;
	int r = 0;

	plan_calls(plan, question);
	if (kernels_need_ranges(&options))
		plan_kinds(plan, WANT(RANGE) | WANT(OP));
	if (options.by == KERNELS_BY_STREAM || options.by == KERNELS_BY_GRAPH)
		plan_columns(plan, RECORD_KERNEL, 0);
	if (run && run->kernel.n)
		r = kernels_need_places(run, &options, &places);
	if (places)
		plan->needs |= NEEDS_PLACES;
	return r;
}

static int compute_kernels(const struct material *m, void *answer)
{
	struct kernels_options options = options_of(m->question);

	return kernels_analyze_at(m->at, &m->question->sel, &options, answer);
}

SUBJECT_RELEASE(kernels)

const struct subject subject_kernels = {
	.id = SUBJECT_ID_kernels,
	.name = "kernels",
	.size = sizeof(struct kernels),
	.length = 80,
	.kinds = WANT_DEVICE_ALONE,
	.needs = NEEDS_CLASSES | NEEDS_SELECTED_PLACES,
	.plan = plan_kernels,
	.compute = compute_kernels,
	.release = release_kernels,
};

static int plan_launches(const struct question *question, const struct run *run, struct plan *plan)
{
	(void)run;
	if (question->no_launches)
		return 0;
	plan_kinds(plan, WANT_DEVICE_ALONE);
	plan_calls(plan, question);
	plan->needs |= NEEDS_CALLS | NEEDS_SELECTED_PLACES;
	return 0;
}

static int compute_launches(const struct material *m, void *answer)
{
	struct launches *launches = answer;

	if (!m->question->no_launches)
		return launches_analyze_at(m->at, &m->question->sel, launches);
	*launches = launches_absent("not looked at here; 'moescope kernels' does");
	return 0;
}

SUBJECT_RELEASE(launches)

const struct subject subject_launches = {
	.id = SUBJECT_ID_launches,
	.name = "launches",
	.size = sizeof(struct launches),
	.length = 21,
	.plan = plan_launches,
	.compute = compute_launches,
	.release = release_launches,
};
