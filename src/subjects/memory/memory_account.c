/* SPDX-License-Identifier: Apache-2.0
 *
 * What the program's allocator says of itself, as readings of its device (moescope_device_sample).
 * Pure, any thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "subjects/memory/memory_inside.h"

#define TOTAL_MOST 9.2e18 /* fits into 63 bits */

/* Metrics of the readings; of a peak the largest counts, of the others the last. */
static const struct {
	const char *metric;
	size_t offset;
	bool is_peak;
} accounts[] = {
#define ACCOUNT(name, peak)                                                                        \
	{                                                                                          \
#name, offsetof(struct memory_device, account_##name), peak                        \
	}
	ACCOUNT(allocated_bytes, false),     ACCOUNT(reserved_bytes, false),
	ACCOUNT(peak_allocated_bytes, true), ACCOUNT(peak_reserved_bytes, true),
	ACCOUNT(peak_requested_bytes, true),
#undef ACCOUNT
};

#define N_ACCOUNTS (sizeof(accounts) / sizeof(accounts[0]))

static struct value *account_value(struct memory_device *device, size_t i)
{
	return (struct value *)((char *)device + accounts[i].offset);
}

static void take_account(const struct run *run, size_t row, struct memory_device *device)
{
	const char *metric = run_string(run, run->sample.metric[row]);
	double v = run->sample.value[row];

	for (size_t i = 0; v >= 0 && i < N_ACCOUNTS; i++) {
		struct value *value = account_value(device, i);

		if (!strcmp(metric, accounts[i].metric) &&
		    !(accounts[i].is_peak && value->known && value->v > v))
			*value = value_of(v);
	}
}

void memory_account_fill(const struct run *run, struct memory_device *device)
{
	const struct table_sample *t = &run->sample;

	for (size_t i = 0; i < N_ACCOUNTS; i++)
		*account_value(device, i) =
			value_absent("the program's allocator gave no account of itself");
	for (size_t i = 0; device->device >= 0 && i < t->n; i++)
		if (t->shard[i] == device->shard && t->device[i] == (uint32_t)device->device)
			take_account(run, i, device);
}

static int readings_by_time(const void *a, const void *b)
{
	const struct memory_reading *x = a, *y = b;

	return CMP(x->time_ns, y->time_ns) ?: CMP(x->row, y->row);
}

int memory_readings_find(const struct run *run, const struct memory_device *device,
			 const char *metric, struct memory_readings *ret_readings)
{
	const struct table_sample *t = &run->sample;
	struct memory_readings out = { 0 };
	size_t capacity = 0;
	uint32_t name = 0;

	for (size_t i = 0; device->device >= 0 && i < t->n; i++) {
		if (t->shard[i] != device->shard || t->device[i] != (uint32_t)device->device)
			continue;
		if (!name && !strcmp(run_string(run, t->metric[i]), metric))
			name = t->metric[i];
		if (!name || t->metric[i] != name ||
		    !(t->value[i] >= 0 && t->value[i] < TOTAL_MOST))
			continue;
		if (array_grow(&out.list, &capacity, out.n + 1, sizeof(*out.list)) < 0) {
			free(out.list);
			return -ENOMEM;
		}
		out.list[out.n++] = (struct memory_reading){ t->time_ns[i], i, t->value[i] };
	}
	memory_sort(out.list, out.n, sizeof(*out.list), readings_by_time);
	*ret_readings = out;
	return 0;
}

bool memory_readings_take(struct memory_readings *readings, int64_t time_ns, double *ret_bytes)
{
	while (readings->next < readings->n && readings->list[readings->next].time_ns < time_ns)
		readings->next++;
	if (readings->next == readings->n || readings->list[readings->next].time_ns != time_ns)
		return false;
	*ret_bytes = readings->list[readings->next++].bytes;
	return true;
}

struct value memory_readings_at(struct memory_readings *readings, int64_t time_ns)
{
	while (readings->next < readings->n && readings->list[readings->next].time_ns <= time_ns)
		readings->next++;
	return readings->next ? value_of(readings->list[readings->next - 1].bytes)
			      : value_absent("the allocator had not reported it yet");
}
