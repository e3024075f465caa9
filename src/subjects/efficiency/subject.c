/* SPDX-License-Identifier: Apache-2.0
 *
 * Work against what the devices can do, as a subject; see subject.h.
 */
#include "subjects/answers/subject.h"
#include "subjects/efficiency/efficiency.h"

static int compute_efficiency(const struct material *m, void *answer)
{
	const struct efficiency_options options = { m->question->peaks, m->question->classes };

	return efficiency_analyze(m->run, &m->question->sel, &options, answer_ops(&m->answers),
				  answer_routing(&m->answers), answer);
}

SUBJECT_RELEASE(efficiency)

const struct subject subject_efficiency = {
	.id = SUBJECT_ID_efficiency,
	.name = "efficiency",
	.size = sizeof(struct efficiency),
	.length = 70,
	.kinds = WANT_DEVICE | WANT(FACT) | WANT(SAMPLE),
	.needs = NEEDS_CLASSES | NEEDS_PEAKS,
	.reads = READS(&subject_ops, &subject_routing),
	.compute = compute_efficiency,
	.release = release_efficiency,
};
