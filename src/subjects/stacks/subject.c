/* SPDX-License-Identifier: Apache-2.0
 *
 * Sampled stacks as a subject; see subject.h.
 */
#include "subjects/answers/subject.h"
#include "subjects/stacks/sampled_stacks.h"
#include "subjects/stacks/stack_choice.h"

static int compute_sampled_stacks(const struct material *m, void *answer)
{
	const struct question *q = m->question;
	enum stacks_by by = q->by_thread  ? STACKS_BY_THREAD
			    : q->by_stack ? STACKS_BY_STACK
			    : q->by_wait  ? STACKS_BY_WAIT
					  : STACKS_BY_FUNCTION;
	struct stack_choice choice;
	int r = stack_choice_init(&choice, m->run, &q->sel, q->range);

	if (r == 0)
		r = sampled_stacks_analyze(m->run, by, &choice, answer);
	stack_choice_release(&choice);
	return r;
}

SUBJECT_RELEASE(sampled_stacks)

const struct subject subject_sampled_stacks = {
	.id = SUBJECT_ID_sampled_stacks,
	.name = "sampled_stacks",
	.size = sizeof(struct sampled_stacks),
	.length = 20,
	.kinds = WANT(STACK) | WANT(STACK_SAMPLE) | WANT(THREAD) | WANT(FACT),
	.plan = stack_choice_plan,
	.compute = compute_sampled_stacks,
	.release = release_sampled_stacks,
};
