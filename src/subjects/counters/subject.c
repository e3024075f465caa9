/* SPDX-License-Identifier: Apache-2.0
 *
 * Hardware counters of launches as a subject; see subject.h.
 */
#include "subjects/answers/subject.h"
#include "subjects/counters/counted_places.h"
#include "subjects/counters/device_counters.h"
#include "subjects/counters/kernel_limits.h"
#include "subjects/counters/launch_metrics.h"
#include "subjects/counters/stalls.h"

static int compute_launch_metrics(const struct material *m, void *answer)
{
	return launch_metrics_analyze(m->run, answer);
}

SUBJECT_RELEASE(launch_metrics)

const struct subject subject_launch_metrics = {
	.id = SUBJECT_ID_launch_metrics,
	.name = "launch_metrics",
	.size = sizeof(struct launch_metrics),
	.length = 20,
	.kinds = WANT(METRIC),
	.compute = compute_launch_metrics,
	.release = release_launch_metrics,
};

static int compute_kernel_limits(const struct material *m, void *answer)
{
	return kernel_limits_analyze(m->run, m->question->peaks, answer_launch_metrics(&m->answers),
				     answer);
}

SUBJECT_RELEASE(kernel_limits)

const struct subject subject_kernel_limits = {
	.id = SUBJECT_ID_kernel_limits,
	.name = "kernel_limits",
	.size = sizeof(struct kernel_limits),
	.length = 10,
	.kinds = WANT(METRIC) | WANT(KERNEL) | WANT(DEVICE),
	.needs = NEEDS_PEAKS,
	.reads = READS(&subject_launch_metrics),
	.compute = compute_kernel_limits,
	.release = release_kernel_limits,
};

static int compute_counted_places(const struct material *m, void *answer)
{
	return counted_places_analyze(m->at, answer);
}

SUBJECT_RELEASE(counted_places)

const struct subject subject_counted_places = {
	.id = SUBJECT_ID_counted_places,
	.name = "counted_places",
	.size = sizeof(struct counted_places),
	.length = 10,
	.kinds = WANT(METRIC) | WANT(COUNTED) | WANT(RANGE) | WANT(OP) | WANT(STEP) |
		 WANT(ROUTING) | WANT(FACT),
	.needs = NEEDS_PLACES,
	.compute = compute_counted_places,
	.release = release_counted_places,
};

static int compute_stalls(const struct material *m, void *answer)
{
	return stalls_analyze(m->run, answer);
}

SUBJECT_RELEASE(stalls)

const struct subject subject_stalls = {
	.id = SUBJECT_ID_stalls,
	.name = "stalls",
	.size = sizeof(struct stalls),
	.length = 10,
	.kinds = WANT(PC_SAMPLE) | WANT(FACT),
	.compute = compute_stalls,
	.release = release_stalls,
};

static int compute_device_counters(const struct material *m, void *answer)
{
	return device_counters_analyze(m->run, m->question->peaks, &m->question->sel,
				       m->question->by_step, answer);
}

SUBJECT_RELEASE(device_counters)

const struct subject subject_device_counters = {
	.id = SUBJECT_ID_device_counters,
	.name = "device_counters",
	.size = sizeof(struct device_counters),
	.length = 20,
	.kinds = WANT(SAMPLE) | WANT(STEP) | WANT(FACT) | WANT(DEVICE),
	.needs = NEEDS_PEAKS,
	.compute = compute_device_counters,
	.release = release_device_counters,
};
