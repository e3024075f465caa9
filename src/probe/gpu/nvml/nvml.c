/* SPDX-License-Identifier: Apache-2.0
 *
 * NVML: readings of the program's devices. On the GPU thread, except nvml_open. A metric that a
 * device does not have is not recorded; it is absent, not zero.
 *
 * A sample is short: ten times a second it reads only what changes that fast. What changes rarely,
 * and the process table, come once a second, one device at a time. All readings of a device in one
 * sample have the same time.
 *
 * Devices have CUDA's numbers. These are known once the program has initialised CUDA; until then
 * nothing is read, because its number could later mean another device.
 */
#include "probe/gpu/nvml/nvml.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "device/driver/nvml_api.h"
#include "probe/gpu/nvml/cuda_order.h"
#include "probe/core/device_rows.h"
#include "probe/gpu/gpu.h"
#include "probe/core/probe.h"

#define SAMPLES_PER_SECOND 10

static struct gpu_devices devices;
static struct nvml_source sources[GPU_DEVICES_MAX];
static size_t n_sources;
static bool ordered;
static uint64_t samples;

void nvml_push(const struct nvml_source *source, int64_t time_ns, const char *metric,
	       moescope_name *name, double value)
{
	struct row_sample row = { .time_ns = time_ns, .device = source->ordinal, .value = value };

	if (!*name)
		*name = moescope_intern(metric);
	row.metric = *name;
	probe_push_device(RECORD_SAMPLE, &row, sizeof(row));
}

/* On a thread of the program, inside its first CUDA call: the devices are examined later. */
int nvml_open(char *words, size_t size)
{
	struct err err = { "" };

	if (nvml_api_open(&err) == 0)
		return 0;
	snprintf(words, size, "device metrics off: %s", err.message);
	return -1;
}

static void add_source(const struct gpu_device *device, uint32_t ordinal, bool mig)
{
	struct nvml_source *source = &sources[n_sources++];

	/* Counters of the whole device would look like the instance's. */
	*source = (struct nvml_source){ device, ordinal, mig, device->gpm && !mig };
	if (source->gpm)
		nvml_gpm_begin(source);
}

static void add_cuda(const struct cuda_device *cuda, uint32_t ordinal)
{
	bool mig;
	const struct gpu_device *device = gpu_devices_find(&devices, cuda->uuid, &mig);
	char words[256];

	if (!device && cuda->parent[0]) {
		device = gpu_devices_find(&devices, cuda->parent, &mig);
		mig = device != NULL;
	}
	if (!device) {
		snprintf(words, sizeof(words), "no readings for device %u: NVML has no device %s",
			 ordinal, cuda->uuid);
		moescope_info("NVML", words);
		return;
	}
	if (mig) {
		snprintf(words, sizeof(words),
			 "device %u is a MIG instance; its readings are those of the whole %s",
			 ordinal, device->uuid);
		moescope_info("NVML", words);
	}
	add_source(device, ordinal, mig);
}

static void add_all(const char *why)
{
	char words[512];

	snprintf(words, sizeof(words),
		 "readings cover all devices, numbered as by nvidia-smi, not as in the program: "
		 "%.300s",
		 why);
	moescope_info("NVML", words);
	for (size_t i = 0; i < devices.n; i++)
		if (devices.device[i].handle)
			add_source(&devices.device[i], devices.device[i].index, false);
}

static void look_for_order(void)
{
	struct cuda_device cuda[GPU_DEVICES_MAX];
	struct err err = { "" };
	int n = cuda_order_read(cuda, GPU_DEVICES_MAX, &err);

	if (n == -EAGAIN)
		return;
	ordered = true;
	if (n < 0)
		add_all(err.message);
	for (int i = 0; i < n && i < GPU_DEVICES_MAX; i++)
		add_cuda(&cuda[i], (uint32_t)i);
}

void nvml_describe(void)
{
	struct err err = { "" };
	int r = gpu_devices_open(&devices, &err);

	if (r < 0)
		moescope_info("NVML", err.message);
	else if (devices.driver[0])
		moescope_info("NVIDIA driver", devices.driver);
	/* Nothing from an earlier session carries over. */
	n_sources = 0;
	samples = 0;
	ordered = r < 0; /* without devices there is no order to wait for */
	nvml_processes_begin();
}

/* If CUPTI is not there to describe the devices. */
static void push_device(const struct nvml_source *source, const struct gpu_values *values)
{
	struct row_device row = { .device = source->ordinal,
				  .name = moescope_intern(source->device->name),
				  .uuid = moescope_intern(source->device->uuid) };

	if (values->known & GPU_BIT(GPU_MEMORY_TOTAL))
		row.memory_bytes = (uint64_t)values->value[GPU_MEMORY_TOTAL];
	probe_push_device(RECORD_DEVICE, &row, sizeof(row));
}

static void sample_source(const struct nvml_source *source, bool first, bool seldom)
{
	static moescope_name names[GPU_READING_COUNT];
	const uint64_t pcie = GPU_BIT(GPU_PCIE_TX) | GPU_BIT(GPU_PCIE_RX);
	uint64_t wanted = gpu_readings_of(GPU_OFTEN);
	int64_t now_ns = clock_monotonic_ns();
	struct gpu_values values;

	if (first)
		wanted |= gpu_readings_of(GPU_ONCE);
	/* NVML takes 20 ms to measure each direction of PCIe; GPM has it for free. */
	if (seldom)
		wanted |= gpu_readings_of(GPU_SELDOM) & ~(source->gpm ? pcie : 0);
	gpu_device_read(source->device, wanted, &values);
	for (int r = 0; r < GPU_READING_COUNT; r++)
		if (values.known & GPU_BIT(r))
			nvml_push(source, now_ns, gpu_readings[r].metric, &names[r],
				  values.value[r]);
	if (first && GATE_SESSION(gate_load()) < MOESCOPE_TRACE)
		push_device(source, &values);
	if (source->gpm)
		nvml_gpm_sample(source);
	if (seldom)
		nvml_processes_look(source);
}

void nvml_sample(void)
{
	size_t period;

	if (!ordered)
		look_for_order();
	if (!ordered)
		return;
	period = n_sources > SAMPLES_PER_SECOND ? n_sources : SAMPLES_PER_SECOND;
	for (size_t i = 0; i < n_sources; i++)
		sample_source(&sources[i], samples == 0, samples % period == i);
	samples++;
}

void nvml_end(void)
{
	if (!ordered)
		moescope_info("NVML", "no device readings: the program did not initialise CUDA");
}
