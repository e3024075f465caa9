/* SPDX-License-Identifier: Apache-2.0
 *
 * Colours of the plots, light and dark. Series differ in hue and in lightness, so that they stay
 * apart for people who see fewer colours, and have a contrast of at least 3:1 to the background.
 * Constant, any thread.
 */
#ifndef SURFACES_PLOT_THEME_H
#define SURFACES_PLOT_THEME_H

#include <stdint.h>

typedef uint32_t plot_color; /* 0xRRGGBB */

#define PLOT_SERIES 8

struct plot_theme {
	const char *name;
	plot_color background, text, muted, axis, grid, shade, warning;
	plot_color series[PLOT_SERIES];
};

extern const struct plot_theme plot_light, plot_dark;

/* Contrast of two colours as WCAG 2 defines it, 1 to 21. */
double plot_contrast(plot_color a, plot_color b);
/* Black or white, whichever reads better on it. */
plot_color plot_text_on(plot_color background);
/* Viridis: perceptually uniform, and in order of lightness; at is 0..1. */
plot_color plot_heat(double at);
plot_color plot_mix(plot_color a, plot_color b, double share_of_b);

#endif
