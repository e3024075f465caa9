/* SPDX-License-Identifier: Apache-2.0
 *
 * The roofline: arithmetic done a second over arithmetic done a byte, under the device's limits.
 */
#include <inttypes.h>
#include <math.h>

#include "base/format.h"
#include "present/plot_draw.h"

static bool usable(const struct roof_point *p)
{
	return p->flops_per_byte > 0 && p->flops_per_s > 0 && isfinite(p->flops_per_byte) &&
	       isfinite(p->flops_per_s);
}

static void roofs(struct canvas *c, const struct chart *chart, const struct roof_data *data)
{
	const struct plot_theme *theme = canvas_theme(c);
	struct text_style_desc style = { .size = TEXT_USUAL, .align = ALIGN_RIGHT };

	for (size_t i = 0; i < data->n_peaks; i++) {
		double peak = data->peaks[i].flops_per_s, ridge = peak / data->bytes_per_s;
		double y = chart_y(chart, peak), right = chart->data.x + chart->data.w;
		char text[128];

		canvas_line(c, chart_x(chart, ridge), y, right, y, theme->text, 1.5, false);
		canvas_line(c, chart_x(chart, ridge), y, chart_x(chart, ridge),
			    chart->data.y + chart->data.h, theme->muted, 1, true);
		snprintf(text, sizeof(text), "%s %s", data->peaks[i].name, format_flops(peak).text);
		canvas_text(c, right, y - 9, style, theme->text, text);
	}
}

static void slope(struct canvas *c, const struct chart *chart, const struct roof_data *data)
{
	double highest = 0, low = chart->x.min, high;

	for (size_t i = 0; i < data->n_peaks; i++)
		highest = fmax(highest, data->peaks[i].flops_per_s);
	high = highest / data->bytes_per_s;
	/* Not below the axis. */
	low = fmax(low, chart->y.min / data->bytes_per_s);
	canvas_line(c, chart_x(chart, low), chart_y(chart, low * data->bytes_per_s),
		    chart_x(chart, high), chart_y(chart, highest), canvas_theme(c)->text, 1.5,
		    false);
}

void plot_roofline_of(struct canvas *c, struct rect box, const struct roof_data *data)
{
	const struct plot_theme *theme = canvas_theme(c);
	struct plot_axis x = { .log = true, .label = "FLOPs per byte (logarithmic)" };
	struct plot_axis y = { .log = true, .label = "FLOP/s (logarithmic)" };
	double low_x = INFINITY, high_x = 0, low_y = INFINITY, high_y = 0, time = 0;
	struct legend_item items[PLOT_SERIES + 1];
	struct chart chart;
	char subtitle[256];
	size_t n = 0;

	for (size_t i = 0; i < data->n_points; i++) {
		const struct roof_point *p = &data->points[i];

		if (!usable(p))
			continue;
		low_x = fmin(low_x, p->flops_per_byte);
		high_x = fmax(high_x, p->flops_per_byte);
		low_y = fmin(low_y, p->flops_per_s);
		high_y = fmax(high_y, p->flops_per_s);
		time = fmax(time, p->time_ns);
		if (n < PLOT_SERIES)
			items[n] = (struct legend_item){ theme->series[n], p->name, LEGEND_DOT };
		n++;
	}
	snprintf(subtitle, sizeof(subtitle), "%s%sslope: %s/s of memory",
		 data->subtitle ? data->subtitle : "", data->subtitle ? "; " : "",
		 format_bytes(data->bytes_per_s).text);
	box = plot_panel(c, box, "Roofline", n && data->bytes_per_s > 0 ? subtitle : NULL);
	if (!n || !data->n_peaks || !(data->bytes_per_s > 0)) {
		plot_no_data(c, box, n ? "the peaks of this device are not known" : data->reason);
		return;
	}
	for (size_t i = 0; i < data->n_peaks; i++) {
		high_y = fmax(high_y, data->peaks[i].flops_per_s);
		high_x = fmax(high_x, data->peaks[i].flops_per_s / data->bytes_per_s * 3);
	}
	x.min = pow(10, floor(log10(low_x) - 0.1));
	x.max = pow(10, ceil(log10(high_x) + 0.1));
	y.min = pow(10, floor(log10(low_y) - 0.1));
	y.max = pow(10, ceil(log10(high_y) + 0.1));
	box = plot_legend(c, box, items, n < PLOT_SERIES ? n : PLOT_SERIES);
	chart = plot_axes(c, box, x, y);
	slope(c, &chart, data);
	roofs(c, &chart, data);
	n = 0;
	for (size_t i = 0; i < data->n_points; i++) {
		const struct roof_point *p = &data->points[i];

		if (!usable(p))
			continue;
		canvas_dot(c, chart_x(&chart, p->flops_per_byte), chart_y(&chart, p->flops_per_s),
			   4 + (time > 0 ? 8 * sqrt(p->time_ns / time) : 0),
			   theme->series[n < PLOT_SERIES ? n : PLOT_SERIES - 1]);
		n++;
	}
}

int plot_roofline(struct canvas *c, struct rect box, const struct plot_scene *scene)
{
	const struct roof_data none = {
		.reason = scene->run->kernel.n
				  ? "no FLOPs and bytes of kernels are known in this run"
				  : plot_no_device(scene),
	};

	plot_roofline_of(c, box, &none);
	return 0;
}
