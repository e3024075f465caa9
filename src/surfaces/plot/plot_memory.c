/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory over time: what the program's allocator had live and reserved, what the process held from
 * the driver, what the device had in use, and what it was made of at its peak.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/format.h"
#include "subjects/memory/device_memory.h"
#include "subjects/memory/memory.h"
#include "subjects/stacks/sampled_stacks.h"
#include "surfaces/plot/plot_draw.h"

#define STACK_WIDTH 210 /* pixels for what memory was made of at the peak */
#define OTHERS 4	/* devices beside the largest that get a line */

struct line {
	struct series_point *points;
	size_t n;
	plot_color color;
	double width;
	bool samples; /* readings, not levels */
	char name[64];
};

struct lines {
	struct line line[OTHERS + 4];
	size_t n, left_out;
	const struct memory_device *main; /* NULL: the program reports no allocations */
};

static void lines_release(struct lines *lines)
{
	for (size_t i = 0; i < lines->n; i++)
		free(lines->line[i].points);
}

static void place_name(const struct run *run, uint32_t rank, int64_t device, const char *what,
		       char *out, size_t size)
{
	char place[32] = "host", of_rank[32] = "";

	if (device >= 0)
		snprintf(place, sizeof(place), "gpu %" PRId64, device);
	if (run_processes(run) > 1)
		snprintf(of_rank, sizeof(of_rank), ", rank %" PRIu32, rank);
	snprintf(out, size, "%s (%s%s)", what, place, of_rank);
}

/* What is live at the last record is so until the end. The points have room for one more. */
static void to_end(struct line *line, const struct run *run)
{
	double end = (double)(run->end_ns - run->start_ns);

	if (line->n && line->points[line->n - 1].x < end) {
		line->points[line->n] = (struct series_point){ end, line->points[line->n - 1].y };
		line->n++;
	}
}

/* A level until the next point: memory is taken at once, not little by little. */
static void add_level(struct line *line, double time, double bytes)
{
	if (line->n) {
		line->points[line->n] = (struct series_point){ time, line->points[line->n - 1].y };
		line->n++;
	}
	line->points[line->n++] = (struct series_point){ time, bytes };
}

static int add_allocator(struct lines *lines, const struct run *run, const struct memory_device *d,
			 bool reserved, const struct plot_theme *theme)
{
	struct line *line = &lines->line[lines->n];

	line->points = calloc(2 * d->n_points + 2, sizeof(*line->points));
	if (!line->points)
		return -ENOMEM;
	for (size_t i = 0; i < d->n_points; i++) {
		const struct memory_point *p = &d->points[i];

		if (!reserved || p->reserved_bytes.known)
			add_level(line, (double)(p->time_ns - run->start_ns),
				  reserved ? p->reserved_bytes.v : (double)p->live_bytes);
	}
	if (!line->n) {
		free(line->points);
		return 0;
	}
	to_end(line, run);
	line->color = theme->series[reserved ? OTHERS + 3 : lines->n];
	line->width = d == lines->main && !reserved ? 2.5 : 1.5;
	place_name(run, d->rank, d->device, reserved ? "reserved" : "live", line->name,
		   sizeof(line->name));
	lines->n++;
	return 0;
}

static int add_device(struct lines *lines, const struct run *run, uint16_t shard, uint32_t device,
		      const struct plot_theme *theme)
{
	int (*const series[])(const struct run *, uint16_t, uint32_t, struct series_point **,
			      size_t *) = { series_driver_held, series_device_used };
	const char *const names[] = { "held from the driver", "device used" };

	for (size_t i = 0; i < 2; i++) {
		struct line *line = &lines->line[lines->n];
		int r = series[i](run, shard, device, &line->points, &line->n);

		if (r < 0)
			return r;
		if (!line->n) {
			free(line->points);
			continue;
		}
		line->samples = series[i] == series_device_used;
		if (!line->samples)
			to_end(line, run);
		line->color = theme->series[OTHERS + 1 + i];
		line->width = 1.5;
		place_name(run, run->shards[shard].rank, device, names[i], line->name,
			   sizeof(line->name));
		lines->n++;
	}
	return 0;
}

static int collect(const struct plot_scene *scene, const struct plot_theme *theme,
		   struct lines *lines)
{
	const struct memory *m = answer_memory(scene->answers);
	const struct device_memory *dm = answer_device_memory(scene->answers);
	int r = 0;

	for (size_t i = 0; i < m->n; i++)
		if (m->devices[i].peak_bytes &&
		    (!lines->main || m->devices[i].peak_bytes > lines->main->peak_bytes))
			lines->main = &m->devices[i];
	if (lines->main)
		r = add_allocator(lines, scene->run, lines->main, false, theme);
	for (size_t i = 0; r >= 0 && i < m->n; i++) {
		if (&m->devices[i] == lines->main || !m->devices[i].peak_bytes)
			continue;
		if (lines->n <= OTHERS)
			r = add_allocator(lines, scene->run, &m->devices[i], false, theme);
		else
			lines->left_out++;
	}
	if (r >= 0 && lines->main)
		r = add_allocator(lines, scene->run, lines->main, true, theme);
	if (r < 0)
		return r;
	if (lines->main && lines->main->device >= 0)
		return add_device(lines, scene->run, lines->main->shard,
				  (uint32_t)lines->main->device, theme);
	if (dm->n_driver)
		return add_device(lines, scene->run, dm->driver[0].shard, dm->driver[0].device,
				  theme);
	if (dm->n_used)
		return add_device(lines, scene->run, dm->used[0].shard, dm->used[0].device, theme);
	return 0;
}

/* One bar of the peak's height; words beside its parts, where they do not meet. */
static void composition(struct canvas *c, const struct chart *chart, const struct memory_device *d)
{
	const struct plot_theme *theme = canvas_theme(c);
	struct text_style_desc style = { .size = TEXT_USUAL };
	double x = chart->data.x + chart->data.w + 26, below = 0;
	double last = chart->data.y + chart->data.h + 20;
	char text[96], shown[128];

	canvas_text(c, x - 8, chart->data.y - 16, style, theme->text, "at the peak");
	for (size_t i = 0; i < MEMORY_USES; i++) {
		unsigned int use = d->order_at_peak[i];
		double bytes = (double)d->use_at_peak[use], top, y;

		if (!(bytes > 0))
			continue;
		top = chart_y(chart, below + bytes);
		canvas_fill(c, (struct rect){ x, top, 30, chart_y(chart, below) - top },
			    theme->series[use < PLOT_SERIES - 1 ? use : PLOT_SERIES - 1], 1);
		canvas_frame(c, (struct rect){ x, top, 30, chart_y(chart, below) - top },
			     theme->background, 1);
		y = fmin((top + chart_y(chart, below)) / 2, last - 15);
		last = y;
		below += bytes;
		snprintf(text, sizeof(text), "%s %s", memory_use_name(use),
			 format_bytes(bytes).text);
		canvas_fit(c, style, text, STACK_WIDTH - 68, false, shown, sizeof(shown));
		canvas_text(c, x + 37, y, style, theme->text, shown);
	}
}

static void mark_peak(struct canvas *c, const struct chart *chart, const struct run *run,
		      const struct memory_device *d)
{
	const struct plot_theme *theme = canvas_theme(c);
	double x = chart_x(chart, (double)(d->peak_ns - run->start_ns));
	double y = chart_y(chart, (double)d->peak_bytes);
	struct text_style_desc style = { .size = TEXT_USUAL };
	char text[64];
	double width;

	canvas_dot(c, x, y, 4.5, theme->warning);
	snprintf(text, sizeof(text), "peak %s", format_bytes((double)d->peak_bytes).text);
	width = canvas_text_width(c, style, text);
	x = fmin(fmax(x - width / 2, chart->data.x + 2), chart->data.x + chart->data.w - width);
	canvas_text(c, x, y - 12, style, theme->text, text);
}

static int draw(struct canvas *c, struct rect box, const struct plot_scene *scene,
		struct lines *lines)
{
	const struct plot_theme *theme = canvas_theme(c);
	double end = (double)(scene->run->end_ns - scene->run->start_ns), max = 0;
	struct legend_item items[OTHERS + 5];
	bool stack = lines->main && box.w > 2.2 * STACK_WIDTH;
	struct chart chart;
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; i < lines->n; i++) {
		items[n++] = (struct legend_item){ lines->line[i].color, lines->line[i].name,
						   LEGEND_LINE };
		for (size_t j = 0; j < lines->line[i].n; j++) {
			max = fmax(max, lines->line[i].points[j].y);
			end = fmax(end, lines->line[i].points[j].x);
		}
	}
	if (lines->main) {
		items[n++] = (struct legend_item){ theme->warning, "peak", LEGEND_DOT };
		max = fmax(max, (double)lines->main->peak_bytes);
	}
	box = plot_legend(c, box, items, n);
	box.w -= stack ? STACK_WIDTH : 0;
	chart = plot_axes(c, box,
			  (struct plot_axis){ .max = end > 0 ? end : 1,
					      .unit = plot_unit_ns(end),
					      .label = "time since the begin of the run" },
			  (struct plot_axis){ .max = plot_round_up(max * 1.1),
					      .unit = plot_unit_bytes(max),
					      .label = "memory" });
	for (size_t i = 0; r >= 0 && i < lines->n; i++)
		r = plot_series_line(&chart, lines->line[i].points, lines->line[i].n,
				     lines->line[i].color, lines->line[i].width,
				     lines->line[i].samples);
	if (r >= 0 && lines->main)
		mark_peak(c, &chart, scene->run, lines->main);
	if (r >= 0 && stack)
		composition(c, &chart, lines->main);
	return r;
}

int plot_memory(struct canvas *c, struct rect box, const struct plot_scene *scene)
{
	struct lines lines = { .n = 0 };
	char subtitle[256] = "";
	int r = collect(scene, canvas_theme(c), &lines);

	if (r >= 0 && lines.n) {
		const struct memory_device *d = lines.main;

		if (d)
			snprintf(subtitle, sizeof(subtitle), "peak %s after %s, %s live at the end",
				 format_bytes((double)d->peak_bytes).text,
				 format_ns((double)(d->peak_ns - scene->run->start_ns)).text,
				 format_bytes((double)d->live_bytes).text);
		else
			snprintf(subtitle, sizeof(subtitle),
				 "the program reports no allocations of its own");
		if (lines.left_out)
			snprintf(subtitle + strlen(subtitle), sizeof(subtitle) - strlen(subtitle),
				 "; %zu more devices are not drawn", lines.left_out);
		box = plot_panel(c, box, "Memory over time", subtitle);
		r = draw(c, box, scene, &lines);
	} else if (r >= 0) {
		box = plot_panel(c, box, "Memory over time", NULL);
		plot_no_data(c, box,
			     "no allocations in this run: the program reports them with "
			     "moescope_alloc()");
	}
	lines_release(&lines);
	return r;
}
