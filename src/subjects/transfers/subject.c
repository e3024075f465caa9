/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies and sets as a subject; see subject.h.
 */
#include "subjects/answers/subject.h"
#include "subjects/transfers/transfers.h"

static int compute_transfers(const struct material *m, void *answer)
{
	int r = transfers_analyze_at(m->at, m->lanes, &m->question->sel, answer);

	if (r >= 0)
		transfer_limits_fill(m->run, m->question->peaks, answer);
	return r;
}

SUBJECT_RELEASE(transfers)

const struct subject subject_transfers = {
	.id = SUBJECT_ID_transfers,
	.name = "transfers",
	.size = sizeof(struct transfers),
	.length = 40,
	.kinds = WANT_DEVICE,
	.needs = NEEDS_LANES | NEEDS_PEAKS | NEEDS_SELECTED_PLACES,
	.compute = compute_transfers,
	.release = release_transfers,
};
