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
#include "base/interned.h"
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
	struct shard_writer *writer;
	struct encoder encoder;
	struct interned names;
	size_t written_names;
	int64_t keep_ns;
	struct recorder_device devices[DEVICES_MOST];
	size_t n_devices;
	int64_t clock_error_ns;
	uint64_t lost; /* for want of memory */
	int trouble;
	struct err err;
};

static void note_trouble(struct recorder *r, int error, const char *what)
{
	if (r->trouble == 0) {
		r->trouble = error;
		err_sys(&r->err, error, "%s", what);
	}
}

int recorder_open(struct recorder **ret_recorder, const char *run, int64_t keep_ns, struct err *err)
{
	struct recorder *r = calloc(1, sizeof(*r));
	struct shard_origin origin = { .pid = (uint32_t)getpid(),
				       .monotonic_ns = clock_monotonic_ns(),
				       .realtime_ns = clock_realtime_ns() };
	char *path = NULL;
	int error = -ENOMEM;

	boot_read(&origin.boot);
	if (r && asprintf(&path, "%s/" RUNDIR_COUNTERS "%d.mst", run, (int)getpid()) < 0)
		path = NULL;
	if (path)
		error = shard_create_from(path, &origin, &r->writer, NULL);
	free(path);
	if (error < 0) {
		free(r);
		return err_sys(err, error, "%s: cannot create the shard of counters", run);
	}
	r->keep_ns = keep_ns;
	r->clock_error_ns = -1;
	encoder_init(&r->encoder, 1, 1, 0);
	*ret_recorder = r;
	return 0;
}

static uint32_t name_id(struct recorder *r, const char *text)
{
	return *text ? interned_id(&r->names, text, strlen(text)) : 0;
}

static void append(struct recorder *r, enum record_kind kind, const void *row)
{
	int error = encoder_append(&r->encoder, kind, row);

	if (error < 0)
		note_trouble(r, error, "counters cannot be recorded");
}

void recorder_fact(struct recorder *r, const char *key, const char *value)
{
	struct row_fact row = { .key = name_id(r, key), .value = name_id(r, value) };

	append(r, RECORD_FACT, &row);
}

void recorder_mark(struct recorder *r, const char *text)
{
	struct row_mark row = { .time_ns = clock_monotonic_ns(), .text = name_id(r, text) };

	append(r, RECORD_MARK, &row);
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
		d->names[i] = name_id(r, counters[i].name);
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
	if (d->first < d->waiting)
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
				append(d->recorder, RECORD_SAMPLE, &row);
		}
	d->first = d->waiting = 0;
}

/* Dictionaries first: whoever reads a row knows its names. */
static void write_pending(struct recorder *r)
{
	int error;

	for (; r->written_names < r->names.n; r->written_names++) {
		struct row_string row = { .id = (uint32_t)r->written_names + 1,
					  .length = (uint32_t)r->names.lengths[r->written_names],
					  .text = r->names.keys[r->written_names] };

		append(r, RECORD_STRING, &row);
	}
	error = encoder_finish(&r->encoder);
	if (error == 0)
		error = shard_write(r->writer, &r->encoder);
	if (error < 0)
		note_trouble(r, error, "counters cannot be written");
}

void recorder_write(struct recorder *r)
{
	for (size_t i = 0; i < r->n_devices; i++)
		append_samples(&r->devices[i]);
	write_pending(r);
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
	write_pending(r);
	error = shard_close(r->writer, &r->encoder);
	if (error < 0)
		note_trouble(r, error, "the shard of counters cannot be closed");
	error = r->trouble;
	if (error < 0)
		*err = r->err;
	for (size_t i = 0; i < r->n_devices; i++) {
		free(r->devices[i].times);
		free(r->devices[i].values);
	}
	encoder_release(&r->encoder);
	interned_release(&r->names);
	free(r);
	return error;
}
