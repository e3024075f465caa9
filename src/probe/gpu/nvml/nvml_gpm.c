/* SPDX-License-Identifier: Apache-2.0
 *
 * GPM: averages of hardware counters over the time between two samples, on devices that have it.
 * Only on the GPU thread.
 *
 * Each device keeps two samples for the life of the process: the last and the next.
 */
#include "base/clock.h"
#include "device/driver/nvml_api.h"
#include "probe/gpu/nvml/nvml.h"

static const struct {
	unsigned int id;
	const char *name;
} metrics[] = {
#define COUNTER(id, metric) { NVML_GPM_METRIC_##id, #metric },
	GPU_COUNTERS(COUNTER)
#undef COUNTER
};
#define N_METRICS (sizeof(metrics) / sizeof(metrics[0]))

static struct {
	nvmlGpmSample_t sample[2]; /* the last and the next; both NULL: unavailable */
	unsigned int taken;
} states[GPU_DEVICES_MAX]; /* by NVML's index */
static moescope_name names[N_METRICS];

void nvml_gpm_begin(const struct nvml_source *source)
{
	unsigned int i = source->device->index;

	states[i].taken = 0;
	for (int s = 0; s < 2; s++)
		if (!states[i].sample[s] && !NVML_DOES(nvmlGpmSampleAlloc, &states[i].sample[s]))
			states[i].sample[s] = NULL;
}

void nvml_gpm_sample(const struct nvml_source *source)
{
	unsigned int i = source->device->index;
	nvmlGpmMetricsGet_t get = { .version = NVML_GPM_METRICS_GET_VERSION,
				    .numMetrics = N_METRICS };
	nvmlGpmSample_t last = states[i].sample[states[i].taken & 1];
	nvmlGpmSample_t next = states[i].sample[(states[i].taken + 1) & 1];
	int64_t now_ns = clock_monotonic_ns();

	if (!last || !next || !NVML_DOES(nvmlGpmSampleGet, source->device->handle, next))
		return;
	if (states[i].taken++ == 0)
		return;
	get.sample1 = last;
	get.sample2 = next;
	for (size_t m = 0; m < N_METRICS; m++)
		get.metrics[m].metricId = metrics[m].id;
	if (!NVML_DOES(nvmlGpmMetricsGet, &get))
		return;
	for (size_t m = 0; m < N_METRICS; m++)
		if (get.metrics[m].nvmlReturn == NVML_SUCCESS)
			nvml_push(source, now_ns, metrics[m].name, &names[m], get.metrics[m].value);
}
