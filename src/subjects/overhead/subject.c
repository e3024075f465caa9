/* SPDX-License-Identifier: Apache-2.0
 *
 * What profiling cost, as a subject; see subject.h.
 */
#include "subjects/answers/subject.h"
#include "subjects/overhead/overhead.h"

static int compute_overhead(const struct material *m, void *answer)
{
	return overhead_analyze(m->run, answer);
}

const struct subject subject_overhead = {
	.id = SUBJECT_ID_overhead,
	.name = "overhead",
	.size = sizeof(struct overhead),
	.length = 24,
	.kinds = WANT(STEP) | WANT(COST) | WANT(DEVICE_COST),
	.compute = compute_overhead,
};
