/* SPDX-License-Identifier: Apache-2.0
 *
 * What the program's allocator says of itself, as readings of its device (moescope_device_sample).
 * Pure, any thread.
 */
#include <string.h>

#include "analyze/memory_inside.h"

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

static struct value *value_in(struct memory_device *device, size_t i)
{
	return (struct value *)((char *)device + accounts[i].offset);
}

static void take(const struct run *run, size_t row, struct memory_device *device)
{
	const char *metric = run_string(run, run->sample.metric[row]);
	double v = run->sample.value[row];

	for (size_t i = 0; v >= 0 && i < N_ACCOUNTS; i++) {
		struct value *value = value_in(device, i);

		if (!strcmp(metric, accounts[i].metric) &&
		    !(accounts[i].is_peak && value->known && value->v > v))
			*value = value_of(v);
	}
}

void memory_account_fill(const struct run *run, struct memory_device *device)
{
	const struct table_sample *t = &run->sample;

	for (size_t i = 0; i < N_ACCOUNTS; i++)
		*value_in(device,
			  i) = value_absent("the program's allocator gave no account of itself");
	for (size_t i = 0; device->device >= 0 && i < t->n; i++)
		if (t->shard[i] == device->shard && t->device[i] == (uint32_t)device->device)
			take(run, i, device);
}
