/* SPDX-License-Identifier: Apache-2.0
 *
 * Panels and axes; see plot_chart.h.
 */
#include "surfaces/plot/plot_chart.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/format.h"
#include "moescope.h"
#include "subjects/shared/coverage.h"

static const struct text_style_desc title_style = { .size = TEXT_TITLE, .bold = true };
static const struct text_style_desc usual = { .size = TEXT_USUAL };

static double step_of(double span, size_t most)
{
	double power = pow(10, floor(log10(span / (double)most)));
	static const double steps[] = { 1, 2, 5, 10 };

	for (size_t i = 0; i < 4; i++)
		if (span / (steps[i] * power) <= (double)most * (1 + 1e-9))
			return steps[i] * power;
	return 10 * power;
}

static struct plot_ticks log_ticks(double min, double max, size_t most)
{
	struct plot_ticks ticks = { .step = 0 };
	int first = (int)ceil(log10(min) - 1e-9), last = (int)floor(log10(max) + 1e-9);
	int every = 1;

	while ((last - first) / every + 1 > (int)most)
		every++;
	for (int e = first; e <= last && ticks.n < PLOT_TICKS_MAX; e += every)
		ticks.at[ticks.n++] = pow(10, e);
	return ticks;
}

struct plot_ticks plot_ticks(double min, double max, size_t most, bool log)
{
	struct plot_ticks ticks = { .step = 0 };

	if (!isfinite(min) || !isfinite(max) || !(max > min) || most == 0 || (log && !(min > 0)))
		return ticks;
	if (most > PLOT_TICKS_MAX - 1)
		most = PLOT_TICKS_MAX - 1;
	if (log)
		return log_ticks(min, max, most);
	ticks.step = step_of(max - min, most);
	for (double i = ceil(min / ticks.step - 1e-9);
	     i * ticks.step <= max + 1e-9 * ticks.step && ticks.n < PLOT_TICKS_MAX; i++)
		ticks.at[ticks.n++] = i == 0 ? 0 : i * ticks.step;
	return ticks;
}

void plot_tick_text(const struct plot_ticks *ticks, size_t index, char *out, size_t size)
{
	static const char *const suffixes[] = { "", "k", "M", "G", "T", "P" };
	double value = ticks->at[index], step = ticks->step, largest = fabs(value);
	size_t suffix = 0;
	int decimals;

	/* All labels of an axis alike; of a logarithmic one each by itself. */
	if (step > 0)
		largest = fmax(fabs(ticks->at[0]), fabs(ticks->at[ticks->n - 1]));
	else
		step = largest;
	if (largest >= (ticks->step > 0 ? 9999.5 : 999.5))
		for (; largest >= 999.5 && suffix + 1 < 6; suffix++)
			largest /= 1000;
	value /= pow(1000, (double)suffix);
	step /= pow(1000, (double)suffix);
	decimals = step > 0 && step < 1 ? (int)ceil(-log10(step) - 1e-9) : 0;
	snprintf(out, size, "%.*f%s", decimals < 9 ? decimals : 9, value,
		 value == 0 ? "" : suffixes[suffix]);
}

double plot_round_up(double max)
{
	double step;

	if (!(max > 0) || !isfinite(max))
		return 1;
	step = step_of(max, 10);
	return ceil(max / step - 1e-9) * step;
}

static struct plot_unit unit_of(double max, double base, const char *const *names, size_t n)
{
	struct plot_unit unit = { 1, names[0] };

	for (size_t i = 1; i < n && max >= unit.divisor * base; i++)
		unit = (struct plot_unit){ unit.divisor * base, names[i] };
	return unit;
}

struct plot_unit plot_unit_ns(double max)
{
	static const char *const names[] = { "ns", "us", "ms", "s" };

	return unit_of(max, 1000, names, 4);
}

struct plot_unit plot_unit_bytes(double max)
{
	static const char *const names[] = { "B", "kB", "MB", "GB", "TB" };

	return unit_of(max, 1000, names, 5);
}

struct plot_unit plot_unit_flops(double max)
{
	static const char *const names[] = { "FLOP",  "kFLOP", "MFLOP", "GFLOP",
					     "TFLOP", "PFLOP", "EFLOP" };

	return unit_of(max, 1000, names, 7);
}

static const struct text_style_desc reason_style = { .size = 14, .align = ALIGN_CENTER };

/* How many bytes of the text make one line: whole words, but for one that is too long. */
static int line_length(struct canvas *c, struct text_style_desc style, const char *text,
		       double width)
{
	size_t length = 0, all = strlen(text);

	while (length < all) {
		size_t longer = length + strspn(text + length, " ");
		char line[512];

		longer += strcspn(text + longer, " ");
		if (longer >= sizeof(line))
			break;
		memcpy(line, text, longer);
		line[longer] = '\0';
		if (length && canvas_text_width(c, style, line) > width)
			break;
		length = longer;
	}
	return (int)(length ? length : all);
}

struct rect plot_panel(struct canvas *c, struct rect box, const char *title, const char *subtitle)
{
	const struct plot_theme *theme = canvas_theme(c);
	char text[1024];
	double used = 24;

	canvas_fit(c, title_style, title, box.w, false, text, sizeof(text));
	canvas_text(c, box.x, box.y + 10, title_style, theme->text, text);
	/* Two lines at most; the second is cut. */
	for (int line = 0; subtitle && *subtitle && line < 2; line++) {
		int length = line ? (int)strlen(subtitle) : line_length(c, usual, subtitle, box.w);
		char part[1024];

		snprintf(part, sizeof(part), "%.*s", length < 1000 ? length : 1000, subtitle);
		canvas_fit(c, usual, part, box.w, false, text, sizeof(text));
		canvas_text(c, box.x, box.y + 31 + 16 * line, usual, theme->muted, text);
		used = 44 + 16 * line;
		subtitle += length;
		subtitle += strspn(subtitle, " ");
	}
	return (struct rect){ box.x, box.y + used, box.w, box.h - used };
}

void plot_cross(struct canvas *c, double x, double y, double radius, plot_color color)
{
	canvas_line(c, x - radius, y - radius, x + radius, y + radius, color, 2, false);
	canvas_line(c, x - radius, y + radius, x + radius, y - radius, color, 2, false);
}

static void legend_mark(struct canvas *c, double x, double y, const struct legend_item *item)
{
	switch (item->mark) {
	case LEGEND_FILL:
		canvas_fill(c, (struct rect){ x, y - 6, 12, 12 }, item->color, 1);
		break;
	case LEGEND_LINE:
	case LEGEND_DASH:
		canvas_line(c, x - 2, y, x + 14, y, item->color, 2.5, item->mark == LEGEND_DASH);
		break;
	case LEGEND_DOT:
		canvas_dot(c, x + 6, y, 4, item->color);
		break;
	case LEGEND_CROSS:
		plot_cross(c, x + 6, y, 4, item->color);
		break;
	}
}

struct rect plot_legend(struct canvas *c, struct rect box, const struct legend_item *items,
			size_t n)
{
	double x = box.x, y = box.y + 10;

	for (size_t i = 0; i < n; i++) {
		char text[256];
		double width;

		canvas_fit(c, usual, items[i].text, box.w - 18, true, text, sizeof(text));
		width = 18 + canvas_text_width(c, usual, text);
		if (x > box.x && x + width > box.x + box.w) {
			x = box.x;
			y += 19;
		}
		legend_mark(c, x, y, &items[i]);
		canvas_text(c, x + 18, y, usual, canvas_theme(c)->text, text);
		x += width + 18;
	}
	if (!n)
		return box;
	return (struct rect){ box.x, y + 14, box.w, box.y + box.h - y - 14 };
}

/* Lines of words from height y on; the number of lines. With draw false only counts. */
static size_t paragraph(struct canvas *c, double x, double y, double width, const char *text,
			bool draw)
{
	size_t lines = 0;

	for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
		int length = line_length(c, reason_style, text, width);
		char line[512];

		snprintf(line, sizeof(line), "%.*s", length < 500 ? length : 500, text);
		if (draw)
			canvas_text(c, x, y + 20 * (double)lines, reason_style,
				    canvas_theme(c)->muted, line);
		lines++;
		text += length;
	}
	return lines;
}

void plot_no_data(struct canvas *c, struct rect box, const char *reason)
{
	const struct plot_theme *theme = canvas_theme(c);
	char text[512];
	size_t lines;

	canvas_fill(c, box, theme->shade, 1);
	canvas_frame(c, box, theme->axis, 1);
	snprintf(text, sizeof(text), "no data: %s", reason);
	lines = paragraph(c, 0, 0, box.w - 60, text, false);
	paragraph(c, box.x + box.w / 2, box.y + box.h / 2 - 10 * (double)(lines - 1), box.w - 60,
		  text, true);
}

static double place(const struct plot_axis *axis, double value)
{
	double span = axis->max - axis->min;

	if (axis->log) {
		if (!(value > axis->min) || !(axis->max > axis->min))
			return 0;
		value = log10(value / axis->min) / log10(axis->max / axis->min);
	} else {
		value = span > 0 ? (value - axis->min) / span : 0;
	}
	return value >= 0 ? fmin(value, 1) : 0; /* also what is not a number */
}

double chart_x(const struct chart *chart, double value)
{
	return chart->data.x + place(&chart->x, value) * chart->data.w;
}

double chart_y(const struct chart *chart, double value)
{
	return chart->data.y + chart->data.h - place(&chart->y, value) * chart->data.h;
}

static double divisor(const struct plot_axis *axis)
{
	return axis->unit.divisor > 0 ? axis->unit.divisor : 1;
}

static struct plot_ticks ticks_of(const struct plot_axis *axis, size_t most)
{
	double by = divisor(axis);
	struct plot_ticks ticks = plot_ticks(axis->min / by, axis->max / by, most, axis->log);

	if (axis->whole && ticks.step > 0 && ticks.step < 1) {
		ticks = (struct plot_ticks){ .step = 1 };
		for (double v = ceil(axis->min / by);
		     v <= axis->max / by && ticks.n < PLOT_TICKS_MAX; v++)
			ticks.at[ticks.n++] = v;
	}
	return ticks;
}

static void axis_label(const struct plot_axis *axis, char *out, size_t size)
{
	snprintf(out, size, "%s%s%s", axis->label ? axis->label : "",
		 axis->unit.name && *axis->unit.name ? ", " : "",
		 axis->unit.name ? axis->unit.name : "");
}

/* Fewer ticks until no two labels come closer than a space. */
static struct plot_ticks x_ticks(struct chart *chart)
{
	size_t most = (size_t)(chart->data.w / 60) + 1;
	struct plot_ticks ticks = { .n = 0 };

	for (; most > 0; most--) {
		double wide = 0;
		char text[32];

		ticks = ticks_of(&chart->x, most);
		for (size_t i = 0; i < ticks.n; i++) {
			plot_tick_text(&ticks, i, text, sizeof(text));
			wide = fmax(wide, canvas_text_width(chart->canvas, usual, text));
		}
		if (ticks.n < 2 || (wide + 10) * (double)ticks.n <= chart->data.w + wide)
			break;
	}
	return ticks;
}

static void draw_x(struct chart *chart)
{
	const struct plot_theme *theme = canvas_theme(chart->canvas);
	struct text_style_desc style = { .size = TEXT_USUAL, .align = ALIGN_CENTER };
	struct rect d = chart->data;
	struct plot_ticks ticks = { .n = 0 };
	char text[128];

	if (!chart->x.hidden)
		ticks = x_ticks(chart);
	for (size_t i = 0; i < ticks.n; i++) {
		double x = chart_x(chart, ticks.at[i] * divisor(&chart->x));

		canvas_line(chart->canvas, x, d.y + d.h, x, d.y + d.h + 4, theme->axis, 1, false);
		plot_tick_text(&ticks, i, text, sizeof(text));
		canvas_text(chart->canvas, x, d.y + d.h + 14, style, theme->muted, text);
	}
	axis_label(&chart->x, text, sizeof(text));
	canvas_text(chart->canvas, d.x + d.w / 2, d.y + d.h + 32, style, theme->text, text);
	canvas_line(chart->canvas, d.x, d.y + d.h, d.x + d.w, d.y + d.h, theme->axis, 1, false);
}

static void draw_y(struct chart *chart, const struct plot_ticks *ticks)
{
	const struct plot_theme *theme = canvas_theme(chart->canvas);
	struct text_style_desc right = { .size = TEXT_USUAL, .align = ALIGN_RIGHT };
	struct rect d = chart->data;
	char text[32];

	for (size_t i = 0; i < ticks->n; i++) {
		double y = chart_y(chart, ticks->at[i] * divisor(&chart->y));

		canvas_line(chart->canvas, d.x, y, d.x + d.w, y, theme->grid, 1, false);
		plot_tick_text(ticks, i, text, sizeof(text));
		canvas_text(chart->canvas, d.x - 8, y, right, theme->muted, text);
	}
}

struct chart plot_axes(struct canvas *c, struct rect box, struct plot_axis x, struct plot_axis y)
{
	struct chart chart = { .canvas = c, .x = x, .y = y };
	double top = y.label ? 24 : 8, bottom = x.label ? 42 : 24;
	struct plot_ticks ticks = { .n = 0 };
	double wide = 0;
	char text[128];

	if (!y.hidden)
		ticks = ticks_of(&y, (size_t)fmax((box.h - top - bottom) / 36, 2));
	for (size_t i = 0; i < ticks.n; i++) {
		plot_tick_text(&ticks, i, text, sizeof(text));
		wide = fmax(wide, canvas_text_width(c, usual, text));
	}
	chart.data = (struct rect){ box.x + wide + 12, box.y + top, box.w - wide - 12 - 16,
				    box.h - top - bottom };
	draw_y(&chart, &ticks);
	axis_label(&y, text, sizeof(text));
	canvas_text(c, box.x, box.y + 8, usual, canvas_theme(c)->text, text);
	draw_x(&chart);
	return chart;
}

void plot_index_labels(const struct chart *chart, size_t n,
		       int64_t (*number)(const void *context, size_t index), const void *context)
{
	struct text_style_desc style = { .size = TEXT_USUAL, .align = ALIGN_CENTER };
	struct rect d = chart->data;
	static const size_t nice[] = { 1, 2, 5 };
	size_t every = 1, power = 1;
	double wide = 0;
	char text[32];

	for (size_t i = 0; i < n; i += n / 8 + 1) {
		snprintf(text, sizeof(text), "%lld", (long long)number(context, i));
		wide = fmax(wide, canvas_text_width(chart->canvas, style, text));
	}
	for (size_t i = 0; (wide + 8) * (double)n > d.w * (double)every; i++) {
		every = nice[i % 3] * power;
		power *= i % 3 == 2 ? 10 : 1;
	}
	for (size_t i = 0; i < n; i += every) {
		double x = d.x + d.w * ((double)i + 0.5) / (double)n;

		snprintf(text, sizeof(text), "%lld", (long long)number(context, i));
		canvas_text(chart->canvas, x, d.y + d.h + 14, style,
			    canvas_theme(chart->canvas)->muted, text);
	}
}

int plot_series_line(const struct chart *chart, struct series_point *points, size_t n,
		     plot_color color, double width, bool dots)
{
	struct plot_point *path;

	n = series_reduce(points, n, 2 * (size_t)fmax(chart->data.w, 2));
	path = calloc(n ? n : 1, sizeof(*path));
	if (!path)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		path[i] = (struct plot_point){ chart_x(chart, points[i].x),
					       chart_y(chart, points[i].y) };
	canvas_polyline(chart->canvas, path, n, color, width);
	/* Few points: say where they are; and one alone makes no line. */
	for (size_t i = 0; (dots || n == 1) && (double)n * 12 <= chart->data.w && i < n; i++)
		canvas_dot(chart->canvas, path[i].x, path[i].y, width + 1.5, color);
	free(path);
	return 0;
}

plot_color plot_phase_color(const struct plot_theme *theme, unsigned int phase)
{
	static const unsigned char order[] = {
		[0] = PLOT_SERIES - 1,	  [MOESCOPE_FORWARD] = 0,   [MOESCOPE_BACKWARD] = 1,
		[MOESCOPE_OPTIMIZER] = 2, [MOESCOPE_DATA] = 3,	    [MOESCOPE_PREFILL] = 4,
		[MOESCOPE_DECODE] = 5,	  [MOESCOPE_RECOMPUTE] = 6, [MOESCOPE_EVALUATION] = 4
	};

	return theme->series[phase < sizeof(order) ? order[phase] : PLOT_SERIES - 1];
}

void plot_sampled(const struct plot_scene *scene, char *out, size_t size)
{
	const struct coverage *c = answer_coverage(scene->answers);

	out[0] = '\0';
	if (c->sampled)
		snprintf(out, size, "sampled: %zu window%s, %s of the run", c->n_windows,
			 c->n_windows == 1 ? "" : "s", format_pct(c->coverage_pct.v).text);
}

const char *plot_no_device(const struct plot_scene *scene)
{
	const struct run *run = scene->run;

	return run->kernel.n || run->copy.n || run->set.n || run->api.n
		       ? "the run has device records, but none of this kind"
		       : "no device records in this run: the program used no GPU, or its GPU was "
			 "not recorded";
}
