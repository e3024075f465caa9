/* SPDX-License-Identifier: Apache-2.0
 *
 * The words that plans are made of; see subject.h.
 */
#include "subjects/answers/subject.h"
#include "subjects/shared/attribution.h"

/* Without what only rows by context or graph are made of; streams are for iterations.h. */
#define KERNEL_COLUMNS                                                                             \
	(WANT_COLUMN(kernel, launch) | WANT_COLUMN(kernel, start_ns) |                             \
	 WANT_COLUMN(kernel, duration_ns) | WANT_COLUMN(kernel, device) |                          \
	 WANT_COLUMN(kernel, correlation) | WANT_COLUMN(kernel, untimed) |                         \
	 WANT_COLUMN(kernel, graph_node) | WANT_COLUMN(kernel, stream))

static void add_kind(struct run_want *want, unsigned int kind, uint64_t columns)
{
	bool all = !columns || (want->kinds >> kind & 1 && !want->columns[kind]);

	want->kinds |= UINT64_C(1) << kind;
	want->columns[kind] = all ? 0 : want->columns[kind] | columns;
}

void want_add(struct run_want *want, const struct run_want *more)
{
	for (unsigned int kind = 0; kind < RECORD_KIND_LIMIT; kind++)
		if (more->kinds >> kind & 1)
			add_kind(want, kind, more->columns[kind]);
}

void plan_kinds(struct plan *plan, uint64_t kinds)
{
	struct run_want more = { .kinds = kinds, .columns = { [RECORD_KERNEL] = KERNEL_COLUMNS } };

	want_add(&plan->want, &more);
}

void plan_columns(struct plan *plan, enum record_kind kind, uint64_t columns)
{
	add_kind(&plan->want, kind, columns);
}

int plan_subject(const struct subject *subject, const struct question *question,
		 const struct run *run, struct plan *ret_plan)
{
	int r = 0;

	*ret_plan = (struct plan){ .needs = subject->needs };
	plan_kinds(ret_plan, subject->kinds);
	if (subject->plan)
		r = subject->plan(question, run, ret_plan);
	if (run && ret_plan->needs & NEEDS_SELECTED_PLACES &&
	    attribution_needed(run, &question->sel))
		ret_plan->needs |= NEEDS_PLACES;
	return r;
}

void plan_subjects(struct plan *plan, const struct question *question,
		   const struct subject *const *reads)
{
	for (; reads && *reads; reads++) {
		struct plan one;

		plan_subject(*reads, question, NULL, &one);
		want_add(&plan->want, &one.want);
		plan->needs |= one.needs;
		plan_subjects(plan, question, (*reads)->reads);
	}
}
