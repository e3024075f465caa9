/* SPDX-License-Identifier: Apache-2.0
 *
 * What plots show against values computed by hand: lengths of bars, places of points, numbers.
 */
#include "fake_h200.h"
#include "plot_pictures.h"
#include "subjects/efficiency/efficiency.h"

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

/* How many elements begin like that and have that attribute. */
static size_t count(const char *svg, const char *begin, const char *attribute)
{
	size_t n = 0;

	for (const char *at = svg; (at = strstr(at, begin)); at++) {
		const char *found = strstr(at, attribute);

		n += found && found < strchr(at, '>');
	}
	return n;
}

/* Where the text is, whose element ends so. */
static struct series_point text_at(const char *svg, const char *ending)
{
	const char *at = strstr(svg, ending);
	struct series_point p = { 0 };

	if (!at)
		fail_msg("no text '%s'", ending);
	while (strncmp(at, "<text", 5) != 0)
		at--;
	assert_int_equal(sscanf(at, "<text x=\"%lf\" y=\"%lf\"", &p.x, &p.y), 2);
	return p;
}

static double text_x(const char *svg, const char *ending)
{
	return text_at(svg, ending).x;
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
	/* The axis agrees: 0 where bars begin, 8, 4 and 1 where they end. */
	near(text_x(svg.data, ">0</text>"), a.x, 0.02);
	near(text_x(svg.data, ">8</text>"), a.x + a.w, 0.02);
	near(text_x(svg.data, ">4</text>"), b.x + b.w, 0.02);
	near(text_x(svg.data, ">1</text>"), c.x + c.w, 0.02);
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

/* 4 MB all the time, 6 MB in each step, 50 kB more after each: 10.55 MB at 1115 of 1500 ms. */
static void test_the_peak_is_marked(void **state)
{
	struct run *run = fake_training_run();
	struct picture svg = draw(run, "memory", true, false);
	double x, from, to;
	const char *at;

	(void)state;
	assert_int_equal(count(svg.data, "<circle", "fill=\"#c03000\""), 2); /* and in the legend */
	at = strstr(strstr(svg.data, "<circle") + 1, "<circle");
	assert_int_equal(sscanf(at, "<circle cx=\"%lf\"", &x), 1);
	from = text_x(svg.data, ">0.0</text>");
	to = text_x(svg.data, ">1.5</text>");
	near((x - from) / (to - from), (double)run->end_ns / 1.5e9 * 1115 / 1500, 0.002);
	assert_non_null(strstr(svg.data, ">parameters 4.00 MB<"));
	assert_non_null(strstr(svg.data, ">activations 6.00 MB<"));
	assert_non_null(strstr(svg.data, ">other 550 kB<"));
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
	/* Two lines a cross: one in the legend, one at the dead expert. */
	assert_int_equal(count(svg.data, "<line", "stroke=\"#c03000\""), 4);
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

static void test_scale(void **state)
{
	struct plot_options options = { .scale = 2, .layer = -1 };
	struct run *run = fake_training_run();
	struct picture p = { 0 };
	struct answers answers;
	struct err err = { "" };
	cairo_surface_t *surface;
	FILE *out = open_memstream(&p.data, &p.size);

	(void)state;
	assert_int_equal(plot_compute(run, &everything, &answers, &err), 0);
	assert_int_equal(plot_draw("steps", run, &answers, &options, out, &err), 0);
	assert_int_equal(fclose(out), 0);
	surface = decoded(&p);
	assert_int_equal(cairo_image_surface_get_width(surface), 2400);
	assert_int_equal(cairo_image_surface_get_height(surface), 1400);
	cairo_surface_destroy(surface);
	free(p.data);
	assert_int_equal(plot_draw("nonsense", run, &answers, &options, stdout, &err), -EINVAL);
	assert_non_null(strstr(err.message, "'nonsense'"));
	answers_release(&answers);
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
	const struct roofline_point points[] = {
		{ "gemm", 100, 8e12, 4000000 },
		{ "norm", 0.5, 4e11, 1000000 },
		{ "unknown", 0, 0, 1000000 },
	};
	struct roof_data data = { .points = points,
				  .n = 3,
				  .flops_per_s = value_of(1e13),
				  .bytes_per_s = value_of(1e12),
				  .peak = "tensor cores",
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
	assert_non_null(strstr(p.data, ">slope: 1.00 TB/s of memory; by hand<"));
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
	/* Without points it says so; without a roof the points stand alone, and why. */
	data.flops_per_s = value_absent("nobody measured it");
	for (int i = 0; i < 3; i++) {
		static const char *const texts[] = {
			">no data: none<",
			">slope: 1.00 TB/s of memory; peak unknown: nobody measured it; by hand<",
			">no roof: nobody measured it; by hand<"
		};

		out = open_memstream(&p.data, &p.size);
		data.n = i ? 3 : 0;
		if (i == 2)
			data.bytes_per_s = data.flops_per_s;
		assert_int_equal(canvas_new(1200, 700, 1, true, &plot_light, &c), 0);
		plot_roofline_of(c, box, &data);
		assert_int_equal(canvas_write(c, out), 0);
		assert_int_equal(fclose(out), 0);
		canvas_free(c);
		assert_non_null(strstr(p.data, texts[i]));
		/* Two points, each with its mark in the legend. */
		assert_int_equal(count(p.data, "<circle", "r="), i ? 4 : 0);
		free(p.data);
	}
}

static double log_at(double from, double to, double value)
{
	return (log10(value) - log10(from)) / (log10(to) - log10(from));
}

/*
 * An H200: 100 GFLOP and 200 MB in 200 us, 0.5 GFLOP and 100 MB in 50 us; 989 TFLOP/s of bf16 over
 * 4.8 TB/s.
 */
static void test_roofline_of_a_run(void **state)
{
	static const struct {
		double flops_per_byte, flops_per_s;
	} wanted[] = { { 500, 5e14 }, { 5, 1e13 } };
	struct run *run = fake_h200_run();
	struct picture svg = draw(run, "roofline", true, false), png;
	double left = text_x(svg.data, ">1</text>"), right = text_x(svg.data, ">100</text>");
	double top = text_at(svg.data, ">1P</text>").y, bottom = text_at(svg.data, ">10T</text>").y;
	double y[2];
	const char *at = svg.data;

	(void)state;
	assert_non_null(strstr(svg.data, ">gemm<"));
	assert_non_null(strstr(svg.data, ">normalisation<"));
	assert_non_null(strstr(svg.data, ">bf16 peak 989 TFLOP/s<"));
	assert_non_null(strstr(svg.data, "slope: 4.80 TB/s of memory; NVIDIA H200, NVIDIA H200 "
					 "data sheet (SXM); dots: kernel classes"));
	for (int i = 0; i < 2; i++)
		at = strstr(at, "<circle") + 1; /* the legend */
	for (int i = 0; i < 2; i++) {
		double x;

		at = strstr(at, "<circle");
		assert_non_null(at);
		assert_int_equal(sscanf(at++, "<circle cx=\"%lf\" cy=\"%lf\"", &x, &y[i]), 2);
		near((x - left) / (right - left), log_at(1, 100, wanted[i].flops_per_byte), 0.002);
	}
	/* A text's place is its base line: the distances are compared. */
	near((y[1] - y[0]) / (bottom - top),
	     log_at(1e13, 1e15, wanted[0].flops_per_s) - log_at(1e13, 1e15, wanted[1].flops_per_s),
	     0.002);
	free(svg.data);
	png = draw(run, "roofline", false, false);
	keep(&png, "h200", "roofline", false, false);
	free(png.data);
	fake_run_free(run);
}

/* The allocator of an H200 run holds 60 GB in segments of the driver; a run without: no line. */
static void test_reserved_memory_has_a_line(void **state)
{
	struct run *run = fake_h200_run();
	struct picture p = draw(run, "memory", true, false);

	(void)state;
	assert_non_null(strstr(p.data, ">reserved (gpu 0)<"));
	/* In the legend, and over the data. */
	assert_int_equal(count(p.data, "<line", "stroke=\"#929292\"") +
				 count(p.data, "<poly", "stroke=\"#929292\""),
			 2);
	free(p.data);
	p = draw(run, "memory", false, false);
	keep(&p, "h200", "memory", false, false);
	free(p.data);
	fake_run_free(run);
	run = fake_training_run();
	p = draw(run, "memory", true, false);
	assert_null(strstr(p.data, ">reserved"));
	free(p.data);
	fake_run_free(run);
}

/* Kernels of one template: the word that differs is named. */
static void test_kernels_alike_are_told_apart(void **state)
{
	struct run *run = fake_run_new();
	struct picture svg;

	(void)state;
	fake_kernel(run, "void at::elementwise_kernel<128, at::silu_kernel(at::T)>(int)", 0, 8 * MS,
		    1);
	fake_kernel(run, "void at::elementwise_kernel<128, at::mul_kernel(at::T)>(int)", 10 * MS,
		    14 * MS, 2);
	fake_kernel(run, "void at::elementwise_kernel<64, at::mul_kernel(at::T)>(int)", 20 * MS,
		    22 * MS, 3);
	fake_kernel(run, "void alone<4>(int)", 30 * MS, 31 * MS, 4);
	fake_span(run, 0, 40 * MS);
	svg = draw(run, "kernels", true, false);
	assert_non_null(strstr(svg.data, ">at::silu_kernel<"));
	assert_non_null(strstr(svg.data, ">at::mul_kernel …128<"));
	assert_non_null(strstr(svg.data, ">at::mul_kernel …64<"));
	assert_non_null(strstr(svg.data, ">alone<"));
	free(svg.data);
	fake_run_free(run);
}

/* 5 of the 10 ms between the first and the last record; phases are of the whole 20 ms. */
static void test_shares_of_lanes(void **state)
{
	struct run *run = fake_run_new();
	uint32_t site = fake_site(run, "forward", -1, -1, MOESCOPE_FORWARD);
	struct picture svg;

	(void)state;
	fake_kernel(run, "a", 2 * MS, 6 * MS, 1);
	fake_kernel(run, "b", 11 * MS, 12 * MS, 2);
	fake_copy(run, 1, 2, 4096, 7 * MS, 9 * MS, 3);
	fake_range(run, site, 0, 7 * MS, 1, 0);
	fake_range(run, site, 4 * MS, 9 * MS, 2, 0); /* another thread: counted once */
	fake_span(run, 0, 20 * MS);
	svg = draw(run, "timeline", true, false);
	assert_non_null(strstr(svg.data, ">50.0%<"));
	assert_non_null(strstr(svg.data, ">20.0%<"));
	assert_non_null(strstr(svg.data, ">45.0%<"));
	free(svg.data);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bars_have_the_length_of_their_values),
		cmocka_unit_test(test_phases_are_stacked),
		cmocka_unit_test(test_the_peak_is_marked),
		cmocka_unit_test(test_experts_of_a_layer),
		cmocka_unit_test(test_more_experts_than_pixels),
		cmocka_unit_test(test_kernels_alike_are_told_apart),
		cmocka_unit_test(test_shares_of_lanes),
		cmocka_unit_test(test_scale),
		cmocka_unit_test(test_roofline),
		cmocka_unit_test(test_roofline_of_a_run),
		cmocka_unit_test(test_reserved_memory_has_a_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
