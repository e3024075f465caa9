/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations and ranges as a subject; see subject.h.
 */
#include "subjects/answers/subject.h"
#include "subjects/ops/ops.h"

static int plan_ops(const struct question *question, const struct run *run, struct plan *plan)
{
	(void)run;
	/* Imports make the stacks of operations from frames; a run that is there has them. */
	if (question->by_stack)
		plan_columns(plan, RECORD_FRAME, WANT_COLUMN(frame, depth));
	return 0;
}

static int compute_ops(const struct material *m, void *answer)
{
	const struct ops_options options = { .by_shape = m->question->by_shape,
					     .by_stack = m->question->by_stack };

	return ops_analyze_at(m->at, &m->question->sel, &options, answer);
}

SUBJECT_RELEASE(ops)

const struct subject subject_ops = {
	.id = SUBJECT_ID_ops,
	.name = "ops",
	.size = sizeof(struct ops),
	.length = 45,
	.kinds = WANT_DEVICE,
	.needs = NEEDS_PLACES,
	.plan = plan_ops,
	.compute = compute_ops,
	.release = release_ops,
};
