/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of plots: a new one is one function and one line in each list here. See plot.h.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "surfaces/plot/plot.h"
#include "surfaces/plot/plot_cairo.h"
#include "surfaces/plot/plot_draw.h"
#include "surfaces/views/scene.h"

#define MARGIN 24

struct sheet {
	double width, height; /* of the whole picture */
	unsigned int columns, rows;
	plot_function *draw[6];
};

const struct plot plots[] = {
	{ "memory", "memory over time, its peak, and what it was made of there" },
	{ "steps", "step times with their phases, outliers marked" },
	{ "kernels", "the ten kernels with the most device time, and the rest" },
	{ "api", "time in CUDA calls by name, those under 2% together" },
	{ "experts", "share of each expert of a layer, dead ones marked" },
	{ "heatmap", "load of every expert of every layer against the layer's mean" },
	{ "k_histogram", "how many experts the tokens used" },
	{ "flops", "FLOPs of routers and experts per step" },
	{ "latency", "time in routers per step, or step times without it" },
	{ "timeline", "devices, their communication, phases and steps over the run" },
	{ "speed_of_light",
	  "how close kernels brought the GPU's parts to their peaks, as counted" },
	{ "roofline", "arithmetic against memory traffic, under the device's limits" },
	{ "flame", "where threads were on a processor, by stack" },
	{ "heap", "host memory at its peak, by the stack that allocated it" },
	{ "sheet", "FLOPs, latency, experts per token and load by layer on one page" },
	{ "dashboard", "steps, memory, kernels, API, experts and timeline on one page" },
	{ NULL, NULL },
};

/* In the order of plots[]. */
static const struct sheet sheets[] = {
	{ 1200, 700, 1, 1, { plot_memory } },
	{ 1200, 700, 1, 1, { plot_steps } },
	{ 1200, 700, 1, 1, { plot_kernels } },
	{ 1200, 700, 1, 1, { plot_api } },
	{ 1200, 700, 1, 1, { plot_experts } },
	{ 1200, 700, 1, 1, { plot_heatmap } },
	{ 1200, 700, 1, 1, { plot_k_histogram } },
	{ 1200, 700, 1, 1, { plot_flops } },
	{ 1200, 700, 1, 1, { plot_latency } },
	{ 1200, 700, 1, 1, { plot_timeline } },
	{ 1200, 700, 1, 1, { plot_speed_of_light } },
	{ 1200, 700, 1, 1, { plot_roofline } },
	{ 1200, 700, 1, 1, { plot_flame } },
	{ 1200, 700, 1, 1, { plot_heap } },
	{ 1600, 1000, 2, 2, { plot_flops, plot_latency, plot_k_histogram, plot_heatmap } },
	{ 1920,
	  1080,
	  3,
	  2,
	  { plot_steps, plot_memory, plot_kernels, plot_api, plot_experts, plot_timeline } },
};
_Static_assert(sizeof(sheets) / sizeof(sheets[0]) + 1 == sizeof(plots) / sizeof(plots[0]),
	       "a sheet for each plot");

/* What all of them read. */
static const struct section section_plots = {
	.name = "plots",
	.reads = READS(&subject_steps, &subject_routing, &subject_memory, &subject_device_memory,
		       &subject_kernels, &subject_api_calls, &subject_timeline, &subject_efficiency,
		       &subject_comm, &subject_coverage, &subject_sampled_stacks, &subject_heap_use,
		       &subject_kernel_limits),
	.router_time = true,
};

const char *plot_unavailable(void)
{
	return cairo_open()
		       ? NULL
		       : "plots are drawn by cairo, which this machine lacks; install libcairo2 "
			 "(Debian, Ubuntu) or cairo (Fedora).";
}

const char *plot_trouble(void)
{
	struct canvas *c;
	bool fonts;

	if (canvas_new(1, 1, 1, true, &plot_light, &c) < 0)
		return NULL; /* the plot itself will say it */
	fonts = canvas_has_fonts(c);
	canvas_free(c);
	return fonts ? NULL
		     : "no font is installed, so the plots have cairo's own letters and '?' for "
		       "those beyond ASCII; install one, for example fonts-dejavu-core.";
}

struct run_want plot_want(const struct view_options *options)
{
	return section_want(&section_plots, options);
}

int plot_compute(const struct run *run, const struct view_options *options,
		 struct answers *ret_answers, struct err *err)
{
	struct asked asked = section_asked(&section_plots, options);

	return scene_compute(run, options, &asked, 1, ret_answers, err);
}

/* Every picture says which run it is of. */
static void footer(struct canvas *c, const struct sheet *sheet, const struct run *run)
{
	struct text_style_desc style = { .size = TEXT_SMALL, .align = ALIGN_RIGHT };
	char text[1024];

	canvas_fit(c, style, run->info.name, sheet->width - 2 * MARGIN, true, text, sizeof(text));
	canvas_text(c, sheet->width - MARGIN, sheet->height - 12, style, canvas_theme(c)->muted,
		    text);
}

static int draw_sheet(struct canvas *c, const struct sheet *sheet, const struct plot_scene *scene)
{
	double width = (sheet->width - MARGIN * (sheet->columns + 1.0)) / sheet->columns;
	double height = (sheet->height - 8 - MARGIN * (sheet->rows + 1.0)) / sheet->rows;
	int r = 0;

	for (unsigned int i = 0; r >= 0 && i < sheet->columns * sheet->rows; i++) {
		unsigned int column = i % sheet->columns, row = i / sheet->columns;
		struct rect box = { MARGIN + column * (width + MARGIN),
				    MARGIN + row * (height + MARGIN), width, height };

		r = sheet->draw[i](c, box, scene);
	}
	if (r >= 0)
		footer(c, sheet, scene->run);
	return r;
}

int plot_draw(const char *name, const struct run *run, const struct answers *answers,
	      const struct plot_options *options, FILE *out, struct err *err)
{
	struct plot_scene scene = { run, answers, options->layer, options->sel };
	struct canvas *c;
	size_t i = 0;
	int r;

	while (plots[i].name && strcmp(plots[i].name, name) != 0)
		i++;
	if (!plots[i].name)
		return err_set(err, -EINVAL, "there is no plot '%s'.", name);
	r = canvas_new(sheets[i].width, sheets[i].height, options->scale, options->svg,
		       options->dark ? &plot_dark : &plot_light, &c);
	if (r < 0)
		return err_sys(err, r, "cannot draw '%s'", name);
	r = draw_sheet(c, &sheets[i], &scene);
	if (r >= 0)
		r = canvas_write(c, out);
	canvas_free(c);
	return r < 0 ? err_sys(err, r, "cannot draw '%s'", name) : 0;
}
