/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of uneven routing; see imbalance_tax.h.
 *
 * Expert work is collected as pieces (layer, phase, step, worker, time), which are then sorted and
 * added up group by group.
 */
#include "subjects/routing/imbalance_tax.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "device/sheets/kernel_class.h"
#include "subjects/numbers/intervals.h"
#include "subjects/shared/attribution.h"
#include "subjects/shared/step_sample.h"

struct piece {
	int64_t step, time_ns;
	uint32_t worker; /* thread or device */
	int32_t layer;
	uint16_t shard;
	uint8_t phase;
};

struct pieces {
	struct piece *items;
	size_t n, capacity;
};

static int add_piece(struct pieces *pieces, struct piece piece)
{
	if (array_grow(&pieces->items, &pieces->capacity, pieces->n + 1, sizeof(*pieces->items)) <
	    0)
		return -ENOMEM;
	pieces->items[pieces->n++] = piece;
	return 0;
}

static int piece_order(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	return CMP(x->layer, y->layer) ?: CMP(x->phase, y->phase) ?: CMP(x->step, y->step) ?:
	       CMP(x->shard, y->shard) ?: CMP(x->worker, y->worker);
}

/* Whether the kernels of a launch are grouped GEMMs; looked up once. 0: not yet. */
enum { GROUPED = 1, NOT_GROUPED };

static int collect_kernels(const struct run *slice, struct pieces *pieces)
{
	const struct table_kernel *kernel = &slice->kernel;
	struct kernel_classes *classes = NULL;
	struct attribution at = { 0 };
	uint32_t most = 0;
	uint8_t *grouped = NULL;
	int r = kernel_classes_new(NULL, &classes, NULL);

	if (r >= 0)
		r = attribution_init(&at, slice);
	for (size_t i = 0; i < kernel->n; i++)
		most = kernel->launch[i] > most ? kernel->launch[i] : most;
	if (r >= 0 && !(grouped = calloc((size_t)most + 1, sizeof(*grouped))))
		r = -ENOMEM;
	for (size_t i = 0; r >= 0 && i < kernel->n; i++) {
		struct device_work work = { kernel->correlation[i], kernel->graph_node[i],
					    kernel->start_ns[i], kernel->shard[i] };
		uint8_t *is = &grouped[kernel->launch[i]];
		struct place place;

		if (kernel->untimed[i] || !attribution_find(&at, &work, &place) ||
		    place.layer < 0 || place.step == NO_STEP)
			continue;
		if (!*is) {
			const char *class = kernel_class_of(
				classes,
				run_string(slice, run_launch(slice, kernel->launch[i]).name));

			if (!class) {
				r = -ENOMEM;
				break;
			}
			*is = strcmp(class, "grouped_gemm") ? NOT_GROUPED : GROUPED;
		}
		if (place.expert >= 0 || *is == GROUPED)
			r = add_piece(pieces,
				      (struct piece){ slice->step.step[place.step],
						      kernel->duration_ns[i], kernel->device[i],
						      place.layer, kernel->shard[i], place.phase });
	}
	free(grouped);
	attribution_release(&at);
	kernel_classes_free(classes);
	return r;
}

/* Spans of expert work on the host; those inside others disappear when they are merged. */
#define ADD_HOST(table)                                                                            \
	for (size_t i = 0; i < (table)->n; i++) {                                                  \
		struct site site = run_site(slice, (table)->site[i]);                              \
                                                                                                   \
		if (site.layer >= 0 && site.expert >= 0)                                           \
			spans[n++] =                                                               \
				(struct span){ (table)->start_ns[i],                               \
					       (table)->start_ns[i] + (table)->duration_ns[i],     \
					       (uint32_t)site.layer << 8 | site.phase,             \
					       (table)->thread[i], (table)->shard[i] };            \
	}

static int collect_host(const struct run *slice, struct pieces *pieces)
{
	struct span *spans = calloc(slice->range.n + slice->op.n + 1, sizeof(*spans));
	struct step_index index = { 0 };
	size_t n = 0;
	int r = spans ? step_index_init(&index, slice) : -ENOMEM;

	if (r >= 0) {
		ADD_HOST(&slice->range)
		ADD_HOST(&slice->op)
		n = n ? spans_merge(spans, n) : 0;
	}
	for (size_t i = 0; r >= 0 && i < n; i++) {
		size_t step = step_index_find(&index, slice, spans[i].shard, spans[i].start_ns);

		if (step != SIZE_MAX)
			r = add_piece(pieces, (struct piece){ slice->step.step[step],
							      spans[i].end_ns - spans[i].start_ns,
							      spans[i].device,
							      (int32_t)(spans[i].group >> 8),
							      spans[i].shard,
							      (uint8_t)(spans[i].group & 0xff) });
	}
	step_index_release(&index);
	free(spans);
	return r;
}

static size_t count_workers(const struct pieces *pieces)
{
	struct worker {
		uint32_t worker;
		uint16_t shard;
	} seen[256];
	size_t n = 0;

	for (size_t i = 0; i < pieces->n; i++) {
		const struct piece *p = &pieces->items[i];
		size_t at = 0;

		while (at < n && (seen[at].worker != p->worker || seen[at].shard != p->shard))
			at++;
		if (at == n && n < sizeof(seen) / sizeof(seen[0]))
			seen[n++] = (struct worker){ p->worker, p->shard };
	}
	return n;
}

/* Adds one step of a phase of a layer, items [from, to), to the layer. */
static void add_group(const struct piece *items, size_t from, size_t to, size_t workers,
		      struct tax_layer *layer)
{
	double all = 0, most = 0, own = 0;

	for (size_t i = from; i < to; i++) {
		own = i > from && items[i].shard == items[i - 1].shard &&
				      items[i].worker == items[i - 1].worker
			      ? own
			      : 0;
		own += (double)items[i].time_ns;
		all += (double)items[i].time_ns;
		most = own > most ? own : most;
	}
	layer->expert_ns.v += all;
	layer->tax_ns.v += most - all / (double)workers;
}

static bool same_group(const struct piece *a, const struct piece *b)
{
	return a->layer == b->layer && a->phase == b->phase && a->step == b->step;
}

static const struct routing_layer *routing_of(const struct routing *routing, int32_t layer)
{
	const struct routing_layer *most = NULL;

	for (size_t i = 0; i < routing->n; i++)
		if (routing->layers[i].layer == layer &&
		    (!most || routing->layers[i].assignments > most->assignments))
			most = &routing->layers[i];
	return most;
}

/* Layers without routing are not in the selection. */
static int sum_layers(const struct pieces *pieces, const struct routing *routing,
		      struct imbalance_tax *tax)
{
	const struct piece *items = pieces->items;
	size_t capacity = 0;

	for (size_t from = 0, to; from < pieces->n; from = to) {
		for (to = from; to < pieces->n && same_group(&items[from], &items[to]);)
			to++;
		if (!routing_of(routing, items[from].layer))
			continue;
		if (!tax->n || tax->layers[tax->n - 1].layer != items[from].layer) {
			if (array_grow(&tax->layers, &capacity, tax->n + 1, sizeof(*tax->layers)) <
			    0)
				return -ENOMEM;
			tax->layers[tax->n++] = (struct tax_layer){ .layer = items[from].layer,
								    .expert_ns = value_of(0),
								    .tax_ns = value_of(0) };
		}
		add_group(items, from, to, tax->workers, &tax->layers[tax->n - 1]);
	}
	return 0;
}

/* The largest sum of loads that one of D equal runs of experts has, over the steps, against an
 * even share. */
static double busiest_ratio(const struct routing *routing, int32_t layer, unsigned int devices)
{
	double busiest = 0, all = 0;

	for (size_t i = 0; i < routing->n; i++) {
		const struct routing_layer *l = &routing->layers[i];
		uint32_t each = l->experts / devices;

		if (l->layer != layer)
			continue;
		for (size_t s = 0; s < l->n_steps; s++) {
			double most = 0;

			for (unsigned int d = 0; d < devices; d++) {
				double sum = 0;

				for (uint32_t e = d * each; e < (d + 1) * each; e++)
					sum += (double)l->steps[s].n[e];
				most = sum > most ? sum : most;
				all += sum;
			}
			busiest += most;
		}
	}
	return all > 0 ? busiest * devices / all : 0;
}

static void estimate(const struct imbalance_tax *tax, const struct routing *routing,
		     struct tax_layer *layer)
{
	const struct routing_layer *routed = routing_of(routing, layer->layer);

	layer->tile_ns = !tax->on_device ? value_absent("experts did not run on a device")
			 : !routed->tile_waste.known
				 ? routed->tile_waste
				 : value_of(routed->tile_waste.v * layer->expert_ns.v);
	layer->what_if_ns = value_absent(tax->workers > 1 ? "measured with several workers"
							  : "8, 4 and 2 do not divide the experts");
	for (unsigned int d = 8; tax->workers == 1 && d >= 2; d /= 2) {
		double ratio = routed->experts % d ? 0 : busiest_ratio(routing, layer->layer, d);

		if (ratio <= 0)
			continue;
		layer->what_if_devices = d;
		layer->what_if_ns = value_of((ratio - 1) * layer->expert_ns.v / d);
		break;
	}
	if (tax->workers < 2)
		layer->tax_ns = value_absent("one worker ran all experts: it does the same work "
					     "however it is spread");
}

static void total(const struct steps *steps, const struct routing *routing,
		  struct imbalance_tax *tax)
{
	double expert = 0, sum = 0;

	for (size_t i = 0; i < tax->n; i++) {
		struct tax_layer *layer = &tax->layers[i];

		layer->expert_ns.v /= (double)tax->steps;
		layer->tax_ns.v /= (double)tax->steps;
		expert += layer->expert_ns.v;
		sum += layer->tax_ns.v;
		estimate(tax, routing, layer);
	}
	tax->expert_ns = value_of(expert);
	if (tax->workers < 2) {
		tax->tax_ns = tax->layers[0].tax_ns;
		tax->tax_pct = tax->tax_tokens_per_s = tax->tax_ns;
		return;
	}
	tax->tax_ns = value_of(sum);
	tax->tax_pct = value_of(100 * sum / tax->step_ns.v);
	tax->tax_tokens_per_s = steps->tokens_per_s;
	if (steps->tokens_per_s.known)
		tax->tax_tokens_per_s =
			sum < tax->step_ns.v
				? value_of(steps->tokens_per_s.v * sum / (tax->step_ns.v - sum))
				: value_absent("experts of other steps ran in the same time");
}

static void absent(struct imbalance_tax *tax, const char *reason)
{
	tax->expert_ns = tax->tax_ns = tax->tax_pct = tax->tax_tokens_per_s = value_absent(reason);
}

static int measure_tax(const struct run *run, const struct steps *steps,
		       const struct routing *routing, const struct coverage *coverage,
		       struct imbalance_tax *tax)
{
	struct pieces pieces = { 0 };
	struct run slice;
	int r = step_sample_init(&slice, run, steps, coverage, TAX_STEPS, &tax->steps);

	if (r < 0)
		return r;
	tax->on_device = run->kernel.n > 0;
	r = tax->on_device ? collect_kernels(&slice, &pieces) : collect_host(&slice, &pieces);
	run_slice_release(&slice);
	if (r >= 0 && pieces.n) {
		qsort(pieces.items, pieces.n, sizeof(*pieces.items), piece_order);
		tax->workers = count_workers(&pieces);
		r = sum_layers(&pieces, routing, tax);
	}
	if (r >= 0 && tax->n)
		total(steps, routing, tax);
	else
		absent(tax, "no time of experts was recorded: no range names a layer and an expert "
			    "around their work");
	free(pieces.items);
	return r;
}

int imbalance_tax_analyze(const struct run *run, const struct steps *steps,
			  const struct routing *routing, const struct coverage *coverage,
			  struct imbalance_tax *ret_tax)
{
	struct imbalance_tax tax = { 0 };
	int r = 0;

	tax.step_ns = steps->all.n && steps->all.mean > 0 ? value_of(steps->all.mean)
							  : value_absent("no finished step");
	if (!routing->n)
		absent(&tax, "no routing was recorded");
	else if (!tax.step_ns.known)
		absent(&tax, "no finished step");
	else
		r = measure_tax(run, steps, routing, coverage, &tax);
	if (r < 0) {
		imbalance_tax_release(&tax);
		return r;
	}
	*ret_tax = tax;
	return 0;
}

void imbalance_tax_release(struct imbalance_tax *tax)
{
	free(tax->layers);
	*tax = (struct imbalance_tax){ 0 };
}
