/* SPDX-License-Identifier: Apache-2.0
 *
 * The run at a glance: a lane for the kernels and the copies of each device, for each phase, and
 * for the steps. The height of a lane is the share of each pixel's time in which it was busy, so
 * that nothing looks busier than it was, however long the run is.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "present/plot_draw.h"

#define DEVICES 4
#define LANES (2 * DEVICES + STEP_PHASES + 1)

struct lane {
	char name[64];
	const struct span *spans;
	size_t n;
	plot_color color;
	bool device;
	uint16_t shard;
};

struct lanes {
	struct lane lane[LANES];
	size_t n, devices_left_out;
	struct span *device_spans, *phase_spans;
	struct span *steps;
	size_t n_steps;
	int64_t start_ns, end_ns;
};

static void lanes_release(struct lanes *lanes)
{
	free(lanes->device_spans);
	free(lanes->phase_spans);
	free(lanes->steps);
}

static void add_lane(struct lanes *lanes, const struct span *merged, size_t n, struct span of,
		     plot_color color, bool device, const char *name)
{
	struct lane *lane = &lanes->lane[lanes->n];
	size_t found;
	const struct span *spans = spans_lane(merged, n, &of, &found);

	if (!found || lanes->n >= LANES)
		return;
	*lane = (struct lane){
		.spans = spans, .n = found, .color = color, .device = device, .shard = of.shard
	};
	snprintf(lane->name, sizeof(lane->name), "%s", name);
	lanes->n++;
}

static int collect_devices(const struct plot_scene *scene, const struct plot_theme *theme,
			   struct lanes *lanes)
{
	const struct timeline *t = &scene->f->timeline;
	size_t n;
	int r = device_spans(scene->run, &lanes->device_spans, &n);

	if (r < 0)
		return r;
	for (size_t i = 0; i < t->n; i++) {
		const struct timeline_device *d = &t->devices[i];
		struct span of = { .shard = d->shard, .device = d->device };
		char place[24], rank[24] = "", name[64];

		if (i >= DEVICES) {
			lanes->devices_left_out++;
			continue;
		}
		snprintf(place, sizeof(place), "gpu %" PRIu32, d->device);
		if (scene->run->n_shards > 1)
			snprintf(rank, sizeof(rank), " rank %" PRIu32, d->rank);
		of.group = SPAN_KERNEL;
		snprintf(name, sizeof(name), "%s%s kernels", place, rank);
		add_lane(lanes, lanes->device_spans, n, of, theme->series[0], true, name);
		of.group = SPAN_COPY;
		snprintf(name, sizeof(name), "%s%s copies", place, rank);
		add_lane(lanes, lanes->device_spans, n, of, theme->series[1], true, name);
	}
	return 0;
}

static int collect_phases(const struct plot_scene *scene, const struct plot_theme *theme,
			  struct lanes *lanes)
{
	size_t n;
	uint16_t shard = UINT16_MAX;
	int r = phase_spans(scene->run, &lanes->phase_spans, &n);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		shard = lanes->phase_spans[i].shard < shard ? lanes->phase_spans[i].shard : shard;
	for (unsigned int phase = 1; n && phase < STEP_PHASES; phase++) {
		struct span of = { .group = phase, .shard = shard };
		char name[64];

		snprintf(name, sizeof(name), "%s", phase_name(phase));
		if (scene->run->n_shards > 1)
			snprintf(name + strlen(name), sizeof(name) - strlen(name), " rank %" PRIu32,
				 scene->run->shards[shard].rank);
		add_lane(lanes, lanes->phase_spans, n, of, theme->series[2], false, name);
	}
	return 0;
}

/* Steps of the first process that has some, not merged: their borders matter. */
static int collect_steps(const struct plot_scene *scene, struct lanes *lanes)
{
	const struct steps *s = &scene->f->steps;

	lanes->steps = calloc(s->n ? s->n : 1, sizeof(*lanes->steps));
	if (!lanes->steps)
		return -ENOMEM;
	for (size_t i = 0; i < s->n && s->rows[i].rank == s->rows[0].rank; i++)
		lanes->steps[lanes->n_steps++] =
			(struct span){ .start_ns = s->rows[i].start_ns,
				       .end_ns = s->rows[i].start_ns + s->rows[i].duration_ns };
	return 0;
}

static void draw_lane(struct canvas *c, const struct chart *chart, struct rect row,
		      const struct lanes *lanes, const struct lane *lane, double *share,
		      struct plot_point *points)
{
	const struct plot_theme *theme = canvas_theme(c);
	size_t n = (size_t)row.w, at = 0;
	struct text_style_desc style = { .size = TEXT_USUAL, .align = ALIGN_RIGHT };
	struct text_style_desc figure = { .size = TEXT_USUAL };
	double busy = 0;
	char text[96];

	series_cover(lane->spans, lane->n, lanes->start_ns, lanes->end_ns, share, n);
	points[at++] = (struct plot_point){ row.x, row.y + row.h };
	for (size_t i = 0; i < n; i++) {
		double y = row.y + row.h * (1 - share[i]),
		       x = row.x + row.w * (double)i / (double)n;

		/* A level, not a slope: two points a pixel, where the level changes. */
		if (i && share[i] == share[i - 1])
			at--;
		else
			points[at++] = (struct plot_point){ x, y };
		points[at++] = (struct plot_point){ row.x + row.w * (double)(i + 1) / (double)n,
						    y };
		busy += share[i];
	}
	points[at++] = (struct plot_point){ row.x + row.w, row.y + row.h };
	canvas_area(c, points, at, lane->color, 1);
	canvas_line(c, row.x, row.y + row.h, row.x + row.w, row.y + row.h, theme->grid, 1, false);
	canvas_fit(c, style, lane->name, chart->data.x, true, text, sizeof(text));
	canvas_text(c, row.x - 8, row.y + row.h / 2, style, theme->text, text);
	canvas_text(c, row.x + row.w + 6, row.y + row.h / 2, figure, theme->muted,
		    format_pct(n ? 100 * busy / (double)n : 0).text);
}

static void draw_steps(struct canvas *c, struct rect row, const struct chart *chart,
		       const struct lanes *lanes)
{
	const struct plot_theme *theme = canvas_theme(c);
	struct text_style_desc style = { .size = TEXT_USUAL, .align = ALIGN_RIGHT };
	bool apart = (double)lanes->n_steps * 4 < row.w;

	for (size_t i = 0; i < lanes->n_steps; i++) {
		double from = chart_x(chart, (double)(lanes->steps[i].start_ns - lanes->start_ns));
		double to = chart_x(chart, (double)(lanes->steps[i].end_ns - lanes->start_ns));

		if (apart || i == 0 || i + 1 == lanes->n_steps)
			canvas_fill(c,
				    (struct rect){ from, row.y, fmax(to - from - 1, 0.5), row.h },
				    theme->series[i % 2 ? 5 : 4], 1);
	}
	if (!apart) {
		double from = chart_x(chart, (double)(lanes->steps[0].start_ns - lanes->start_ns));
		double to = chart_x(
			chart, (double)(lanes->steps[lanes->n_steps - 1].end_ns - lanes->start_ns));
		struct text_style_desc middle = { .size = TEXT_USUAL, .align = ALIGN_CENTER };
		char text[64];

		canvas_fill(c, (struct rect){ from, row.y, to - from, row.h }, theme->series[4], 1);
		snprintf(text, sizeof(text), "%zu steps", lanes->n_steps);
		canvas_text(c, (from + to) / 2, row.y + row.h / 2, middle,
			    plot_text_on(theme->series[4]), text);
	}
	canvas_text(c, row.x - 8, row.y + row.h / 2, style, theme->text, "steps");
}

/* Where no device records were collected: grey behind the lanes of devices. */
static void shade_gaps(struct canvas *c, const struct plot_scene *scene, struct rect row,
		       const struct lanes *lanes, const struct lane *lane, double *share)
{
	size_t n = (size_t)row.w, found;
	struct span of = { .shard = lane->shard };
	const struct span *windows = spans_lane(scene->f->coverage.windows,
						scene->f->coverage.n_windows, &of, &found);

	series_cover(windows, found, lanes->start_ns, lanes->end_ns, share, n);
	for (size_t i = 0; i < n;) {
		size_t to = i;

		while (to < n && share[to] == 0)
			to++;
		if (to > i)
			canvas_fill(c,
				    (struct rect){ row.x + row.w * (double)i / (double)n, row.y,
						   row.w * (double)(to - i) / (double)n, row.h },
				    canvas_theme(c)->shade, 1);
		i = to > i ? to : i + 1;
	}
}

static int draw(struct canvas *c, struct rect box, const struct plot_scene *scene,
		const struct lanes *lanes)
{
	double span = (double)(lanes->end_ns - lanes->start_ns), names = 40, height;
	struct text_style_desc style = { .size = TEXT_USUAL };
	size_t rows = lanes->n + (lanes->n_steps ? 1 : 0), room;
	struct plot_point *points;
	struct chart chart;
	double *share;

	for (size_t i = 0; i < lanes->n; i++)
		names = fmax(names, canvas_text_width(c, style, lanes->lane[i].name));
	chart = plot_axes(c, (struct rect){ box.x + names, box.y, box.w - names - 44, box.h },
			  (struct plot_axis){ .max = span,
					      .unit = plot_unit_ns(span),
					      .label = "time since the begin of the run" },
			  (struct plot_axis){ .max = 1, .hidden = true });
	room = (size_t)fmax(chart.data.w, 1) + 1;
	share = calloc(room, sizeof(*share));
	points = calloc(2 * room + 2, sizeof(*points));
	height = fmin(chart.data.h / (double)rows, 90);
	for (size_t i = 0; share && points && i < rows; i++) {
		struct rect row = { chart.data.x, chart.data.y + (double)i * height + 3,
				    chart.data.w, height - 6 };

		if (i == lanes->n) {
			draw_steps(c, row, &chart, lanes);
			continue;
		}
		if (lanes->lane[i].device && scene->f->coverage.sampled)
			shade_gaps(c, scene, row, lanes, &lanes->lane[i], share);
		draw_lane(c, &chart, row, lanes, &lanes->lane[i], share, points);
	}
	free(points);
	free(share);
	return share && points ? 0 : -ENOMEM;
}

int plot_timeline(struct canvas *c, struct rect box, const struct plot_scene *scene)
{
	struct lanes lanes = { .start_ns = scene->run->start_ns, .end_ns = scene->run->end_ns };
	char subtitle[256], sampled[128], more[64] = "";
	const struct plot_theme *theme = canvas_theme(c);
	int r = collect_devices(scene, theme, &lanes);

	if (r >= 0)
		r = collect_phases(scene, theme, &lanes);
	if (r >= 0)
		r = collect_steps(scene, &lanes);
	plot_sampled(scene, sampled, sizeof(sampled));
	if (lanes.devices_left_out)
		snprintf(more, sizeof(more), "; %zu more devices are not drawn",
			 lanes.devices_left_out);
	snprintf(subtitle, sizeof(subtitle),
		 "height: share of a pixel's time that was busy; right: of the whole run%s%s%s%s",
		 *sampled ? "; " : "", sampled, *sampled ? " (grey: no device records)" : "", more);
	if (r >= 0 && (lanes.n || lanes.n_steps) && lanes.end_ns > lanes.start_ns) {
		box = plot_panel(c, box, "Timeline", subtitle);
		r = draw(c, box, scene, &lanes);
	} else if (r >= 0) {
		box = plot_panel(c, box, "Timeline", NULL);
		plot_no_data(c, box,
			     "no steps, no ranges that name a phase and no device records in this "
			     "run");
	}
	lanes_release(&lanes);
	return r;
}
