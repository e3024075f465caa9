/* SPDX-License-Identifier: Apache-2.0
 *
 * A batch read from directories made by hand, with figures computed by hand; every allocation fails
 * once, in turn; and the charts that its plots are made of. tests/cli/test_summary.py counts large
 * ones again. Linked with --wrap for the allocators.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <ftw.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "failing_alloc.h"
#include "fontconfig_leaks.h"
#include "lab/summary/summary.h"
#include "surfaces/plot/plot_lines.h"

static char root[] = "/tmp/moescope-summary-XXXXXX";

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static void make_experiment(const char *name, const char *status, int batch, int parallel,
			    const char *metrics)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	assert_int_equal(mkdir(path, 0777), 0);
	snprintf(path, sizeof(path), "%s/%s/summary.json", root, name);
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file,
		"{\"schema\": \"moescope/experiment/1\", \"status\": \"%s\", \"error\": \"why\", "
		"\"config\": {\"engine\": \"builtin\", \"batch_size\": %d, "
		"\"tensor_parallel_size\": %d, \"price_per_hour\": 7.2, \"seed\": 1, "
		"\"server_args\": [\"a\", \"b\"], \"environment\": {\"X\": \"1\"}}, "
		"\"metrics\": %s}",
		status, batch, parallel, metrics);
	assert_int_equal(fclose(file), 0);
}

static int make_directory(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(root));
	make_experiment("a", "success", 1, 1,
			"{\"tokens_per_second\": 20, \"inference_time\": 4, \"repeats\": ["
			"{\"tokens_per_second\": 18}, {\"tokens_per_second\": 20}, "
			"{\"tokens_per_second\": 22}]}");
	make_experiment("b", "success", 4, 1,
			"{\"tokens_per_second\": 40, \"inference_time\": 5, \"repeats\": []}");
	make_experiment("c", "failed", 2, 1, "{\"tokens_per_second\": 999}");
	make_experiment("d", "success", 10, 2,
			"{\"tokens_per_second\": 64, \"inference_time\": 3, "
			"\"serving\": null, \"serving_reason\": \"no requests\"}");
	return 0;
}

static int remove_directory(void **state)
{
	(void)state;
	return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static struct batch read_batch(void)
{
	struct err err = { "" };
	struct batch batch;

	if (batch_read(root, &batch, &err) < 0)
		fail_msg("%s", err.message);
	return batch;
}

static void test_figures_by_hand(void **state)
{
	struct batch batch = read_batch();
	const struct batch_figure *f = &batch.configurations[0].figures[BATCH_TOKENS_PER_S];

	(void)state;
	assert_int_equal(batch.n, 4);
	assert_int_equal(batch.counts[BATCH_SUCCESS], 3);
	assert_int_equal(batch.counts[BATCH_FAILED], 1);
	assert_int_equal(batch.n_parameters, 2);
	assert_int_equal(batch.n_configurations, 4);
	/* 1, 2, 4, 10: by number, not by letters. */
	assert_string_equal(batch.configurations[3].label, "batch_size 10, tensor_parallel_size 2");
	/* 18, 20, 22: s = 2, t(0.975, 2) = 4.30265, 4.30265 * 2 / sqrt(3) = 4.96828 */
	assert_int_equal(f->n, 3);
	assert_true(fabs(f->mean.v - 20) < 1e-12 && fabs(f->std.v - 2) < 1e-12);
	assert_true(fabs(f->low.v - 15.03172) < 1e-4 && fabs(f->high.v - 24.96828) < 1e-4);
	f = &batch.configurations[2].figures[BATCH_TOKENS_PER_S];
	assert_int_equal(f->n, 1);
	assert_false(f->low.known || f->std.known);
	f = &batch.configurations[1].figures[BATCH_TOKENS_PER_S];
	assert_false(f->mean.known);
	f = &batch.configurations[3].figures[BATCH_TOKENS_PER_S_PER_GPU];
	assert_true(f->mean.v == 32);
	/* 7.2 / 3600 / 64 * 1e6 */
	assert_true(fabs(batch.configurations[3].figures[BATCH_COST].mean.v - 31.25) < 1e-12);
	assert_string_equal(batch.configurations[3].figures[BATCH_TTFT_P50].mean.reason,
			    "no requests");
	batch_release(&batch);
}

static void test_best_front_and_efficiency(void **state)
{
	struct batch batch = read_batch();

	(void)state;
	assert_int_equal(batch.best[BATCH_TOKENS_PER_S], 3);
	assert_int_equal(batch.best[BATCH_TTFT_P50], SIZE_MAX);
	assert_int_equal(batch.configurations[0].against_best[BATCH_TOKENS_PER_S].verdict,
			 COMPARE_UNTESTED);
	/* (20, 4) (40, 5) (64, 3): the last beats both. */
	assert_int_equal(batch.latency, BATCH_INFERENCE_TIME);
	assert_int_equal(batch.n_front, 1);
	assert_int_equal(batch.front[0], 3);
	/* batch_size 1 and 4 with one GPU: (40 / 4) / (20 / 1); the third is alone on its line. */
	assert_int_equal(batch.n_axes, 2);
	assert_true(fabs(batch.configurations[2].efficiency[0].pct.v - 50) < 1e-12);
	assert_string_equal(batch.configurations[2].efficiency[0].relative_to, "1");
	assert_false(batch.configurations[1].efficiency[0].pct.known);
	assert_true(batch.configurations[3].efficiency[0].pct.v == 100);
	batch_release(&batch);
}

static void test_constants_are_words(void **state)
{
	struct batch batch = read_batch();

	(void)state;
	assert_int_equal(batch.n_constants, 5);
	assert_string_equal(batch.constants[3].text, "a b");
	assert_string_equal(batch.constants[4].text, "X=1");
	batch_release(&batch);
}

static int all_of_it(FILE *out, struct err *err)
{
	struct text_layout layout = { .width = 100, .utf8 = true };
	struct batch batch;
	char name[256];
	int r = batch_read(root, &batch, err);

	if (r < 0)
		return r;
	r = batch_write_json(&batch, out);
	if (r == 0)
		r = batch_write_csv(&batch, out);
	if (r == 0)
		r = batch_write_markdown(&batch, NULL, out);
	if (r == 0)
		r = batch_print(&batch, &layout, out);
	for (size_t i = 0; r == 0 && batch_plot_name(&batch, i, name, sizeof(name)); i++)
		r = batch_plot_draw(&batch, i, true, out, err);
	batch_release(&batch);
	return r;
}

/* -ENOMEM or all of it; never a part that looks whole. */
static void test_no_memory(void **state)
{
	FILE *out = fopen("/dev/null", "w");
	bool reached = true;
	struct err err;
	long n = 0;

	(void)state;
	assert_non_null(out);
	if (plot_unavailable())
		skip();
	assert_int_equal(all_of_it(out, &err), 0); /* fonts are read once */
	for (; reached; n++) {
		int r;

		countdown = n;
		r = all_of_it(out, &err);
		reached = countdown < 0;
		countdown = -1;
		assert_int_equal(r, reached ? -ENOMEM : 0);
	}
	assert_true(n > 300);
	fclose(out);
}

static char *draw(const struct lines_page *page)
{
	struct plot_options options = { .svg = true, .scale = 1 };
	struct err err = { "" };
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	assert_int_equal(plot_lines_draw(page, &options, out, &err), 0);
	assert_int_equal(fclose(out), 0);
	assert_null(strstr(text, "nan"));
	assert_null(strstr(text, "inf\""));
	return text;
}

/* Labels never lie on each other: what has no room is counted. */
static void test_labels_that_collide(void **state)
{
	struct lines_point points[40];
	struct lines_series series = { .points = points, .n = 40, .dots_only = true };
	struct lines_panel panel = {
		.x_label = "x", .y_label = "y", .series = &series, .n = 1, .reference = NAN
	};
	const char *const names[] = { "all" };
	struct lines_page page = { .title = "t",
				   .subtitle = "",
				   .footer = "",
				   .names = names,
				   .n_names = 1,
				   .panels = &panel,
				   .n = 1,
				   .columns = 1 };
	size_t drawn = 0;
	char *text, wanted[64];

	(void)state;
	if (plot_unavailable())
		skip();
	for (size_t i = 0; i < 40; i++)
		points[i] = (struct lines_point){ 10, 10, NAN, NAN, "one place" };
	text = draw(&page);
	for (const char *at = text; (at = strstr(at, ">one place<")); at++)
		drawn++;
	assert_in_range(drawn, 2, 8);
	snprintf(wanted, sizeof(wanted), ">%zu without room for a label<", 40 - drawn);
	assert_non_null(strstr(text, wanted));
	free(text);
	for (size_t i = 0; i < 40; i++) {
		size_t row = i / 8;

		points[i] = (struct lines_point){ (double)(i % 8), 10 * (double)row, NAN, NAN,
						  "place" };
	}
	text = draw(&page);
	assert_null(strstr(text, "without room"));
	free(text);
}

/* No point at all, one alone, one that is missing, and values that are no numbers. */
static void test_thin_series(void **state)
{
	struct lines_point points[] = { { 1, NAN, NAN, NAN, NULL },
					{ 2, 5, INFINITY, NAN, NULL },
					{ 2, 0, 0, 0, NULL } };
	struct lines_series series = { .points = points, .n = 1 };
	struct lines_panel panel = { .x_label = "x",
				     .y_label = "speed",
				     .ticks_at_points = true,
				     .series = &series,
				     .n = 1,
				     .reference = NAN };
	const char *const names[] = { "all" };
	struct lines_page page = { .title = "t",
				   .subtitle = "",
				   .footer = "",
				   .names = names,
				   .n_names = 1,
				   .panels = &panel,
				   .n = 1,
				   .columns = 1 };
	char *text;

	(void)state;
	if (plot_unavailable())
		skip();
	text = draw(&page);
	assert_non_null(strstr(text, "speed was not measured"));
	free(text);
	series.n = 2;
	text = draw(&page);
	assert_non_null(strstr(text, ">no figure<"));
	free(text);
	series.points = points + 2;
	series.n = 1;
	free(draw(&page));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_figures_by_hand),
		cmocka_unit_test(test_best_front_and_efficiency),
		cmocka_unit_test(test_constants_are_words),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_labels_that_collide),
		cmocka_unit_test(test_thin_series),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
