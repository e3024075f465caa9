/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps, their phases on the devices, and why some were slow, as subjects; see subject.h.
 */
#include "subjects/answers/subject.h"
#include "subjects/steps/device_phases.h"
#include "subjects/steps/slow_steps.h"
#include "subjects/steps/steps.h"

static int compute_steps(const struct material *m, void *answer)
{
	return steps_analyze(m->run, &m->question->sel, answer);
}

SUBJECT_RELEASE(steps)

const struct subject subject_steps = {
	.id = SUBJECT_ID_steps,
	.name = "steps",
	.size = sizeof(struct steps),
	.length = 35,
	.kinds = WANT(STEP) | WANT(RANGE) | WANT(OP),
	.compute = compute_steps,
	.release = release_steps,
};

/* It looks at slices of the run as timelines do. */
static int compute_slow_steps(const struct material *m, void *answer)
{
	return slow_steps_analyze(m->run, answer_steps(&m->answers), answer_coverage(&m->answers),
				  answer);
}

SUBJECT_RELEASE(slow_steps)

const struct subject subject_slow_steps = {
	.id = SUBJECT_ID_slow_steps,
	.name = "slow_steps",
	.size = sizeof(struct slow_steps),
	.length = 64,
	.kinds = WANT_DEVICE | WANT(SYNC) | WANT(SAMPLE),
	.reads = READS(&subject_steps, &subject_coverage),
	.compute = compute_slow_steps,
	.release = release_slow_steps,
};

static int compute_device_phases(const struct material *m, void *answer)
{
	return device_phases_analyze(m->run, answer_steps(&m->answers),
				     answer_coverage(&m->answers), answer);
}

const struct subject subject_device_phases = {
	.id = SUBJECT_ID_device_phases,
	.name = "device_phases",
	.size = sizeof(struct device_phases),
	.length = 62,
	.kinds = WANT_DEVICE,
	.reads = READS(&subject_steps, &subject_coverage),
	.compute = compute_device_phases,
};
