/* SPDX-License-Identifier: Apache-2.0
 *
 * The records that a view or the plots ask for are all that they need: they say the same of a run
 * loaded whole.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "documents/document.h"
#include "fontconfig_leaks.h"
#include "subjects/kernels/kernels.h"
#include "documents/comparison.h"
#include "surfaces/sheets/sheet_print.h"
#include "surfaces/plot/plot.h"
#include "surfaces/views/views.h"
#include "table_rows.h"

static struct encoder encoder;

static void add(enum record_kind kind, const void *row)
{
	assert_int_equal(encoder_append(&encoder, kind, row), 0);
}

#define ADD(NAME, name, ...) add(RECORD_##NAME, &(struct row_##name){ __VA_ARGS__ })

static void add_strings(void)
{
	static const char *const names[] = { "work",
					     "cudaGraphLaunch",
					     "k",
					     "power_w",
					     "memory_used_bytes",
					     "other",
					     "clock_limit_reasons",
					     "sm_active_pct",
					     "NVIDIA H200",
					     "dtype",
					     "bf16",
					     "torch reserved_bytes" };

	for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		ADD(STRING, string, .id = i + 1, .length = (uint32_t)strlen(names[i]),
		    .text = names[i]);
}

/* A step with a replayed graph, half of the run covered, another process on the device. */
static void add_rows(void)
{
	uint32_t site = encoder_site(&encoder,
				     &(struct row_site){ .name = 1, .layer = 3, .expert = -1 });
	uint32_t launch = encoder_launch(
		&encoder,
		&(struct row_launch){
			.name = 3, .block_x = 64, .block_y = 1, .block_z = 1, .registers = 32 });

	ADD(METRIC, metric, .launch = launch, .name = 1, .value = 5);
	ADD(STEP, step, .start_ns = 1000, .duration_ns = 4000, .recorded = 1);
	ADD(STEP, step, .step = 1, .start_ns = 5000, .duration_ns = 5000, .recorded = 1);
	ADD(GEAR, gear, .time_ns = 1000, .gear = 2, .attached = 1, .cost_pct = 4);
	ADD(GEAR, gear, .time_ns = 5500, .gear = 2, .cost_pct = 4, .device_bytes = 7);
	ADD(RANGE, range, .site = site, .start_ns = 1000, .duration_ns = 500, .thread = 1);
	ADD(GRAPH_NODE, graph_node, .time_ns = 1100, .thread = 1, .graph = 2, .node = 9);
	ADD(API, api, .name = 2, .start_ns = 2000, .duration_ns = 50, .thread = 1,
	    .correlation = 5);
	ADD(KERNEL, kernel, .launch = launch, .start_ns = 2100, .duration_ns = 900,
	    .correlation = 5, .graph = 2, .graph_node = 9);
	ADD(KERNEL, kernel, .launch = launch, .start_ns = 3200, .duration_ns = 700,
	    .correlation = 5, .graph = 2, .graph_node = 9);
	ADD(COPY, copy, .start_ns = 4000, .duration_ns = 100, .bytes = 64, .kind = 1,
	    .correlation = 5, .graph_node = 9);
	ADD(SET, set, .start_ns = 4200, .duration_ns = 100, .bytes = 64, .correlation = 5,
	    .graph_node = 9);
	ADD(DEVICE_MEMORY, device_memory, .time_ns = 1500, .address = 64, .bytes = 4096);
	ADD(POOL, pool, .time_ns = 1500, .address = 64, .bytes = 4096, .used_bytes = 96);
	ADD(PROCESS, process, .time_ns = 1500, .pid = 1, .name = 6, .bytes = 4096);
	for (uint32_t i = 0; i < 3; i++)
		ADD(SAMPLE, sample, .time_ns = 1500, .metric = i == 2 ? 7 : 4 + i, .value = 4);
	ADD(MEMORY, memory, .time_ns = 9000, .address = 4, .bytes = 10);
	/* What occupancy, efficiency and memory look up besides. */
	ADD(SAMPLE, sample, .time_ns = 1500, .metric = 8, .value = 40);
	ADD(DEVICE, device, .name = 9, .memory_bytes = 140000000000, .capability = 90);
	ADD(FACT, fact, .key = 10, .value = 11);
	ADD(COUNTER, counter, .time_ns = 1600, .name = 12, .value = 4096);
	ADD(OP, op, .site = site, .start_ns = 1900, .duration_ns = 500, .thread = 1, .depth = 1,
	    .flops = 1000, .bytes = 100);
	ADD(MEMORY, memory, .time_ns = 9001, .address = 1 << 20, .bytes = 10, .thread = 1);
}

static char *rendered(const char *path, const struct section *view, bool whole, int kernels_by)
{
	struct view_options options = { .json = view != &section_dashboard,
					.width = 80,
					.question = { .sel = { INT64_MIN, INT64_MAX, -1, -1 },
						      .kernels_by = kernels_by } };
	struct run_want want = section_want(view, &options);
	struct err err = { "" };
	struct run *run = NULL;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_int_equal(run_load(path, whole ? NULL : &want, &run, &err), 0);
	assert_int_equal(section_render(view, run, &options, out, &err), 0);
	fclose(out);
	run_free(run);
	return text;
}

static char *drawn(const char *path, const char *plot, bool whole)
{
	struct view_options view = { .question = QUESTION_ALL };
	struct plot_options options = { .svg = true, .scale = 1, .layer = -1 };
	struct run_want want = plot_want(&view);
	struct err err = { "" };
	struct answers answers;
	struct run *run = NULL;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_int_equal(run_load(path, whole ? NULL : &want, &run, &err), 0);
	assert_int_equal(plot_compute(run, &view, &answers, &err), 0);
	assert_int_equal(plot_draw(plot, run, &answers, &options, out, &err), 0);
	fclose(out);
	answers_release(&answers);
	run_free(run);
	return text;
}

static void compare_plots(const char *path)
{
	for (size_t i = 0; plots[i].name && !plot_unavailable(); i++) {
		char *whole = drawn(path, plots[i].name, true);
		char *part = drawn(path, plots[i].name, false);

		assert_string_equal(part, whole);
		free(whole);
		free(part);
	}
}

static void compare_view(const char *path, const struct section *view, int kernels_by)
{
	char *whole = rendered(path, view, true, kernels_by);
	char *part = rendered(path, view, false, kernels_by);

	assert_string_equal(part, whole);
	if (view == &section_ops)
		assert_non_null(strstr(part, "\"self_gpu_ns\": 1800"));
	if (view == &section_kernels)
		assert_non_null(strstr(part, "\"windows\": 1, \"steps_covered\": 1"));
	free(whole);
	free(part);
}

static void test_views_load_what_they_need(void **state)
{
	char *directory = temporary_directory(), *path = path_in(directory, "0-1.mst");
	struct shard_writer *writer;

	(void)state;
	encoder_init(&encoder, 1, 1, 0);
	assert_int_equal(shard_create(path, 0, 0, &writer, NULL), 0);
	add_strings();
	add_rows();
	assert_int_equal(encoder_finish(&encoder), 0);
	assert_int_equal(shard_write(writer, &encoder), 0);
	assert_int_equal(shard_close(writer, &encoder), 0);
	encoder_release(&encoder);
	for (const struct section *const *view = sections; *view; view++)
		compare_view(directory, *view, 0);
	for (int by = 1; by <= KERNELS_BY_GRAPH; by++)
		compare_view(directory, &section_kernels, by);
	compare_plots(directory);
	free(path);
	remove_directory(directory);
}

/* What a comparison also looks at. */
static void add_more_rows(void)
{
	static const uint32_t load[] = { 3, 1 }, hist[] = { 0, 4 };
	uint32_t site = encoder_site(
		&encoder, &(struct row_site){ .name = 1, .layer = -1, .expert = -1, .phase = 1 });

	ADD(FACT, fact, .key = 1, .value = 6);
	ADD(DEVICE, device, .name = 3);
	ADD(MOE_LAYER, moe_layer, .layer = 1, .experts = 2, .k = 1, .hidden = 8, .inner = 8);
	ADD(TOKEN, token, .time_ns = 6000, .request = 1, .count = 3);
	ADD(TOKEN, token, .time_ns = 6500, .request = 1, .event = 1);
	ADD(TOKEN, token, .time_ns = 6700, .request = 1, .event = 1);
	ADD(ROUTING, routing, .time_ns = 2000, .layer = 1, .k = 1, .tokens = 4, .experts = 2,
	    .k_slots = 2, .load = load, .k_hist = hist);
	ADD(OP, op, .site = site, .start_ns = 1600, .duration_ns = 300, .thread = 1);
	ADD(SYNC, sync, .start_ns = 3050, .duration_ns = 100, .type = 3);
}

static char *compared(const char *path, bool whole)
{
	struct view_options options = { .json = true };
	struct run_want want = { .kinds = DIGEST_KINDS };
	struct selection sel = SELECT_ALL;
	struct run_digest digest;
	struct compare_group groups[] = { { "a", &digest, 1 }, { "b", &digest, 1 } };
	struct comparison comparison;
	struct compared_choice choice = { 0 };
	struct compared compared;
	struct err err = { "" };
	struct run *run = NULL;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_int_equal(run_load(path, whole ? NULL : &want, &run, &err), 0);
	assert_int_equal(digest_take(run, &sel, &digest), 0);
	/* Facts that are the same everywhere are not shown: they are looked at here. */
	for (size_t i = 0; i < digest.n_facts; i++)
		fprintf(out, "%s %s\n", digest.facts[i].key, digest.facts[i].value);
	assert_int_equal(compare_groups(groups, 2, &comparison), 0);
	assert_int_equal(compared_make(&comparison, NULL, 0, &choice, &compared, &err), 0);
	assert_int_equal(sheet_print(&comparison_sheet, &compared, &options, out, &err), 0);
	fclose(out);
	compared_release(&compared);
	comparison_release(&comparison);
	digest_release(&digest);
	run_free(run);
	return text;
}

static void test_digests_load_what_they_need(void **state)
{
	static const char *const wanted[] = { "kernel_time",	  "copy_bytes", "api_time",
					      "imbalance",	  "ttft",	"peak_allocated",
					      "idle_time",	  "launch",	"moe_layers",
					      "peak_device_used", "work other" };
	char *directory = temporary_directory(), *path = path_in(directory, "0-1.mst");
	char *whole, *part;
	struct shard_writer *writer;

	(void)state;
	encoder_init(&encoder, 1, 1, 0);
	assert_int_equal(shard_create(path, 0, 0, &writer, NULL), 0);
	add_strings();
	add_rows();
	add_more_rows();
	assert_int_equal(encoder_finish(&encoder), 0);
	assert_int_equal(shard_write(writer, &encoder), 0);
	assert_int_equal(shard_close(writer, &encoder), 0);
	encoder_release(&encoder);
	whole = compared(directory, true);
	part = compared(directory, false);
	assert_string_equal(part, whole);
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		if (!strstr(part, wanted[i]))
			fail_msg("no %s", wanted[i]);
	free(whole);
	free(part);
	free(path);
	remove_directory(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_views_load_what_they_need),
		cmocka_unit_test(test_digests_load_what_they_need),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
