/* SPDX-License-Identifier: Apache-2.0
 *
 * The roofline: arithmetic done a second over arithmetic done a byte, under the device's limits.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/format.h"
#include "subjects/counters/kernel_limits.h"
#include "subjects/efficiency/efficiency.h"
#include "surfaces/plot/plot_draw.h"

static bool usable(const struct roofline_point *p)
{
	return p->flops_per_byte > 0 && p->flops_per_s > 0 && isfinite(p->flops_per_byte) &&
	       isfinite(p->flops_per_s);
}

static bool known(struct value v)
{
	return v.known && v.v > 0 && isfinite(v.v);
}

static const char *why_not(struct value v)
{
	return v.reason ? v.reason : "not measured";
}

/* "bf16 peak"; PEAK_DTYPES: the type is not known. */
static void peak_words(enum peak_dtype dtype, char *words, size_t size)
{
	snprintf(words, size, "%s peak", dtype < PEAK_DTYPES ? peak_dtype_name(dtype) : "");
}

/* A flat part, from where it meets the slope. */
static void draw_peak(const struct chart *chart, double from, double flops_per_s, const char *name)
{
	struct canvas *c = chart->canvas;
	const struct plot_theme *theme = canvas_theme(c);
	struct text_style_desc style = { .size = TEXT_USUAL, .align = ALIGN_RIGHT };
	double y = chart_y(chart, flops_per_s), right = chart->data.x + chart->data.w;
	char text[128];

	canvas_line(c, chart_x(chart, from), y, right, y, theme->text, 1.5, false);
	snprintf(text, sizeof(text), "%s %s", name, format_flops(flops_per_s).text);
	canvas_text(c, right, y - 9, style, theme->text, text);
}

/* The largest rate that the memory allows, up to the peak; each part where it is known. */
static void draw_roof(const struct chart *chart, const struct roof_data *data)
{
	struct canvas *c = chart->canvas;
	const struct plot_theme *theme = canvas_theme(c);
	bool peak = known(data->flops_per_s), memory = known(data->bytes_per_s);
	double ridge = peak && memory ? data->flops_per_s.v / data->bytes_per_s.v : chart->x.min;

	if (memory) {
		/* Within the axes. */
		double low = fmax(chart->x.min, chart->y.min / data->bytes_per_s.v);
		double high = peak ? ridge : fmin(chart->x.max, chart->y.max / data->bytes_per_s.v);

		canvas_line(c, chart_x(chart, low), chart_y(chart, low * data->bytes_per_s.v),
			    chart_x(chart, high), chart_y(chart, high * data->bytes_per_s.v),
			    theme->text, 1.5, false);
	}
	if (peak) {
		draw_peak(chart, ridge, data->flops_per_s.v, data->peak);
		if (memory)
			canvas_line(c, chart_x(chart, ridge), chart_y(chart, data->flops_per_s.v),
				    chart_x(chart, ridge), chart->data.y + chart->data.h,
				    theme->muted, 1, true);
	}
	for (size_t i = 0; i < data->n_lower; i++) {
		double flops_per_s = data->lower[i].flops_per_s;
		char name[64];

		peak_words(data->lower[i].dtype, name, sizeof(name));
		draw_peak(chart, memory ? flops_per_s / data->bytes_per_s.v : chart->x.min,
			  flops_per_s, name);
	}
}

static void describe(const struct roof_data *data, char *out, size_t size)
{
	bool peak = known(data->flops_per_s), memory = known(data->bytes_per_s);
	size_t n;

	if (memory)
		snprintf(out, size, "slope: %s/s of memory",
			 format_bytes(data->bytes_per_s.v).text);
	else if (peak)
		snprintf(out, size, "slope of memory unknown: %s", why_not(data->bytes_per_s));
	else
		snprintf(out, size, "no roof: %s", why_not(data->flops_per_s));
	n = strlen(out);
	if (memory && !peak)
		snprintf(out + n, size - n, "; peak unknown: %s", why_not(data->flops_per_s));
	n = strlen(out);
	if (data->subtitle)
		snprintf(out + n, size - n, "; %s", data->subtitle);
}

/* From a whole decade to some room above, so that there are two ticks at least. */
static void set_range(struct plot_axis *axis, double low, double high)
{
	axis->min = pow(10, floor(log10(low) - 0.1));
	axis->max = fmax(high * 2.5, axis->min * 10);
}

/* Around the points and the ridge. */
static void fit(const struct roof_data *data, struct plot_axis *x, struct plot_axis *y)
{
	double low_x = INFINITY, high_x = 0, low_y = INFINITY, high_y = 0;

	for (size_t i = 0; i < data->n; i++) {
		const struct roofline_point *p = &data->points[i];

		if (!usable(p))
			continue;
		low_x = fmin(low_x, p->flops_per_byte);
		high_x = fmax(high_x, p->flops_per_byte);
		low_y = fmin(low_y, p->flops_per_s);
		high_y = fmax(high_y, p->flops_per_s);
	}
	if (known(data->flops_per_s))
		high_y = fmax(high_y, data->flops_per_s.v);
	if (known(data->flops_per_s) && known(data->bytes_per_s)) {
		double ridge = data->flops_per_s.v / data->bytes_per_s.v;

		high_x = fmax(high_x, ridge * 3);
		low_x = fmin(low_x, ridge / 3);
	}
	set_range(x, low_x, high_x);
	set_range(y, low_y, high_y);
}

void plot_roofline_of(struct canvas *c, struct rect box, const struct roof_data *data)
{
	const struct plot_theme *theme = canvas_theme(c);
	struct plot_axis x = { .log = true, .label = "FLOPs per byte (logarithmic)" };
	struct plot_axis y = { .log = true, .label = "FLOP/s (logarithmic)" };
	struct legend_item items[PLOT_SERIES];
	struct chart chart;
	char subtitle[512];
	double time = 0;
	size_t n = 0;

	for (size_t i = 0; i < data->n; i++) {
		const struct roofline_point *p = &data->points[i];

		if (!usable(p))
			continue;
		time = fmax(time, (double)p->time_ns);
		if (n < PLOT_SERIES)
			items[n] = (struct legend_item){ theme->series[n], p->name, LEGEND_DOT };
		n++;
	}
	/* The last colour is of all that follow. */
	if (n > PLOT_SERIES)
		items[PLOT_SERIES - 1].text = "others";
	describe(data, subtitle, sizeof(subtitle));
	box = plot_panel(c, box, "Roofline", n ? subtitle : NULL);
	if (!n) {
		plot_no_data(c, box, data->reason);
		return;
	}
	fit(data, &x, &y);
	box = plot_legend(c, box, items, n < PLOT_SERIES ? n : PLOT_SERIES);
	chart = plot_axes(c, box, x, y);
	draw_roof(&chart, data);
	n = 0;
	for (size_t i = 0; i < data->n; i++) {
		const struct roofline_point *p = &data->points[i];

		if (!usable(p))
			continue;
		canvas_dot(c, chart_x(&chart, p->flops_per_byte), chart_y(&chart, p->flops_per_s),
			   4 + (time > 0 ? 8 * sqrt((double)p->time_ns / time) : 0),
			   theme->series[n < PLOT_SERIES ? n : PLOT_SERIES - 1]);
		n++;
	}
}

/* The roofs of the data types that kernels have: the highest one, and those below it. */
static void measured_roofs(const struct kernel_limits *limits, struct roof_data *data, char *peak,
			   size_t size)
{
	const double *peaks = limits->device.peaks.flops_per_s;
	bool used[PEAK_DTYPES] = { false };
	int highest = -1;

	for (size_t i = 0; i < limits->n; i++)
		if (limits->rows[i].tensor_type < PEAK_DTYPES)
			used[limits->rows[i].tensor_type] = true;
	for (int d = 0; d < PEAK_DTYPES; d++)
		if (used[d] && peaks[d] > 0 && (highest < 0 || peaks[d] > peaks[highest]))
			highest = d;
	data->bytes_per_s = limits->device.memory_bytes_per_s;
	data->flops_per_s = highest < 0 ? value_absent(limits->device.reason)
					: value_of(peaks[highest]);
	peak_words(highest < 0 ? PEAK_DTYPES : (enum peak_dtype)highest, peak, size);
	for (int d = 0; d < PEAK_DTYPES; d++)
		if (used[d] && peaks[d] > 0 && peaks[d] < data->flops_per_s.v)
			data->lower[data->n_lower++] = (struct roof_peak){ (enum peak_dtype)d,
									   peaks[d] };
}

/* By the hardware counters of kernels. 1: drawn; 0: they have none. */
static int draw_measured(struct canvas *c, struct rect box, const struct kernel_limits *limits)
{
	struct roofline_point *points = calloc(limits->n + 1, sizeof(*points));
	char subtitle[384] = "", peak[64];
	struct roof_data data = { .points = points, .peak = peak, .subtitle = subtitle };

	if (!points)
		return -ENOMEM;
	for (size_t i = 0; i < limits->n; i++) {
		const struct kernel_limit_row *row = &limits->rows[i];
		struct roofline_point point = { row->short_name, row->ops_per_byte.v,
						row->tensor_ops_per_s.v,
						kernel_limit_time_ns(row) };

		if (row->ops_per_byte.known && row->tensor_ops_per_s.known && usable(&point))
			points[data.n++] = point;
	}
	if (data.n) {
		measured_roofs(limits, &data, peak, sizeof(peak));
		if (limits->device.source && known(data.bytes_per_s))
			snprintf(subtitle, sizeof(subtitle), "%s, %s; ", limits->device.name,
				 limits->device.source);
		snprintf(subtitle + strlen(subtitle), sizeof(subtitle) - strlen(subtitle),
			 "dots: kernels, by their time; tensor operations and DRAM bytes by "
			 "hardware counters");
		plot_roofline_of(c, box, &data);
	}
	free(points);
	return data.n > 0;
}

int plot_roofline(struct canvas *c, struct rect box, const struct plot_scene *scene)
{
	const struct efficiency *e = answer_efficiency(scene->answers);
	char peak[64], subtitle[384] = "", sampled[128];
	struct roof_data data = {
		.points = e->points,
		.n = e->n_points,
		.flops_per_s = e->roof_flops_per_s,
		.bytes_per_s = e->roof_bytes_per_s,
		.peak = peak,
		.reason =
			e->on_device
				? "no kernel belongs to an operation that reported FLOPs and bytes"
				: "no operation reported both its FLOPs and its bytes",
	};
	int measured;

	snprintf(peak, sizeof(peak), "%s peak%s",
		 e->dtype.known ? peak_dtype_name((enum peak_dtype)(int)e->dtype.v) : "",
		 e->on_device ? "" : " of one core");
	measured = draw_measured(c, box, answer_kernel_limits(scene->answers));
	if (measured)
		return measured < 0 ? measured : 0;
	plot_sampled(scene, sampled, sizeof(sampled));
	if (e->n_devices && e->devices[0].source && known(data.bytes_per_s))
		snprintf(subtitle, sizeof(subtitle), "%s, %s; ", e->devices[0].name,
			 e->devices[0].source);
	snprintf(subtitle + strlen(subtitle), sizeof(subtitle) - strlen(subtitle), "%s%s%s",
		 e->on_device ? "dots: kernel classes, by their time"
			      : "dots: operations, by their time, on one thread",
		 e->on_device && sampled[0] ? "; " : "", e->on_device ? sampled : "");
	data.subtitle = subtitle;
	plot_roofline_of(c, box, &data);
	return 0;
}
