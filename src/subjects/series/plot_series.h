/* SPDX-License-Identifier: Apache-2.0
 *
 * What plots show over steps and over time, in as many parts as a picture has room for. Nothing is
 * smoothed away in silence: a part of several steps has its median and its slowest one, a line keeps
 * the lowest and highest of each part, a lane the share of each part that was covered. Pure, any
 * thread.
 */
#ifndef SUBJECTS_PLOT_SERIES_H
#define SUBJECTS_PLOT_SERIES_H

#include "subjects/numbers/intervals.h"
#include "subjects/routing/routing.h"
#include "subjects/steps/steps.h"

struct series_point {
	double x, y;
};

/* Keeps at most max points (max >= 4), in order: of each equal part of the points the lowest and the
 * highest. The number that remains. */
size_t series_reduce(struct series_point *points, size_t n, size_t max);

/* Of each of n equal parts of [start, end) the share that the spans cover, 0..1. */
void series_cover(const struct span *merged, size_t n_spans, int64_t start_ns, int64_t end_ns,
		  double *share, size_t n);

/* What two merged lanes have in common; out has room for n_a + n_b. The number of spans. */
size_t series_clip(const struct span *a, size_t n_a, const struct span *b, size_t n_b,
		   struct span *out);

/* Neighbouring finished steps. Of several ranks the slowest stands for a step: it is over when the
 * last of them is. */
struct step_bin {
	const struct step_row *first, *median, *slowest; /* median: the lower one */
	size_t n, outliers;
};

struct step_bins {
	struct step_bin *bins; /* free() it */
	size_t n, per_bin, steps, ranks;
};

int step_bins_make(const struct steps *steps, size_t max_bins, struct step_bins *ret_bins);

/* A step of all MoE layers together. */
struct routing_total {
	int64_t step;
	uint32_t layers;
	double flops_router, flops_expert; /* sums; not known for all layers: n_flops < layers */
	double router_ns;		   /* sum over the layers whose router was timed */
	uint32_t n_flops, n_timed;
	const char *no_flops, *no_time; /* why they are not known; NULL: they are */
};

/* By step; only this layer when layer >= 0. free() it. */
int routing_totals(const struct routing *routing, int layer, struct routing_total **ret_totals,
		   size_t *ret_n);

/* Bytes in use on a device of a process by its own samples, or held from the driver by the process
 * (pinned host memory is not in it). free() the points; none: *ret_n is 0. */
int series_device_used(const struct run *run, uint16_t shard, uint32_t device,
		       struct series_point **ret_points, size_t *ret_n);
int series_driver_held(const struct run *run, uint16_t shard, uint32_t device,
		       struct series_point **ret_points, size_t *ret_n);

/* Ranges that name a phase, merged; the group is the phase, the device 0. free() it. */
int phase_spans(const struct run *run, struct span **ret_spans, size_t *ret_n);

#endif
