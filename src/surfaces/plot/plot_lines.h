/* SPDX-License-Identifier: Apache-2.0
 *
 * A page of charts with the same series: lines or dots with intervals, against a number. Knows
 * nothing of what they show. One thread.
 */
#ifndef SURFACES_PLOT_LINES_H
#define SURFACES_PLOT_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/err.h"
#include "surfaces/plot/plot.h"

#define LINES_SERIES 8 /* that can be told apart */

struct lines_point {
	double x, y;	   /* y NaN: there is none; marked by a cross at the foot */
	double low, high;  /* NaN: no interval */
	const char *label; /* NULL: none */
};

struct lines_series {
	const struct lines_point *points; /* by x */
	size_t n;
	size_t name;	/* index into the names of the page, which is also its colour */
	bool dots_only; /* no line, and muted */
};

struct lines_panel {
	const char *title; /* NULL: none */
	const char *x_label, *y_label;
	bool ticks_at_points; /* of x; else at round numbers */
	const struct lines_series *series;
	size_t n;
	double reference; /* a dashed line at this y; NaN: none */
};

struct lines_page {
	const char *title, *subtitle, *footer;
	const char *const *names; /* of series; a single one has no legend */
	size_t n_names;
	const char *reference; /* what the dashed line is */
	const struct lines_panel *panels;
	size_t n, columns;
};

/* One picture; `layer` of the options is not looked at. A panel without any point says so. */
int plot_lines_draw(const struct lines_page *page, const struct plot_options *options, FILE *out,
		    struct err *err);

#endif
