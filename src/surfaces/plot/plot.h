/* SPDX-License-Identifier: Apache-2.0
 *
 * Pictures of a run, PNG or SVG. Every plot can be drawn of every run: one without data says why.
 * One thread.
 */
#ifndef SURFACES_PLOT_H
#define SURFACES_PLOT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "subjects/answers/answers.h"
#include "surfaces/views/views.h"
#include "tables/tables.h"

struct plot {
	const char *name; /* also of the file */
	const char *what; /* one line for people */
};

/* Ends with a NULL name; empty in a build without cairo. */
extern const struct plot plots[];

struct plot_options {
	bool svg, dark;
	double scale;		     /* pixels of the PNG for one of the drawing; 1 to 8 */
	int layer;		     /* of the routing plots; -1: all, or the most uneven */
	const struct selection *sel; /* of steps; NULL: all */
};

/* NULL, or why plots cannot be drawn here, one sentence. */
const char *plot_unavailable(void);
/* NULL, or what is missing for a good picture, one sentence. */
const char *plot_trouble(void);

/* What a run must be loaded with for all of them. */
struct run_want plot_want(const struct view_options *options);
/* The answers that all of them need. */
int plot_compute(const struct run *run, const struct view_options *options,
		 struct answers *ret_answers, struct err *err);
/* The picture as a whole file. */
int plot_draw(const char *name, const struct run *run, const struct answers *answers,
	      const struct plot_options *options, FILE *out, struct err *err);

#endif
