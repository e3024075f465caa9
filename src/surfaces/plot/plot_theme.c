/* SPDX-License-Identifier: Apache-2.0
 *
 * Colours; see plot_theme.h. The palette of Okabe and Ito has colours that are too pale on white
 * (3:1 is asked for), and darker ones of the same hues meet for people without green cones. So these
 * were searched for: any two are at least 15 apart in CIELAB, as everybody and as people without red,
 * green or blue cones see them; the tests hold them to it.
 */
#include "surfaces/plot/plot_theme.h"

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
	.series = { 0x0A56CC, 0xD07A00, 0x13462F, 0xE3186C, 0x2E98D4, 0x57227C, 0x865203,
		    0x929292 },
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
	.series = { 0x2A6FDB, 0xD49A00, 0x5CEFD2, 0xE0246E, 0xB4E0FF, 0xB09BEE, 0xF6EF8D,
		    0x787878 },
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
