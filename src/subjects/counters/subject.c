/* SPDX-License-Identifier: Apache-2.0
 *
 * Hardware counters of launches as a subject; see subject.h.
 */
#include "subjects/answers/subject.h"
#include "subjects/counters/device_counters.h"
#include "subjects/counters/kernel_limits.h"
#include "subjects/counters/launch_metrics.h"

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
	return kernel_limits_analyze(m->run, answer_launch_metrics(&m->answers), answer);
}

SUBJECT_RELEASE(kernel_limits)

const struct subject subject_kernel_limits = {
	.id = SUBJECT_ID_kernel_limits,
	.name = "kernel_limits",
	.size = sizeof(struct kernel_limits),
	.length = 10,
	.kinds = WANT(METRIC) | WANT(KERNEL) | WANT(DEVICE),
	.reads = READS(&subject_launch_metrics),
	.compute = compute_kernel_limits,
	.release = release_kernel_limits,
};

static int compute_device_counters(const struct material *m, void *answer)
{
	return device_counters_analyze(m->run, &m->question->sel, m->question->by_step, answer);
}

SUBJECT_RELEASE(device_counters)

const struct subject subject_device_counters = {
	.id = SUBJECT_ID_device_counters,
	.name = "device_counters",
	.size = sizeof(struct device_counters),
	.length = 20,
	.kinds = WANT(SAMPLE) | WANT(STEP) | WANT(FACT),
	.compute = compute_device_counters,
	.release = release_device_counters,
};
