/* SPDX-License-Identifier: Apache-2.0
 *
 * Plots: every one of them of every run built by hand, in both formats and themes, and lengths of
 * bars against values computed by hand. MOESCOPE_PLOT_DIR=DIR writes the pictures there as well, to
 * look at them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <cairo.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "failing_alloc.h"
#include "fake_windows.h"
#include "fontconfig_leaks.h"
#include "moescope.h"
#include "present/plot.h"
#include "present/plot_draw.h"

#define MS INT64_C(1000000)

static const struct present_options everything = { .width = 80,
						   .utf8 = true,
						   .layer = -1,
						   .phase = -1,
						   .step_first = INT64_MIN,
						   .step_last = INT64_MAX };

struct picture {
	char *data;
	size_t size, read;
};

static struct picture draw_layer(const struct run *run, const char *name, bool svg, bool dark,
				 int layer)
{
	struct plot_options options = { .svg = svg, .dark = dark, .scale = 1, .layer = layer };
	struct picture picture = { 0 };
	struct findings findings;
	struct err err = { "" };
	FILE *out = open_memstream(&picture.data, &picture.size);

	assert_non_null(out);
	assert_int_equal(plot_analyze(run, &everything, &findings, &err), 0);
	assert_int_equal(plot_draw(name, run, &findings, &options, out, &err), 0);
	assert_int_equal(fclose(out), 0);
	findings_release(&findings);
	return picture;
}

static struct picture draw(const struct run *run, const char *name, bool svg, bool dark)
{
	return draw_layer(run, name, svg, dark, -1);
}

static void keep(const struct picture *p, const char *of, const char *name, bool svg, bool dark)
{
	const char *directory = getenv("MOESCOPE_PLOT_DIR");
	char path[512];
	FILE *file;

	if (!directory)
		return;
	snprintf(path, sizeof(path), "%s/%s-%s%s.%s", directory, of, name, dark ? "-dark" : "",
		 svg ? "svg" : "png");
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(p->data, 1, p->size, file), p->size);
	assert_int_equal(fclose(file), 0);
}

static cairo_status_t next_bytes(void *from, unsigned char *data, unsigned int length)
{
	struct picture *p = from;

	if (length > p->size - p->read)
		return CAIRO_STATUS_READ_ERROR;
	memcpy(data, p->data + p->read, length);
	p->read += length;
	return CAIRO_STATUS_SUCCESS;
}

static cairo_surface_t *decoded(struct picture *p)
{
	cairo_surface_t *surface = cairo_image_surface_create_from_png_stream(next_bytes, p);

	assert_int_equal(cairo_surface_status(surface), CAIRO_STATUS_SUCCESS);
	return surface;
}

static uint32_t pixel(cairo_surface_t *surface, int x, int y)
{
	const unsigned char *row = cairo_image_surface_get_data(surface) +
				   (ptrdiff_t)y * cairo_image_surface_get_stride(surface);
	uint32_t value;

	memcpy(&value, row + 4 * x, 4);
	return value & 0xFFFFFF;
}

static void check_png(struct picture *p, const char *name, bool dark)
{
	uint32_t background = dark ? plot_dark.background : plot_light.background;
	cairo_surface_t *surface = decoded(p);
	int width = cairo_image_surface_get_width(surface);
	int height = cairo_image_surface_get_height(surface);
	size_t drawn = 0;

	assert_int_equal(width, !strcmp(name, "sheet")	     ? 1600
				: !strcmp(name, "dashboard") ? 1920
							     : 1200);
	assert_int_equal(height, !strcmp(name, "sheet")	      ? 1000
				 : !strcmp(name, "dashboard") ? 1080
							      : 700);
	assert_int_equal(pixel(surface, 2, 2), background);
	for (int y = 0; y < height; y++)
		for (int x = 0; x < width; x++)
			drawn += pixel(surface, x, y) != background;
	assert_true(drawn > 1000);
	cairo_surface_destroy(surface);
}

static struct run *empty_run(void)
{
	return fake_run_new();
}

/* More of everything than a picture has room for. */
static struct run *large_run(void)
{
	struct run *run = fake_run_new();
	static uint32_t load[256];
	int64_t at = 0;

	fake_shard(run, 1, 4243);
	for (int64_t step = 0; step < 5000; step++) {
		int64_t took = 8 * MS + (step * 7919 % 1000) * 1000 +
			       (step % 977 == 5 ? 9 * MS : 0);

		fake_step(run, step, at, at + took, 1000);
		fake_add_step(run, 1,
			      &(struct row_step){ .step = step,
						  .start_ns = at,
						  .duration_ns = took - 1000,
						  .recorded = 1 });
		at += took;
	}
	for (int32_t layer = 0; layer < 61; layer++) {
		for (uint32_t e = 0; e < 256; e++)
			load[e] = (e * 2654435761u >> 20) % 90 + (e % 17 == 0 ? 200 : 0);
		load[7] = load[250] = 0;
		load[8] += (uint32_t)(8 - (load[0] % 8));
		for (uint64_t sum = 1; sum % 8;) {
			sum = 0;
			for (uint32_t e = 0; e < 256; e++)
				sum += load[e];
			load[9] += sum % 8 ? 1 : 0;
		}
		fake_routing(run, 3, 40 * MS, layer, 8, 256, load);
	}
	for (int i = 0; i < 40; i++) {
		char name[300];

		snprintf(name, sizeof(name),
			 "void при<%d>::größe_名前_kernel<float, 128, &lambda_%d, "
			 "cutlass::gemm::kernel::default_gemm_universal>(unsigned long, a%d)",
			 i, i, i);
		fake_kernel(run, name, i * 10 * MS, i * 10 * MS + (40 - i) * MS / 8,
			    (uint64_t)i + 1);
		fake_call(run, i % 2 ? "cudaLaunchKernel" : name, i * 10 * MS - 20000, i * 10 * MS,
			  (uint64_t)i + 1);
	}
	fake_kernel(run, "broken_\xff\xfe_kernel\x01", 500 * MS, 600 * MS, 77);
	fake_span(run, 0, at);
	free(run->info.name);
	run->info.name = strdup("a run <with> a name & more");
	return run;
}

/* What a reader must find on the plot, of runs in the order of the table below. */
static const struct expected {
	const char *plot;
	const char *texts[5]; /* training, GPU, windows, empty, large */
} expected[] = {
	{ "memory",
	  { ">peak 10.6 MB<", "(gpu 0)<", NULL, ">no data: no allocations in this run" } },
	{ "steps",
	  { ">12 steps, median", ">3 steps, median", ">10 steps, median", ">no data: no steps" } },
	{ "kernels",
	  { "no device records", ">device time, ", "sampled: 3 windows", "no device records" } },
	{ "api",
	  { "no device records", ">time in calls, ", "sampled: 3 windows", "no device records" } },
	{ "experts",
	  { ">Expert utilisation, layer 1 (the most uneven)<", "no routing records",
	    "no routing records", "no routing records" } },
	{ "heatmap",
	  { ">load / mean<", "no routing records", "no routing records", "no routing records" } },
	{ "k_histogram",
	  { ">1536<", "no routing records", "no routing records", "no routing records" } },
	{ "flops",
	  { ">routers<", "no routing records", "no routing records", "no routing records" } },
	{ "latency",
	  { ">step time, ms<", ">step time, ", ">step time, ms<", "no routing records" } },
	{ "timeline",
	  { ">backward<", ">gpu 0 kernels<", "grey: no device records", ">no data: no steps" } },
	{ "roofline",
	  { "no device records", ">no data: no FLOPs", ">no data: no FLOPs",
	    "no device records" } },
};

static void check_svg(const struct picture *p, const char *name, size_t run)
{
	assert_memory_equal(p->data, "<?xml", 5);
	assert_string_equal(p->data + p->size - 7, "</svg>\n");
	assert_null(strstr(p->data, "nan"));
	assert_null(strstr(p->data, "inf\""));
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		const char *text = expected[i].texts[run];

		if (strcmp(expected[i].plot, name) == 0 && text && !strstr(p->data, text))
			fail_msg("no '%s' in plot %s of run %zu", text, name, run);
	}
}

static void test_every_plot_of_every_run(void **state)
{
	static const struct {
		const char *name;
		struct run *(*make)(void);
	} runs[] = {
		{ "training", fake_training_run },
		{ "gpu", fake_gpu_run },
		{ "windows", fake_windows_run },
		{ "empty", empty_run },
		{ "large", large_run },
	};

	(void)state;
	for (size_t r = 0; r < sizeof(runs) / sizeof(runs[0]); r++) {
		struct run *run = runs[r].make();

		for (size_t i = 0; plots[i].name; i++) {
			for (int form = 0; form < 4; form++) {
				bool svg = form & 1, dark = form & 2;
				struct picture p = draw(run, plots[i].name, svg, dark);

				keep(&p, runs[r].name, plots[i].name, svg, dark);
				if (svg)
					check_svg(&p, plots[i].name, r);
				else
					check_png(&p, plots[i].name, dark);
				free(p.data);
			}
		}
		fake_run_free(run);
	}
}

/* The n-th rectangle of that colour: its attributes. */
static struct rect find_rect(const char *svg, plot_color color, size_t n)
{
	char fill[32];
	const char *at = svg;
	struct rect r = { 0 };

	snprintf(fill, sizeof(fill), "fill=\"#%06x\"", color);
	while ((at = strstr(at, "<rect "))) {
		const char *end = strchr(at, '>'), *found = strstr(at, fill);

		assert_non_null(end);
		if (found && found < end && n-- == 0) {
			assert_int_equal(sscanf(at,
						"<rect x=\"%lf\" y=\"%lf\" width=\"%lf\" "
						"height=\"%lf\"",
						&r.x, &r.y, &r.w, &r.h),
					 4);
			return r;
		}
		at = end;
	}
	fail_msg("no rectangle %s", fill);
	return r;
}

static void near(double got, double wanted, double within)
{
	if (!(fabs(got - wanted) <= within))
		fail_msg("%g is not %g", got, wanted);
}

/* Three kernels of 8, 4 and 1 ms: bars in that proportion, in the SVG and in the PNG. */
static void test_bars_have_the_length_of_their_values(void **state)
{
	struct run *run = fake_run_new();
	struct picture svg, png;
	cairo_surface_t *surface;
	struct rect a, b, c;

	(void)state;
	fake_kernel(run, "largest", 0, 8 * MS, 1);
	fake_kernel(run, "middle", 10 * MS, 14 * MS, 2);
	fake_kernel(run, "smallest", 20 * MS, 21 * MS, 3);
	fake_span(run, 0, 30 * MS);
	svg = draw(run, "kernels", true, false);
	a = find_rect(svg.data, plot_light.series[0], 0);
	b = find_rect(svg.data, plot_light.series[0], 1);
	c = find_rect(svg.data, plot_light.series[0], 2);
	near(a.w / b.w, 2, 0.001);
	near(a.w / c.w, 8, 0.01);
	near(a.x, c.x, 0.001);
	assert_true(a.y < b.y && b.y < c.y);
	assert_non_null(strstr(svg.data, ">8.00 ms  61.5%<"));
	assert_non_null(strstr(svg.data, ">4.00 ms  30.8%<"));
	assert_non_null(strstr(svg.data, ">smallest<"));
	/* The axis says 8 at the end of the bar of 8 ms. */
	assert_non_null(strstr(svg.data, ">8</text>"));
	png = draw(run, "kernels", false, false);
	surface = decoded(&png);
	for (int i = 0; i < 3; i++) {
		struct rect r = i == 0 ? a : i == 1 ? b : c;
		int y = (int)(r.y + r.h / 2);

		assert_int_equal(pixel(surface, (int)r.x + 2, y), plot_light.series[0]);
		assert_int_equal(pixel(surface, (int)(r.x + r.w) - 2, y), plot_light.series[0]);
		assert_int_equal(pixel(surface, (int)(r.x + r.w) + 3, y), plot_light.background);
	}
	cairo_surface_destroy(surface);
	free(svg.data);
	free(png.data);
	fake_run_free(run);
}

/* Forward 40, backward 45, optimizer 8, data 4, other 3 ms of each 100 ms step. */
static void test_phases_are_stacked(void **state)
{
	struct run *run = fake_training_run();
	struct picture svg = draw(run, "steps", true, true);
	const plot_color *series = plot_dark.series;
	/* The first rectangle of a colour is its mark in the legend. */
	struct rect forward = find_rect(svg.data, series[0], 1);
	struct rect backward = find_rect(svg.data, series[1], 1);
	struct rect data = find_rect(svg.data, series[3], 1);

	(void)state;
	near(forward.h / backward.h, 40.0 / 45, 0.001);
	near(forward.h / data.h, 10, 0.01);
	near(backward.y + backward.h, forward.y, 0.02);
	near(forward.x, backward.x, 0.001);
	free(svg.data);
	fake_run_free(run);
}

static void test_experts_of_a_layer(void **state)
{
	struct run *run = fake_run_new();
	const uint32_t load[2][4] = { { 40, 40, 40, 40 }, { 120, 30, 10, 0 } };
	struct picture svg;
	struct rect first, second;

	(void)state;
	for (int32_t layer = 0; layer < 2; layer++)
		fake_routing(run, 0, MS, layer, 2, 4, load[layer]);
	svg = draw(run, "experts", true, false);
	assert_non_null(strstr(svg.data, ">Expert utilisation, layer 1 (the most uneven)<"));
	assert_non_null(strstr(svg.data, "max/mean 3.00, 1 dead, 2 starved, 1 overloaded"));
	assert_non_null(strstr(svg.data, ">dead: no token in the whole window<"));
	first = find_rect(svg.data, plot_light.series[0], 1);
	second = find_rect(svg.data, plot_light.series[0], 2);
	near(first.h / second.h, 4, 0.01);
	free(svg.data);
	svg = draw_layer(run, "experts", true, false, 0);
	assert_non_null(strstr(svg.data, ">Expert utilisation, layer 0<"));
	assert_null(strstr(svg.data, "dead: no token"));
	free(svg.data);
	svg = draw_layer(run, "experts", true, false, 9);
	assert_non_null(strstr(svg.data, "no data: the chosen layer has no assignments"));
	free(svg.data);
	/* 120 / 40 is the top of the scale, 40 / 40 a third of it. */
	svg = draw(run, "heatmap", true, false);
	first = find_rect(svg.data, plot_heat(1), 0);
	second = find_rect(svg.data, plot_heat(1.0 / 3), 0);
	assert_true(first.y > second.y);
	assert_non_null(strstr(svg.data, ">120<"));
	free(svg.data);
	svg = draw_layer(run, "k_histogram", true, false, 1);
	assert_non_null(strstr(svg.data, ">80<"));
	assert_non_null(strstr(svg.data, ">80 tokens, mean k 2.00<"));
	free(svg.data);
	fake_run_free(run);
}

/* More experts than pixels: neighbours together, by the largest, and the dead one is seen. */
static void test_more_experts_than_pixels(void **state)
{
	struct run *run = fake_run_new();
	static uint32_t load[5000];
	struct picture svg;
	size_t bars = 0;

	(void)state;
	for (int e = 0; e < 5000; e++)
		load[e] = 4;
	load[1] = 0;
	load[4998] = 804;
	fake_routing(run, 0, MS, 0, 4, 5000, load);
	svg = draw(run, "experts", true, false);
	for (const char *at = svg.data; (at = strstr(at, "<rect ")); at++)
		bars++;
	assert_true(bars > 500 && bars < 1200);
	/* 100 * 804 / 20796 = 3.87% of all: the highest bar is the last. */
	near(find_rect(svg.data, plot_light.series[0], bars - 2).h /
		     find_rect(svg.data, plot_light.series[0], 1).h,
	     201, 5);
	assert_non_null(strstr(svg.data, ">dead: no token in the whole window<"));
	free(svg.data);
	svg = draw(run, "heatmap", true, false);
	assert_null(strstr(svg.data, "nan"));
	free(svg.data);
	fake_run_free(run);
}

/* Readings that are no numbers, times that run backwards: drawn as far as they make sense. */
static void test_nonsense_makes_no_nonsense(void **state)
{
	struct run *run = fake_run_new();
	const double values[] = { NAN, 3e9, INFINITY, -INFINITY };

	(void)state;
	for (int i = 0; i < 4; i++)
		fake_add_sample(
			run, 0,
			&(struct row_sample){ .time_ns = i * MS,
					      .metric = fake_string(run, "memory_used_bytes"),
					      .value = values[i] });
	fake_step(run, INT64_MAX, 5 * MS, 5 * MS, 0);
	fake_step(run, INT64_MIN, 4 * MS, 3 * MS, 0);
	fake_kernel(run, "", 9 * MS, 7 * MS, 1);
	fake_call(run, "", 9 * MS, 7 * MS, 1);
	fake_span(run, 10 * MS, 2 * MS);
	for (size_t i = 0; plots[i].name; i++) {
		struct picture svg = draw(run, plots[i].name, true, false);

		assert_null(strstr(svg.data, "nan"));
		assert_null(strstr(svg.data, "inf"));
		free(svg.data);
		free(draw(run, plots[i].name, false, false).data);
	}
	fake_run_free(run);
}

/* Names come from the program: whatever they hold, the page stays a page. */
static void test_names_of_all_sorts(void **state)
{
	struct run *run = large_run();
	struct picture svg = draw(run, "kernels", true, false);

	(void)state;
	assert_non_null(strstr(svg.data, ">broken_??_kernel <"));
	assert_non_null(strstr(svg.data, "größe_名前_kernel"));
	assert_non_null(strstr(svg.data, "a run &lt;with&gt; a name &amp; more"));
	assert_non_null(strstr(svg.data, ">31 others<"));
	for (size_t i = 0; i < svg.size; i++)
		assert_true((unsigned char)svg.data[i] >= 0x20 || svg.data[i] == '\n');
	free(svg.data);
	fake_run_free(run);
}

static void test_the_same_run_gives_the_same_bytes(void **state)
{
	static const char *const names[] = { "dashboard", "sheet" };

	(void)state;
	for (int form = 0; form < 4; form++) {
		struct run *run = fake_training_run();
		struct picture a = draw(run, names[form / 2], form & 1, false), b;

		free(draw(run, "memory", form & 1, true).data);
		b = draw(run, names[form / 2], form & 1, false);
		assert_int_equal(a.size, b.size);
		assert_memory_equal(a.data, b.data, a.size);
		free(a.data);
		free(b.data);
		fake_run_free(run);
	}
}

static void test_scale(void **state)
{
	struct plot_options options = { .scale = 2, .layer = -1 };
	struct run *run = fake_training_run();
	struct picture p = { 0 };
	struct findings findings;
	struct err err = { "" };
	cairo_surface_t *surface;
	FILE *out = open_memstream(&p.data, &p.size);

	(void)state;
	assert_int_equal(plot_analyze(run, &everything, &findings, &err), 0);
	assert_int_equal(plot_draw("steps", run, &findings, &options, out, &err), 0);
	assert_int_equal(fclose(out), 0);
	surface = decoded(&p);
	assert_int_equal(cairo_image_surface_get_width(surface), 2400);
	assert_int_equal(cairo_image_surface_get_height(surface), 1400);
	cairo_surface_destroy(surface);
	free(p.data);
	assert_int_equal(plot_draw("nonsense", run, &findings, &options, stdout, &err), -EINVAL);
	assert_non_null(strstr(err.message, "'nonsense'"));
	findings_release(&findings);
	fake_run_free(run);
}

/* A disk that is full is told. */
static void test_a_failed_write_is_told(void **state)
{
	struct run *run = fake_training_run();
	struct findings findings;

	(void)state;
	assert_int_equal(plot_analyze(run, &everything, &findings, NULL), 0);
	for (int svg = 0; svg < 2; svg++) {
		struct plot_options options = { .svg = svg, .scale = 1, .layer = -1 };
		FILE *out = fopen("/dev/full", "w");
		struct err err = { "" };

		assert_non_null(out);
		setvbuf(out, NULL, _IONBF, 0);
		assert_int_equal(plot_draw("steps", run, &findings, &options, out, &err), -ENOSPC);
		assert_non_null(strstr(err.message, "cannot draw 'steps'"));
		fclose(out);
	}
	findings_release(&findings);
	fake_run_free(run);
}

static void keep_png(const struct roof_data *data, struct rect box)
{
	struct picture p = { 0 };
	FILE *out = open_memstream(&p.data, &p.size);
	struct canvas *c;

	assert_int_equal(canvas_new(1200, 700, 1, false, &plot_dark, &c), 0);
	plot_roofline_of(c, box, data);
	assert_int_equal(canvas_write(c, out), 0);
	assert_int_equal(fclose(out), 0);
	canvas_free(c);
	keep(&p, "hand", "roofline", false, true);
	check_png(&p, "roofline", true);
	free(p.data);
}

/* 10 TFLOP/s and 1 TB/s: the ridge is at 10. */
static void test_roofline(void **state)
{
	const struct roof_point points[] = {
		{ "gemm", 100, 8e12, 4e6 },
		{ "norm", 0.5, 4e11, 1e6 },
		{ "unknown", 0, 0, 1e6 },
	};
	const struct roof_peak peak = { "tensor cores", 1e13 };
	struct roof_data data = { .points = points,
				  .n_points = 3,
				  .peaks = &peak,
				  .n_peaks = 1,
				  .bytes_per_s = 1e12,
				  .subtitle = "by hand",
				  .reason = "none" };
	struct rect box = { 24, 24, 1152, 640 };
	struct canvas *c;
	struct picture p = { 0 };
	double x[2], y[2];
	const char *at;
	FILE *out = open_memstream(&p.data, &p.size);

	(void)state;
	assert_int_equal(canvas_new(1200, 700, 1, true, &plot_light, &c), 0);
	plot_roofline_of(c, box, &data);
	assert_int_equal(canvas_write(c, out), 0);
	assert_int_equal(fclose(out), 0);
	canvas_free(c);
	keep(&p, "hand", "roofline", true, false);
	keep_png(&data, box);
	assert_non_null(strstr(p.data, ">tensor cores 10.0 TFLOP/s<"));
	assert_non_null(strstr(p.data, ">by hand; slope: 1.00 TB/s of memory<"));
	assert_null(strstr(p.data, ">unknown<"));
	/* After the two marks of the legend: 2.3 decades apart in x, 1.3 in y, on one scale each. */
	at = strstr(p.data, "<circle");
	at = strstr(at + 1, "<circle");
	for (int i = 0; i < 2; i++) {
		at = strstr(at + 1, "<circle");
		assert_non_null(at);
		assert_int_equal(sscanf(at, "<circle cx=\"%lf\" cy=\"%lf\"", &x[i], &y[i]), 2);
	}
	assert_true(x[0] > x[1] && y[0] < y[1]);
	free(p.data);
	/* Without points or peaks it says so. */
	for (int i = 0; i < 2; i++) {
		out = open_memstream(&p.data, &p.size);
		data.n_points = i ? 3 : 0;
		data.n_peaks = 0;
		assert_int_equal(canvas_new(1200, 700, 1, true, &plot_light, &c), 0);
		plot_roofline_of(c, box, &data);
		assert_int_equal(canvas_write(c, out), 0);
		assert_int_equal(fclose(out), 0);
		canvas_free(c);
		assert_non_null(strstr(p.data, i ? ">no data: the peaks" : ">no data: none<"));
		free(p.data);
	}
}

/* Every allocation of ours fails once, in turn. Under the sanitizers nothing may leak. */
static void test_no_memory(void **state)
{
	struct run *(*const makes[])(void) = { fake_training_run, fake_windows_run };

	(void)state;
	for (size_t m = 0; m < 2; m++) {
		struct run *run = makes[m]();
		struct findings findings;

		assert_int_equal(plot_analyze(run, &everything, &findings, NULL), 0);
		for (size_t i = 0; plots[i].name; i++) {
			struct plot_options options = { .svg = true, .scale = 1, .layer = -1 };
			bool reached = true;

			for (long n = 0; reached; n++) {
				FILE *out = fopen("/dev/null", "w");
				struct err err = { "" };
				int r;

				assert_non_null(out);
				countdown = n;
				r = plot_draw(plots[i].name, run, &findings, &options, out, &err);
				reached = countdown < 0;
				countdown = -1;
				assert_int_equal(r, reached ? -ENOMEM : 0);
				assert_true(!reached || err.message[0]);
				fclose(out);
			}
		}
		findings_release(&findings);
		fake_run_free(run);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_plot_of_every_run),
		cmocka_unit_test(test_bars_have_the_length_of_their_values),
		cmocka_unit_test(test_phases_are_stacked),
		cmocka_unit_test(test_experts_of_a_layer),
		cmocka_unit_test(test_more_experts_than_pixels),
		cmocka_unit_test(test_nonsense_makes_no_nonsense),
		cmocka_unit_test(test_names_of_all_sorts),
		cmocka_unit_test(test_the_same_run_gives_the_same_bytes),
		cmocka_unit_test(test_scale),
		cmocka_unit_test(test_a_failed_write_is_told),
		cmocka_unit_test(test_roofline),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
