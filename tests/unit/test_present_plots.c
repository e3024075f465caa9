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
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "failing_alloc.h"
#include "fake_windows.h"
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_plot_of_every_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
