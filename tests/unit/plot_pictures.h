/* SPDX-License-Identifier: Apache-2.0
 *
 * Drawing plots of runs built by hand, and reading them again. Included once. MOESCOPE_PLOT_DIR=DIR
 * writes the pictures there as well, to look at them.
 */
#ifndef TESTS_PLOT_PICTURES_H
#define TESTS_PLOT_PICTURES_H

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
#include "surfaces/plot/plot.h"
#include "surfaces/plot/plot_draw.h"

#define MS INT64_C(1000000)

static const struct view_options everything = { .width = 80,
						.utf8 = true,
						.question = QUESTION_ALL };

struct picture {
	char *data;
	size_t size, read;
};

static inline struct picture draw_layer(const struct run *run, const char *name, bool svg,
					bool dark, int layer)
{
	struct plot_options options = { .svg = svg, .dark = dark, .scale = 1, .layer = layer };
	struct picture picture = { 0 };
	struct answers answers;
	struct err err = { "" };
	FILE *out = open_memstream(&picture.data, &picture.size);

	assert_non_null(out);
	assert_int_equal(plot_compute(run, &everything, &answers, &err), 0);
	assert_int_equal(plot_draw(name, run, &answers, &options, out, &err), 0);
	assert_int_equal(fclose(out), 0);
	answers_release(&answers);
	return picture;
}

static inline struct picture draw(const struct run *run, const char *name, bool svg, bool dark)
{
	return draw_layer(run, name, svg, dark, -1);
}

static inline void keep(const struct picture *p, const char *of, const char *name, bool svg,
			bool dark)
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

static inline cairo_status_t next_bytes(void *from, unsigned char *data, unsigned int length)
{
	struct picture *p = from;

	if (length > p->size - p->read)
		return CAIRO_STATUS_READ_ERROR;
	memcpy(data, p->data + p->read, length);
	p->read += length;
	return CAIRO_STATUS_SUCCESS;
}

static inline cairo_surface_t *decoded(struct picture *p)
{
	cairo_surface_t *surface = cairo_image_surface_create_from_png_stream(next_bytes, p);

	assert_int_equal(cairo_surface_status(surface), CAIRO_STATUS_SUCCESS);
	return surface;
}

static inline uint32_t pixel(cairo_surface_t *surface, int x, int y)
{
	const unsigned char *row = cairo_image_surface_get_data(surface) +
				   (ptrdiff_t)y * cairo_image_surface_get_stride(surface);
	uint32_t value;

	memcpy(&value, row + 4 * x, 4);
	return value & 0xFFFFFF;
}

static inline void check_png(struct picture *p, const char *name, bool dark)
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

#endif
