/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of plots: ticks, units, binning, series, texts and colours, against values computed by
 * hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "failing_alloc.h"
#include "fake_run.h"
#include "fontconfig_leaks.h"
#include "moescope.h"
#include "surfaces/plot/plot_draw.h"

#define MS INT64_C(1000000)

static void near(double got, double wanted)
{
	if (!(fabs(got - wanted) <= 1e-9 * (1 + fabs(wanted))))
		fail_msg("%.17g is not %.17g", got, wanted);
}

static void check_ticks(double min, double max, size_t most, bool log, const double *wanted,
			size_t n)
{
	struct plot_ticks ticks = plot_ticks(min, max, most, log);

	assert_int_equal(ticks.n, n);
	for (size_t i = 0; i < n; i++)
		near(ticks.at[i], wanted[i]);
}

static void test_ticks(void **state)
{
	(void)state;
	check_ticks(0, 10, 5, false, (double[]){ 0, 2, 4, 6, 8, 10 }, 6);
	check_ticks(0, 1, 5, false, (double[]){ 0, 0.2, 0.4, 0.6, 0.8, 1 }, 6);
	check_ticks(0, 47, 5, false, (double[]){ 0, 10, 20, 30, 40 }, 5);
	check_ticks(130, 185, 4, false, (double[]){ 140, 160, 180 }, 3);
	check_ticks(-30, 30, 3, false, (double[]){ -20, 0, 20 }, 3);
	check_ticks(1, 1000, 8, true, (double[]){ 1, 10, 100, 1000 }, 4);
	check_ticks(1, 1e12, 5, true, (double[]){ 1, 1e3, 1e6, 1e9, 1e12 }, 5);
	/* Nothing sensible, and no endless loop. */
	check_ticks(0, 0, 5, false, NULL, 0);
	check_ticks(1, 0, 5, false, NULL, 0);
	check_ticks(0, NAN, 5, false, NULL, 0);
	check_ticks(0, INFINITY, 5, false, NULL, 0);
	check_ticks(0, 10, 5, true, NULL, 0);
	check_ticks(0, 10, 0, false, NULL, 0);
}

/* Whatever the ends: few enough, inside, and 1, 2 or 5 apart. */
static void test_ticks_are_round(void **state)
{
	uint64_t seed = 1;

	(void)state;
	for (int i = 0; i < 2000; i++) {
		double span, min, most_places;
		struct plot_ticks t;
		size_t most;

		seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
		span = pow(10, (double)(seed >> 40) / (double)(1 << 24) * 24 - 9);
		min = seed >> 20 & 1 ? 0 : span * (double)(seed >> 30 & 63);
		most = 2 + (seed >> 12 & 7);
		t = plot_ticks(min, min + span, most, false);
		assert_true(t.n >= 1 && t.n <= most + 1);
		assert_true(t.at[0] >= min - t.step * 1e-6);
		assert_true(t.at[t.n - 1] <= min + span + t.step * 1e-6);
		most_places = t.step / pow(10, floor(log10(t.step) + 1e-9));
		assert_true(fabs(most_places - 1) < 1e-6 || fabs(most_places - 2) < 1e-6 ||
			    fabs(most_places - 5) < 1e-6);
	}
}

static void check_tick_texts(double min, double max, size_t most, bool log,
			     const char *const *wanted)
{
	struct plot_ticks ticks = plot_ticks(min, max, most, log);
	char text[32];

	for (size_t i = 0; i < ticks.n; i++) {
		assert_non_null(wanted[i]);
		plot_tick_text(&ticks, i, text, sizeof(text));
		assert_string_equal(text, wanted[i]);
	}
	assert_null(wanted[ticks.n]);
}

static void test_tick_texts(void **state)
{
	(void)state;
	check_tick_texts(0, 0.2, 5, false,
			 (const char *[]){ "0.00", "0.05", "0.10", "0.15", "0.20", NULL });
	check_tick_texts(0, 2, 2, false, (const char *[]){ "0", "1", "2", NULL });
	check_tick_texts(0, 3000, 3, false, (const char *[]){ "0", "1000", "2000", "3000", NULL });
	check_tick_texts(0, 10000, 2, false, (const char *[]){ "0", "5k", "10k", NULL });
	check_tick_texts(1e6, 2.5e6, 3, false,
			 (const char *[]){ "1.0M", "1.5M", "2.0M", "2.5M", NULL });
	check_tick_texts(0.01, 1e4, 9, true,
			 (const char *[]){ "0.01", "0.1", "1", "10", "100", "1k", "10k", NULL });
	near(plot_round_up(0), 1);
	near(plot_round_up(NAN), 1);
	near(plot_round_up(83), 90);
	near(plot_round_up(0.41), 0.45);
	near(plot_round_up(100), 100);
	assert_string_equal(plot_unit_ns(999).name, "ns");
	assert_string_equal(plot_unit_ns(25e6).name, "ms");
	near(plot_unit_ns(25e6).divisor, 1e6);
	assert_string_equal(plot_unit_ns(1e15).name, "s");
	assert_string_equal(plot_unit_bytes(3e9).name, "GB");
	assert_string_equal(plot_unit_flops(0).name, "FLOP");
}

static void test_colours_have_contrast(void **state)
{
	const struct plot_theme *themes[] = { &plot_light, &plot_dark };

	(void)state;
	near(plot_contrast(0x000000, 0xFFFFFF), 21);
	near(plot_contrast(0x777777, 0x777777), 1);
	for (size_t t = 0; t < 2; t++) {
		plot_color back = themes[t]->background;

		for (size_t i = 0; i < PLOT_SERIES; i++) {
			if (plot_contrast(themes[t]->series[i], back) < 3)
				fail_msg("%s %zu: %g", themes[t]->name, i,
					 plot_contrast(themes[t]->series[i], back));
		}
		assert_true(plot_contrast(themes[t]->text, back) >= 7);
		assert_true(plot_contrast(themes[t]->muted, back) >= 4.5);
		assert_true(plot_contrast(themes[t]->muted, themes[t]->shade) >= 4.5);
		assert_true(plot_contrast(themes[t]->warning, back) >= 4.5);
		assert_true(plot_contrast(themes[t]->axis, back) >= 3);
	}
}

enum { NORMAL, PROTANOPE, DEUTERANOPE, TRITANOPE, SIGHTS };

/* CIELAB of a colour as people without one kind of cones see it (Viénot, Brettel, Mollon 1999), in
 * linear RGB. */
static void seen(plot_color color, int sight, double *lab)
{
	static const double m[SIGHTS][3][3] = {
		{ { 1, 0, 0 }, { 0, 1, 0 }, { 0, 0, 1 } },
		{ { 0.11238, 0.88762, 0 }, { 0.11238, 0.88762, 0 }, { 0.00401, -0.00401, 1 } },
		{ { 0.29275, 0.70725, 0 }, { 0.29275, 0.70725, 0 }, { -0.02234, 0.02234, 1 } },
		{ { 1.01354, 0.14268, -0.15622 },
		  { -0.01181, 0.87561, 0.13619 },
		  { 0.07707, 0.81208, 0.11085 } },
	};
	static const double to_xyz[3][3] = { { 0.4339, 0.3762, 0.1899 },
					     { 0.2126, 0.7152, 0.0722 },
					     { 0.0177, 0.1095, 0.8728 } };
	double rgb[3], out[3], f[3];

	for (int i = 0; i < 3; i++) {
		double v = (color >> (16 - 8 * i) & 255) / 255.0;

		rgb[i] = v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4);
	}
	for (int i = 0; i < 3; i++) {
		double v = m[sight][i][0] * rgb[0] + m[sight][i][1] * rgb[1] +
			   m[sight][i][2] * rgb[2];

		out[i] = v < 0 ? 0 : v > 1 ? 1 : v;
	}
	for (int i = 0; i < 3; i++) {
		double v = to_xyz[i][0] * out[0] + to_xyz[i][1] * out[1] + to_xyz[i][2] * out[2];

		f[i] = v > 0.008856 ? cbrt(v) : 7.787 * v + 16.0 / 116;
	}
	lab[0] = 116 * f[1] - 16;
	lab[1] = 500 * (f[0] - f[1]);
	lab[2] = 200 * (f[1] - f[2]);
}

static void test_colours_stay_apart_for_everybody(void **state)
{
	const struct plot_theme *themes[] = { &plot_light, &plot_dark };

	(void)state;
	for (int at = 0; at < 2 * SIGHTS; at++) {
		const struct plot_theme *theme = themes[at / SIGHTS];

		for (size_t i = 0; i < PLOT_SERIES; i++) {
			for (size_t j = 0; j < i; j++) {
				double a[3], b[3], distance = 0;

				seen(theme->series[i], at % SIGHTS, a);
				seen(theme->series[j], at % SIGHTS, b);
				for (int k = 0; k < 3; k++)
					distance += (a[k] - b[k]) * (a[k] - b[k]);
				if (sqrt(distance) < 15)
					fail_msg("%s, sight %d: %zu and %zu are %g apart",
						 theme->name, at % SIGHTS, i, j, sqrt(distance));
			}
		}
	}
}

static void test_heat_grows_lighter(void **state)
{
	double before = 0;

	(void)state;
	assert_int_equal(plot_heat(0), 0x440154);
	assert_int_equal(plot_heat(1), 0xFDE725);
	assert_int_equal(plot_heat(-3), 0x440154);
	assert_int_equal(plot_heat(7), 0xFDE725);
	for (int i = 0; i <= 100; i++) {
		double light = plot_contrast(plot_heat(i / 100.0), 0x000000);

		assert_true(light > before);
		assert_true(plot_contrast(plot_heat(i / 100.0),
					  plot_text_on(plot_heat(i / 100.0))) >= 4.5);
		before = light;
	}
}

static void test_texts_fit(void **state)
{
	struct text_style_desc style = { .size = 12 };
	struct canvas *c;
	char out[1024];
	double whole;

	(void)state;
	assert_int_equal(canvas_new(100, 100, 1, true, &plot_light, &c), 0);
	canvas_fit(c, style, "short", 500, true, out, sizeof(out));
	assert_string_equal(out, "short");
	whole = canvas_text_width(c, style, "abcdefghijklmnopqrstuvwxyz");
	canvas_fit(c, style, "abcdefghijklmnopqrstuvwxyz", whole / 2, true, out, sizeof(out));
	assert_true(canvas_text_width(c, style, out) <= whole / 2);
	assert_true(canvas_text_width(c, style, out) > whole / 2 - 20);
	assert_memory_equal(out, "abc", 3);
	assert_string_equal(out + strlen(out) - 3, "xyz");
	assert_true(!canvas_has_fonts(c) || strstr(out, "…"));
	canvas_fit(c, style, "abcdefghijklmnopqrstuvwxyz", whole / 2, false, out, sizeof(out));
	assert_memory_equal(out, "abcdef", 6);
	assert_null(strchr(out, 'z'));
	/* Letters of several bytes are never cut; what is not UTF-8 does no harm. */
	canvas_fit(c, style, "größe größe größe größe größe", 60, true, out, sizeof(out));
	assert_true(canvas_text_width(c, style, out) <= 60);
	canvas_fit(c, style, "\xff\xfe\x01 broken \xc3", 1000, true, out, sizeof(out));
	assert_string_equal(out, "??  broken ?");
	canvas_fit(c, style, "no room", 0, true, out, sizeof(out));
	assert_string_equal(out, "");
	canvas_free(c);
}

static void test_series_keep_extremes(void **state)
{
	struct series_point p[100];

	(void)state;
	for (int i = 0; i < 100; i++)
		p[i] = (struct series_point){ i, 5 };
	p[17].y = 90;
	p[63].y = -4;
	assert_int_equal(series_reduce(p, 100, 100), 100);
	assert_int_equal(series_reduce(p, 100, 20), 12); /* ten parts, two of them not level */
	assert_true(p[1].x == 10 && p[1].y == 5 && p[2].x == 17 && p[2].y == 90);
	assert_true(p[8].x == 63 && p[8].y == -4);
}

static void test_cover(void **state)
{
	const struct span spans[] = { { .start_ns = 0, .end_ns = 25 },
				      { .start_ns = 40, .end_ns = 45 },
				      { .start_ns = 95, .end_ns = 200 } };
	const struct span windows[] = { { .start_ns = 20, .end_ns = 42 },
					{ .start_ns = 150, .end_ns = 160 } };
	struct span both[5];
	double share[5];

	(void)state;
	series_cover(spans, 3, 0, 100, share, 5);
	near(share[0], 1);
	near(share[1], 0.25);
	near(share[2], 0.25);
	near(share[3], 0);
	near(share[4], 0.25);
	series_cover(spans, 3, 10, 10, share, 5);
	near(share[0], 0);
	assert_int_equal(series_clip(spans, 3, windows, 2, both), 3);
	assert_true(both[0].start_ns == 20 && both[0].end_ns == 25);
	assert_true(both[1].start_ns == 40 && both[1].end_ns == 42);
	assert_true(both[2].start_ns == 150 && both[2].end_ns == 160);
}

static void test_step_bins(void **state)
{
	static const int64_t ms[] = { 10, 12, 11, 50, 10, 13, 11 };
	struct run *run = fake_run_new();
	struct selection all = SELECT_ALL;
	struct step_bins bins;
	struct steps steps;
	int64_t at = 0;

	(void)state;
	fake_shard(run, 1, 4243);
	for (int i = 0; i < 7; i++) {
		fake_step(run, i, at, at + ms[i] * MS, 0);
		at += ms[i] * MS;
	}
	/* Rank 1 was slower in step 2, and its last step has not ended. */
	fake_add_step(run, 1,
		      &(struct row_step){
			      .step = 2, .start_ns = 0, .duration_ns = 20 * MS, .recorded = 1 });
	fake_add_step(run, 1,
		      &(struct row_step){ .step = 3,
					  .start_ns = 20 * MS,
					  .duration_ns = 900 * MS,
					  .recorded = 1,
					  .unfinished = 1 });
	fake_span(run, 0, at);
	assert_int_equal(steps_analyze(run, &all, &steps), 0);
	assert_int_equal(step_bins_make(&steps, 100, &bins), 0);
	assert_int_equal(bins.n, 7);
	assert_int_equal(bins.per_bin, 1);
	assert_int_equal(bins.ranks, 2);
	assert_int_equal(bins.bins[2].median->duration_ns, 20 * MS);
	free(bins.bins);
	/* Room for two: four a bin would do, five is the round number. */
	assert_int_equal(step_bins_make(&steps, 2, &bins), 0);
	assert_int_equal(bins.per_bin, 5);
	assert_int_equal(bins.n, 2);
	assert_int_equal(bins.bins[0].n, 5); /* 10 12 20 50 10: sorted 10 10 12 20 50 */
	assert_int_equal(bins.bins[0].median->duration_ns, 12 * MS);
	assert_int_equal(bins.bins[0].slowest->duration_ns, 50 * MS);
	assert_int_equal(bins.bins[0].outliers, 1 + (steps.rows[7].outlier ? 1 : 0));
	assert_int_equal(bins.bins[1].n, 2); /* 13 11: the lower one */
	assert_int_equal(bins.bins[1].median->duration_ns, 11 * MS);
	assert_int_equal(bins.bins[1].first->step, 5);
	free(bins.bins);
	countdown = 0;
	assert_int_equal(step_bins_make(&steps, 2, &bins), -ENOMEM);
	countdown = 1;
	assert_int_equal(step_bins_make(&steps, 2, &bins), -ENOMEM);
	countdown = -1;
	steps_release(&steps);
	fake_run_free(run);
}

static void test_driver_memory_over_time(void **state)
{
	struct run *run = fake_run_new();
	struct row_device_memory row = {
		.time_ns = 10, .address = 0x100, .bytes = 700, .memory = 3
	};
	struct series_point *p;
	size_t n;

	(void)state;
	fake_span(run, 0, 100);
	fake_add_device_memory(run, 0, &row);
	row = (struct row_device_memory){
		.time_ns = 20, .address = 0x200, .bytes = 50, .memory = 2
	};
	fake_add_device_memory(run, 0, &row); /* pinned: not of the device */
	row = (struct row_device_memory){
		.time_ns = 30, .address = 0x300, .bytes = 300, .memory = 3
	};
	fake_add_device_memory(run, 0, &row);
	row = (struct row_device_memory){
		.time_ns = 40, .event = 1, .address = 0x100, .memory = 3
	};
	fake_add_device_memory(run, 0, &row);
	row = (struct row_device_memory){
		.time_ns = 50, .event = 1, .address = 0x200, .memory = 2
	};
	fake_add_device_memory(run, 0, &row);
	assert_int_equal(series_driver_held(run, 0, 0, &p, &n), 0);
	assert_int_equal(n, 6);
	assert_true(p[0].x == 10 && p[0].y == 0 && p[1].x == 10 && p[1].y == 700);
	assert_true(p[2].x == 30 && p[2].y == 700 && p[3].x == 30 && p[3].y == 1000);
	assert_true(p[4].x == 40 && p[4].y == 1000 && p[5].x == 40 && p[5].y == 300);
	free(p);
	assert_int_equal(series_driver_held(run, 0, 1, &p, &n), 0);
	assert_int_equal(n, 0);
	free(p);
	fake_run_free(run);
}

static void test_routing_of_all_layers(void **state)
{
	const uint32_t load[2][4] = { { 4, 4, 4, 4 }, { 10, 2, 2, 2 } };
	struct run *run = fake_run_new();
	struct selection all = SELECT_ALL;
	struct routing_options options = { 0 };
	struct routing_total *t;
	struct routing routing;
	size_t n;

	(void)state;
	for (int32_t layer = 0; layer < 2; layer++)
		fake_add_moe_layer(run, 0,
				   &(struct row_moe_layer){ .layer = layer,
							    .experts = 4,
							    .k = 2,
							    .hidden = 10,
							    .inner = 20,
							    .matrices = 2 });
	for (int64_t step = 0; step < 3; step++)
		for (int32_t layer = 0; layer < (step == 2 ? 1 : 2); layer++)
			fake_routing(run, step, step * MS, layer, 2, 4, load[layer]);
	assert_int_equal(routing_analyze(run, &all, &options, &routing), 0);
	assert_int_equal(routing_totals(&routing, -1, &t, &n), 0);
	assert_int_equal(n, 3);
	assert_int_equal(t[0].layers, 2);
	assert_int_equal(t[0].n_flops, 2);
	/* 8 tokens a layer: 2*8*10*4 + 5*8*4; 16 assignments * 4*10*20. */
	near(t[0].flops_router, 2 * 800);
	near(t[0].flops_expert, 2 * 12800);
	near(t[2].flops_expert, 12800);
	assert_int_equal(t[0].n_timed, 0);
	assert_non_null(t[0].no_time);
	free(t);
	assert_int_equal(routing_totals(&routing, 1, &t, &n), 0);
	assert_int_equal(n, 2);
	near(t[1].flops_expert, 12800);
	free(t);
	routing_release(&routing);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ticks),
		cmocka_unit_test(test_ticks_are_round),
		cmocka_unit_test(test_tick_texts),
		cmocka_unit_test(test_colours_have_contrast),
		cmocka_unit_test(test_colours_stay_apart_for_everybody),
		cmocka_unit_test(test_heat_grows_lighter),
		cmocka_unit_test(test_texts_fit),
		cmocka_unit_test(test_series_keep_extremes),
		cmocka_unit_test(test_cover),
		cmocka_unit_test(test_step_bins),
		cmocka_unit_test(test_driver_memory_over_time),
		cmocka_unit_test(test_routing_of_all_layers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
