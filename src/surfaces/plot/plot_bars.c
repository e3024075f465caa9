/* SPDX-License-Identifier: Apache-2.0
 *
 * Horizontal bars: kernels by time, and the share of API calls.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/format.h"
#include "subjects/api/api_calls.h"
#include "subjects/kernels/kernels.h"
#include "surfaces/plot/plot_draw.h"

#define KERNELS 10
#define API_MAX 14
#define API_SMALL_PCT 2

/* Horizontal bars with a name, a value and a share each. */
struct plot_bar {
	char name[512];
	double value, share_pct;
	bool rest; /* what the others are together: drawn in grey */
};

/* Names to the left, values to the right, so that no bar hides a word. */
static void plot_bars(struct canvas *c, struct rect box, const struct plot_bar *bars, size_t n,
		      const char *label)
{
	const struct plot_theme *theme = canvas_theme(c);
	struct text_style_desc name = { .size = TEXT_USUAL, .align = ALIGN_RIGHT };
	struct text_style_desc figure = { .size = TEXT_USUAL };
	double names = 0, figures = 0, max = 0, row, thick;
	struct chart chart;
	char text[1024];

	for (size_t i = 0; i < n; i++) {
		names = fmax(names, canvas_text_width(c, name, bars[i].name));
		snprintf(text, sizeof(text), "%s  %s", format_ns(bars[i].value).text,
			 format_pct(bars[i].share_pct).text);
		figures = fmax(figures, canvas_text_width(c, figure, text));
		max = fmax(max, bars[i].value);
	}
	names = fmin(names, box.w * 0.45);
	box = (struct rect){ box.x + names - 4, box.y, box.w - names - figures + 8, box.h };
	chart = plot_axes(c, box,
			  (struct plot_axis){ .max = plot_round_up(max),
					      .unit = plot_unit_ns(max),
					      .label = label },
			  (struct plot_axis){ .max = 1, .hidden = true });
	row = chart.data.h / (double)n;
	thick = fmin(row * 0.72, 56);
	for (size_t i = 0; i < n; i++) {
		double y = chart.data.y + ((double)i + 0.5) * row;
		double end = chart_x(&chart, bars[i].value);

		canvas_fill(c,
			    (struct rect){ chart.data.x, y - thick / 2, end - chart.data.x, thick },
			    theme->series[bars[i].rest ? PLOT_SERIES - 1 : 0], 1);
		canvas_fit(c, name, bars[i].name, names, true, text, sizeof(text));
		canvas_text(c, chart.data.x - 8, y, name, theme->text, text);
		snprintf(text, sizeof(text), "%s  %s", format_ns(bars[i].value).text,
			 format_pct(bars[i].share_pct).text);
		canvas_text(c, end + 6, y, figure, theme->text, text);
	}
}

static void rest_bar(struct plot_bar *bar, size_t count, double value, double share_pct)
{
	*bar = (struct plot_bar){ .value = value, .share_pct = share_pct, .rest = true };
	snprintf(bar->name, sizeof(bar->name), "%zu others", count);
}

int plot_kernels(struct canvas *c, struct rect box, const struct plot_scene *scene)
{
	const struct kernels *k = answer_kernels(scene->answers);
	struct plot_bar *bars = calloc(KERNELS + 1, sizeof(*bars));
	size_t n = 0, timed = 0;
	char sampled[128], subtitle[512], untimed[64] = "";
	double rest = 0, rest_pct = 0;

	if (!bars)
		return -ENOMEM;
	for (size_t i = 0; i < k->n; i++) {
		if (k->rows[i].time_ns <= 0)
			continue;
		timed++;
		if (n < KERNELS) {
			bars[n].value = (double)k->rows[i].time_ns;
			bars[n].share_pct = k->rows[i].share_pct;
			snprintf(bars[n].name, sizeof(bars[n].name), "%s", k->rows[i].short_name);
			n++;
		} else {
			rest += (double)k->rows[i].time_ns;
			rest_pct += k->rows[i].share_pct;
		}
	}
	if (timed > n) {
		rest_bar(&bars[n], timed - n, rest, rest_pct);
		n++;
	}
	plot_sampled(scene, sampled, sizeof(sampled));
	if (k->untimed)
		snprintf(untimed, sizeof(untimed), " (%s more without times)",
			 format_count((double)k->untimed).text);
	snprintf(subtitle, sizeof(subtitle), "%s kernels, %s of device time%s%s%s",
		 format_count((double)(k->count - k->untimed)).text,
		 format_ns((double)k->time_ns).text, untimed, *sampled ? "; " : "", sampled);
	box = plot_panel(c, box, "Kernel time", n ? subtitle : NULL);
	if (n)
		plot_bars(c, box, bars, n, "device time");
	else
		plot_no_data(c, box,
			     k->count ? "the device gave no times for any kernel"
				      : plot_no_device(scene));
	free(bars);
	return 0;
}

int plot_api(struct canvas *c, struct rect box, const struct plot_scene *scene)
{
	const struct api_calls *a = answer_api_calls(scene->answers);
	struct plot_bar *bars = calloc(API_MAX + 1, sizeof(*bars));
	char sampled[128], subtitle[256];
	double rest = 0, rest_pct = 0;
	size_t n = 0, others = 0;

	if (!bars)
		return -ENOMEM;
	for (size_t i = 0; i < a->n; i++) {
		const struct api_row *row = &a->rows[i];

		if (row->share_pct >= API_SMALL_PCT && n < API_MAX) {
			bars[n].value = (double)row->time_ns;
			bars[n].share_pct = row->share_pct;
			snprintf(bars[n].name, sizeof(bars[n].name), "%s",
				 run_string(scene->run, row->name));
			n++;
		} else {
			rest += (double)row->time_ns;
			rest_pct += row->share_pct;
			others++;
		}
	}
	if (others) {
		rest_bar(&bars[n], others, rest, rest_pct);
		snprintf(bars[n].name, sizeof(bars[n].name), "Others (%zu, under %d%% each)",
			 others, API_SMALL_PCT);
		n++;
	}
	plot_sampled(scene, sampled, sizeof(sampled));
	snprintf(subtitle, sizeof(subtitle), "%s calls, %s%s%s",
		 format_count((double)a->count).text, format_ns((double)a->time_ns).text,
		 *sampled ? "; " : "", sampled);
	box = plot_panel(c, box, "CUDA API time", a->n ? subtitle : NULL);
	if (a->n && a->time_ns > 0)
		plot_bars(c, box, bars, n, "time in calls");
	else
		plot_no_data(c, box,
			     a->n ? "the calls took no measurable time" : plot_no_device(scene));
	free(bars);
	return 0;
}
