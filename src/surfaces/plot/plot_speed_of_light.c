/* SPDX-License-Identifier: Apache-2.0
 *
 * Speed of light: how close kernels brought the parts of the GPU to their peaks, by hardware counters.
 */
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/cmp.h"
#include "subjects/counters/kernel_limits.h"
#include "surfaces/plot/plot_draw.h"

#define KERNELS 10

/* What is drawn: kernels of which some part was counted, and the parts that were counted of some of them. */
struct shown {
	const struct kernel_limit_row *rows[KERNELS];
	size_t n, of;
	bool counted[KERNEL_PARTS];
	size_t n_counted;
	double most_pct;
};

static bool any_part(const struct kernel_limit_row *row)
{
	for (size_t p = 0; p < KERNEL_PARTS; p++)
		if (kernel_part_pct(row, p).known)
			return true;
	return false;
}

static int most_time_first(const void *a, const void *b)
{
	const struct kernel_limit_row *x = *(const struct kernel_limit_row *const *)a;
	const struct kernel_limit_row *y = *(const struct kernel_limit_row *const *)b;

	return CMP(kernel_limit_time_ns(y), kernel_limit_time_ns(x)) ?: CMP(x->first, y->first);
}

static int choose(const struct kernel_limits *limits, struct shown *ret_shown)
{
	const struct kernel_limit_row **rows = calloc(limits->n + 1, sizeof(*rows));
	struct shown shown = { .most_pct = 100 };

	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i < limits->n; i++)
		if (any_part(&limits->rows[i]))
			rows[shown.of++] = &limits->rows[i];
	qsort(rows, shown.of, sizeof(*rows), most_time_first);
	for (; shown.n < KERNELS && shown.n < shown.of; shown.n++) {
		shown.rows[shown.n] = rows[shown.n];
		for (size_t p = 0; p < KERNEL_PARTS; p++) {
			struct value value = kernel_part_pct(rows[shown.n], p);

			if (!value.known)
				continue;
			shown.n_counted += !shown.counted[p];
			shown.counted[p] = true;
			shown.most_pct = fmax(shown.most_pct, value.v);
		}
	}
	free(rows);
	*ret_shown = shown;
	return 0;
}

static void bound_words(const struct kernel_limit_row *row, char *words, size_t size)
{
	snprintf(words, size, "%s%s", row->bound ? "bound by " : "",
		 row->bound ? kernel_bound_word(row->bound) : "");
}

static void draw_rows(const struct chart *chart, const struct shown *shown, double names)
{
	struct canvas *c = chart->canvas;
	const struct plot_theme *theme = canvas_theme(c);
	struct text_style_desc name = { .size = TEXT_USUAL, .align = ALIGN_RIGHT };
	struct text_style_desc bound = { .size = TEXT_USUAL };
	double row = chart->data.h / (double)shown->n;
	double thick = fmin(row * 0.8 / (double)shown->n_counted, 16);
	char text[1024];

	for (size_t i = 0; i < shown->n; i++) {
		double middle = chart->data.y + ((double)i + 0.5) * row;
		double y = middle - thick * (double)shown->n_counted / 2;

		for (size_t p = 0; p < KERNEL_PARTS; p++) {
			struct value value = kernel_part_pct(shown->rows[i], p);

			if (value.known)
				canvas_fill(
					c,
					(struct rect){
						chart->data.x, y,
						fmax(chart_x(chart, value.v) - chart->data.x, 1),
						thick - 1 },
					theme->series[p], 1);
			y += shown->counted[p] ? thick : 0;
		}
		canvas_fit(c, name, shown->rows[i]->short_name, names, true, text, sizeof(text));
		canvas_text(c, chart->data.x - 8, middle, name, theme->text, text);
		bound_words(shown->rows[i], text, sizeof(text));
		canvas_text(c, chart->data.x + chart->data.w + 8, middle, bound, theme->text, text);
	}
}

static void draw(struct canvas *c, struct rect box, const struct shown *shown)
{
	const struct plot_theme *theme = canvas_theme(c);
	struct text_style_desc style = { .size = TEXT_USUAL };
	struct legend_item items[KERNEL_PARTS + 1];
	double names = 0, bounds = 0, x;
	struct chart chart;
	char text[64], limit[64];
	size_t n = 0;

	for (size_t i = 0; i < shown->n; i++) {
		names = fmax(names, canvas_text_width(c, style, shown->rows[i]->short_name));
		bound_words(shown->rows[i], text, sizeof(text));
		bounds = fmax(bounds, canvas_text_width(c, style, text));
	}
	names = fmin(names, box.w * 0.4);
	for (size_t p = 0; p < KERNEL_PARTS; p++)
		if (shown->counted[p])
			items[n++] = (struct legend_item){ theme->series[p], kernel_part_name(p),
							   LEGEND_FILL };
	snprintf(limit, sizeof(limit), "%d%%: it bounds the kernel", BOUND_PCT);
	items[n++] = (struct legend_item){ theme->muted, limit, LEGEND_DASH };
	box = plot_legend(c, box, items, n);
	box = (struct rect){ box.x + names - 4, box.y, box.w - names - bounds - 4, box.h };
	chart = plot_axes(c, box,
			  (struct plot_axis){ .max = plot_round_up(shown->most_pct),
					      .unit = { 1, "%" },
					      .label = "share of its peak" },
			  (struct plot_axis){ .max = 1, .hidden = true });
	draw_rows(&chart, shown, names);
	x = chart_x(&chart, BOUND_PCT);
	canvas_line(c, x, chart.data.y, x, chart.data.y + chart.data.h, theme->muted, 1, true);
}

int plot_speed_of_light(struct canvas *c, struct rect box, const struct plot_scene *scene)
{
	const struct kernel_limits *limits = answer_kernel_limits(scene->answers);
	char subtitle[256];
	struct shown shown;
	size_t length;
	int r = choose(limits, &shown);

	if (r < 0)
		return r;
	length = (size_t)snprintf(subtitle, sizeof(subtitle),
				  "%zu of %zu kernels, by the time of their launches", shown.n,
				  shown.of);
	for (size_t p = 0, first = 1; p < KERNEL_PARTS; p++)
		if (!shown.counted[p]) {
			length += (size_t)snprintf(subtitle + length, sizeof(subtitle) - length,
						   "%s%s", first ? "; not counted: " : ", ",
						   kernel_part_name(p));
			first = 0;
		}
	box = plot_panel(c, box, "Speed of light", shown.n ? subtitle : NULL);
	if (shown.n)
		draw(c, box, &shown);
	else
		plot_no_data(c, box,
			     limits->n ? "the counters of the kernels say nothing about SM, tensor "
					 "cores, DRAM or L2"
				       : "no counters of kernels: see run --counters, or import a "
					 "CSV of ncu");
	return 0;
}
