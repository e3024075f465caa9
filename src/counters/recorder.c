/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples into a shard; see recorder.h.
 */
#include "counters/recorder.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "trace/outside_shard.h"
#include "trace/rundir.h"

#define DEVICES_MOST 64
#define WAITING_MOST (1 << 20) /* samples of a device in memory, whatever their age */

struct recorder_device {
	struct recorder *recorder;
	const struct pm_sampler *sampler;
	uint32_t device;
	size_t n;
	uint32_t names[TIMED_COUNTERS_MOST];
	/* Samples that are not written, oldest first: the end of each by the device's clock, and n values. */
	int64_t *times;
	double *values;
	size_t first, waiting, times_capacity, values_capacity;
};

struct recorder {
	struct outside_shard shard;
	struct interned names;
	int64_t keep_ns;
	struct recorder_device devices[DEVICES_MOST];
	size_t n_devices;
	int64_t clock_error_ns;
	uint64_t lost; /* for want of memory */
};

int recorder_open(struct recorder **ret_recorder, const char *run, int64_t keep_ns, struct err *err)
{
	struct recorder *r = calloc(1, sizeof(*r));
	struct shard_origin origin = { .pid = (uint32_t)getpid() };
	char *path = NULL;
	int error = -ENOMEM;

	if (r && asprintf(&path, "%s/" RUNDIR_COUNTERS "%d.mst", run, (int)getpid()) < 0)
		path = NULL;
	if (path)
		error = outside_shard_open(&r->shard, path, origin, &r->names);
	free(path);
	if (error < 0) {
		free(r);
		return err_sys(err, error, "%s: cannot create the shard of counters", run);
	}
	r->keep_ns = keep_ns;
	r->clock_error_ns = -1;
	*ret_recorder = r;
	return 0;
}

void recorder_fact(struct recorder *r, const char *key, const char *value)
{
	outside_shard_fact(&r->shard, key, value);
}

void recorder_mark(struct recorder *r, const char *text)
{
	struct row_mark row = { .time_ns = clock_monotonic_ns(),
				.text = outside_shard_name(&r->shard, text) };

	outside_shard_append(&r->shard, RECORD_MARK, &row);
}

struct recorder_device *recorder_add(struct recorder *r, uint32_t device, const char *name,
				     const char *uuid, const struct pm_sampler *sampler)
{
	const struct timed_counter *counters;
	struct recorder_device *d;
	char key[48], value[256];

	if (r->n_devices == DEVICES_MOST)
		return NULL;
	d = &r->devices[r->n_devices++];
	*d = (struct recorder_device){ .recorder = r, .sampler = sampler, .device = device };
	counters = pm_sampler_counters(sampler, &d->n);
	for (size_t i = 0; i < d->n; i++)
		d->names[i] = outside_shard_name(&r->shard, counters[i].name);
	/* No record of a device: that is for those who know all about it. */
	snprintf(key, sizeof(key), "counters of GPU %u", device);
	snprintf(value, sizeof(value), "%s (%s)", name, uuid);
	recorder_fact(r, key, value);
	return d;
}

/* Samples that are too old leave; the memory of those that left is used again. */
static void forget_old(struct recorder_device *d, int64_t now_ns)
{
	int64_t keep_ns = d->recorder->keep_ns;

	while (keep_ns && d->waiting && d->times[d->first] < now_ns - keep_ns) {
		d->first++;
		d->waiting--;
	}
	if (!d->first || d->first < d->waiting)
		return;
	memmove(d->times, d->times + d->first, d->waiting * sizeof(*d->times));
	memmove(d->values, d->values + d->first * d->n, d->waiting * d->n * sizeof(*d->values));
	d->first = 0;
}

void recorder_sample(void *device, const struct pm_sample *sample)
{
	struct recorder_device *d = device;
	size_t at;

	forget_old(d, sample->end_ns);
	at = d->first + d->waiting;
	if (d->waiting == WAITING_MOST ||
	    array_grow(&d->times, &d->times_capacity, at + 1, sizeof(*d->times)) < 0 ||
	    array_grow(&d->values, &d->values_capacity, (at + 1) * d->n, sizeof(*d->values)) < 0) {
		d->recorder->lost++;
		return;
	}
	d->times[at] = sample->end_ns;
	memcpy(d->values + at * d->n, sample->values, d->n * sizeof(*d->values));
	d->waiting++;
}

/* By now the clocks have been compared often. */
static void append_samples(struct recorder_device *d)
{
	int64_t error_ns, offset_ns = pm_sampler_offset(d->sampler, &error_ns);

	if (d->waiting && error_ns > d->recorder->clock_error_ns)
		d->recorder->clock_error_ns = error_ns;
	for (size_t i = d->first; i < d->first + d->waiting; i++)
		for (size_t m = 0; m < d->n; m++) {
			struct row_sample row = { .time_ns = d->times[i] + offset_ns,
						  .device = d->device,
						  .metric = d->names[m],
						  .value = d->values[i * d->n + m] };

			if (isfinite(row.value))
				outside_shard_append(&d->recorder->shard, RECORD_SAMPLE, &row);
		}
	d->first = d->waiting = 0;
}

void recorder_write(struct recorder *r)
{
	for (size_t i = 0; i < r->n_devices; i++)
		append_samples(&r->devices[i]);
	outside_shard_write(&r->shard);
}

int64_t recorder_clock_error(const struct recorder *r)
{
	return r->clock_error_ns;
}

int recorder_close(struct recorder *r, struct err *err)
{
	char text[64];
	int error;

	if (r->lost) {
		snprintf(text, sizeof(text), "%llu samples for want of memory",
			 (unsigned long long)r->lost);
		recorder_fact(r, "counters lost", text);
	}
	error = outside_shard_close(&r->shard);
	for (size_t i = 0; i < r->n_devices; i++) {
		free(r->devices[i].times);
		free(r->devices[i].values);
	}
	interned_release(&r->names);
	free(r);
	return error < 0 ? err_sys(err, error, "counters cannot be recorded") : 0;
}
