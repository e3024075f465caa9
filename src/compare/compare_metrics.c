/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of figures that runs are compared by; see compare_metrics.h.
 */
#include "compare/compare_metrics.h"

#include <string.h>

const struct compare_metric compare_metrics[COMPARE_METRICS] = {
	[COMPARE_RUN_TIME] = { "run_time", FIGURE_NS, FIGURE_ONE, .speed = true },
	[COMPARE_STEP_TIME] = { "step_time", FIGURE_NS, FIGURE_MEDIAN, .speed = true },
	[COMPARE_STEP_TIME_MEAN] = { "step_time_mean", FIGURE_NS, FIGURE_MEAN, .speed = true },
	[COMPARE_TOKENS_PER_S] = { "tokens_per_s", FIGURE_RATE, FIGURE_MEDIAN,
				   .higher_is_better = true, .speed = true },
	[COMPARE_PHASE_TIME] = { "phase_time", FIGURE_NS, FIGURE_MEAN, .speed = true },
	[COMPARE_TTFT] = { "ttft", FIGURE_NS, FIGURE_MEDIAN, .speed = true },
	[COMPARE_TPOT] = { "tpot", FIGURE_NS, FIGURE_MEDIAN, .speed = true },
	[COMPARE_ITL] = { "itl", FIGURE_NS, FIGURE_MEDIAN, .speed = true },
	[COMPARE_GPU_BUSY_PCT] = { "gpu_busy_pct", FIGURE_PCT, FIGURE_MEAN,
				   .higher_is_better = true, .device = true },
	[COMPARE_IDLE_TIME] = { "idle_time", FIGURE_NS, FIGURE_MEAN, .device = true },
	[COMPARE_KERNEL_TIME] = { "kernel_time", FIGURE_NS, FIGURE_MEAN, .device = true,
				  .speed = true },
	[COMPARE_KERNEL_COUNT] = { "kernel_count", FIGURE_COUNT, FIGURE_MEAN, .device = true },
	[COMPARE_API_TIME] = { "api_time", FIGURE_NS, FIGURE_MEAN, .device = true, .speed = true },
	[COMPARE_COPY_TIME] = { "copy_time", FIGURE_NS, FIGURE_MEAN, .device = true,
				.speed = true },
	[COMPARE_COPY_BYTES] = { "copy_bytes", FIGURE_BYTES, FIGURE_MEAN, .device = true },
	[COMPARE_PEAK_ALLOCATED] = { "peak_allocated", FIGURE_BYTES, FIGURE_ONE },
	[COMPARE_PEAK_RESERVED] = { "peak_reserved", FIGURE_BYTES, FIGURE_ONE },
	[COMPARE_PEAK_DEVICE_USED] = { "peak_device_used", FIGURE_BYTES, FIGURE_ONE },
	[COMPARE_CV_EXCESS] = { "cv_excess", FIGURE_RATIO, FIGURE_MEAN },
	[COMPARE_IMBALANCE] = { "imbalance", FIGURE_RATIO, FIGURE_MEAN },
};

int compare_metric_find(const char *name, size_t length)
{
	for (int i = 0; i < COMPARE_METRICS; i++)
		if (strlen(compare_metrics[i].name) == length &&
		    !strncmp(compare_metrics[i].name, name, length))
			return i;
	return -1;
}

const char *figure_unit_name(enum figure_unit unit)
{
	static const char *const names[] = { "ns", "count", "bytes", "%", "ratio", "per_s" };

	return names[unit];
}
