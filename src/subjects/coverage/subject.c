/* SPDX-License-Identifier: Apache-2.0
 *
 * How much of the run device records cover, as a subject; see subject.h.
 */
#include "subjects/answers/subject.h"
#include "subjects/shared/coverage.h"

static int plan_coverage(const struct question *question, const struct run *run, struct plan *plan)
{
	(void)question;
	(void)run;
	/* Whether a process made any call. */
	plan_columns(plan, RECORD_API, WANT_COLUMN(api, start_ns));
	return 0;
}

static int compute_coverage(const struct material *m, void *answer)
{
	return coverage_analyze(m->run, answer);
}

SUBJECT_RELEASE(coverage)

const struct subject subject_coverage = {
	.id = SUBJECT_ID_coverage,
	.name = "coverage",
	.size = sizeof(struct coverage),
	.length = 65, /* short, but the slow ones read it */
	.kinds = WANT_DEVICE_ALONE,
	.plan = plan_coverage,
	.compute = compute_coverage,
	.release = release_coverage,
};
