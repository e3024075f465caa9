/* SPDX-License-Identifier: Apache-2.0
 *
 * Plots of routing: the experts of a layer, layers by experts, slots per token.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/text/format.h"
#include "subjects/routing/routing.h"
#include "surfaces/plot/plot_draw.h"

#define HEAT_BAR 88 /* pixels that the colour bar takes */

static const char no_records[] =
	"no routing records in this run: the program reports them with moescope_route()";

/* The chosen layer, or the most uneven one; NULL: it has no assignments. */
static const struct routing_layer *layer_of(const struct plot_scene *scene)
{
	const struct routing *r = answer_routing(scene->answers);
	const struct routing_layer *best = NULL;

	for (size_t i = 0; i < r->n; i++) {
		const struct routing_layer *l = &r->layers[i];

		if (!l->load.known || (scene->layer >= 0 && l->layer != scene->layer))
			continue;
		if (!best || l->load.imbalance > best->load.imbalance)
			best = l;
	}
	return best;
}

static bool several_phases(const struct routing *routing)
{
	for (size_t i = 1; i < routing->n; i++)
		if (routing->layers[i].phase != routing->layers[0].phase)
			return true;
	return false;
}

static void layer_name(const struct routing *routing, const struct routing_layer *l, bool words,
		       char *out, size_t size)
{
	bool phases = several_phases(routing);

	snprintf(out, size, "%s%" PRId32 "%s%s", words ? "layer " : "", l->layer, phases ? " " : "",
		 phases ? phase_name(l->phase) : "");
}

static int64_t same_number(const void *context, size_t index)
{
	return (int64_t)index * *(const int64_t *)context;
}

/* Neighbours share a bar where there are more experts than room: by their largest. */
static void expert_bars(struct canvas *c, struct rect box, const struct routing_layer *l)
{
	const struct plot_theme *theme = canvas_theme(c);
	size_t room = (size_t)fmax(box.w - 80, 8), per = (l->experts + room - 1) / room;
	size_t n = (l->experts + per - 1) / per;
	double total = (double)l->load.total, even = 100.0 / l->experts;
	int64_t step = (int64_t)per;
	double slot, gap;
	struct legend_item items[] = {
		{ theme->series[0], "share of the assignments", LEGEND_FILL },
		{ theme->text, "even share, 1/E", LEGEND_DASH },
		{ theme->warning, "dead: no token in the whole window", LEGEND_CROSS },
	};
	struct chart chart;

	box = plot_legend(c, box, items, l->load.dead ? 3 : 2);
	chart = plot_axes(c, box, (struct plot_axis){ .label = "expert", .hidden = true },
			  (struct plot_axis){
				  .max = plot_round_up(100.0 * (double)l->load.max / total * 1.04),
				  .label = "share of the layer's assignments, %" });
	slot = chart.data.w / (double)n;
	gap = slot > 60 ? slot - 48 : slot > 3 ? slot * 0.2 : 0;
	for (size_t i = 0; i < n; i++) {
		uint64_t most = 0;
		bool dead = false;
		double x = chart.data.x + (double)i * slot, y;

		for (size_t e = i * per; e < (i + 1) * per && e < l->experts; e++) {
			most = l->n[e] > most ? l->n[e] : most;
			dead |= l->n[e] == 0;
		}
		y = chart_y(&chart, 100.0 * (double)most / total);
		canvas_fill(c,
			    (struct rect){ x + gap / 2, y, slot - gap,
					   chart.data.y + chart.data.h - y },
			    theme->series[0], 1);
		if (dead)
			plot_cross(c, x + slot / 2, chart.data.y + chart.data.h - 7,
				   fmin(4, fmax(slot / 2, 2)), theme->warning);
	}
	canvas_line(c, chart.data.x, chart_y(&chart, even), chart.data.x + chart.data.w,
		    chart_y(&chart, even), theme->text, 1.5, true);
	plot_index_labels(&chart, n, same_number, &step);
}

int plot_experts(struct canvas *c, struct rect box, const struct plot_scene *scene)
{
	const struct routing *routing = answer_routing(scene->answers);
	const struct routing_layer *l = layer_of(scene);
	char title[128] = "Expert utilisation", subtitle[256] = "", name[64];

	if (l) {
		layer_name(routing, l, true, name, sizeof(name));
		snprintf(title, sizeof(title), "Expert utilisation, %s%s", name,
			 scene->layer < 0 && routing->n > 1 ? " (the most uneven)" : "");
		snprintf(subtitle, sizeof(subtitle),
			 "%" PRIu32 " experts, %s assignments, max/mean %s, %" PRIu32
			 " dead, %" PRIu32 " starved, %" PRIu32 " overloaded",
			 l->experts, format_count((double)l->load.total).text,
			 format_ratio(l->load.imbalance).text, l->load.dead, l->load.starved,
			 l->load.overloaded);
	}
	box = plot_panel(c, box, title, subtitle);
	if (l)
		expert_bars(c, box, l);
	else
		plot_no_data(c, box,
			     !routing->records	 ? no_records
			     : scene->layer >= 0 ? "the chosen layer has no assignments"
						 : "no token was sent to any expert");
	return 0;
}

static void colour_bar(struct canvas *c, struct rect bar, double max)
{
	const struct plot_theme *theme = canvas_theme(c);
	struct text_style_desc style = { .size = TEXT_USUAL };
	struct plot_ticks ticks = plot_ticks(0, max, (size_t)fmax(bar.h / 40, 2), false);
	char text[32];

	for (int i = 0; i < 64; i++)
		canvas_fill(c,
			    (struct rect){ bar.x, bar.y + bar.h * i / 64, bar.w, bar.h / 64 + 0.5 },
			    plot_heat(1 - (i + 0.5) / 64), 1);
	canvas_frame(c, bar, theme->axis, 1);
	for (size_t i = 0; i < ticks.n; i++) {
		double y = bar.y + bar.h * (1 - ticks.at[i] / max);

		canvas_line(c, bar.x + bar.w, y, bar.x + bar.w + 4, y, theme->axis, 1, false);
		plot_tick_text(&ticks, i, text, sizeof(text));
		canvas_text(c, bar.x + bar.w + 7, y, style, theme->muted, text);
	}
	canvas_text(c, bar.x - 20, bar.y - 15, style, theme->text, "load / mean");
}

/* The count inside a cell, where it has room. */
static void cell_count(struct canvas *c, struct rect cell, uint64_t count, plot_color on)
{
	struct text_style_desc style = { .size = TEXT_SMALL, .align = ALIGN_CENTER };
	char text[32];

	if (cell.h < TEXT_SMALL + 3 || cell.w < 12)
		return;
	snprintf(text, sizeof(text), "%" PRIu64, count);
	if (canvas_text_width(c, style, text) > cell.w - 4)
		snprintf(text, sizeof(text), "%s", format_count((double)count).text);
	if (canvas_text_width(c, style, text) <= cell.w - 4)
		canvas_text(c, cell.x + cell.w / 2, cell.y + cell.h / 2, style, plot_text_on(on),
			    text);
}

static void heat_row(const struct chart *chart, const struct routing_layer *l, struct rect row,
		     size_t n, size_t per, double max)
{
	double slot = row.w / (double)n, gap = slot > 10 && row.h > 10 ? 1 : 0;

	for (size_t i = 0; i * per < l->experts; i++) {
		uint64_t most = 0;
		plot_color color;
		/* Whole pixels, or the background would show between cells without a gap. */
		double left = floor(row.x + (double)i * slot), top = floor(row.y);
		struct rect cell = { left, top, floor(row.x + (double)(i + 1) * slot) - left - gap,
				     floor(row.y + row.h) - top - gap };

		for (size_t e = i * per; e < (i + 1) * per && e < l->experts; e++)
			most = l->n[e] > most ? l->n[e] : most;
		color = plot_heat((double)most / l->load.mean / max);
		canvas_fill(chart->canvas, cell, color, 1);
		if (per == 1)
			cell_count(chart->canvas, cell, most, color);
	}
}

static void heat_rows(struct canvas *c, struct rect box, const struct routing *routing,
		      uint32_t experts, size_t rows, double max)
{
	const struct plot_theme *theme = canvas_theme(c);
	struct text_style_desc style = { .size = TEXT_USUAL, .align = ALIGN_RIGHT };
	size_t room = (size_t)fmax(box.w - HEAT_BAR - 80, 8), per = (experts + room - 1) / room;
	size_t n = (experts + per - 1) / per, at = 0, every;
	int64_t step = (int64_t)per;
	double names = 0, height;
	struct chart chart;
	char name[64];

	for (size_t i = 0; i < routing->n; i++) {
		layer_name(routing, &routing->layers[i], false, name, sizeof(name));
		names = fmax(names, canvas_text_width(c, style, name));
	}
	chart = plot_axes(c, (struct rect){ box.x + names, box.y, box.w - names - HEAT_BAR, box.h },
			  (struct plot_axis){ .label = "expert", .hidden = true },
			  (struct plot_axis){ .label = " ", .hidden = true });
	style.align = ALIGN_LEFT;
	canvas_text(c, box.x, box.y + 8, style, theme->text, "layer");
	style.align = ALIGN_RIGHT;
	height = chart.data.h / (double)rows;
	every = (size_t)ceil(15 / height);
	for (size_t i = 0; i < routing->n; i++) {
		const struct routing_layer *l = &routing->layers[i];
		struct rect row = { chart.data.x, chart.data.y + (double)at * height, chart.data.w,
				    height };

		if (!l->load.known)
			continue;
		heat_row(&chart, l, row, n, per, max);
		layer_name(routing, l, false, name, sizeof(name));
		if (at++ % every == 0)
			canvas_text(c, row.x - 8, row.y + height / 2, style, theme->muted, name);
	}
	plot_index_labels(&chart, n, same_number, &step);
	colour_bar(
		c,
		(struct rect){ chart.data.x + chart.data.w + 34, chart.data.y, 16, chart.data.h },
		max);
}

int plot_heatmap(struct canvas *c, struct rect box, const struct plot_scene *scene)
{
	const struct routing *routing = answer_routing(scene->answers);
	uint32_t experts = 0;
	size_t rows = 0;
	double max = 2;
	char subtitle[160];

	for (size_t i = 0; i < routing->n; i++) {
		const struct routing_layer *l = &routing->layers[i];

		if (!l->load.known)
			continue;
		rows++;
		experts = l->experts > experts ? l->experts : experts;
		max = fmax(max, l->load.imbalance);
	}
	snprintf(subtitle, sizeof(subtitle),
		 "%zu %s; colour: assignments against the layer's mean, 1 is even", rows,
		 several_phases(routing) ? "layers and phases" : "layers");
	box = plot_panel(c, box, "Expert load by layer", rows ? subtitle : NULL);
	if (rows)
		heat_rows(c, box, routing, experts, rows, max);
	else
		plot_no_data(c, box,
			     routing->records ? "no token was sent to any expert" : no_records);
	return 0;
}

/* hist[j]: tokens of the chosen layers that used j slots. */
static int k_counts(const struct plot_scene *scene, uint64_t **ret_hist, size_t *ret_n,
		    uint64_t *ret_tokens)
{
	const struct routing *routing = answer_routing(scene->answers);
	uint64_t *hist, tokens = 0;
	size_t n = 0;

	for (size_t i = 0; i < routing->n; i++)
		n = routing->layers[i].slots.n > n ? routing->layers[i].slots.n : n;
	hist = calloc(n ? n : 1, sizeof(*hist));
	if (!hist)
		return -ENOMEM;
	for (size_t i = 0; i < routing->n; i++) {
		const struct routing_layer *l = &routing->layers[i];

		for (size_t j = 0; j < l->slots.n; j++) {
			if (scene->layer >= 0 && l->layer != scene->layer)
				continue;
			hist[j] += l->slots.hist[j];
			tokens += l->slots.hist[j];
		}
	}
	*ret_hist = hist;
	*ret_n = n;
	*ret_tokens = tokens;
	return 0;
}

static void k_bars(struct canvas *c, struct rect box, const uint64_t *hist, size_t n,
		   uint64_t tokens, const char *label)
{
	const struct plot_theme *theme = canvas_theme(c);
	struct text_style_desc style = { .size = TEXT_USUAL, .align = ALIGN_CENTER };
	const int64_t one = 1;
	uint64_t most = 1;
	double slot, width;
	struct chart chart;

	for (size_t j = 0; j < n; j++)
		most = hist[j] > most ? hist[j] : most;
	chart = plot_axes(
		c, box,
		(struct plot_axis){ .label = "experts that a token used (k)", .hidden = true },
		(struct plot_axis){
			.max = plot_round_up((double)most * 1.12), .label = label, .whole = true });
	slot = chart.data.w / (double)n;
	width = fmin(slot * 0.7, 90);
	for (size_t j = 0; j < n; j++) {
		double x = chart.data.x + slot * ((double)j + 0.5);
		double y = chart_y(&chart, (double)hist[j]);
		char text[64], share[32];

		canvas_fill(
			c,
			(struct rect){ x - width / 2, y, width, chart.data.y + chart.data.h - y },
			theme->series[0], 1);
		snprintf(text, sizeof(text), "%" PRIu64, hist[j]);
		snprintf(share, sizeof(share), "%s",
			 format_pct(100.0 * (double)hist[j] / (double)tokens).text);
		if (canvas_text_width(c, style, text) > slot - 4)
			snprintf(text, sizeof(text), "%s", format_count((double)hist[j]).text);
		if (canvas_text_width(c, style, text) > slot - 4)
			continue;
		canvas_text(c, x, y - (hist[j] ? 24 : 10), style, theme->text, text);
		if (hist[j] && canvas_text_width(c, style, share) <= slot - 4)
			canvas_text(c, x, y - 9, style, theme->muted, share);
	}
	plot_index_labels(&chart, n, same_number, &one);
}

int plot_k_histogram(struct canvas *c, struct rect box, const struct plot_scene *scene)
{
	uint64_t *hist, tokens, slots = 0;
	const char *label = scene->layer < 0 ? "tokens, counted in each layer" : "tokens";
	char subtitle[160];
	size_t n;
	int r = k_counts(scene, &hist, &n, &tokens);

	if (r < 0)
		return r;
	for (size_t j = 0; j < n; j++)
		slots += j * hist[j];
	if (tokens)
		snprintf(subtitle, sizeof(subtitle), "%s %s, mean k %s",
			 format_count((double)tokens).text, label,
			 format_ratio((double)slots / (double)tokens).text);
	box = plot_panel(c, box, "Experts per token", tokens ? subtitle : NULL);
	if (tokens)
		k_bars(c, box, hist, n, tokens, label);
	else
		plot_no_data(c, box,
			     answer_routing(scene->answers)->records ? "no token was routed"
								     : no_records);
	free(hist);
	return 0;
}
