/* SPDX-License-Identifier: Apache-2.0
 *
 * What uneven routing costs in time: routing joined to the time that experts took.
 *
 * A worker is what runs experts beside others: a device of a process where kernels were recorded,
 * a thread where not. A kernel is expert work when the range it was launched in (or its graph node
 * was made in) names a layer and an expert, or names a layer and the kernel is a grouped GEMM; on
 * the host the ranges and operations that name a layer and an expert are.
 *
 * expert   time of expert work a step, all workers together
 * tax      with several workers, measured: per step, layer and phase the time of the busiest worker
 *          less the mean over all workers of the run, summed over the phases; mean over the steps.
 *          With uniform load it would be won back, but for the part that chance makes.
 * tile     with grouped GEMMs on a device, est.: tile_waste * expert
 * what if  with one worker, est.: experts in order over D devices, the largest of 8, 4 and 2 that
 *          divides their number: (busiest share * D - 1) * expert / D. Assumes that the time of an
 *          expert grows with its load.
 *
 * Looked at are up to TAX_STEPS steps, evenly spread over the finished and recorded (and, with
 * device records, wholly covered) ones. Several passes through a layer in one phase of a step count
 * as one, which makes the tax too small. Pure, any thread.
 */
#ifndef SUBJECTS_IMBALANCE_TAX_H
#define SUBJECTS_IMBALANCE_TAX_H

#include "subjects/routing/routing.h"
#include "subjects/shared/coverage.h"
#include "subjects/steps/steps.h"

#define TAX_STEPS 64

struct tax_layer {
	int32_t layer;
	/* Per step. */
	struct value expert_ns, tax_ns, tile_ns, what_if_ns;
	unsigned int what_if_devices; /* 0: no what-if */
};

struct imbalance_tax {
	struct tax_layer *layers; /* by layer */
	size_t n;
	bool on_device;	      /* workers are devices, else threads */
	size_t workers;	      /* of all layers */
	size_t steps;	      /* looked at */
	struct value step_ns; /* mean over all finished steps of the selection */
	/* Sums over the layers, per step; the second in tokens/s that would be won. */
	struct value expert_ns, tax_ns, tax_pct, tax_tokens_per_s;
};

/* steps, routing: of the same selection. */
int imbalance_tax_analyze(const struct run *run, const struct steps *steps,
			  const struct routing *routing, const struct coverage *coverage,
			  struct imbalance_tax *ret_tax);
void imbalance_tax_release(struct imbalance_tax *tax);

#endif
