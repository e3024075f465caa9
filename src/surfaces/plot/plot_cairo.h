/* SPDX-License-Identifier: Apache-2.0
 *
 * Cairo, opened when something is to be drawn: linked, it and the libraries behind it would treble
 * the time that every command takes to start. The types are those of its header. One thread.
 */
#ifndef SURFACES_PLOT_CAIRO_H
#define SURFACES_PLOT_CAIRO_H

#include <cairo.h>
#include <stdbool.h>

#define CAIRO_CALLS(CALL)                                                                          \
	CALL(arc)                                                                                  \
	CALL(close_path)                                                                           \
	CALL(create)                                                                               \
	CALL(destroy)                                                                              \
	CALL(fill)                                                                                 \
	CALL(font_options_create)                                                                  \
	CALL(font_options_destroy)                                                                 \
	CALL(font_options_set_antialias)                                                           \
	CALL(font_options_set_hint_metrics)                                                        \
	CALL(font_options_set_hint_style)                                                          \
	CALL(get_scaled_font)                                                                      \
	CALL(glyph_free)                                                                           \
	CALL(image_surface_create)                                                                 \
	CALL(line_to)                                                                              \
	CALL(move_to)                                                                              \
	CALL(new_path)                                                                             \
	CALL(new_sub_path)                                                                         \
	CALL(rectangle)                                                                            \
	CALL(scale)                                                                                \
	CALL(scaled_font_get_type)                                                                 \
	CALL(scaled_font_text_to_glyphs)                                                           \
	CALL(select_font_face)                                                                     \
	CALL(set_dash)                                                                             \
	CALL(set_font_options)                                                                     \
	CALL(set_font_size)                                                                        \
	CALL(set_line_join)                                                                        \
	CALL(set_line_width)                                                                       \
	CALL(set_source_rgba)                                                                      \
	CALL(show_text)                                                                            \
	CALL(status)                                                                               \
	CALL(stroke)                                                                               \
	CALL(surface_destroy)                                                                      \
	CALL(surface_flush)                                                                        \
	CALL(surface_write_to_png_stream)                                                          \
	CALL(text_extents)

struct cairo_calls {
#define CALL(name) __typeof__(cairo_##name) *name;
	CAIRO_CALLS(CALL)
#undef CALL
};

/* NULL: this machine has no cairo. */
const struct cairo_calls *cairo_open(void);

#endif
