/* SPDX-License-Identifier: Apache-2.0
 *
 * Communication as a subject; see subject.h.
 */
#include "subjects/answers/subject.h"
#include "subjects/comm/comm.h"

static int compute_comm(const struct material *m, void *answer)
{
	return comm_analyze_at(m->at, m->lanes, &m->question->sel, m->question->classes, answer);
}

SUBJECT_RELEASE(comm)

const struct subject subject_comm = {
	.id = SUBJECT_ID_comm,
	.name = "comm",
	.size = sizeof(struct comm),
	.length = 60,
	.kinds = WANT_DEVICE | WANT(COLLECTIVE),
	.needs = NEEDS_LANES | NEEDS_CLASSES | NEEDS_SELECTED_PLACES,
	.compute = compute_comm,
	.release = release_comm,
};
