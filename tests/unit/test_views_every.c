/* SPDX-License-Identifier: Apache-2.0
 *
 * What must hold for every view whatever the run holds: valid JSON, lines that fit, no control
 * characters, clear errors.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "documents/document.h"
#include "exports/exports.h"
#include "fake_run.h"
#include "json_check.h"
#include "moescope.h"
#include "subjects/pages/grid.h"
#include "surfaces/csv/grid_csv.h"
#include "surfaces/markdown/markdown.h"
#include "surfaces/views/views.h"

static struct view_options plain(void)
{
	return (struct view_options){ .width = 80, .utf8 = true, .question = QUESTION_ALL };
}

static int render(const struct run *run, const char *view, struct view_options options,
		  char **ret_text, struct err *err)
{
	size_t size;
	FILE *out = open_memstream(ret_text, &size);
	int r = strcmp(view, "chrome") ? section_render(section_find(view), run, &options, out, err)
				       : export_chrome(run, out, err);

	fclose(out);
	return r;
}

static char *text_of(const struct run *run, const char *view, struct view_options options)
{
	struct err err = { "" };
	char *text = NULL;
	int r = render(run, view, options, &text, &err);

	if (r < 0)
		fail_msg("%s: %s", view, err.message);
	return text;
}

/* Strings that break quoting, terminals and decoders. */
static struct run *hostile_run(void)
{
	struct run *run = fake_training_run();
	uint32_t name = fake_string(run, "\"\\ \033[2J\x07\n\xFF\xC0 \xE6\xBC\xA2\x01");

	for (size_t i = 0; i < run->site.n; i++)
		run->site.name[i] = name;
	for (size_t i = 0; i < run->memory.n; i++)
		run->memory.site[i] = name;
	run->mark.text[0] = name;
	run->fact.value[0] = name;
	run->op.shape[0] = name;
	run->thread.name[0] = name;
	for (size_t i = 0; i < run->counter.n; i += 2)
		run->counter.value[i] = i % 4 ? NAN : INFINITY;
	run->op.site[1] = 9999;
	fake_call(run, "f", 40000000, 40001000, 1);
	fake_call(run, "f", 140000000, 140001000, 2);
	fake_kernel(run, "k", 41000000, 42000000, 1);
	fake_kernel(run, "k", 43000000, -1, 2);
	fake_kernel(run, "m", 43000000, 44000000, 3);
	run->launch.name[0] = run->api.name[0] = name;
	run->kernel.launch[2] = 9999;
	fake_copy(run, 200, 250, UINT64_MAX, 41000000, 42000000, 1);
	free(run->info.command);
	run->info.command = strdup("sh -c 'echo \"\033[31m\xFE\"'");
	free(run->info.notes);
	run->info.notes = strdup("a note\n\033]0;title\x07 second\n");
	run->loss.dropped_ring_full = 3;
	run->shards[0].state = SHARD_CRASHED;
	run->op.unfinished[2] = 1;
	return run;
}

static void check_text(const char *view, const char *text, size_t width)
{
	while (*text) {
		size_t n = strcspn(text, "\n");
		char line[2048];

		assert_true(n < sizeof(line));
		memcpy(line, text, n);
		line[n] = '\0';
		for (size_t i = 0; i < n; i++)
			if ((unsigned char)line[i] < 0x20 || line[i] == 0x7F)
				fail_msg("%s prints control character %d", view, line[i]);
		if (utf8_width(line) > width)
			fail_msg("%s is %zu wide: %s", view, utf8_width(line), line);
		text += n + (text[n] == '\n');
	}
}

static void test_hostile_text(void **state)
{
	struct run *run = hostile_run();

	(void)state;
	for (const struct section *const *view = sections; *view; view++) {
		const char *name = (*view)->name;
		struct view_options options = plain();
		char *text = text_of(run, name, options);

		check_text(name, text, 80);
		free(text);
		options.question.by_shape = true;
		options.question.sel.layer = 1;
		options.utf8 = false;
		options.width = 120;
		text = text_of(run, name, options);
		check_text(name, text, 120);
		free(text);
		options.question.by_stack = true;
		text = text_of(run, name, options);
		check_text(name, text, 120);
		free(text);
	}
	fake_run_free(run);
}

static void check_json(const struct run *run, const char *view, int layer, int kernels_by)
{
	struct view_options options = plain();
	char *text;

	options.json = true;
	options.question.sel.layer = layer;
	options.question.by_shape = layer == 0;
	options.question.by_stack = layer == 1;
	options.question.kernels_by = kernels_by;
	text = text_of(run, view, options);
	if (!json_check(text))
		fail_msg("%s: not JSON: %s", view, text);
	free(text);
}

static void test_hostile_json(void **state)
{
	struct run *runs[] = { hostile_run(), fake_run_new() };

	(void)state;
	for (size_t k = 0; k < 2; k++) {
		for (const struct section *const *view = sections; *view; view++)
			for (int layer = -1; layer < 2; layer++)
				if (*view != &section_dashboard)
					check_json(runs[k], (*view)->name, layer,
						   layer + 1 + 3 * (int)k);
		check_json(runs[k], "chrome", -1, 0);
		fake_run_free(runs[k]);
	}
}

static void test_dashboard_is_one_screen(void **state)
{
	struct run *run = fake_training_run();
	uint32_t load[200];
	char *text;
	size_t lines = 0;

	(void)state;
	for (uint32_t e = 0; e < 200; e++)
		load[e] = e;
	for (int32_t layer = 2; layer < 40; layer++)
		fake_routing(run, 11, 1, layer, 1, 200, load);
	text = text_of(run, "dashboard", plain());
	check_text("dashboard", text, 80);
	for (const char *c = text; *c; c++)
		lines += *c == '\n';
	assert_true(lines <= 24);
	assert_non_null(strstr(text, "36 more layers"));
	assert_non_null(strstr(text, "% ...\n")); /* not all 200 experts fit */
	free(text);
	fake_run_free(run);
}

static void test_growing_run(void **state)
{
	struct run *run = fake_run_new();
	char *text;

	(void)state;
	free(run->info.status);
	run->info.status = strdup("running");
	run->info.duration_known = false;
	for (const struct section *const *view = sections; *view; view++)
		free(text_of(run, (*view)->name, plain()));
	fake_add_step(run, 0, &(struct row_step){ .step = 0, .unfinished = 1, .recorded = 1 });
	text = text_of(run, "dashboard", plain());
	assert_non_null(strstr(text, "no step has ended"));
	assert_non_null(strstr(text, "running"));
	free(text);
	fake_run_free(run);
}

static void test_trouble_comes_first(void **state)
{
	struct run *run = fake_training_run();
	const char *trouble, *verdicts;
	char *text;

	(void)state;
	run->loss.cut_bytes = 17;
	run->routing.tokens[0]++;
	run->shards[0].state = SHARD_LIVE;
	text = text_of(run, "report", plain());
	trouble = strstr(text, "! 17 bytes of an incomplete last chunk");
	verdicts = strstr(text, "Verdicts");
	assert_true(trouble && verdicts && trouble < verdicts);
	assert_non_null(strstr(text, "! routing self-check failed: of 24 records, 1"));
	assert_non_null(strstr(text, "still records although the command has ended"));
	free(text);
	run->shards[0].state = SHARD_CRASHED;
	text = text_of(run, "ops", plain());
	assert_non_null(strstr(text, "! rank 0, process 4242 ended without closing"));
	free(text);
	fake_run_free(run);
}

static void test_errors(void **state)
{
	struct run *run = fake_training_run();
	struct view_options options = plain();
	struct err err = { "" };
	char *text = NULL;

	(void)state;
	assert_null(section_find("nonsense"));
	options.sort = "speed";
	assert_int_equal(render(run, "ops", options, &text, &err), -EINVAL);
	assert_non_null(strstr(err.message, "'speed'"));
	assert_non_null(strstr(err.message, "self_cpu_ns, "));
	assert_string_equal(text, ""); /* nothing half-written */
	free(text);
	options.json = true;
	assert_int_equal(render(run, "ops", options, &text, &err), -EINVAL);
	assert_string_equal(text, "");
	free(text);
	options = plain();
	options.csv = true;
	assert_int_equal(render(run, "report", options, &text, &err), -EINVAL);
	free(text);
	options.csv = false;
	options.json = true;
	assert_int_equal(render(run, "dashboard", options, &text, &err), -EINVAL);
	free(text);
	fake_run_free(run);
}

static void test_sort_and_limit(void **state)
{
	struct run *run = fake_training_run();
	struct view_options options = plain();
	char *text;

	(void)state;
	options.csv = true;
	options.sort = "name";
	options.limit = 2;
	text = text_of(run, "ops", options);
	assert_non_null(strstr(text, "\nadamw,op,12,"));
	assert_non_null(strstr(text, "\nattention,range,24,"));
	assert_null(strstr(text, "backward"));
	free(text);
	/* Ranges have no speed: they come after the three operations. */
	options.sort = "flops_per_s";
	options.limit = 3;
	text = text_of(run, "ops", options);
	assert_non_null(strstr(text, "\nadamw,op,"));
	assert_non_null(strstr(text, "\nqkv projection,op,"));
	assert_null(strstr(text, ",range,"));
	free(text);
	fake_run_free(run);
}

static void test_csv_quotes(void **state)
{
	static const struct grid_column columns[] = { { .key = "a" }, { .key = "b" } };
	struct grid grid;
	struct cell *cells;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	(void)state;
	grid_init(&grid, columns, 2);
	cells = grid_add(&grid, NULL);
	cells[0] = cell_text("x,\"y\"\n");
	cells[1] = cell_absent("why");
	cells = grid_add(&grid, NULL);
	cells[0] = cell_real(0.5);
	cells[1] = cell_uint(UINT64_MAX);
	grid_csv(&grid, 0, out);
	fclose(out);
	assert_string_equal(text, "a,b\n\"x,\"\"y\"\"\n\",\n0.5,18446744073709551615\n");
	free(text);
	grid_release(&grid);
}

static void test_markdown_escapes(void **state)
{
	static const struct grid_column columns[] = {
		{ .key = "a", .title = "a|b" },
		{ .key = "b", .title = "time", .unit = UNIT_NS },
		{ .key = "c", .unit = UNIT_INT },
	};
	struct grid grid;
	struct cell *cells;
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	(void)state;
	grid_init(&grid, columns, 3);
	cells = grid_add(&grid, NULL);
	cells[0] = cell_text("f<int>(a_b*, __c) | `x`\n\x1B");
	cells[1] = cell_real(1500);
	cells[2] = cell_int(1);
	cells = grid_add(&grid, NULL);
	cells[0] = cell_text("\xE6\xBC\xA2");
	cells[1] = cell_absent("why");
	cells[2] = cell_int(2);
	cells = grid_add(&grid, NULL);
	cells[0] = cell_text("over the limit");
	cells[1] = cells[2] = cell_int(3);
	grid_markdown(&grid, 2, out);
	fclose(out);
	assert_string_equal(text, "| a\\|b | time |\n|---|---:|\n"
				  "| f&lt;int>(a_b\\*, \\_\\_c) \\| \\`x\\` ? | 1.50 us |\n"
				  "| \xE6\xBC\xA2 | n/a |\n");
	free(text);
	grid_release(&grid);
}

/* Every line is one of ours, and rows have as many cells as their heads. */
static void test_hostile_markdown(void **state)
{
	struct run *run = hostile_run();
	struct view_options options = plain();

	(void)state;
	options.markdown = options.color = true;
	for (const struct section *const *view = sections; *view; view++) {
		char *text = text_of(run, (*view)->name, options), *line, *rest = text;
		size_t wanted = 0;

		check_text((*view)->name, text, 2000);
		while ((line = strsep(&rest, "\n"))) {
			size_t cells = 0;

			for (const char *c = line; *line == '|' && *c; c++)
				cells += *c == '|' && (c == line || c[-1] != '\\');
			if (cells && wanted)
				assert_int_equal(cells, wanted);
			wanted = cells;
			assert_true(!*line || cells || !strncmp(line, "    ", 4) ||
				    !strncmp(line, "### ", 4));
		}
		free(text);
	}
	fake_run_free(run);
}

static void test_absent_has_a_reason(void **state)
{
	struct run *run = fake_run_new();
	struct view_options options = plain();
	char *text;

	(void)state;
	fake_step(run, 0, 0, 10, 0);
	options.json = true;
	text = text_of(run, "steps", options);
	assert_non_null(strstr(text, "\"tokens\": null, \"tokens_reason\": \"the program did not"));
	assert_non_null(strstr(text, "\"phases\": null, \"phases_reason\":"));
	free(text);
	text = text_of(run, "report", options);
	assert_non_null(strstr(text, "\"timeline\": null,\n  \"timeline_reason\": \"no device"));
	free(text);
	fake_run_free(run);
}

static void test_staged_moves_are_named(void **state)
{
	struct run *run = fake_run_new();
	char *text;

	(void)state;
	for (uint32_t i = 0; i < 2; i++)
		fake_add_copy(run, 0,
			      &(struct row_copy){ .start_ns = i * 20000,
						  .duration_ns = 10000,
						  .bytes = 8000,
						  .kind = i ? 1 : 2,
						  .device = i,
						  .source_device = i,
						  .target_device = i });
	fake_add_copy(run, 0,
		      &(struct row_copy){ .start_ns = 50000,
					  .duration_ns = 10000,
					  .bytes = 4000,
					  .kind = 10,
					  .source_device = 0,
					  .target_device = 3 });
	text = text_of(run, "transfers", plain());
	assert_non_null(strstr(text, "  staged through the host: gpu 0 to gpu 1, 1 moves, 8.00 kB "
				     "in 30.0 us\n"));
	assert_non_null(strstr(text, "PtoP"));
	assert_non_null(strstr(text, "gpu 0  gpu 3"));
	free(text);
	fake_run_free(run);
}

/* Names and stacks that are both too long share the room; JSON has all of them. */
static void test_stacks(void **state)
{
	struct view_options options = plain();
	struct run *run = fake_run_new();
	char *text;

	(void)state;
	fake_add_op(run, 0,
		    &(struct row_op){
			    .site = fake_site(run,
					      "autograd::engine::evaluate_function: "
					      "ToCopyBackward0 of a long name",
					      -1, -1, 0),
			    .duration_ns = 1000,
			    .stack = fake_string(run, "train.py(1): main;module.py(1783): call;"
						      "models/mixtral/modeling_mixtral.py(104): "
						      "forward_of_the_router"),
		    });
	options.question.by_stack = true;
	text = text_of(run, "ops", options);
	check_text("ops", text, 80);
	assert_non_null(strstr(text, "called from"));
	assert_non_null(strstr(text, "autograd::"));
	assert_non_null(strstr(text, "models/"));
	assert_non_null(strstr(text, "the_router"));
	assert_null(strstr(text, "train.py"));
	free(text);
	options.json = true;
	text = text_of(run, "ops", options);
	assert_non_null(
		strstr(text, "\"stack\": \"train.py(1): main;module.py(1783): call;models/"));
	free(text);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hostile_text),
		cmocka_unit_test(test_hostile_json),
		cmocka_unit_test(test_dashboard_is_one_screen),
		cmocka_unit_test(test_growing_run),
		cmocka_unit_test(test_trouble_comes_first),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_sort_and_limit),
		cmocka_unit_test(test_csv_quotes),
		cmocka_unit_test(test_markdown_escapes),
		cmocka_unit_test(test_hostile_markdown),
		cmocka_unit_test(test_absent_has_a_reason),
		cmocka_unit_test(test_staged_moves_are_named),
		cmocka_unit_test(test_stacks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
