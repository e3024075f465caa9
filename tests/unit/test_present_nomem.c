/* SPDX-License-Identifier: Apache-2.0
 *
 * Every allocation of every view fails once, in turn: the view must say so, and under the
 * sanitizers neither crash nor leak. Linked with --wrap for the allocators.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "failing_alloc.h"
#include "fake_comm.h"
#include "fake_counters.h"
#include "fake_h200.h"
#include "fake_slow.h"
#include "fake_windows.h"
#include "kept_regex.h"
#include "present/book/csv_files.h"
#include "present/comparison/compare.h"
#include "present/frame/present.h"

/* What is tried again and again, with the next allocation failing each time. */
typedef int (*attempt)(const void *what, FILE *out, struct err *err);

static void fail_each(attempt once, const void *what, long least, bool says_why)
{
	FILE *out = fopen("/dev/null", "w");
	bool reached = true;
	long n = 0;

	assert_non_null(out);
	for (; reached; n++) {
		struct err err = { "" };
		int r;

		countdown = n;
		r = once(what, out, &err);
		reached = countdown < 0;
		countdown = -1;
		assert_int_equal(r, reached ? -ENOMEM : 0);
		if (says_why)
			assert_int_equal(err.message[0] != '\0', reached);
	}
	fclose(out);
	assert_true(n > least);
}

struct render {
	const struct run *run;
	const struct section *view; /* NULL: the Chrome trace */
	struct present_options options;
};

static int render_once(const void *what, FILE *out, struct err *err)
{
	const struct render *render = what;

	return render->view ? section_render(render->view, render->run, &render->options, out, err)
			    : present_chrome(render->run, out, err);
}

static void fail_in_turn(const struct run *run, const char *name, bool json, const char *sort)
{
	struct render render = { .run = run,
				 .view = section_find(name),
				 .options = { .json = json,
					      .utf8 = true,
					      .width = 80,
					      .layer = json ? 1 : -1,
					      .phase = -1,
					      .sort = sort,
					      .step_first = INT64_MIN,
					      .step_last = INT64_MAX } };

	fail_each(render_once, &render, 5, true);
}

static void test_views_without_memory(void **state)
{
	static const struct {
		const char *view;
		bool json;
		const char *sort;
	} cases[] = {
		{ "report", false, NULL },
		{ "report", true, NULL },
		{ "dashboard", false, NULL },
		{ "ops", false, "count" },
		{ "ops", true, NULL },
		{ "steps", false, "time_ns" },
		{ "steps", true, NULL },
		{ "routing", false, "cv" },
		{ "routing", true, NULL },
		{ "memory", false, "device" },
		{ "memory", true, NULL },
		{ "chrome", true, NULL },
		{ "routing-steps", true, "k_avg" },
		{ "routing-experts", false, NULL },
	};
	static const struct {
		const char *view;
		bool json;
		const char *sort;
	} gpu_cases[] = {
		{ "kernels", false, "count" },	    { "kernels", true, NULL },
		{ "api", false, "count" },	    { "api", true, NULL },
		{ "transfers", false, "kind" },	    { "transfers", true, NULL },
		{ "efficiency", false, "time_ns" }, { "efficiency", true, NULL },
		{ "report", false, NULL },	    { "report", true, NULL },
		{ "memory", false, NULL },	    { "memory", true, NULL },
	};
	struct run *run = fake_training_run();

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		fail_in_turn(run, cases[i].view, cases[i].json, cases[i].sort);
	fake_run_free(run);
	run = fake_gpu_run();
	for (size_t i = 0; i < sizeof(gpu_cases) / sizeof(gpu_cases[0]); i++)
		fail_in_turn(run, gpu_cases[i].view, gpu_cases[i].json, gpu_cases[i].sort);
	fake_run_free(run);
	run = fake_windows_run();
	for (size_t i = 0; i < sizeof(gpu_cases) / sizeof(gpu_cases[0]); i++)
		fail_in_turn(run, gpu_cases[i].view, gpu_cases[i].json, gpu_cases[i].sort);
	fake_run_free(run);
	run = fake_h200_run();
	for (size_t i = 0; i < sizeof(gpu_cases) / sizeof(gpu_cases[0]); i++)
		fail_in_turn(run, gpu_cases[i].view, gpu_cases[i].json, gpu_cases[i].sort);
	fake_run_free(run);
	run = fake_windows_run();
	fail_in_turn(run, "ops", false, "gpu_ns");
	fail_in_turn(run, "steps", true, NULL);
	fake_run_free(run);
	run = fake_comm_run();
	fail_in_turn(run, "comm", false, "time_ns");
	fail_in_turn(run, "comm", true, NULL);
	fail_in_turn(run, "report", false, NULL);
	fake_run_free(run);
	run = fake_counters_run();
	fail_in_turn(run, "counters", false, "mean");
	fail_in_turn(run, "counters", true, NULL);
	fake_run_free(run);
	run = fake_slow_run();
	fail_in_turn(run, "report", false, NULL);
	fail_in_turn(run, "steps", true, NULL);
	fail_in_turn(run, "routing", false, NULL);
	fake_run_free(run);
}

struct writer {
	const struct run *run;
	int (*write)(const struct run *run, FILE *out, struct err *err);
};

static int export_once(const void *what, FILE *out, struct err *err)
{
	const struct writer *writer = what;

	return writer->write(writer->run, out, err);
}

static void test_exports_without_memory(void **state)
{
	int (*const writers[])(const struct run *, FILE *,
			       struct err *) = { present_perfetto, present_folded,
						 present_folded_host, present_speedscope };
	struct run *runs[] = { fake_training_run(), fake_gpu_run(), fake_comm_run() };

	(void)state;
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		for (size_t w = 0; w < sizeof(writers) / sizeof(writers[0]); w++)
			fail_each(export_once, &(struct writer){ runs[i], writers[w] }, 5, true);
		fake_run_free(runs[i]);
	}
}

/* A book with all of its files; the first failure ends it. */
static int write_book(const void *run, FILE *out, struct err *err)
{
	struct present_options options = {
		.layer = -1, .phase = -1, .step_first = INT64_MIN, .step_last = INT64_MAX
	};
	struct csv_book *book;
	struct csv_comparison *comparison = NULL;
	int r = csv_book_new(run, &options, &book, err);

	if (r < 0)
		return r;
	for (size_t i = 0; r >= 0 && i < csv_book_files(); i++)
		r = csv_book_write(book, i, out, err);
	if (r >= 0) {
		comparison = csv_comparison_new();
		r = comparison ? csv_comparison_add(comparison, "x", book) : -ENOMEM;
		if (r < 0)
			err_sys(err, r, "no comparison");
		else
			csv_comparison_write(comparison, out);
	}
	csv_comparison_free(comparison);
	csv_book_free(book);
	return r;
}

static void test_books_without_memory(void **state)
{
	struct run *runs[] = { fake_training_run(), fake_gpu_run() };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		fail_each(write_book, runs[i], 50, true);
		fake_run_free(runs[i]);
	}
}

struct two_runs {
	struct run *const *runs;
	struct present_options options;
};

/* A digest, a comparison and its output, as one. */
static int compare_once(const void *what, FILE *out, struct err *err)
{
	const struct two_runs *two = what;
	struct run *const *runs = two->runs;
	struct selection sel = SELECT_ALL;
	struct run_digest digests[2] = { 0 };
	struct compare_group groups[] = { { "a", &digests[0], 1 }, { "b", &digests[1], 1 } };
	struct comparison comparison;
	struct compare_scene scene = { .comparison = &comparison, .options = &two->options };
	int r = digest_take(runs[0], &sel, &digests[0]);

	if (r >= 0)
		r = digest_take(runs[1], &sel, &digests[1]);
	if (r >= 0)
		r = compare_groups(groups, 2, &comparison);
	if (r >= 0) {
		r = present_compare(&scene, out, err);
		comparison_release(&comparison);
	}
	digest_release(&digests[0]);
	digest_release(&digests[1]);
	return r;
}

static void test_comparison_without_memory(void **state)
{
	struct run *const runs[] = { fake_training_run(), fake_windows_run() };
	struct run *const gpu[] = { fake_gpu_run(), fake_windows_run() };

	(void)state;
	for (int i = 0; i < 6; i++) {
		struct two_runs two = { i < 3 ? runs : gpu,
					{ .json = i % 3 == 1,
					  .csv = i % 3 == 2,
					  .utf8 = true,
					  .width = 80,
					  .sort = "p" } };

		fail_each(compare_once, &two, 50, false);
	}
	for (int i = 0; i < 2; i++) {
		fake_run_free(runs[i]);
		fake_run_free(gpu[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_views_without_memory),
		cmocka_unit_test(test_exports_without_memory),
		cmocka_unit_test(test_books_without_memory),
		cmocka_unit_test(test_comparison_without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
