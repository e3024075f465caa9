/* SPDX-License-Identifier: Apache-2.0
 *
 * Sampled stacks as a subject; see subject.h.
 */
#include "subjects/answers/subject.h"
#include "subjects/stacks/sampled_stacks.h"

static int compute_sampled_stacks(const struct material *m, void *answer)
{
	return sampled_stacks_analyze(m->run,
				      m->question->by_thread  ? STACKS_BY_THREAD
				      : m->question->by_stack ? STACKS_BY_STACK
				      : m->question->by_wait  ? STACKS_BY_WAIT
							      : STACKS_BY_FUNCTION,
				      answer);
}

SUBJECT_RELEASE(sampled_stacks)

const struct subject subject_sampled_stacks = {
	.id = SUBJECT_ID_sampled_stacks,
	.name = "sampled_stacks",
	.size = sizeof(struct sampled_stacks),
	.length = 20,
	.kinds = WANT(STACK) | WANT(STACK_SAMPLE) | WANT(THREAD) | WANT(FACT),
	.compute = compute_sampled_stacks,
	.release = release_sampled_stacks,
};
