/* SPDX-License-Identifier: Apache-2.0
 *
 * Host memory by stack as a subject; see subject.h.
 */
#include "subjects/answers/subject.h"
#include "subjects/heap/heap_use.h"
#include "subjects/stacks/stack_choice.h"

static int compute_heap_use(const struct material *m, void *answer)
{
	const struct question *q = m->question;
	struct stack_choice choice;
	int r = stack_choice_init(&choice, m->run, &q->sel, q->range);

	if (r == 0)
		r = heap_use_analyze(m->run, q->by_function, &choice, answer);
	stack_choice_release(&choice);
	return r;
}

SUBJECT_RELEASE(heap_use)

const struct subject subject_heap_use = {
	.id = SUBJECT_ID_heap_use,
	.name = "heap_use",
	.size = sizeof(struct heap_use),
	.length = 20,
	.kinds = WANT(STACK) | WANT(HEAP_SAMPLE) | WANT(FACT),
	.plan = stack_choice_plan,
	.compute = compute_heap_use,
	.release = release_heap_use,
};
