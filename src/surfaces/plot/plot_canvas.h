/* SPDX-License-Identifier: Apache-2.0
 *
 * What plots draw on: a page of pixels that becomes a PNG (by cairo) or an SVG (written here; its
 * texts stay texts, and the same drawing gives the same bytes). Texts are measured by cairo for
 * both. Lengths are pixels at scale 1, y grows downwards. A failure sticks and is told at the end,
 * by canvas_write. One thread.
 */
#ifndef SURFACES_PLOT_CANVAS_H
#define SURFACES_PLOT_CANVAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "surfaces/plot/plot_theme.h"

struct rect {
	double x, y, w, h;
};

struct plot_point {
	double x, y;
};

enum plot_align { ALIGN_LEFT, ALIGN_CENTER, ALIGN_RIGHT };

struct text_style_desc {
	double size;
	bool bold;
	enum plot_align align;
};

struct canvas;

/* svg: an SVG, else a PNG. scale: pixels of the PNG for one of ours. */
int canvas_new(double width, double height, double scale, bool svg, const struct plot_theme *theme,
	       struct canvas **ret_canvas);
void canvas_free(struct canvas *canvas);
/* The whole file. 0 or -errno. */
int canvas_write(struct canvas *canvas, FILE *out);

const struct plot_theme *canvas_theme(const struct canvas *canvas);
/* False: no font is installed, and cairo's own letters are used, which are ASCII alone. */
bool canvas_has_fonts(const struct canvas *canvas);

void canvas_fill(struct canvas *canvas, struct rect rect, plot_color color, double alpha);
void canvas_frame(struct canvas *canvas, struct rect rect, plot_color color, double width);
void canvas_line(struct canvas *canvas, double x0, double y0, double x1, double y1,
		 plot_color color, double width, bool dashed);
void canvas_polyline(struct canvas *canvas, const struct plot_point *points, size_t n,
		     plot_color color, double width);
void canvas_area(struct canvas *canvas, const struct plot_point *points, size_t n, plot_color color,
		 double alpha);
void canvas_dot(struct canvas *canvas, double x, double y, double radius, plot_color color);

/* One line of text whose middle is at height y. Bytes that are not UTF-8, control characters and,
 * in a PNG, what the font lacks are drawn as a replacement. */
void canvas_text(struct canvas *canvas, double x, double y, struct text_style_desc style,
		 plot_color color, const char *text);
double canvas_text_width(struct canvas *canvas, struct text_style_desc style, const char *text);
/* The text in at most `width` pixels: whole, or cut in the middle (names) or at its end. */
void canvas_fit(struct canvas *canvas, struct text_style_desc style, const char *text, double width,
		bool middle, char *out, size_t size);

#endif
