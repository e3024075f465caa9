/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of `smi` from the readings of a recorded run. Main thread.
 *
 * The run is cut into intervals from its first reading on. In each a device has one line, with the
 * last value of every reading: of those that are taken often only when it was taken in the
 * interval, so that nothing stale passes for new.
 */
#include "cmd/smi/smi.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

/* A device as one process of the run saw it. */
struct source {
	uint16_t shard;
	uint32_t device;
	uint32_t uuid; /* string id; 0: not known */
	bool fresh;    /* has a reading in this interval */
	bool left_out; /* not asked for, or another process of the run saw it too */
	struct smi_line line;
};

struct reading {
	int64_t realtime_ns;
	uint32_t source;
	uint16_t which; /* enum gpu_reading */
	double value;
};

struct lines {
	const struct run *run;
	struct source *sources;
	size_t n_sources, sources_capacity;
	struct reading *readings;
	size_t n_readings;
	/* Which reading a metric is, by the id of its name; found once. */
	struct {
		uint32_t id;
		int which; /* -1: none that has a column */
	} metrics[256];
	size_t n_metrics;
};

static int metric_of(struct lines *l, uint32_t id)
{
	const char *name;
	int which = -1;

	for (size_t i = 0; i < l->n_metrics; i++)
		if (l->metrics[i].id == id)
			return l->metrics[i].which;
	name = run_string(l->run, id);
	for (int r = 0; r < GPU_READING_COUNT; r++)
		if (strcmp(gpu_readings[r].metric, name) == 0)
			which = r;
	if (l->n_metrics < sizeof(l->metrics) / sizeof(l->metrics[0])) {
		l->metrics[l->n_metrics].id = id;
		l->metrics[l->n_metrics++].which = which;
	}
	return which;
}

static void describe_source(const struct lines *l, struct source *source)
{
	const struct table_device *d = &l->run->device;
	const struct table_fact *f = &l->run->fact;

	source->line.index = source->device;
	for (size_t i = 0; i < d->n; i++)
		if (d->shard[i] == source->shard && d->device[i] == source->device) {
			source->uuid = d->uuid[i];
			source->line.name = run_string(l->run, d->name[i]);
			source->line.uuid = run_string(l->run, d->uuid[i]);
		}
	for (size_t i = 0; i < f->n; i++)
		if (f->shard[i] == source->shard &&
		    strcmp(run_string(l->run, f->key[i]), "NVIDIA driver") == 0)
			source->line.driver = run_string(l->run, f->value[i]);
}

static int source_of(struct lines *l, uint16_t shard, uint32_t device, size_t *ret_index)
{
	struct source *source;

	for (size_t i = 0; i < l->n_sources; i++)
		if (l->sources[i].shard == shard && l->sources[i].device == device) {
			*ret_index = i;
			return 0;
		}
	if (array_grow(&l->sources, &l->sources_capacity, l->n_sources + 1, sizeof(*l->sources)) <
	    0)
		return -ENOMEM;
	source = &l->sources[l->n_sources];
	*source = (struct source){ .shard = shard, .device = device };
	describe_source(l, source);
	for (size_t i = 0; i < l->n_sources; i++)
		source->left_out |= source->uuid && l->sources[i].uuid == source->uuid;
	*ret_index = l->n_sources++;
	return 0;
}

static int by_time_and_source(const void *a, const void *b)
{
	const struct reading *x = a, *y = b;

	if (x->realtime_ns != y->realtime_ns)
		return x->realtime_ns < y->realtime_ns ? -1 : 1;
	return x->source != y->source ? (x->source < y->source ? -1 : 1) : x->which - y->which;
}

static int collect_readings(struct lines *l, const char *devices)
{
	const struct table_sample *s = &l->run->sample;

	l->readings = calloc(s->n ? s->n : 1, sizeof(*l->readings));
	if (!l->readings)
		return -ENOMEM;
	for (size_t i = 0; i < s->n; i++) {
		int which = metric_of(l, s->metric[i]);
		int64_t offset = l->run->shards[s->shard[i]].realtime_offset_ns;
		size_t source;
		int r;

		if (which < 0)
			continue;
		r = source_of(l, s->shard[i], s->device[i], &source);
		if (r < 0)
			return r;
		l->readings[l->n_readings++] = (struct reading){ s->time_ns[i] + offset,
								 (uint32_t)source, (uint16_t)which,
								 s->value[i] };
	}
	for (size_t i = 0; i < l->n_sources; i++)
		if (!smi_devices_have(devices, l->sources[i].device, l->sources[i].line.uuid))
			l->sources[i].left_out = true;
	qsort(l->readings, l->n_readings, sizeof(*l->readings), by_time_and_source);
	return 0;
}

/* The lines of an interval that is over; whether there was one. */
static bool print_interval(struct lines *l, const struct smi_format *format, FILE *out)
{
	bool any = false;

	for (size_t i = 0; i < l->n_sources; i++) {
		struct source *source = &l->sources[i];

		if (source->fresh && !source->left_out) {
			smi_print_line(format, &source->line, out);
			any = true;
		}
		source->fresh = false;
		source->line.values.known &= ~gpu_readings_of(GPU_OFTEN);
	}
	return any;
}

static void print_lines(struct lines *l, const struct smi_plan *plan, FILE *out)
{
	uint64_t rounds = 0;
	int64_t until = 0;

	for (size_t i = 0; i < l->n_readings; i++) {
		const struct reading *reading = &l->readings[i];
		struct source *source = &l->sources[reading->source];

		if (i == 0)
			until = reading->realtime_ns + plan->interval_ns;
		if (reading->realtime_ns >= until) {
			rounds += print_interval(l, &plan->format, out);
			if (plan->count && rounds == plan->count)
				return;
			until += (reading->realtime_ns - until) / plan->interval_ns *
					 plan->interval_ns +
				 plan->interval_ns;
		}
		source->fresh = true;
		source->line.realtime_ns = reading->realtime_ns;
		source->line.values.known |= GPU_BIT(reading->which);
		source->line.values.value[reading->which] = reading->value;
	}
	print_interval(l, &plan->format, out);
}

int smi_from_run(const struct run *run, const struct smi_plan *plan, FILE *out, struct err *err)
{
	struct lines l = { .run = run };
	bool any = false;
	int r = collect_readings(&l, plan->devices);

	for (size_t i = 0; i < l.n_sources; i++)
		any |= !l.sources[i].left_out;
	if (r == 0 && l.n_sources == 0)
		r = err_set(err, -ENODATA,
			    "the run '%s' has no device readings; only programs that use CUDA "
			    "have them ('moescope doctor' says whether they work here).",
			    run->info.name);
	else if (r == 0 && !any)
		r = err_set(err, -ENODEV, "the run '%s' has no device '%s'.", run->info.name,
			    plan->devices);
	if (r == 0) {
		if (plan->header)
			smi_print_header(&plan->format, out);
		print_lines(&l, plan, out);
	}
	free(l.sources);
	free(l.readings);
	return r;
}
