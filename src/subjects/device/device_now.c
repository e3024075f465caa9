/* SPDX-License-Identifier: Apache-2.0
 *
 * The newest readings of the devices; see device_now.h.
 */
#include "subjects/device/device_now.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

static const char *const keys[NOW_READINGS] = {
	[NOW_USE] = "utilization_gpu_pct",	   [NOW_MEMORY_USED] = "memory_used_bytes",
	[NOW_MEMORY_TOTAL] = "memory_total_bytes", [NOW_POWER] = "power_w",
	[NOW_POWER_LIMIT] = "power_limit_w",	   [NOW_CLOCK_SM] = "clock_sm_mhz",
	[NOW_CLOCK_MEMORY] = "clock_memory_mhz",   [NOW_TEMPERATURE] = "temperature_c",
	[NOW_SM_ACTIVE] = "sm_active_pct",	   [NOW_TENSOR_ACTIVE] = "tensor_active_pct",
	[NOW_DRAM] = "dram_bandwidth_pct",
};

static int reading_of(const char *metric)
{
	int reading = 0;

	while (reading < NOW_READINGS && strcmp(keys[reading], metric) != 0)
		reading++;
	return reading;
}

static const char *model_of(const struct run *run, uint16_t shard, uint32_t device)
{
	for (size_t i = 0; i < run->device.n; i++)
		if (run->device.shard[i] == shard && run->device.device[i] == device)
			return run_string(run, run->device.name[i]);
	return NULL;
}

/* Devices are few. */
static struct device_now *find_device(const struct run *run, struct devices_now *out,
				      size_t *capacity, size_t row)
{
	uint16_t shard = run->sample.shard[row];
	uint32_t device = run->sample.device[row];
	struct device_now *d;

	for (size_t i = out->n; i-- > 0;)
		if (out->items[i].shard == shard && out->items[i].device == device)
			return &out->items[i];
	if (array_grow(&out->items, capacity, out->n + 1, sizeof(*out->items)) < 0)
		return NULL;
	d = &out->items[out->n++];
	*d = (struct device_now){ .shard = shard,
				  .rank = run->shards[shard].rank,
				  .device = device,
				  .name = model_of(run, shard, device) };
	for (int r = 0; r < NOW_READINGS; r++)
		d->readings[r] = value_absent("not sampled");
	return d;
}

static int device_order(const void *a, const void *b)
{
	const struct device_now *x = a, *y = b;

	if (x->shard != y->shard)
		return x->shard < y->shard ? -1 : 1;
	return x->device < y->device ? -1 : x->device > y->device;
}

int devices_now_read(const struct run *run, struct devices_now *ret_devices)
{
	const struct table_sample *t = &run->sample;
	struct devices_now out = { 0 };
	uint32_t last_metric = 0;
	int reading = NOW_READINGS;
	size_t capacity = 0;

	/* Rows of a process are in the order of their time: what comes later is newer. */
	for (size_t i = 0; i < t->n; i++) {
		struct device_now *d;

		if (!i || t->metric[i] != last_metric)
			reading = reading_of(run_string(run, t->metric[i]));
		last_metric = t->metric[i];
		if (reading == NOW_READINGS)
			continue;
		d = find_device(run, &out, &capacity, i);
		if (!d) {
			devices_now_release(&out);
			return -ENOMEM;
		}
		d->readings[reading] = value_of(t->value[i]);
	}
	if (out.n)
		qsort(out.items, out.n, sizeof(*out.items), device_order);
	*ret_devices = out;
	return 0;
}

void devices_now_release(struct devices_now *devices)
{
	free(devices->items);
	*devices = (struct devices_now){ 0 };
}
