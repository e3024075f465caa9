/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples and process lists of the devices; see device_state.h.
 */
#include "subjects/device/device_state.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cmp.h"

enum { REASONS = DEVICE_METRICS, OTHER_METRIC, NOT_LOOKED };

static const char *const keys[] = {
	"power_w",
	"clock_sm_mhz",
	"clock_memory_mhz",
	"temperature_c",
	"dram_bandwidth_pct",
	"pcie_tx_mib_per_s",
	"pcie_rx_mib_per_s",
	"pcie_link_generation",
	"pcie_link_width",
	"memory_total_bytes",
	"clock_limit_reasons",
};

const char *device_metric_key(enum device_metric metric)
{
	return keys[metric];
}

/* Samples have few names and many rows: each name is looked at once. */
static int name_metrics(const struct run *run, uint8_t **ret_metrics)
{
	const struct table_sample *t = &run->sample;
	uint32_t most = 0;
	uint8_t *metrics;

	for (size_t i = 0; i < t->n; i++)
		most = t->metric[i] > most ? t->metric[i] : most;
	metrics = malloc((size_t)most + 1);
	if (!metrics)
		return -ENOMEM;
	memset(metrics, NOT_LOOKED, (size_t)most + 1);
	for (size_t i = 0; i < t->n; i++) {
		uint8_t *metric = &metrics[t->metric[i]];

		if (*metric != NOT_LOOKED)
			continue;
		*metric = 0;
		while (*metric < OTHER_METRIC &&
		       strcmp(keys[*metric], run_string(run, t->metric[i])) != 0)
			++*metric;
	}
	*ret_metrics = metrics;
	return 0;
}

/* Devices are few. */
static int find_device(const struct run *run, struct device_states *out, size_t *capacity,
		       size_t row, struct device_state **ret_device)
{
	const struct table_sample *t = &run->sample;
	size_t i = 0;

	while (i < out->n &&
	       (out->devices[i].shard != t->shard[row] || out->devices[i].device != t->device[row]))
		i++;
	if (i == out->n) {
		if (array_grow(&out->devices, capacity, i + 1, sizeof(*out->devices)) < 0)
			return -ENOMEM;
		out->devices[out->n++] =
			(struct device_state){ .shard = t->shard[row],
					       .rank = run->shards[t->shard[row]].rank,
					       .device = t->device[row] };
	}
	*ret_device = &out->devices[i];
	return 0;
}

static void take_sample(struct device_state *d, unsigned int metric, double value)
{
	struct metric_summary *m;

	if (metric == REASONS) {
		/* A mask that a double cannot hold, or that is none, is not a reading. */
		if (!(value >= 0 && value < 9007199254740992.0))
			return;
		d->reason_samples++;
		for (unsigned int bit = 0; bit < CLOCK_REASONS; bit++)
			d->reasons[bit] += (uint64_t)value >> bit & 1;
		return;
	}
	if (!isfinite(value))
		return;
	m = &d->metrics[metric];
	m->min = !m->samples || value < m->min ? value : m->min;
	m->max = !m->samples || value > m->max ? value : m->max;
	m->mean += value; /* the sum, until all are there */
	m->samples++;
}

static int device_order(const void *a, const void *b)
{
	const struct device_state *x = a, *y = b;

	return CMP(x->shard, y->shard) ?: CMP(x->device, y->device);
}

static int take_samples(const struct run *run, struct device_states *out)
{
	const struct table_sample *t = &run->sample;
	size_t capacity = 0;
	uint8_t *metrics;
	int r = t->n ? name_metrics(run, &metrics) : 0;

	if (r < 0 || !t->n)
		return r;
	for (size_t i = 0; r >= 0 && i < t->n; i++) {
		struct device_state *d;

		if (metrics[t->metric[i]] == OTHER_METRIC)
			continue;
		r = find_device(run, out, &capacity, i, &d);
		if (r >= 0)
			take_sample(d, metrics[t->metric[i]], t->value[i]);
	}
	free(metrics);
	for (size_t i = 0; i < out->n; i++)
		for (int m = 0; m < DEVICE_METRICS; m++)
			if (out->devices[i].metrics[m].samples)
				out->devices[i].metrics[m].mean /=
					(double)out->devices[i].metrics[m].samples;
	if (out->n)
		qsort(out->devices, out->n, sizeof(*out->devices), device_order);
	return r;
}

static bool is_own(const struct run *run, uint32_t pid)
{
	for (size_t s = 0; s < run->n_shards; s++)
		if (run->shards[s].pid == pid)
			return true;
	return false;
}

static int other_order(const void *a, const void *b)
{
	const struct other_process *x = a, *y = b;

	return CMP(x->device, y->device) ?: CMP(y->peak_bytes, x->peak_bytes) ?:
	       CMP(x->pid, y->pid);
}

/* Several ranks see the same process: it is one. */
static int take_process(const struct run *run, struct device_states *out, size_t *capacity,
			size_t row)
{
	const struct table_process *t = &run->process;
	struct other_process *p;
	size_t i = 0;

	while (i < out->n_others &&
	       (out->others[i].device != t->device[row] || out->others[i].pid != t->pid[row]))
		i++;
	if (i == out->n_others) {
		if (array_grow(&out->others, capacity, i + 1, sizeof(*out->others)) < 0)
			return -ENOMEM;
		out->others[out->n_others++] = (struct other_process){ .device = t->device[row],
								       .pid = t->pid[row] };
	}
	p = &out->others[i];
	p->name = t->name[row] ? t->name[row] : p->name;
	p->graphics = t->kind[row] == 1;
	if (t->bytes[row]) {
		p->bytes_known = true;
		p->last_bytes = t->bytes[row];
		p->peak_bytes = t->bytes[row] > p->peak_bytes ? t->bytes[row] : p->peak_bytes;
	}
	return 0;
}

int device_states_analyze(const struct run *run, struct device_states *ret_states)
{
	struct device_states out = { .listed = run->process.n != 0 };
	size_t capacity = 0;
	int r = take_samples(run, &out);

	for (size_t i = 0; r >= 0 && i < run->process.n; i++)
		if (!is_own(run, run->process.pid[i]))
			r = take_process(run, &out, &capacity, i);
	if (r < 0) {
		device_states_release(&out);
		return r;
	}
	if (out.n_others)
		qsort(out.others, out.n_others, sizeof(*out.others), other_order);
	*ret_states = out;
	return 0;
}

void device_states_release(struct device_states *states)
{
	free(states->devices);
	free(states->others);
	*states = (struct device_states){ 0 };
}
