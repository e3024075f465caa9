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

#include "fake_h200.h"
#include "fake_windows.h"
#include "present/present.h"

static long countdown = -1; /* allocations until one fails; -1: none fails */

static bool fails(void)
{
	return countdown >= 0 && countdown-- == 0;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_reallocarray(void *old, size_t n, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_reallocarray(void *old, size_t n, size_t size);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
	return fails() ? NULL : __real_realloc(old, size);
}

void *__wrap_reallocarray(void *old, size_t n, size_t size)
{
	return fails() ? NULL : __real_reallocarray(old, n, size);
}

char *__wrap_strdup(const char *text)
{
	return fails() ? NULL : __real_strdup(text);
}

static void fail_in_turn(const struct run *run, const char *name, bool json, const char *sort)
{
	struct present_options options = { .json = json,
					   .utf8 = true,
					   .width = 80,
					   .layer = json ? 1 : -1,
					   .phase = -1,
					   .sort = sort,
					   .step_first = INT64_MIN,
					   .step_last = INT64_MAX };
	const struct view *view = view_find(name);
	FILE *out = fopen("/dev/null", "w");
	bool reached = true;
	long n = 0;

	assert_non_null(out);
	for (; reached; n++) {
		struct err err = { "" };
		int r;

		countdown = n;
		r = view ? view->render(run, &options, out, &err) : present_chrome(run, out, &err);
		reached = countdown < 0;
		countdown = -1;
		assert_int_equal(r, reached ? -ENOMEM : 0);
		assert_int_equal(err.message[0] != '\0', reached);
	}
	fclose(out);
	assert_true(n > 5);
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
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_views_without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
