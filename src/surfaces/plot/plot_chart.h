/* SPDX-License-Identifier: Apache-2.0
 *
 * What plots have in common: ticks and units, the panel with title and legend, axes, and the words
 * in place of a plot without data. Pure but for drawing, one thread.
 *
 * A panel takes a rectangle and gives back what is left: title and subtitle on top, then the
 * legend, then the data. So nothing lies over the data.
 */
#ifndef SURFACES_PLOT_CHART_H
#define SURFACES_PLOT_CHART_H

#include "subjects/answers/answers.h"
#include "subjects/series/plot_series.h"
#include "surfaces/plot/plot_canvas.h"
#include "tables/tables.h"

#define PLOT_TICKS_MAX 16

enum { TEXT_TITLE = 16, TEXT_USUAL = 12, TEXT_SMALL = 11 };

/* What every plot draws from. */
struct plot_scene {
	const struct run *run;
	const struct answers *answers;
	int layer;		     /* of the routing plots; -1: all, or the most uneven */
	const struct selection *sel; /* of steps, for what no answer has; NULL: all */
};

struct plot_ticks {
	double at[PLOT_TICKS_MAX];
	size_t n;
	double step; /* between two; 0: of a logarithmic axis */
};

/* Multiples of 1, 2 or 5 times a power of ten in [min, max], at most `most` of them; powers of ten
 * when log. Never more than PLOT_TICKS_MAX; none when min and max are not finite and in order. */
struct plot_ticks plot_ticks(double min, double max, size_t most, bool log);
/* "0.25" for a step of 0.05; with k, M, G where the axis reaches 10000. */
void plot_tick_text(const struct plot_ticks *ticks, size_t index, char *out, size_t size);
/* The smallest value that ticks well and is not below max; 1 when max is not above 0. */
double plot_round_up(double max);

/* A unit that makes numbers up to `max` short. */
struct plot_unit {
	double divisor;
	const char *name;
};
struct plot_unit plot_unit_ns(double max);
struct plot_unit plot_unit_bytes(double max);
struct plot_unit plot_unit_flops(double max);

struct plot_axis {
	double min, max; /* in the data's unit */
	bool log;
	struct plot_unit unit; /* divisor 0: none */
	const char *label;     /* without the unit */
	bool whole;	       /* ticks at whole numbers alone */
	bool hidden;	       /* no ticks: the plot writes its own labels */
};

struct chart {
	struct canvas *canvas;
	struct rect data; /* pixels */
	struct plot_axis x, y;
};

struct legend_item {
	plot_color color;
	const char *text;
	enum { LEGEND_FILL, LEGEND_LINE, LEGEND_DASH, LEGEND_DOT, LEGEND_CROSS } mark;
};

/* Title and subtitle (NULL or "": none); what is left of the box. */
struct rect plot_panel(struct canvas *canvas, struct rect box, const char *title,
		       const char *subtitle);
/* Rows of marks and words; what is left. */
struct rect plot_legend(struct canvas *canvas, struct rect box, const struct legend_item *items,
			size_t n);
/* A frame with the reason in words. */
void plot_no_data(struct canvas *canvas, struct rect box, const char *reason);
/* The chart's data area within box, its axes drawn with grid, ticks and labels. */
struct chart plot_axes(struct canvas *canvas, struct rect box, struct plot_axis x,
		       struct plot_axis y);
double chart_x(const struct chart *chart, double value);
double chart_y(const struct chart *chart, double value);
/* Labels under n bars that fill the data area, every 1st, 2nd, 5th, 10th … as there is room. */
void plot_index_labels(const struct chart *chart, size_t n,
		       int64_t (*number)(const void *context, size_t index), const void *context);
/* A line through points in the data's units, at most twice as many as there are pixels; with dots
 * where they are few. The points are changed. 0 or -ENOMEM. */
int plot_series_line(const struct chart *chart, struct series_point *points, size_t n,
		     plot_color color, double width, bool dots);
void plot_cross(struct canvas *canvas, double x, double y, double radius, plot_color color);

/* Phases keep their colour whichever of them a run has. */
plot_color plot_phase_color(const struct plot_theme *theme, unsigned int phase);

/* "", or that device records cover a part of the run, for the subtitle. */
void plot_sampled(const struct plot_scene *scene, char *out, size_t size);
/* Why there are no device records. */
const char *plot_no_device(const struct plot_scene *scene);

#endif
