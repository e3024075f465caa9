/* SPDX-License-Identifier: Apache-2.0
 *
 * The plots: each draws itself into a box of a canvas, from findings and tables alone; without data
 * it says why. 0 or -ENOMEM. One thread.
 */
#ifndef PRESENT_PLOT_DRAW_H
#define PRESENT_PLOT_DRAW_H

#include "present/plot_chart.h"

typedef int plot_function(struct canvas *canvas, struct rect box, const struct plot_scene *scene);

plot_function plot_memory, plot_steps, plot_kernels, plot_api, plot_experts, plot_heatmap,
	plot_k_histogram, plot_flops, plot_latency, plot_timeline, plot_roofline;

/* A kernel, class or operation in the roofline. */
struct roof_point {
	const char *name;
	double flops_per_byte, flops_per_s;
	double time_ns; /* the size of its dot */
};

/* A peak of arithmetic; the slope is the device's memory bandwidth. */
struct roof_peak {
	const char *name;
	double flops_per_s;
};

struct roof_data {
	const struct roof_point *points;
	size_t n_points;
	const struct roof_peak *peaks;
	size_t n_peaks;
	double bytes_per_s;
	const char *subtitle; /* where the peaks are from */
	const char *reason;   /* why there are no points */
};

void plot_roofline_of(struct canvas *canvas, struct rect box, const struct roof_data *data);

#endif
