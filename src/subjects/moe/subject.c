/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a mixture of experts on the devices, as a subject; see subject.h.
 */
#include "subjects/answers/subject.h"
#include "subjects/moe/moe_lens.h"

static int compute_moe_lens(const struct material *m, void *answer)
{
	return moe_lens_analyze_at(m->at, m->lanes, &m->question->sel, m->question->classes,
				   answer);
}

SUBJECT_RELEASE(moe_lens)

const struct subject subject_moe_lens = {
	.id = SUBJECT_ID_moe_lens,
	.name = "moe_lens",
	.size = sizeof(struct moe_lens),
	.length = 50,
	.kinds = WANT_DEVICE | WANT(FRAME) | WANT(FLOW),
	.needs = NEEDS_LANES | NEEDS_PLACES | NEEDS_CLASSES,
	.compute = compute_moe_lens,
	.release = release_moe_lens,
};
