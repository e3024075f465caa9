/* SPDX-License-Identifier: Apache-2.0
 *
 * The series of a run: how many there are at most, what their labels tell apart, and what has none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_run.h"
#include "moescope.h"
#include "surfaces/metrics/metrics.h"

#define K 8
#define EXPERTS 256

/* Metrics of a run, line by line. */
struct series {
	char *text;
	char **lines; /* samples alone, in the order of their text */
	size_t n;
};

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static struct series series_of(const struct run *run)
{
	struct series series = { 0 };
	struct err err = { "" };
	size_t size, lines = 1;
	FILE *out = open_memstream(&series.text, &size);
	int r = metrics_print(run, out, &err);

	fclose(out);
	if (r < 0)
		fail_msg("%s", err.message);
	assert_string_equal(series.text + size - 6, "# EOF\n");
	for (const char *c = series.text; *c; c++)
		lines += *c == '\n';
	series.lines = calloc(lines, sizeof(*series.lines));
	assert_non_null(series.lines);
	for (char *line = strtok(series.text, "\n"); line; line = strtok(NULL, "\n"))
		if (line[0] != '#')
			series.lines[series.n++] = line;
	qsort(series.lines, series.n, sizeof(*series.lines), by_text);
	return series;
}

static void release(struct series *series)
{
	free(series->lines);
	free(series->text);
}

static size_t count(const struct series *series, const char *start)
{
	size_t n = 0;

	for (size_t i = 0; i < series->n; i++)
		n += !strncmp(series->lines[i], start, strlen(start));
	return n;
}

/* The value of the series whose text begins so; there is one. */
static double value(const struct series *series, const char *start)
{
	assert_int_equal(count(series, start), 1);
	for (size_t i = 0; i < series->n; i++)
		if (!strncmp(series->lines[i], start, strlen(start)))
			return strtod(strrchr(series->lines[i], ' '), NULL);
	return -1;
}

static void assert_told_apart(const struct series *series)
{
	for (size_t i = 1; i < series->n; i++) {
		size_t length = (size_t)(strrchr(series->lines[i], ' ') - series->lines[i]);

		if (!strncmp(series->lines[i], series->lines[i - 1], length + 1))
			fail_msg("twice: %s", series->lines[i]);
	}
}

static void rename_run(struct run *run, const char *name)
{
	free(run->info.name);
	run->info.name = strdup(name);
	assert_non_null(run->info.name);
}

/* Expert e of a layer has e times what expert 1 has. */
static struct run *run_with_layers(int32_t layers)
{
	struct run *run = fake_run_new();
	uint32_t load[EXPERTS];

	for (uint32_t e = 0; e < EXPERTS; e++)
		load[e] = e * K;
	fake_span(run, 0, 1000);
	for (int32_t layer = 0; layer < layers; layer++)
		fake_routing(run, 1, 500, layer, K, EXPERTS, load);
	return run;
}

static void test_series_are_bounded(void **state)
{
	struct run *run = run_with_layers(200);
	struct series series = series_of(run);

	(void)state;
	assert_told_apart(&series);
	assert_int_equal(count(&series, "moescope_routing_layer_imbalance{"), 200);
	assert_int_equal(count(&series, "moescope_routing_expert_load_ratio{"), 200 * 2 * K);
	assert_int_equal(count(&series, "moescope_routing_expert_assignments_total{"), 200 * 2 * K);
	/* Not 200 * 256. */
	assert_true(series.n < 10000);
	assert_true(value(&series, "moescope_rows_left_out") == 0);
	release(&series);
	fake_run_free(run);
}

static void test_rows_left_out_are_counted(void **state)
{
	struct run *run = run_with_layers(300);
	struct series series = series_of(run);

	(void)state;
	assert_told_apart(&series);
	assert_int_equal(count(&series, "moescope_routing_layer_imbalance{"), 300);
	assert_int_equal(count(&series, "moescope_routing_expert_load_ratio{"), METRICS_ROWS);
	assert_true(value(&series, "moescope_rows_left_out") == 300 * 2 * K - METRICS_ROWS);
	release(&series);
	fake_run_free(run);
}

#define EXPERT "{run=\"fake\",layer=\"0\",phase=\"forward\",experts=\"256\",expert=\"%d\"}"
#define LAYER "{run=\"fake\",layer=\"0\",phase=\"forward\",experts=\"256\"}"

static void test_hottest_and_coldest(void **state)
{
	struct run *run = run_with_layers(1);
	struct series series;
	char text[200];

	(void)state;
	rename_run(run, "fake");
	series = series_of(run);
	for (int e = 0; e < EXPERTS; e++) {
		snprintf(text, sizeof(text), "moescope_routing_expert_assignments_total" EXPERT, e);
		if (e < K || e >= EXPERTS - K)
			assert_true(value(&series, text) == e * K);
		else
			assert_int_equal(count(&series, text), 0);
	}
	snprintf(text, sizeof(text), "moescope_routing_expert_load_ratio" EXPERT, EXPERTS - 1);
	assert_true(value(&series, text) ==
		    value(&series, "moescope_routing_layer_imbalance" LAYER));
	assert_true(value(&series, "moescope_routing_layer_imbalance" LAYER) == 2);
	assert_true(value(&series, "moescope_routing_layer_dead" LAYER) == 1);
	assert_true(value(&series, "moescope_routing_layer_tokens_total" LAYER) == 255 * 128);
	release(&series);
	fake_run_free(run);
}

/* Two models in one run may have a layer of the same number. */
static void test_labels_tell_rows_apart(void **state)
{
	const uint32_t load[4] = { 4, 3, 2, 1 };
	struct run *run = run_with_layers(2);
	struct series series;

	(void)state;
	fake_routing(run, 1, 500, 0, 2, 4, load);
	series = series_of(run);
	assert_told_apart(&series);
	assert_int_equal(count(&series, "moescope_routing_layer_imbalance{"), 3);
	assert_int_equal(count(&series, "moescope_routing_expert_load_ratio{"), 4 * K + 4);
	release(&series);
	fake_run_free(run);
}

/* A zero that means unknown. */
static void test_absent_sections_have_no_series(void **state)
{
	static const char *const sections[] = { "kernels", "api", "transfers", "comm", "moe" };
	struct run *host = fake_training_run(), *gpu = fake_gpu_run();
	struct series of_host = series_of(host), of_gpu = series_of(gpu);
	char start[64];

	(void)state;
	assert_told_apart(&of_host);
	assert_told_apart(&of_gpu);
	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
		snprintf(start, sizeof(start), "moescope_%s_", sections[i]);
		assert_int_equal(count(&of_host, start), 0);
		assert_true(count(&of_gpu, start) > 0);
	}
	assert_true(count(&of_host, "moescope_steps_") > 0);
	release(&of_host);
	release(&of_gpu);
	fake_run_free(host);
	fake_run_free(gpu);
}

static void test_names_are_made_harmless(void **state)
{
	struct run *run = fake_run_new();
	struct series series;

	(void)state;
	rename_run(run, "a\"\\\n\x1b[2J\xff\xe6\xbc\xa2");
	series = series_of(run);
	assert_int_equal(
		count(&series, "moescope_lost_records{run=\"a\\\"\\\\\\n?[2J?\xe6\xbc\xa2\"} 0"),
		1);
	release(&series);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_series_are_bounded),
		cmocka_unit_test(test_rows_left_out_are_counted),
		cmocka_unit_test(test_hottest_and_coldest),
		cmocka_unit_test(test_labels_tell_rows_apart),
		cmocka_unit_test(test_absent_sections_have_no_series),
		cmocka_unit_test(test_names_are_made_harmless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
