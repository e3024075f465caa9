/* SPDX-License-Identifier: Apache-2.0
 *
 * Colours; see plot_theme.h. The dark series are those of Okabe and Ito; on white most of them are
 * too pale, so that the light ones are the same hues, darker.
 */
#include "present/plot_theme.h"

#include <math.h>
#include <stddef.h>

const struct plot_theme plot_light = {
	.name = "light",
	.background = 0xFFFFFF,
	.text = 0x1F2328,
	.muted = 0x59636E,
	.axis = 0x818B98,
	.grid = 0xE4E7EB,
	.shade = 0xEEF0F3,
	.warning = 0xC03000,
	.series = { 0x0063A6, 0xC27800, 0x008A66, 0xA8326E, 0x4A9CCF, 0x5B3B8C, 0x858A00,
		    0x6E7781 },
};

const struct plot_theme plot_dark = {
	.name = "dark",
	.background = 0x14181F,
	.text = 0xE6EAF0,
	.muted = 0xA3ADBA,
	.axis = 0x76808E,
	.grid = 0x2A313C,
	.shade = 0x222833,
	.warning = 0xFF7A4D,
	.series = { 0x3D9AE0, 0xE69F00, 0x00B386, 0xE58AB8, 0x8FD3FF, 0x9A7FD1, 0xF0E442,
		    0x99A3AF },
};

static double linear(unsigned int byte)
{
	double v = byte / 255.0;

	return v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4);
}

static double luminance(plot_color c)
{
	return 0.2126 * linear(c >> 16 & 255) + 0.7152 * linear(c >> 8 & 255) +
	       0.0722 * linear(c & 255);
}

double plot_contrast(plot_color a, plot_color b)
{
	double x = luminance(a), y = luminance(b);

	return x > y ? (x + 0.05) / (y + 0.05) : (y + 0.05) / (x + 0.05);
}

plot_color plot_text_on(plot_color background)
{
	return plot_contrast(background, 0x000000) >= plot_contrast(background, 0xFFFFFF)
		       ? 0x000000
		       : 0xFFFFFF;
}

plot_color plot_mix(plot_color a, plot_color b, double share_of_b)
{
	plot_color mixed = 0;

	for (int shift = 0; shift <= 16; shift += 8) {
		double from = a >> shift & 255, to = b >> shift & 255;

		mixed |= (plot_color)lround(from + (to - from) * share_of_b) << shift;
	}
	return mixed;
}

plot_color plot_heat(double at)
{
	static const plot_color stops[] = { 0x440154, 0x482475, 0x414487, 0x355F8D,
					    0x2A788E, 0x21918C, 0x22A884, 0x44BF70,
					    0x7AD151, 0xBDDF26, 0xFDE725 };
	const size_t last = sizeof(stops) / sizeof(stops[0]) - 1;
	double place = at > 0 ? at * (double)last : 0;
	size_t stop = (size_t)place;

	if (stop >= last)
		return stops[last];
	return plot_mix(stops[stop], stops[stop + 1], place - (double)stop);
}
