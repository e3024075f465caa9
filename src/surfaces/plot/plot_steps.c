/* SPDX-License-Identifier: Apache-2.0
 *
 * Plots over steps: times with their phases, FLOPs, latency of the routers.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/text/format.h"
#include "subjects/routing/routing.h"
#include "subjects/steps/steps.h"
#include "surfaces/plot/plot_draw.h"

#define BAR_PIXELS 4 /* the narrowest bar with its gap */

static int64_t bin_number(const void *context, size_t index)
{
	const struct step_bins *bins = context;

	return bins->bins[index].first->step;
}

/* Time outside all phases is grey; where a run has no phases it is all there is. */
static plot_color part_color(const struct plot_theme *theme, const struct steps *s,
			     unsigned int phase)
{
	return s->n_phased || phase ? plot_phase_color(theme, phase) : theme->series[0];
}

static void step_bar(const struct chart *chart, const struct steps *s, const struct step_bin *bin,
		     double x, double width)
{
	const struct plot_theme *theme = canvas_theme(chart->canvas);
	const struct step_row *row = bin->median;
	double from = 0;

	for (unsigned int i = 1; i <= STEP_PHASES; i++) {
		unsigned int phase = i % STEP_PHASES; /* other comes last */
		double part = row->phases_known ? (double)row->phase_ns[phase]
			      : phase		? 0
						: (double)row->duration_ns;
		double y = chart_y(chart, from + part);

		canvas_fill(chart->canvas, (struct rect){ x, y, width, chart_y(chart, from) - y },
			    part_color(theme, s, phase), 1);
		from += part;
	}
	if (bin->slowest != bin->median)
		canvas_line(chart->canvas, x + width / 2, chart_y(chart, (double)row->duration_ns),
			    x + width / 2, chart_y(chart, (double)bin->slowest->duration_ns),
			    theme->text, 1, false);
	if (bin->outliers)
		plot_cross(chart->canvas, x + width / 2,
			   chart_y(chart, (double)bin->slowest->duration_ns) - 7, 3.5,
			   theme->warning);
}

static size_t step_legend(const struct plot_theme *theme, const struct steps *s,
			  const struct step_bins *bins, struct legend_item *items)
{
	size_t n = 0;

	for (unsigned int i = 1; i <= STEP_PHASES; i++) {
		unsigned int phase = i % STEP_PHASES;

		if (s->phase_ns[phase] || (!phase && s->n_phased < s->n))
			items[n++] = (struct legend_item){
				.color = part_color(theme, s, phase),
				.text = phase	       ? phase_name(phase)
					: !s->n_phased ? "whole step (no range names a phase)"
					: s->n_phased < s->all.n ? "other, or no phase known"
								 : "other",
			};
	}
	if (bins->per_bin > 1)
		items[n++] = (struct legend_item){ theme->text, "up to the slowest step",
						   LEGEND_LINE };
	if (s->outlier_limit_ns.known)
		items[n++] = (struct legend_item){ theme->muted, "limit of outliers", LEGEND_DASH };
	if (s->n_outliers)
		items[n++] = (struct legend_item){ theme->warning, "outlier", LEGEND_CROSS };
	return n;
}

static void step_bars(struct canvas *c, struct rect box, const struct steps *s,
		      const struct step_bins *bins)
{
	const struct plot_theme *theme = canvas_theme(c);
	struct legend_item items[STEP_PHASES + 4];
	double max = s->all.max, slot, gap;
	struct chart chart;

	box = plot_legend(c, box, items, step_legend(theme, s, bins, items));
	if (s->outlier_limit_ns.known && s->outlier_limit_ns.v < 2 * max)
		max = fmax(max, s->outlier_limit_ns.v);
	chart = plot_axes(c, box, (struct plot_axis){ .label = "step", .hidden = true },
			  (struct plot_axis){ .max = plot_round_up(max * 1.04),
					      .unit = plot_unit_ns(max),
					      .label = "step time" });
	slot = chart.data.w / (double)bins->n;
	gap = slot > 60 ? slot - 48 : slot * 0.2;
	for (size_t i = 0; i < bins->n; i++)
		step_bar(&chart, s, &bins->bins[i], chart.data.x + (double)i * slot + gap / 2,
			 slot - gap);
	if (s->outlier_limit_ns.known && s->outlier_limit_ns.v <= chart.y.max) {
		double y = chart_y(&chart, s->outlier_limit_ns.v);

		canvas_line(c, chart.data.x, y, chart.data.x + chart.data.w, y, theme->muted, 1.5,
			    true);
	}
	plot_index_labels(&chart, bins->n, bin_number, bins);
}

int plot_steps(struct canvas *c, struct rect box, const struct plot_scene *scene)
{
	const struct steps *s = answer_steps(scene->answers);
	char subtitle[320], bars[96] = "", ranks[64] = "";
	struct step_bins bins;
	int r = step_bins_make(s, (size_t)fmax((box.w - 90) / BAR_PIXELS, 8), &bins);

	if (r < 0)
		return r;
	if (bins.per_bin > 1)
		snprintf(bars, sizeof(bars), "; a bar: the median of %zu steps", bins.per_bin);
	if (bins.ranks > 1)
		snprintf(ranks, sizeof(ranks), "; the slowest of %zu ranks", bins.ranks);
	if (bins.n)
		snprintf(subtitle, sizeof(subtitle),
			 "%zu steps, median %s, p95 %s, variation %s%s%s", bins.steps,
			 format_ns(s->all.p50).text, format_ns(s->all.p95).text,
			 format_pct(100 * s->all.cv).text, ranks, bars);
	box = plot_panel(c, box, "Step times", bins.n ? subtitle : NULL);
	if (bins.n)
		step_bars(c, box, s, &bins);
	else
		plot_no_data(c, box,
			     s->n ? "no step has ended"
				  : "no steps in this run: the program marks them with "
				    "moescope_step_begin()");
	free(bins.bins);
	return 0;
}

enum flops_part { FLOPS_TOTAL, FLOPS_EXPERT, FLOPS_ROUTER };

static double flops_of(const struct routing_total *t, enum flops_part part)
{
	return part == FLOPS_TOTAL    ? t->flops_router + t->flops_expert
	       : part == FLOPS_EXPERT ? t->flops_expert
				      : t->flops_router;
}

static struct plot_axis step_axis(const struct routing_total *t, size_t n)
{
	double first = (double)t[0].step, last = (double)t[n - 1].step;

	return (struct plot_axis){ .min = n > 1 ? first : first - 1,
				   .max = n > 1 ? last : last + 1,
				   .label = "step",
				   .whole = true };
}

static int draw_flops(struct canvas *c, struct rect box, const struct routing_total *t, size_t n)
{
	const struct plot_theme *theme = canvas_theme(c);
	const struct legend_item items[] = {
		{ theme->series[0], "total", LEGEND_LINE },
		{ theme->series[1], "experts", LEGEND_LINE },
		{ theme->series[2], "routers", LEGEND_LINE },
	};
	struct series_point *points = calloc(n, sizeof(*points));
	double max = 0, low = INFINITY;
	struct plot_axis y = { .label = "FLOPs per step" };
	struct chart chart;
	int r = 0;

	if (!points)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		max = fmax(max, flops_of(&t[i], FLOPS_TOTAL));
		low = fmin(low, flops_of(&t[i], FLOPS_ROUTER));
	}
	y.log = low > 0 && max / low > 30;
	y.max = y.log ? pow(10, ceil(log10(max) + 0.02)) : plot_round_up(max * 1.04);
	y.min = y.log ? pow(10, floor(log10(low))) : 0;
	if (!y.log)
		y.unit = plot_unit_flops(max);
	else
		y.label = "FLOPs per step (logarithmic)";
	box = plot_legend(c, box, items, 3);
	chart = plot_axes(c, box, step_axis(t, n), y);
	for (enum flops_part part = FLOPS_TOTAL; r >= 0 && part <= FLOPS_ROUTER; part++) {
		for (size_t i = 0; i < n; i++)
			points[i] = (struct series_point){ (double)t[i].step,
							   flops_of(&t[i], part) };
		r = plot_series_line(&chart, points, n, theme->series[part],
				     part == FLOPS_TOTAL ? 3 : 1.5, true);
	}
	free(points);
	return r;
}

static const char *no_routing(const struct plot_scene *scene)
{
	return answer_routing(scene->answers)->records
		       ? "the chosen layer has no routing records"
		       : "no routing records in this run: the program reports them "
			 "with moescope_route()";
}

int plot_flops(struct canvas *c, struct rect box, const struct plot_scene *scene)
{
	struct routing_total *t;
	const char *reason = no_routing(scene);
	size_t n, whole = 0;
	char subtitle[160];
	double sum = 0;
	int r = routing_totals(answer_routing(scene->answers), scene->layer, &t, &n);

	if (r < 0)
		return r;
	/* A step where a layer's sizes are not known would only seem cheaper. */
	for (size_t i = 0; i < n; i++) {
		if (t[i].n_flops == t[i].layers) {
			sum += flops_of(&t[i], FLOPS_TOTAL);
			t[whole++] = t[i];
		} else {
			reason = t[i].no_flops;
		}
	}
	if (whole)
		snprintf(subtitle, sizeof(subtitle),
			 "MoE layers, derived from tokens and sizes: "
			 "mean %sFLOP a step",
			 format_count(sum / (double)whole).text);
	box = plot_panel(c, box, "FLOPs per step", whole ? subtitle : NULL);
	if (whole)
		r = draw_flops(c, box, t, whole);
	else
		plot_no_data(c, box, reason);
	free(t);
	return r;
}

static int draw_latency(struct canvas *c, struct rect box, const struct plot_axis *x,
			struct series_point *points, size_t n, const char *label)
{
	const struct plot_theme *theme = canvas_theme(c);
	double max = 0;
	struct chart chart;

	for (size_t i = 0; i < n; i++)
		max = fmax(max, points[i].y);
	chart = plot_axes(c, box, *x,
			  (struct plot_axis){ .max = plot_round_up(max * 1.04),
					      .unit = plot_unit_ns(max),
					      .label = label });
	return plot_series_line(&chart, points, n, theme->series[0], 1.5, true);
}

/* Of the routers where they were timed, else of the steps. */
static int step_latency(struct canvas *c, struct rect box, const struct plot_scene *scene,
			const char *why)
{
	const struct steps *s = answer_steps(scene->answers);
	struct step_bins bins;
	struct series_point *points;
	struct plot_axis x = { .label = "step", .whole = true };
	char subtitle[256];
	int r = step_bins_make(s, 0, &bins);

	if (r < 0)
		return r;
	points = calloc(bins.n ? bins.n : 1, sizeof(*points));
	if (!points) {
		free(bins.bins);
		return -ENOMEM;
	}
	for (size_t i = 0; i < bins.n; i++) {
		double step = (double)bins.bins[i].first->step;

		points[i] = (struct series_point){ step, (double)bins.bins[i].first->duration_ns };
		x.min = i ? fmin(x.min, step) : step;
		x.max = i ? fmax(x.max, step) : step;
	}
	if (x.max <= x.min)
		x = (struct plot_axis){
			.min = x.min - 1, .max = x.min + 1, .label = "step", .whole = true
		};
	snprintf(subtitle, sizeof(subtitle), "whole steps; routers were not timed: %s", why);
	box = plot_panel(c, box, "Latency per step", bins.n ? subtitle : NULL);
	if (bins.n)
		r = draw_latency(c, box, &x, points, bins.n, "step time");
	else
		plot_no_data(c, box, why);
	free(points);
	free(bins.bins);
	return r;
}

int plot_latency(struct canvas *c, struct rect box, const struct plot_scene *scene)
{
	struct series_point *points;
	struct routing_total *t;
	const char *reason = no_routing(scene);
	size_t n, timed = 0;
	double sum = 0;
	char subtitle[160];
	int r = routing_totals(answer_routing(scene->answers), scene->layer, &t, &n);

	if (r < 0)
		return r;
	points = calloc(n ? n : 1, sizeof(*points));
	for (size_t i = 0; points && i < n; i++) {
		if (t[i].n_timed == t[i].layers) {
			points[timed] = (struct series_point){ (double)t[i].step, t[i].router_ns };
			sum += t[i].router_ns;
			t[timed++] = t[i];
		} else {
			reason = t[i].no_time;
		}
	}
	if (!points) {
		r = -ENOMEM;
	} else if (!timed) {
		r = step_latency(c, box, scene, reason);
	} else {
		struct plot_axis x = step_axis(t, timed);

		snprintf(subtitle, sizeof(subtitle), "time in routers, %s: mean %s a step",
			 scene->layer < 0 ? "all layers together" : "of the chosen layer",
			 format_ns(sum / (double)timed).text);
		box = plot_panel(c, box, "Router latency per step", subtitle);
		r = draw_latency(c, box, &x, points, timed, "router time");
	}
	free(points);
	free(t);
	return r;
}
