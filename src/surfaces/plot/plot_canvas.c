/* SPDX-License-Identifier: Apache-2.0
 *
 * Drawing; see plot_canvas.h.
 *
 * Cairo's own SVG turns letters into outlines and numbers its parts by what was drawn before, so
 * SVG is written here. Its texts carry the width that was measured, so that they keep to it where
 * the viewer has another font.
 */
#include "surfaces/plot/plot_canvas.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text/utf8.h"
#include "surfaces/plot/plot_cairo.h"

#define TEXT_MAX 1024
#define BASELINE 0.36 /* of the size: from the middle of small letters to their baseline */

struct canvas {
	const struct plot_theme *theme;
	cairo_surface_t *surface;
	cairo_t *cr;
	const struct cairo_calls *cairo;
	bool is_svg, fonts;
	struct buf svg;
};

static void choose_font(struct canvas *c, struct text_style_desc style)
{
	c->cairo->select_font_face(c->cr, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
				   style.bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
	c->cairo->set_font_size(c->cr, style.size);
}

static bool find_fonts(struct canvas *c)
{
	choose_font(c, (struct text_style_desc){ .size = 12 });
	/* Without any font cairo takes letters of its own, which are of the kind USER. */
	return c->cairo->scaled_font_get_type(c->cairo->get_scaled_font(c->cr)) !=
	       CAIRO_FONT_TYPE_USER;
}

int canvas_new(double width, double height, double scale, bool svg, const struct plot_theme *theme,
	       struct canvas **ret_canvas)
{
	const struct cairo_calls *cairo = cairo_open();
	cairo_font_options_t *options;
	struct canvas *c;

	if (!cairo)
		return -ENOTSUP;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	*c = (struct canvas){ .theme = theme, .cairo = cairo, .is_svg = svg };
	c->surface = c->cairo->image_surface_create(CAIRO_FORMAT_RGB24,
						    svg ? 1 : (int)lround(width * scale),
						    svg ? 1 : (int)lround(height * scale));
	c->cr = c->cairo->create(c->surface);
	options = c->cairo->font_options_create();
	/* Widths must not depend on the scale or on the machine's taste in hinting. */
	c->cairo->font_options_set_hint_metrics(options, CAIRO_HINT_METRICS_OFF);
	c->cairo->font_options_set_hint_style(options, CAIRO_HINT_STYLE_NONE);
	c->cairo->font_options_set_antialias(options, CAIRO_ANTIALIAS_GRAY);
	c->cairo->set_font_options(c->cr, options);
	c->cairo->font_options_destroy(options);
	if (!svg)
		c->cairo->scale(c->cr, scale, scale);
	if (c->cairo->status(c->cr) != CAIRO_STATUS_SUCCESS) {
		canvas_free(c);
		return -ENOMEM;
	}
	c->fonts = find_fonts(c);
	if (svg)
		buf_printf(&c->svg,
			   "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
			   "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" height=\"%g\" "
			   "viewBox=\"0 0 %g %g\" font-family=\"DejaVu Sans, Verdana, "
			   "sans-serif\">\n",
			   width * scale, height * scale, width, height);
	canvas_fill(c, (struct rect){ 0, 0, width, height }, theme->background, 1);
	*ret_canvas = c;
	return 0;
}

void canvas_free(struct canvas *c)
{
	if (!c)
		return;
	c->cairo->destroy(c->cr);
	c->cairo->surface_destroy(c->surface);
	buf_release(&c->svg);
	free(c);
}

const struct plot_theme *canvas_theme(const struct canvas *c)
{
	return c->theme;
}

bool canvas_has_fonts(const struct canvas *c)
{
	return c->fonts;
}

static cairo_status_t png_bytes(void *to, const unsigned char *data, unsigned int length)
{
	return fwrite(data, 1, length, to) == length ? CAIRO_STATUS_SUCCESS
						     : CAIRO_STATUS_WRITE_ERROR;
}

int canvas_write(struct canvas *c, FILE *out)
{
	cairo_status_t status = c->cairo->status(c->cr);

	errno = 0;
	if (status == CAIRO_STATUS_SUCCESS && c->is_svg) {
		if (c->svg.failed)
			return -ENOMEM;
		if (fwrite(c->svg.data, 1, c->svg.size, out) != c->svg.size ||
		    fputs("</svg>\n", out) < 0)
			return errno ? -errno : -EIO;
		return 0;
	}
	if (status == CAIRO_STATUS_SUCCESS) {
		c->cairo->surface_flush(c->surface);
		status = c->cairo->surface_write_to_png_stream(c->surface, png_bytes, out);
	}
	if (status == CAIRO_STATUS_SUCCESS)
		return 0;
	if (status == CAIRO_STATUS_NO_MEMORY)
		return -ENOMEM;
	return status == CAIRO_STATUS_WRITE_ERROR && errno ? -errno : -EIO;
}

static void use_color(struct canvas *c, plot_color color, double alpha)
{
	c->cairo->set_source_rgba(c->cr, (color >> 16 & 255) / 255.0, (color >> 8 & 255) / 255.0,
				  (color & 255) / 255.0, alpha);
}

static void svg_paint(struct canvas *c, const char *what, plot_color color, double alpha)
{
	buf_printf(&c->svg, " %s=\"#%06x\"", what, color);
	if (alpha < 1)
		buf_printf(&c->svg, " %s-opacity=\"%.3g\"", what, alpha);
}

void canvas_fill(struct canvas *c, struct rect r, plot_color color, double alpha)
{
	if (!(r.w > 0) || !(r.h > 0))
		return;
	if (c->is_svg) {
		buf_printf(&c->svg, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"",
			   r.x, r.y, r.w, r.h);
		svg_paint(c, "fill", color, alpha);
		buf_printf(&c->svg, "/>\n");
		return;
	}
	use_color(c, color, alpha);
	c->cairo->rectangle(c->cr, r.x, r.y, r.w, r.h);
	c->cairo->fill(c->cr);
}

/* Ends a path that is begun on cairo's side, as a stroke. */
static void stroke(struct canvas *c, plot_color color, double width, bool dashed)
{
	static const double dash[] = { 5, 4 };

	use_color(c, color, 1);
	c->cairo->set_line_width(c->cr, width);
	c->cairo->set_line_join(c->cr, CAIRO_LINE_JOIN_ROUND);
	c->cairo->set_dash(c->cr, dash, dashed ? 2 : 0, 0);
	c->cairo->stroke(c->cr);
}

static void svg_stroke(struct canvas *c, plot_color color, double width, bool dashed)
{
	svg_paint(c, "stroke", color, 1);
	buf_printf(&c->svg, " stroke-width=\"%g\"%s/>\n", width,
		   dashed ? " stroke-dasharray=\"5 4\"" : "");
}

void canvas_frame(struct canvas *c, struct rect r, plot_color color, double width)
{
	if (c->is_svg) {
		buf_printf(&c->svg,
			   "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" "
			   "fill=\"none\"",
			   r.x, r.y, r.w, r.h);
		svg_stroke(c, color, width, false);
		return;
	}
	c->cairo->rectangle(c->cr, r.x, r.y, r.w, r.h);
	stroke(c, color, width, false);
}

void canvas_line(struct canvas *c, double x0, double y0, double x1, double y1, plot_color color,
		 double width, bool dashed)
{
	if (c->is_svg) {
		buf_printf(&c->svg, "<line x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\"", x0, y0,
			   x1, y1);
		svg_stroke(c, color, width, dashed);
		return;
	}
	c->cairo->move_to(c->cr, x0, y0);
	c->cairo->line_to(c->cr, x1, y1);
	stroke(c, color, width, dashed);
}

static void path(struct canvas *c, const struct plot_point *points, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (c->is_svg)
			buf_printf(&c->svg, "%s%.2f,%.2f", i ? " " : "", points[i].x, points[i].y);
		else
			c->cairo->line_to(c->cr, points[i].x, points[i].y);
	}
}

void canvas_polyline(struct canvas *c, const struct plot_point *points, size_t n, plot_color color,
		     double width)
{
	if (n < 2)
		return;
	if (c->is_svg) {
		buf_printf(&c->svg, "<polyline fill=\"none\" points=\"");
		path(c, points, n);
		buf_printf(&c->svg, "\"");
		svg_stroke(c, color, width, false);
		return;
	}
	path(c, points, n);
	stroke(c, color, width, false);
}

void canvas_area(struct canvas *c, const struct plot_point *points, size_t n, plot_color color,
		 double alpha)
{
	if (n < 3)
		return;
	if (c->is_svg) {
		buf_printf(&c->svg, "<polygon points=\"");
		path(c, points, n);
		buf_printf(&c->svg, "\"");
		svg_paint(c, "fill", color, alpha);
		buf_printf(&c->svg, "/>\n");
		return;
	}
	path(c, points, n);
	c->cairo->close_path(c->cr);
	use_color(c, color, alpha);
	c->cairo->fill(c->cr);
}

void canvas_dot(struct canvas *c, double x, double y, double radius, plot_color color)
{
	if (c->is_svg) {
		buf_printf(&c->svg, "<circle cx=\"%.2f\" cy=\"%.2f\" r=\"%g\"", x, y, radius);
		svg_paint(c, "fill", color, 1);
		buf_printf(&c->svg, "/>\n");
		return;
	}
	use_color(c, color, 1);
	c->cairo->new_sub_path(c->cr);
	c->cairo->arc(c->cr, x, y, radius, 0, 2 * M_PI);
	c->cairo->fill(c->cr);
}

/* Whether the font that is chosen has a glyph for these bytes, which are one code point. */
static bool has_glyph(struct canvas *c, const char *bytes, size_t length)
{
	cairo_glyph_t *glyphs = NULL;
	bool has = false;
	int n = 0;

	if (!c->fonts)
		return length == 1;
	if (c->cairo->scaled_font_text_to_glyphs(c->cairo->get_scaled_font(c->cr), 0, 0, bytes,
						 (int)length, &glyphs, &n, NULL, NULL,
						 NULL) == CAIRO_STATUS_SUCCESS)
		has = n > 0 && glyphs[0].index != 0;
	c->cairo->glyph_free(glyphs);
	return has;
}

/* Text that cairo takes (it fails for good on broken UTF-8) and that is legal in XML. */
static void clean(struct canvas *c, const char *text, bool by_font, char *out, size_t size)
{
	size_t length = strlen(text), at = 0, n = 0;

	while (at < length && n + 4 < size) {
		uint32_t point;
		int valid;
		size_t took = utf8_decode(text + at, length - at, &point, &valid);

		if (point < 0x20 || point == 0x7F || point == 0xFFFE || point == 0xFFFF)
			out[n++] = ' ';
		else if (!valid || (took > 1 && by_font && !has_glyph(c, text + at, took)))
			out[n++] = '?';
		else
			for (size_t i = 0; i < took; i++)
				out[n++] = text[at + i];
		at += took;
	}
	out[n] = '\0';
}

double canvas_text_width(struct canvas *c, struct text_style_desc style, const char *text)
{
	cairo_text_extents_t extents;
	char safe[TEXT_MAX];

	choose_font(c, style);
	clean(c, text, false, safe, sizeof(safe));
	c->cairo->text_extents(c->cr, safe, &extents);
	return extents.x_advance;
}

static void svg_text(struct canvas *c, double x, double y, struct text_style_desc style,
		     plot_color color, const char *text)
{
	static const char *const anchors[] = { "", " text-anchor=\"middle\"",
					       " text-anchor=\"end\"" };

	buf_printf(&c->svg, "<text x=\"%.2f\" y=\"%.2f\" font-size=\"%g\" textLength=\"%.1f\"%s%s",
		   x, y + BASELINE * style.size, style.size, canvas_text_width(c, style, text),
		   style.bold ? " font-weight=\"bold\"" : "", anchors[style.align]);
	svg_paint(c, "fill", color, 1);
	buf_append(&c->svg, ">", 1);
	for (; *text; text++) {
		if (*text == '<')
			buf_printf(&c->svg, "&lt;");
		else if (*text == '>')
			buf_printf(&c->svg, "&gt;");
		else if (*text == '&')
			buf_printf(&c->svg, "&amp;");
		else
			buf_append(&c->svg, text, 1);
	}
	buf_printf(&c->svg, "</text>\n");
}

void canvas_text(struct canvas *c, double x, double y, struct text_style_desc style,
		 plot_color color, const char *text)
{
	char safe[TEXT_MAX];

	choose_font(c, style);
	clean(c, text, !c->is_svg, safe, sizeof(safe));
	if (!safe[strspn(safe, " ")])
		return;
	if (c->is_svg) {
		svg_text(c, x, y, style, color, safe);
		return;
	}
	x -= canvas_text_width(c, style, safe) * style.align / 2;
	use_color(c, color, 1);
	c->cairo->move_to(c->cr, x, y + BASELINE * style.size);
	c->cairo->show_text(c->cr, safe);
	c->cairo->new_path(c->cr);
}

/* The first `head` and last `tail` code points with an ellipsis between them. */
static void cut(const char *text, const size_t *starts, size_t n, size_t head, size_t tail,
		const char *dots, char *out, size_t size)
{
	snprintf(out, size, "%.*s%s%s", (int)starts[head], text, dots, text + starts[n - tail]);
}

void canvas_fit(struct canvas *c, struct text_style_desc style, const char *text, double width,
		bool middle, char *out, size_t size)
{
	const char *dots = c->fonts ? "…" : "...";
	size_t starts[TEXT_MAX + 1], n = 0, low = 0, high, length;
	char safe[TEXT_MAX];

	clean(c, text, false, safe, sizeof(safe));
	snprintf(out, size, "%s", safe);
	if (canvas_text_width(c, style, safe) <= width)
		return;
	length = strlen(safe);
	for (size_t at = 0; at < length; n++) {
		uint32_t point;
		int valid;

		starts[n] = at;
		at += utf8_decode(safe + at, length - at, &point, &valid);
	}
	starts[n] = length;
	for (high = n; low < high;) { /* the most code points that fit */
		size_t keep = (low + high + 1) / 2, tail = middle ? keep / 2 : 0;

		cut(safe, starts, n, keep - tail, tail, dots, out, size);
		if (canvas_text_width(c, style, out) <= width)
			low = keep;
		else
			high = keep - 1;
	}
	if (low)
		cut(safe, starts, n, low - (middle ? low / 2 : 0), middle ? low / 2 : 0, dots, out,
		    size);
	else
		out[0] = '\0';
}
