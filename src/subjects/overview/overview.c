/* SPDX-License-Identifier: Apache-2.0
 *
 * One screen of figures; see overview.h.
 */
#include "subjects/overview/overview.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "moescope.h"

#define MIB 1048576.0

static const struct memory_device *main_memory(const struct memory *memory)
{
	const struct memory_device *best = NULL;

	for (size_t i = 0; i < memory->n; i++) {
		const struct memory_device *d = &memory->devices[i];
		bool on_device = d->device >= 0, best_is = best && best->device >= 0;

		if (!best || on_device > best_is ||
		    (on_device == best_is && d->peak_bytes > best->peak_bytes))
			best = d;
	}
	return best;
}

static const struct driver_memory *main_driver(const struct device_memory *memory)
{
	const struct driver_memory *best = NULL;

	for (size_t i = 0; i < memory->n_driver; i++) {
		const struct driver_memory *d = &memory->driver[i];

		if (!strcmp(d->memory, "device") && (!best || d->peak_bytes > best->peak_bytes))
			best = d;
	}
	return best;
}

/* What the device has, by its own record or a sample of the driver's. */
static struct value total_memory(const struct run *run, const struct device_states *states,
				 uint16_t shard, uint32_t device)
{
	for (size_t i = 0; i < run->device.n; i++)
		if (run->device.shard[i] == shard && run->device.device[i] == device &&
		    run->device.memory_bytes[i])
			return value_of((double)run->device.memory_bytes[i]);
	for (size_t i = 0; i < states->n; i++) {
		const struct device_state *d = &states->devices[i];

		if (d->shard == shard && d->device == device &&
		    d->metrics[METRIC_MEMORY_TOTAL].samples)
			return value_of(d->metrics[METRIC_MEMORY_TOTAL].max);
	}
	return value_absent("the size of the device's memory was not recorded");
}

static void memory(const struct run *run, const struct overview_parts *parts, struct overview *out)
{
	const struct driver_memory *driver = main_driver(parts->device_memory);

	out->memory = main_memory(parts->memory);
	if (driver && (!out->memory || out->memory->device < 0)) {
		out->peak_by_driver = true;
		out->peak_bytes = value_of((double)driver->peak_bytes);
		out->total_bytes = total_memory(run, parts->device_states, driver->shard,
						driver->device);
	} else if (out->memory) {
		out->peak_bytes = value_of((double)out->memory->peak_bytes);
		out->total_bytes = out->memory->device < 0
					   ? value_absent("the size of the host's memory is not "
							  "recorded")
					   : total_memory(run, parts->device_states,
							  out->memory->shard,
							  (uint32_t)out->memory->device);
	} else {
		out->peak_bytes = value_absent("no allocations in this run");
		out->total_bytes = out->peak_bytes;
	}
}

/* Weights of the layers' experts by their number; the last word of the program on a layer counts. */
static void expert_weights(const struct run *run, struct overview *out)
{
	const struct table_moe_layer *t = &run->moe_layer;

	for (uint32_t e = 0; e < out->experts; e++)
		out->expert_bytes[e] = value_absent("the program does not tell the experts' size");
	for (size_t i = 0; i < t->n; i++) {
		bool later = false;

		for (size_t j = i + 1; j < t->n && !later; j++)
			later = t->layer[j] == t->layer[i];
		/* Processes that share a layer each tell it. */
		if (later || !t->expert_bytes[i])
			continue;
		for (uint32_t e = 0; e < t->experts[i] && e < out->experts; e++)
			out->expert_bytes[e] =
				value_of((out->expert_bytes[e].known ? out->expert_bytes[e].v : 0) +
					 (double)t->expert_bytes[i]);
	}
}

static int experts(const struct run *run, const struct routing *routing, struct overview *out)
{
	struct load_metrics load;
	int r;

	out->cv_excess = value_absent("the program reports no routing");
	for (size_t i = 0; i < routing->n; i++)
		if (routing->layers[i].experts > out->experts)
			out->experts = routing->layers[i].experts;
	if (!out->experts)
		return 0;
	out->n = calloc(out->experts, sizeof(*out->n));
	out->expert_bytes = calloc(out->experts, sizeof(*out->expert_bytes));
	if (!out->n || !out->expert_bytes)
		return -ENOMEM;
	for (size_t i = 0; i < routing->n; i++) {
		const struct routing_layer *layer = &routing->layers[i];

		if (layer->phase == MOESCOPE_RECOMPUTE)
			continue;
		out->tokens += layer->tokens;
		for (uint32_t e = 0; e < layer->experts; e++)
			out->n[e] += layer->n[e];
	}
	expert_weights(run, out);
	r = load_metrics_compute(out->n, out->experts, &load);
	if (r < 0)
		return r;
	out->load = load;
	if (load.known && out->tokens) {
		double k = (double)load.total / (double)out->tokens;

		out->cv_excess = value_of(routing_cv_excess(
			load.cv, routing_cv_floor(out->experts, k, (double)out->tokens)));
	}
	return 0;
}

static struct value mean_of(const struct kernels *kernels, const char *class, const char *reason)
{
	double time_ns = 0, timed = 0;

	for (size_t i = 0; i < kernels->n; i++) {
		const struct kernel_row *row = &kernels->rows[i];

		if (class ? !row->class || strcmp(row->class, class) != 0 : row->no_place != NULL)
			continue;
		time_ns += (double)row->time_ns;
		timed += (double)row->summary.n;
	}
	return timed > 0 ? value_of(time_ns / timed) : value_absent(reason);
}

static void device_time(const struct overview_parts *parts, struct overview *out)
{
	static const struct kernels none_by_expert;
	const struct kernels *by_class = parts->by_class;
	const struct kernels *by_expert = parts->by_expert ? parts->by_expert : &none_by_expert;
	const char *none = by_class->count ? "no kernel of that kind" : "no kernels in this run";
	double busy = 0, window = 0;

	out->attention_ns = mean_of(by_class, "attention", none);
	out->expert_ns = mean_of(by_expert, NULL, none);
	if (!out->expert_ns.known) {
		out->expert_ns = mean_of(by_class, "grouped_gemm", none);
		out->expert_by_class = out->expert_ns.known;
	}
	for (size_t i = 0; i < parts->timeline->n; i++) {
		busy += (double)parts->timeline->devices[i].busy_ns;
		window += (double)parts->timeline->devices[i].window_ns;
	}
	out->busy_pct = window > 0 ? value_of(100 * busy / window) : value_absent(none);
}

struct value pcie_bytes_per_s(double generation, double width)
{
	/* Transfers a second of a lane, and the share of bits that are data. */
	static const struct {
		double per_s, share;
	} links[] = { { 2.5e9, 0.8 },	     { 5e9, 0.8 },	    { 8e9, 128.0 / 130 },
		      { 16e9, 128.0 / 130 }, { 32e9, 128.0 / 130 }, { 64e9, 242.0 / 256 } };
	size_t n = sizeof(links) / sizeof(links[0]);

	if (!(generation >= 1 && generation <= (double)n) || !(width >= 1))
		return value_absent("the PCIe link is unknown");
	return value_of(links[(size_t)generation - 1].per_s * links[(size_t)generation - 1].share *
			width / 8);
}

static struct value larger(struct value a, struct value b)
{
	return !b.known || (a.known && a.v >= b.v) ? a : b;
}

static struct value peak_bandwidth(const struct run *run, const struct device_state *d)
{
	for (size_t i = 0; i < run->device.n; i++)
		if (run->device.shard[i] == d->shard && run->device.device[i] == d->device &&
		    run->device.memory_bytes_per_s[i])
			return value_of((double)run->device.memory_bytes_per_s[i]);
	return value_absent("the peak of the device's memory bandwidth was not recorded");
}

static void dram(const struct run *run, const struct device_state *d, struct overview *out)
{
	const struct metric_summary *m = &d->metrics[METRIC_DRAM_BANDWIDTH];
	struct value peak;

	if (!m->samples || (out->dram_pct.known && out->dram_pct.v >= m->mean))
		return;
	peak = peak_bandwidth(run, d);
	out->dram_pct = value_of(m->mean);
	out->dram_bytes_per_s = peak.known ? value_of(m->mean / 100 * peak.v) : peak;
}

static void bandwidths(const struct run *run, const struct device_states *states,
		       struct overview *out)
{
	out->dram_pct = value_absent("needs hardware counters, which were not sampled");
	out->dram_bytes_per_s = out->dram_pct;
	out->pcie_pct = value_absent("PCIe traffic was not sampled");
	for (size_t i = 0; i < states->n; i++) {
		const struct metric_summary *m = states->devices[i].metrics;
		const struct metric_summary *tx = &m[METRIC_PCIE_TX], *rx = &m[METRIC_PCIE_RX];
		struct value link = pcie_bytes_per_s(m[METRIC_PCIE_GENERATION].max,
						     m[METRIC_PCIE_WIDTH].max);

		dram(run, &states->devices[i], out);
		if (!tx->samples && !rx->samples)
			continue;
		if (link.known)
			out->pcie_pct =
				larger(out->pcie_pct,
				       value_of(100 * MIB * fmax(tx->mean, rx->mean) / link.v));
		else if (!out->pcie_pct.known)
			out->pcie_pct = link;
	}
}

int overview_make(const struct run *run, const struct overview_parts *parts,
		  struct overview *ret_overview)
{
	struct overview out = { 0 };
	int r = experts(run, parts->routing, &out);

	if (r < 0) {
		overview_release(&out);
		return r;
	}
	memory(run, parts, &out);
	device_time(parts, &out);
	bandwidths(run, parts->device_states, &out);
	*ret_overview = out;
	return 0;
}

void overview_release(struct overview *overview)
{
	free(overview->n);
	free(overview->expert_bytes);
	*overview = (struct overview){ 0 };
}
