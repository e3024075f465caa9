/* SPDX-License-Identifier: Apache-2.0
 *
 * What the program itself reports, for a comparison: routing, requests, memory. See digest.h.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare/digest_inside.h"
#include "moescope.h"
#include "subjects/inference/inference.h"
#include "subjects/memory/device_memory.h"
#include "subjects/memory/memory.h"
#include "subjects/routing/routing.h"

/* The first step that is not warm-up; routing knows steps by their number. */
static int64_t first_step(const struct digest_builder *b)
{
	int64_t first = INT64_MAX;

	for (size_t u = 0; b->digest->warmup && u < b->n_units; u++)
		first = b->units[u].step < first ? b->units[u].step : first;
	return first == INT64_MAX ? INT64_MIN : first;
}

static int routing_figure(struct digest_builder *b, const struct routing_layer *layer,
			  enum compare_metric_id metric, int order)
{
	double *x = calloc(layer->n_steps + 1, sizeof(*x));
	int64_t from = first_step(b);
	char of[DIGEST_OF];
	const char *phase;
	size_t n = 0;

	if (!x)
		return -ENOMEM;
	for (size_t i = 0; i < layer->n_steps; i++) {
		const struct routing_step *step = &layer->steps[i];

		if (step->step < from || !step->load.known)
			continue;
		if (metric == COMPARE_IMBALANCE)
			x[n++] = step->load.imbalance;
		else if (step->cv_excess.known)
			x[n++] = step->cv_excess.v;
	}
	/* Short, as rows are: forward is what layers do unless something else is said. */
	phase = layer->phase == MOESCOPE_FORWARD ? "" : phase_name(layer->phase);
	snprintf(of, sizeof(of), "layer %d%s%s", layer->layer, *phase ? " " : "", phase);
	return digest_add(b, metric, of, order, x, n);
}

static int add_routing(struct digest_builder *b)
{
	const struct routing_options options = { 0 };
	struct routing routing;
	int r = routing_analyze(b->run, b->sel, &options, &routing);

	if (r < 0)
		return r;
	b->digest->missing[COMPARE_CV_EXCESS] = b->digest->missing[COMPARE_IMBALANCE] =
		"no routing was recorded";
	for (size_t i = 0; r >= 0 && i < routing.n; i++) {
		r = routing_figure(b, &routing.layers[i], COMPARE_CV_EXCESS, (int)i);
		if (r >= 0)
			r = routing_figure(b, &routing.layers[i], COMPARE_IMBALANCE, (int)i);
	}
	routing_release(&routing);
	return r;
}

static int add_copy(struct digest_builder *b, enum compare_metric_id metric, const double *x,
		    size_t n)
{
	double *copy = calloc(n + 1, sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	memcpy(copy, x, n * sizeof(*copy));
	return digest_add(b, metric, "", 0, copy, n);
}

static int add_requests(struct digest_builder *b)
{
	struct inference_samples samples;
	int r = inference_samples_take(b->run, &samples);

	if (r < 0)
		return r;
	b->digest->missing[COMPARE_TTFT] = b->digest->missing[COMPARE_TPOT] =
		b->digest->missing[COMPARE_ITL] = "no tokens of requests were recorded";
	r = add_copy(b, COMPARE_TTFT, samples.ttft, samples.n_ttft);
	if (r >= 0)
		r = add_copy(b, COMPARE_TPOT, samples.tpot, samples.n_tpot);
	if (r >= 0)
		r = add_copy(b, COMPARE_ITL, samples.itl, samples.n_itl);
	inference_samples_release(&samples);
	return r;
}

/* Of the ranks that share a device number the largest counts. */
static int add_peak(struct digest_builder *b, enum compare_metric_id metric, int32_t device,
		    double bytes)
{
	struct run_digest *d = b->digest;
	char of[DIGEST_OF];
	double *x;

	for (size_t i = 0; i < d->n; i++) {
		struct digest_figure *f = &d->figures[i];

		if (f->metric != metric || f->order != device)
			continue;
		if (bytes > f->x[0])
			f->x[0] = f->value.v = bytes;
		return 0;
	}
	x = calloc(1, sizeof(*x));
	if (!x)
		return -ENOMEM;
	*x = bytes;
	if (device < 0)
		snprintf(of, sizeof(of), "host");
	else
		snprintf(of, sizeof(of), "gpu %d", device);
	return digest_add(b, metric, of, device, x, 1);
}

static int add_memory(struct digest_builder *b)
{
	const char **missing = b->digest->missing;
	struct device_memory device;
	struct memory memory;
	int r = memory_analyze(b->run, 1, &memory);

	if (r < 0)
		return r;
	missing[COMPARE_PEAK_ALLOCATED] = "the program reported no allocations";
	missing[COMPARE_PEAK_RESERVED] = "the program did not report what it reserves";
	missing[COMPARE_PEAK_DEVICE_USED] = "no readings of the device's memory";
	for (size_t i = 0; r >= 0 && i < memory.n; i++) {
		const struct memory_device *d = &memory.devices[i];

		r = add_peak(b, COMPARE_PEAK_ALLOCATED, d->device, (double)d->peak_bytes);
		if (r >= 0 && d->reserved_bytes.known)
			r = add_peak(b, COMPARE_PEAK_RESERVED, d->device, d->reserved_bytes.v);
	}
	memory_release(&memory);
	if (r >= 0)
		r = device_memory_analyze(b->run, &device);
	if (r < 0)
		return r;
	for (size_t i = 0; r >= 0 && i < device.n_used; i++)
		r = add_peak(b, COMPARE_PEAK_DEVICE_USED, (int32_t)device.used[i].device,
			     device.used[i].peak_bytes);
	device_memory_release(&device);
	return r;
}

int digest_program(struct digest_builder *b)
{
	int r = add_routing(b);

	if (r >= 0)
		r = add_requests(b);
	return r < 0 ? r : add_memory(b);
}
