/* SPDX-License-Identifier: Apache-2.0
 *
 * Charts of series; see plot_lines.h.
 */
#include "surfaces/plot/plot_lines.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "surfaces/plot/plot_chart.h"

#define MARGIN 24
#define PANEL_HEIGHT 380
#define WIDE 40 /* largest by smallest, from which an axis is logarithmic */

static const struct text_style_desc label_style = { .size = TEXT_SMALL };

struct range {
	double low, high; /* low above high: empty */
	double least;	  /* above 0 */
};

static void reach(struct range *range, double value)
{
	if (!isfinite(value))
		return;
	range->low = fmin(range->low, value);
	range->high = fmax(range->high, value);
	if (value > 0)
		range->least = fmin(range->least, value);
}

static const struct range empty_range = { INFINITY, -INFINITY, INFINITY };

/* Round numbers around all of it, from 0 on unless it spans orders of magnitude. */
static void set_axis(struct plot_axis *axis, const struct range *range)
{
	if (range->low > 0 && range->high / range->low > WIDE) {
		axis->log = true;
		axis->min = pow(10, floor(log10(range->low) + 1e-9));
		axis->max = pow(10, ceil(log10(range->high * 1.05) - 1e-9));
		return;
	}
	axis->min = fmin(0, range->low);
	axis->max = plot_round_up(range->high * 1.04);
}

/* Around the points themselves: the first and the last have some room beside them. */
static void set_point_axis(struct plot_axis *axis, const struct range *range)
{
	axis->hidden = true;
	if (range->low > 0 && range->high / range->low >= 4) {
		double room = pow(range->high / range->low, 0.06);

		axis->log = true;
		axis->min = range->low / room;
		axis->max = range->high * room;
		return;
	}
	double room = range->high > range->low ? (range->high - range->low) * 0.06
					       : fmax(fabs(range->low) * 0.5, 0.5);

	axis->min = range->low - room;
	axis->max = range->high + room;
}

static int by_number(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static size_t points_of(const struct lines_panel *panel)
{
	size_t n = 0;

	for (size_t i = 0; i < panel->n; i++)
		n += panel->series[i].n;
	return n;
}

/* A tick at every x that occurs, as far as their numbers do not touch. */
static int draw_point_ticks(const struct chart *chart, const struct lines_panel *panel)
{
	struct text_style_desc style = { .size = TEXT_USUAL, .align = ALIGN_CENTER };
	const struct plot_theme *theme = canvas_theme(chart->canvas);
	double *at = calloc(points_of(panel) + 1, sizeof(*at)), last = -INFINITY;
	struct rect d = chart->data;
	size_t n = 0;

	if (!at)
		return -ENOMEM;
	for (size_t i = 0; i < panel->n; i++)
		for (size_t p = 0; p < panel->series[i].n; p++)
			at[n++] = panel->series[i].points[p].x;
	qsort(at, n, sizeof(*at), by_number);
	for (size_t i = 0; i < n; i++) {
		double x = chart_x(chart, at[i]), half;
		char text[32];

		if (i && at[i] == at[i - 1])
			continue;
		canvas_line(chart->canvas, x, d.y + d.h, x, d.y + d.h + 4, theme->axis, 1, false);
		snprintf(text, sizeof(text), "%g", at[i]);
		half = canvas_text_width(chart->canvas, style, text) / 2;
		if (x - half < last + 6)
			continue;
		canvas_text(chart->canvas, x, d.y + d.h + 14, style, theme->muted, text);
		last = x + half;
	}
	free(at);
	return 0;
}

static plot_color color_of(const struct canvas *c, const struct lines_series *s)
{
	const struct plot_theme *theme = canvas_theme(c);

	return s->dots_only ? theme->muted : theme->series[s->name % PLOT_SERIES];
}

static void draw_interval(const struct chart *chart, const struct lines_point *p, plot_color color)
{
	double x = chart_x(chart, p->x), low, high;

	if (!isfinite(p->low) || !isfinite(p->high))
		return;
	low = chart_y(chart, p->low);
	high = chart_y(chart, p->high);
	canvas_line(chart->canvas, x, low, x, high, color, 1.5, false);
	canvas_line(chart->canvas, x - 4, low, x + 4, low, color, 1.5, false);
	canvas_line(chart->canvas, x - 4, high, x + 4, high, color, 1.5, false);
}

/* A point that is missing breaks the line. */
static void draw_series(const struct chart *chart, const struct lines_series *s)
{
	struct canvas *c = chart->canvas;
	plot_color color = color_of(c, s);

	for (size_t i = 0; i < s->n; i++) {
		const struct lines_point *p = &s->points[i];
		double x = chart_x(chart, p->x), y = chart_y(chart, p->y);

		if (isnan(p->y)) {
			plot_cross(c, x, chart->data.y + chart->data.h - 7, 4,
				   canvas_theme(c)->warning);
			continue;
		}
		if (i && !s->dots_only && !isnan(p[-1].y))
			canvas_line(c, chart_x(chart, p[-1].x), chart_y(chart, p[-1].y), x, y,
				    color, 2, false);
		draw_interval(chart, p, color);
		canvas_dot(c, x, y, s->dots_only ? 3.5 : 4, color);
	}
}

static bool overlap(struct rect a, struct rect b)
{
	return a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
}

/* The segment has a point inside the box (Liang and Barsky's clipping). */
static bool crosses(struct rect box, struct plot_point a, struct plot_point b)
{
	double dx = b.x - a.x, dy = b.y - a.y, from = 0, to = 1;
	const double p[] = { -dx, dx, -dy, dy };
	const double q[] = { a.x - box.x, box.x + box.w - a.x, a.y - box.y, box.y + box.h - a.y };

	for (int i = 0; i < 4; i++) {
		if (p[i] == 0 && q[i] < 0)
			return false;
		if (p[i] < 0)
			from = fmax(from, q[i] / p[i]);
		else if (p[i] > 0)
			to = fmin(to, q[i] / p[i]);
	}
	return from <= to;
}

/* What labels must keep clear of, besides the lines. */
struct taken {
	const struct lines_panel *panel;
	struct rect *rects;
	size_t n;
};

static bool on_a_line(const struct chart *chart, const struct lines_panel *panel, struct rect box)
{
	for (size_t i = 0; i < panel->n; i++) {
		const struct lines_series *s = &panel->series[i];

		for (size_t p = 1; !s->dots_only && p < s->n; p++) {
			struct plot_point a = { chart_x(chart, s->points[p - 1].x),
						chart_y(chart, s->points[p - 1].y) };
			struct plot_point b = { chart_x(chart, s->points[p].x),
						chart_y(chart, s->points[p].y) };

			if (crosses(box, a, b))
				return true;
		}
	}
	return false;
}

static bool is_free(const struct chart *chart, const struct taken *taken, struct rect box)
{
	struct rect area = chart->data;

	if (box.x < area.x || box.y < area.y || box.x + box.w > area.x + area.w + 12 ||
	    box.y + box.h > area.y + area.h)
		return false;
	for (size_t i = 0; i < taken->n; i++)
		if (overlap(taken->rects[i], box))
			return false;
	return !on_a_line(chart, taken->panel, box);
}

/* Beside the point where there is room: right, left, above, below, then the corners. */
static bool place_label(const struct chart *chart, const struct lines_point *p, plot_color color,
			struct taken *taken)
{
	static const struct {
		double x, y; /* in widths and heights of the label */
		double dx, dy;
	} places[] = { { 0, -0.5, 8, 0 }, { -1, -0.5, -8, 0 }, { -0.5, -1, 0, -7 },
		       { -0.5, 0, 0, 7 }, { 0, -1, 5, -4 },    { -1, -1, -5, -4 },
		       { 0, 0, 5, 4 },	  { -1, 0, -5, 4 } };
	double x = chart_x(chart, p->x), y = chart_y(chart, p->y);
	double w = canvas_text_width(chart->canvas, label_style, p->label), h = 14;

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		struct rect box = { x + places[i].x * w + places[i].dx,
				    y + places[i].y * h + places[i].dy, w, h };

		if (!is_free(chart, taken, box))
			continue;
		canvas_text(chart->canvas, box.x, box.y + h / 2, label_style, color, p->label);
		taken->rects[taken->n++] = box;
		return true;
	}
	return false;
}

/* How many labels had no room. */
static size_t label_series(const struct chart *chart, const struct lines_series *s,
			   struct taken *taken)
{
	const struct plot_theme *theme = canvas_theme(chart->canvas);
	size_t left_out = 0;

	for (size_t p = 0; p < s->n; p++)
		if (s->points[p].label && !isnan(s->points[p].y))
			left_out += !place_label(chart, &s->points[p],
						 s->dots_only ? theme->muted : theme->text, taken);
	return left_out;
}

/* Labels of lines first: those of dots alone get what room is left. */
static int draw_labels(const struct chart *chart, const struct lines_panel *panel)
{
	const struct plot_theme *theme = canvas_theme(chart->canvas);
	struct taken taken = { panel, calloc(2 * points_of(panel) + 1, sizeof(struct rect)), 0 };
	struct text_style_desc right = { .size = TEXT_SMALL, .align = ALIGN_RIGHT };
	size_t left_out = 0;
	char text[64];

	if (!taken.rects)
		return -ENOMEM;
	for (size_t i = 0; i < panel->n; i++)
		for (size_t p = 0; p < panel->series[i].n; p++) {
			const struct lines_point *point = &panel->series[i].points[p];

			if (!isnan(point->y))
				taken.rects[taken.n++] =
					(struct rect){ chart_x(chart, point->x) - 5,
						       chart_y(chart, point->y) - 5, 10, 10 };
		}
	for (int dots = 0; dots < 2; dots++)
		for (size_t i = 0; i < panel->n; i++)
			if (panel->series[i].dots_only == dots)
				left_out += label_series(chart, &panel->series[i], &taken);
	free(taken.rects);
	if (!left_out)
		return 0;
	snprintf(text, sizeof(text), "%zu without room for a label", left_out);
	canvas_text(chart->canvas, chart->data.x + chart->data.w, chart->data.y - 14, right,
		    theme->muted, text);
	return 0;
}

static void reach_panel(const struct lines_panel *panel, struct range *x, struct range *y)
{
	for (size_t i = 0; i < panel->n; i++)
		for (size_t p = 0; p < panel->series[i].n; p++) {
			const struct lines_point *point = &panel->series[i].points[p];

			reach(x, point->x);
			reach(y, point->y);
			reach(y, point->low);
			reach(y, point->high);
		}
}

/* Panels with the same figure have the same axes: they are there to be compared. */
static int draw_panel(struct canvas *c, struct rect box, const struct lines_page *page,
		      const struct lines_panel *panel)
{
	const struct plot_theme *theme = canvas_theme(c);
	struct range x = empty_range, y = empty_range;
	struct plot_axis x_axis = { .label = panel->x_label }, y_axis = { .label = panel->y_label };
	struct text_style_desc bold = { .size = TEXT_USUAL, .bold = true };
	struct chart chart;
	char text[256];
	int r = 0;

	if (panel->title) {
		canvas_fit(c, bold, panel->title, box.w, true, text, sizeof(text));
		canvas_text(c, box.x, box.y + 8, bold, theme->text, text);
		box = (struct rect){ box.x, box.y + 22, box.w, box.h - 22 };
	}
	for (size_t i = 0; i < page->n; i++)
		if (!strcmp(page->panels[i].y_label, panel->y_label))
			reach_panel(&page->panels[i], &x, &y);
	if (x.low > x.high || y.low > y.high) {
		snprintf(text, sizeof(text), "%s was not measured in any of them", panel->y_label);
		plot_no_data(c, box, text);
		return 0;
	}
	reach(&y, panel->reference);
	set_axis(&y_axis, &y);
	if (panel->ticks_at_points)
		set_point_axis(&x_axis, &x);
	else
		set_axis(&x_axis, &x);
	chart = plot_axes(c, box, x_axis, y_axis);
	if (panel->ticks_at_points)
		r = draw_point_ticks(&chart, panel);
	if (isfinite(panel->reference))
		canvas_line(c, chart.data.x, chart_y(&chart, panel->reference),
			    chart.data.x + chart.data.w, chart_y(&chart, panel->reference),
			    theme->muted, 1.5, true);
	for (size_t i = 0; i < panel->n; i++)
		if (panel->series[i].dots_only)
			draw_series(&chart, &panel->series[i]);
	for (size_t i = 0; i < panel->n; i++)
		if (!panel->series[i].dots_only)
			draw_series(&chart, &panel->series[i]);
	return r < 0 ? r : draw_labels(&chart, panel);
}

/* A series of the page that has points somewhere; missing: that has one without a y. */
static const struct lines_series *find_series(const struct lines_page *page, size_t name,
					      bool missing)
{
	for (size_t i = 0; i < page->n; i++)
		for (size_t s = 0; s < page->panels[i].n; s++) {
			const struct lines_series *series = &page->panels[i].series[s];

			for (size_t p = 0; p < series->n; p++)
				if (missing ? isnan(series->points[p].y) : series->name == name)
					return series;
		}
	return NULL;
}

static struct rect draw_legend(struct canvas *c, struct rect box, const struct lines_page *page)
{
	struct legend_item items[LINES_SERIES + 3];
	size_t n = 0;

	for (size_t i = 0; page->n_names > 1 && i < page->n_names && i <= LINES_SERIES; i++) {
		const struct lines_series *s = find_series(page, i, false);

		if (s)
			items[n++] = (struct legend_item){ color_of(c, s), page->names[i],
							   s->dots_only ? LEGEND_DOT
									: LEGEND_LINE };
	}
	if (page->reference)
		items[n++] = (struct legend_item){ canvas_theme(c)->muted, page->reference,
						   LEGEND_DASH };
	if (find_series(page, 0, true))
		items[n++] = (struct legend_item){ canvas_theme(c)->warning, "no figure",
						   LEGEND_CROSS };
	return plot_legend(c, box, items, n);
}

static int draw_page(struct canvas *c, const struct lines_page *page, struct rect box)
{
	size_t rows = (page->n + page->columns - 1) / page->columns;
	double gap = MARGIN, width, height;
	int r = 0;

	box = plot_panel(c, box, page->title, page->subtitle);
	box = draw_legend(c, box, page);
	width = (box.w - gap * (double)(page->columns - 1)) / (double)page->columns;
	height = (box.h - gap * (double)(rows - 1)) / (double)rows;
	for (size_t i = 0; r == 0 && i < page->n; i++) {
		size_t column = i % page->columns, row = i / page->columns;
		struct rect at = { box.x + (double)column * (width + gap),
				   box.y + (double)row * (height + gap), width, height };

		r = draw_panel(c, at, page, &page->panels[i]);
	}
	return r;
}

int plot_lines_draw(const struct lines_page *page, const struct plot_options *options, FILE *out,
		    struct err *err)
{
	size_t rows = (page->n + page->columns - 1) / page->columns;
	double width = page->columns > 2 ? 1600 : 1200;
	double height = 120 + (double)rows * (PANEL_HEIGHT + MARGIN) + (rows == 1 ? 140 : 0);
	struct text_style_desc style = { .size = TEXT_SMALL, .align = ALIGN_RIGHT };
	struct canvas *c;
	char text[1024];
	int r = canvas_new(width, height, options->scale, options->svg,
			   options->dark ? &plot_dark : &plot_light, &c);

	if (r < 0)
		return err_sys(err, r, "cannot draw '%s'", page->title);
	r = draw_page(c, page,
		      (struct rect){ MARGIN, MARGIN, width - 2 * MARGIN, height - 2 * MARGIN - 8 });
	canvas_fit(c, style, page->footer, width - 2 * MARGIN, true, text, sizeof(text));
	canvas_text(c, width - MARGIN, height - 12, style, canvas_theme(c)->muted, text);
	if (r == 0)
		r = canvas_write(c, out);
	canvas_free(c);
	return r < 0 ? err_sys(err, r, "cannot draw '%s'", page->title) : 0;
}
