/* SPDX-License-Identifier: Apache-2.0
 *
 * The run at a glance: a lane for the kernels, the communication and the copies of each device, for
 * each phase, and for the steps. The height of a lane is the share of each pixel's time in which it was busy, so
 * that nothing looks busier than it was, however long the run is.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/format.h"
#include "subjects/comm/comm.h"
#include "subjects/device/timeline.h"
#include "subjects/shared/coverage.h"
#include "subjects/shared/lanes.h"
#include "subjects/stacks/sampled_stacks.h"
#include "subjects/steps/steps.h"
#include "surfaces/plot/plot_draw.h"

#define DEVICES 4
#define LANES (3 * DEVICES + STEP_PHASES + 1)

struct band {
	char name[64];
	const struct span *spans;
	size_t n;
	plot_color color;
	bool device;
	double busy_pct; /* in all; of devices as the report has it */
	uint16_t shard;
};

struct lanes {
	struct band lane[LANES];
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

/* A lane of these spans, when there are any; NULL: none. */
static struct band *add_lane(struct lanes *lanes, const struct span *merged, size_t n,
			     struct span of, plot_color color, const char *name)
{
	struct band *lane = &lanes->lane[lanes->n];
	size_t found;
	const struct span *spans = spans_lane(merged, n, &of, &found);

	if (!found || lanes->n >= LANES)
		return NULL;
	*lane = (struct band){ .spans = spans, .n = found, .color = color, .shard = of.shard };
	snprintf(lane->name, sizeof(lane->name), "%s", name);
	lanes->n++;
	return lane;
}

static void add_device_lane(struct lanes *lanes, const struct span *merged, size_t n,
			    const struct timeline_device *d, enum lane_kind group, int64_t busy_ns,
			    plot_color color, const char *name)
{
	struct span of = { .shard = d->shard, .device = d->device, .group = group };
	struct band *lane = add_lane(lanes, merged, n, of, color, name);

	if (!lane)
		return;
	lane->device = true;
	lane->busy_pct = d->window_ns > 0 ? 100 * (double)busy_ns / (double)d->window_ns : 0;
}

/* The kernels that communicate are in the lane of kernels, too. */
static void add_communication(const struct plot_scene *scene, const struct plot_theme *theme,
			      struct lanes *lanes, const struct timeline_device *d,
			      const char *name)
{
	const struct comm *comm = answer_comm(scene->answers);

	for (size_t i = 0; i < comm->n_devices; i++) {
		const struct comm_device *c = &comm->devices[i];

		if (c->shard == d->shard && c->device == d->device)
			add_device_lane(lanes, c->when.spans, c->when.n, d, LANE_KERNEL,
					c->all.time_ns, theme->series[2], name);
	}
}

static int collect_devices(const struct plot_scene *scene, const struct plot_theme *theme,
			   struct lanes *lanes)
{
	const struct timeline *t = answer_timeline(scene->answers);
	size_t n;
	int r = device_spans(scene->run, &lanes->device_spans, &n);

	if (r < 0)
		return r;
	for (size_t i = 0; i < t->n; i++) {
		const struct timeline_device *d = &t->devices[i];
		char place[24], rank[24] = "", name[64];

		if (i >= DEVICES) {
			lanes->devices_left_out++;
			continue;
		}
		snprintf(place, sizeof(place), "gpu %" PRIu32, d->device);
		if (run_processes(scene->run) > 1)
			snprintf(rank, sizeof(rank), " rank %" PRIu32, d->rank);
		snprintf(name, sizeof(name), "%s%s kernels", place, rank);
		add_device_lane(lanes, lanes->device_spans, n, d, LANE_KERNEL, d->kernel_ns,
				theme->series[0], name);
		snprintf(name, sizeof(name), "%s%s communication", place, rank);
		add_communication(scene, theme, lanes, d, name);
		snprintf(name, sizeof(name), "%s%s copies", place, rank);
		add_device_lane(lanes, lanes->device_spans, n, d, LANE_COPY, d->copy_ns,
				theme->series[1], name);
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
		struct band *lane;
		char name[64];

		snprintf(name, sizeof(name), "%s", phase_name(phase));
		if (run_processes(scene->run) > 1)
			snprintf(name + strlen(name), sizeof(name) - strlen(name), " rank %" PRIu32,
				 scene->run->shards[shard].rank);
		lane = add_lane(lanes, lanes->phase_spans, n, of, plot_phase_color(theme, phase),
				name);
		if (lane && lanes->end_ns > lanes->start_ns)
			lane->busy_pct = 100 * (double)spans_length(lane->spans, lane->n) /
					 (double)(lanes->end_ns - lanes->start_ns);
	}
	return 0;
}

/* Steps of the first process that has some, not merged: their borders matter. */
static int collect_steps(const struct plot_scene *scene, struct lanes *lanes)
{
	const struct steps *s = answer_steps(scene->answers);

	lanes->steps = calloc(s->n ? s->n : 1, sizeof(*lanes->steps));
	if (!lanes->steps)
		return -ENOMEM;
	for (size_t i = 0; i < s->n && s->rows[i].rank == s->rows[0].rank; i++)
		lanes->steps[lanes->n_steps++] =
			(struct span){ .start_ns = s->rows[i].start_ns,
				       .end_ns = s->rows[i].start_ns + s->rows[i].duration_ns };
	return 0;
}

/* The windows of records of the lane's process; NULL: it was recorded all the time. */
static const struct span *windows_of(const struct plot_scene *scene, const struct band *lane,
				     size_t *ret_n)
{
	const struct coverage *c = answer_coverage(scene->answers);
	struct span of = { .shard = lane->shard };

	return lane->device && c->sampled ? spans_lane(c->windows, c->n_windows, &of, ret_n) : NULL;
}

/* Of each pixel the share that was busy, of its time or, in windows, of its recorded time; grey
 * where nothing was recorded. A pixel with a mere sliver of a window says nothing and is grey, too. */
static int lane_shares(struct canvas *c, const struct plot_scene *scene, struct rect row,
		       const struct lanes *lanes, const struct band *lane, double *share,
		       double *recorded)
{
	size_t n = (size_t)row.w, n_windows = 0, n_spans = lane->n;
	const struct span *windows = windows_of(scene, lane, &n_windows);
	struct span *clipped = NULL;
	double most = 0;

	if (windows) {
		clipped = calloc(lane->n + n_windows, sizeof(*clipped));
		if (!clipped)
			return -ENOMEM;
		n_spans = series_clip(lane->spans, lane->n, windows, n_windows, clipped);
	}
	series_cover(clipped ? clipped : lane->spans, n_spans, lanes->start_ns, lanes->end_ns,
		     share, n);
	free(clipped);
	series_cover(windows, n_windows, lanes->start_ns, lanes->end_ns, recorded, n);
	for (size_t i = 0; i < n; i++) {
		recorded[i] = windows ? recorded[i] : 1;
		most = fmax(most, recorded[i]);
	}
	for (size_t i = 0; i < n; i++) {
		if (recorded[i] > 0 && recorded[i] >= most / 4) {
			share[i] = fmin(share[i] / recorded[i], 1);
			continue;
		}
		share[i] = 0;
		canvas_fill(c,
			    (struct rect){ row.x + row.w * (double)i / (double)n, row.y,
					   row.w / (double)n, row.h },
			    canvas_theme(c)->shade, 1);
	}
	return 0;
}

static int draw_lane(struct canvas *c, const struct plot_scene *scene, struct rect row,
		     const struct lanes *lanes, const struct band *lane, double *share,
		     struct plot_point *points)
{
	const struct plot_theme *theme = canvas_theme(c);
	size_t n = (size_t)row.w, at = 0;
	struct text_style_desc style = { .size = TEXT_USUAL, .align = ALIGN_RIGHT };
	struct text_style_desc figure = { .size = TEXT_USUAL };
	int r = lane_shares(c, scene, row, lanes, lane, share, share + n);

	if (r < 0)
		return r;
	points[at++] = (struct plot_point){ row.x, row.y + row.h };
	for (size_t i = 0; i < n; i++) {
		/* What there was is seen, however short: one pixel at least. */
		double tall = share[i] > 0 ? fmax(row.h * share[i], 1) : 0;
		double y = row.y + row.h - tall;

		/* A level, not a slope: two points a pixel, where the level changes. */
		if (i && share[i] == share[i - 1])
			at--;
		else
			points[at++] = (struct plot_point){ row.x + row.w * (double)i / (double)n,
							    y };
		points[at++] = (struct plot_point){ row.x + row.w * (double)(i + 1) / (double)n,
						    y };
	}
	points[at++] = (struct plot_point){ row.x + row.w, row.y + row.h };
	canvas_area(c, points, at, lane->color, 1);
	canvas_line(c, row.x, row.y + row.h + 1, row.x + row.w, row.y + row.h + 1, theme->grid, 1,
		    false);
	canvas_text(c, row.x - 8, row.y + row.h / 2, style, theme->text, lane->name);
	canvas_text(c, row.x + row.w + 6, row.y + row.h / 2, figure, theme->muted,
		    format_pct(lane->busy_pct).text);
	return 0;
}

static void draw_steps(struct canvas *c, struct rect row, const struct chart *chart,
		       const struct lanes *lanes)
{
	const struct plot_theme *theme = canvas_theme(c);
	struct text_style_desc style = { .size = TEXT_USUAL, .align = ALIGN_RIGHT };
	bool apart = (double)lanes->n_steps * 4 < row.w;
	plot_color shades[] = { plot_mix(theme->background, theme->muted, 0.45),
				plot_mix(theme->background, theme->muted, 0.75) };

	for (size_t i = 0; i < lanes->n_steps; i++) {
		double from = chart_x(chart, (double)(lanes->steps[i].start_ns - lanes->start_ns));
		double to = chart_x(chart, (double)(lanes->steps[i].end_ns - lanes->start_ns));

		if (apart || i == 0 || i + 1 == lanes->n_steps)
			canvas_fill(c,
				    (struct rect){ from, row.y, fmax(to - from - 1, 0.5), row.h },
				    shades[i % 2], 1);
	}
	if (!apart) {
		double from = chart_x(chart, (double)(lanes->steps[0].start_ns - lanes->start_ns));
		double to = chart_x(
			chart, (double)(lanes->steps[lanes->n_steps - 1].end_ns - lanes->start_ns));
		struct text_style_desc middle = { .size = TEXT_USUAL, .align = ALIGN_CENTER };
		char text[64];

		canvas_fill(c, (struct rect){ from, row.y, to - from, row.h }, shades[0], 1);
		snprintf(text, sizeof(text), "%zu steps", lanes->n_steps);
		canvas_text(c, (from + to) / 2, row.y + row.h / 2, middle, plot_text_on(shades[0]),
			    text);
	}
	canvas_text(c, row.x - 8, row.y + row.h / 2, style, theme->text, "steps");
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
	int r = 0;

	for (size_t i = 0; i < lanes->n; i++)
		names = fmax(names, canvas_text_width(c, style, lanes->lane[i].name));
	chart = plot_axes(c, (struct rect){ box.x + names, box.y, box.w - names - 44, box.h },
			  (struct plot_axis){ .max = span,
					      .unit = plot_unit_ns(span),
					      .label = "time since the begin of the run" },
			  (struct plot_axis){ .max = 1, .hidden = true });
	room = (size_t)fmax(chart.data.w, 1) + 1;
	share = calloc(2 * room, sizeof(*share)); /* busy, and recorded */
	points = calloc(2 * room + 2, sizeof(*points));
	height = fmin(chart.data.h / (double)rows, 200);
	if (!share || !points)
		r = -ENOMEM;
	for (size_t i = 0; r >= 0 && i < rows; i++) {
		struct rect row = { chart.data.x, chart.data.y + (double)i * height + 3,
				    chart.data.w, height - 6 };

		if (i == lanes->n) {
			draw_steps(c, row, &chart, lanes);
			continue;
		}
		r = draw_lane(c, scene, row, lanes, &lanes->lane[i], share, points);
	}
	free(points);
	free(share);
	return r;
}

int plot_timeline(struct canvas *c, struct rect box, const struct plot_scene *scene)
{
	struct lanes lanes = { .start_ns = scene->run->start_ns, .end_ns = scene->run->end_ns };
	char subtitle[512], sampled[128], more[64] = "";
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
		 "%s%sheight: busy share of a pixel's%s time; right: in all, of devices from their "
		 "first record to the last%s",
		 sampled, *sampled ? " (grey: no device records); " : "",
		 *sampled ? " recorded" : "", more);
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
