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

#include "documents/document.h"
#include "exports/exports.h"
#include "failing_alloc.h"
#include "fake_comm.h"
#include "fake_counters.h"
#include "fake_h200.h"
#include "fake_slow.h"
#include "fake_windows.h"
#include "kept_regex.h"
#include "documents/comparison.h"
#include "exports/csv/kernel_comparison.h"
#include "surfaces/sheets/sheet_print.h"
#include "surfaces/views/document_view.h"
#include "surfaces/views/views.h"

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
	struct view_options options;
};

static int render_once(const void *what, FILE *out, struct err *err)
{
	const struct render *render = what;

	return render->view ? section_render(render->view, render->run, &render->options, out, err)
			    : export_chrome(render->run, out, err);
}

static void fail_in_turn(const struct run *run, const struct section *view, bool json,
			 const char *sort)
{
	struct render render = { .run = run,
				 .view = view,
				 .options = { .json = json,
					      .utf8 = true,
					      .width = 80,
					      .sort = sort,
					      .question = QUESTION_ALL } };

	render.options.question.sel.layer = json ? 1 : -1;
	fail_each(render_once, &render, 5, true);
}

static void test_markdown_without_memory(void **state)
{
	struct run *run = fake_training_run();
	struct render render = {
		.run = run,
		.view = &section_routing,
		.options = { .markdown = true, .utf8 = true, .width = 80, .question = QUESTION_ALL }
	};

	(void)state;
	fail_each(render_once, &render, 5, true);
	render.view = &section_report;
	fail_each(render_once, &render, 5, true);
	fake_run_free(run);
}

static void test_views_without_memory(void **state)
{
	struct run *runs[] = { fake_training_run(), fake_gpu_run(),  fake_windows_run(),
			       fake_h200_run(),	    fake_comm_run(), fake_counters_run(),
			       fake_limits_run(),   fake_slow_run() };

	(void)state;
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		for (const struct section *const *view = sections; *view; view++) {
			fail_in_turn(runs[i], *view, false, NULL);
			if (*view != &section_dashboard)
				fail_in_turn(runs[i], *view, true, NULL);
		}
		fake_run_free(runs[i]);
	}
}

static void test_chrome_and_sorted_without_memory(void **state)
{
	struct run *run = fake_training_run();

	(void)state;
	fail_in_turn(run, NULL, true, NULL);
	fail_in_turn(run, &section_ops, false, "count");
	fail_in_turn(run, &section_routing_steps, true, "k_avg");
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
			       struct err *) = { export_perfetto, export_folded, export_folded_host,
						 export_speedscope };
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
	struct view_options options = { .question = QUESTION_ALL };
	struct document_view book;
	struct kernel_comparison *comparison = NULL;
	int r = document_view_open(&book, &document_book, run, &options, err);

	if (r < 0)
		return r;
	for (size_t i = 0; r >= 0 && i < document_view_files(&book); i++)
		r = document_view_write(&book, i, out, err);
	if (r >= 0) {
		comparison = kernel_comparison_new();
		r = comparison ? kernel_comparison_add(comparison, "x", run,
						       answer_kernels(book.answers))
			       : -ENOMEM;
		if (r < 0)
			err_sys(err, r, "no comparison");
		else
			kernel_comparison_write(comparison, out);
	}
	kernel_comparison_free(comparison);
	document_view_close(&book);
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
	struct view_options options;
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
	struct compared_choice choice = { .sort = two->options.sort };
	struct compared compared;
	int r = digest_take(runs[0], &sel, &digests[0]);

	if (r >= 0)
		r = digest_take(runs[1], &sel, &digests[1]);
	if (r >= 0)
		r = compare_groups(groups, 2, &comparison);
	if (r >= 0) {
		r = compared_make(&comparison, NULL, 0, &choice, &compared, err);
		if (r >= 0) {
			r = sheet_print(&comparison_sheet, &compared, &two->options, out, err);
			compared_release(&compared);
		}
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
		cmocka_unit_test(test_chrome_and_sorted_without_memory),
		cmocka_unit_test(test_markdown_without_memory),
		cmocka_unit_test(test_exports_without_memory),
		cmocka_unit_test(test_books_without_memory),
		cmocka_unit_test(test_comparison_without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
