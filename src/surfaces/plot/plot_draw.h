/* SPDX-License-Identifier: Apache-2.0
 *
 * The plots: each draws itself into a box of a canvas, from answers and tables alone; without data
 * it says why. 0 or -ENOMEM. One thread.
 */
#ifndef SURFACES_PLOT_DRAW_H
#define SURFACES_PLOT_DRAW_H

#include "device/sheets/peaks.h"
#include "surfaces/plot/plot_chart.h"

typedef int plot_function(struct canvas *canvas, struct rect box, const struct plot_scene *scene);

plot_function plot_memory, plot_steps, plot_kernels, plot_api, plot_experts, plot_heatmap,
	plot_k_histogram, plot_flops, plot_latency, plot_timeline, plot_speed_of_light,
	plot_roofline, plot_flame, plot_heap;

/* What a roofline is drawn of; the roof is drawn as far as it is known. */
struct roof_data {
	const struct roofline_point *points;
	size_t n;
	struct value flops_per_s, bytes_per_s;
	const char *peak; /* what flops_per_s is the peak of */
	/* Peaks of other data types, below it. */
	struct roof_peak {
		enum peak_dtype dtype;
		double flops_per_s;
	} lower[PEAK_DTYPES];
	size_t n_lower;
	const char *subtitle; /* where the peaks are from; NULL: nothing to say */
	const char *reason;   /* why there are no points */
};

void plot_roofline_of(struct canvas *canvas, struct rect box, const struct roof_data *data);

#endif
