/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices over time, their state and what they waited for, as subjects; see subject.h.
 */
#include "subjects/answers/subject.h"
#include "subjects/device/device_state.h"
#include "subjects/device/device_use.h"
#include "subjects/device/timeline.h"

static int compute_timeline(const struct material *m, void *answer)
{
	return timeline_analyze_at(m->at, m->lanes, &m->question->sel, answer);
}

SUBJECT_RELEASE(timeline)

const struct subject subject_timeline = {
	.id = SUBJECT_ID_timeline,
	.name = "timeline",
	.size = sizeof(struct timeline),
	.length = 85,
	.kinds = WANT_DEVICE | WANT(SYNC),
	.needs = NEEDS_CALLS | NEEDS_LANES,
	.compute = compute_timeline,
	.release = release_timeline,
};

static int compute_device_use(const struct material *m, void *answer)
{
	return device_use_analyze(m->at, m->lanes, &m->question->sel, answer_timeline(&m->answers),
				  answer);
}

const struct subject subject_device_use = {
	.id = SUBJECT_ID_device_use,
	.name = "device_use",
	.size = sizeof(struct device_use),
	.length = 61,
	.kinds = WANT_DEVICE | WANT(SYNC) | WANT(SAMPLE) | WANT(PROCESS),
	.needs = NEEDS_CALLS | NEEDS_LANES,
	.reads = READS(&subject_timeline),
	.compute = compute_device_use,
};

static int compute_device_states(const struct material *m, void *answer)
{
	return device_states_analyze(m->run, answer);
}

SUBJECT_RELEASE(device_states)

const struct subject subject_device_states = {
	.id = SUBJECT_ID_device_states,
	.name = "device_states",
	.size = sizeof(struct device_states),
	.length = 27,
	.kinds = WANT(SAMPLE) | WANT(PROCESS) | WANT(DEVICE),
	.compute = compute_device_states,
	.release = release_device_states,
};
