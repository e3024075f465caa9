/* SPDX-License-Identifier: Apache-2.0
 *
 * Host memory by stack, from samples made by hand: sums, the peak, functions that call themselves, chosen steps and
 * ranges, and which growth is a leak.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "fake_run.h"
#include "judge.h"
#include "subjects/heap/heap_use.h"
#include "subjects/stacks/stack_choice.h"

#define SECOND INT64_C(1000000000)
#define MB 1000000u

static const struct stack_choice everything;

static void stack(struct run *run, uint32_t id, uint32_t parent, const char *name)
{
	fake_add_stack(
		run, 0,
		&(struct row_stack){ .id = id, .parent = parent, .name = fake_string(run, name) });
}

static void took(struct run *run, int64_t time_ns, uint32_t of, uint64_t bytes)
{
	fake_add_heap_sample(run, 0,
			     &(struct row_heap_sample){ .time_ns = time_ns,
							.event = HEAP_SAMPLE_TAKEN,
							.thread = 7,
							.stack = of,
							.size = bytes / 2,
							.bytes = bytes });
}

static void freed(struct run *run, int64_t time_ns, uint32_t of, uint64_t bytes, int64_t held_ns)
{
	fake_add_heap_sample(run, 0,
			     &(struct row_heap_sample){ .time_ns = time_ns,
							.event = HEAP_SAMPLE_FREED,
							.thread = 7,
							.stack = of,
							.size = bytes / 2,
							.bytes = bytes,
							.held_ns = held_ns });
}

static const struct heap_row *row(const struct heap_use *use, const char *text)
{
	for (size_t i = 0; i < use->n; i++)
		if (strcmp(use->rows[i].text, text) == 0)
			return &use->rows[i];
	fail_msg("no row '%s'", text);
	return NULL;
}

static struct run *new_run(void)
{
	struct run *run = fake_run_new();

	stack(run, 1, 0, "main");
	stack(run, 2, 1, "walk");
	stack(run, 3, 2, "walk");
	stack(run, 4, 1, "other");
	return run;
}

static void bytes_are(const struct heap_bytes *b, uint64_t live, uint64_t peak, uint64_t allocated)
{
	assert_int_equal(b->live, live);
	assert_int_equal(b->peak, peak);
	assert_int_equal(b->allocated, allocated);
}

static void test_sums(void **state)
{
	struct run *run = new_run();
	struct heap_use use;

	(void)state;
	took(run, 10, 3, 100);
	took(run, 30, 4, 50); /* not in the order of time, as those of several threads */
	took(run, 20, 3, 100);
	freed(run, 40, 3, 100, 30);
	took(run, 50, 4, 20);
	took(run, 60, 99, 1); /* of a stack that is not there */
	assert_int_equal(heap_use_analyze(run, false, &everything, &use), 0);
	assert_int_equal(use.samples, 5);
	assert_int_equal(use.peak_ns, 30);
	bytes_are(&use.all, 171, 250, 271);
	assert_int_equal(use.n, 3);
	bytes_are(&row(&use, "walk < walk < main")->self, 100, 200, 200);
	bytes_are(&row(&use, "other < main")->self, 70, 50, 70);
	bytes_are(&row(&use, "(no stack)")->self, 1, 0, 1);
	assert_int_equal(row(&use, "other < main")->allocations, 4);
	/* 2 of 100, each of half a chance: the root of 2 * 100 * 50, of 200. */
	assert_float_equal(row(&use, "walk < walk < main")->error_pct, 50, 1e-9);
	heap_use_release(&use);
	assert_int_equal(heap_use_analyze(run, true, &everything, &use), 0);
	bytes_are(&row(&use, "walk")->self, 100, 200, 200);
	bytes_are(&row(&use, "walk")->total, 100, 200, 200); /* once, though twice on the stack */
	bytes_are(&row(&use, "main")->self, 0, 0, 0);
	bytes_are(&row(&use, "main")->total, 170, 250, 270);
	heap_use_release(&use);
	fake_run_free(run);
}

/* By when it was allocated, also of what is freed later. */
static void test_chosen_range(void **state)
{
	struct run *run = new_run();
	struct selection all = { INT64_MIN, INT64_MAX, -1, -1 };
	struct stack_choice choice;
	struct heap_use use;

	(void)state;
	fake_add_range(run, 0,
		       &(struct row_range){ .site = fake_site(run, "forward", -1, -1, 0),
					    .start_ns = 100,
					    .duration_ns = 100,
					    .thread = 7 });
	took(run, 50, 4, 1000);
	took(run, 150, 4, 10);
	took(run, 160, 4, 30);
	freed(run, 170, 4, 1000, 120);
	freed(run, 250, 4, 30, 90);
	assert_int_equal(stack_choice_init(&choice, run, &all, "forward"), 0);
	assert_int_equal(heap_use_analyze(run, false, &choice, &use), 0);
	bytes_are(&use.all, 10, 40, 40);
	stack_choice_release(&choice);
	heap_use_release(&use);
	fake_run_free(run);
}

/* 20 seconds of: a leak, a cache that holds the last second, start-up, and all freed at the end. */
enum { LEAKS = 1, CACHES = 2, STARTS = 4, SLOWS = 8, DRAINS = 16 };

static struct run *run_of(unsigned int what)
{
	struct run *run = new_run();

	for (int i = 0; i < 200; i++) {
		int64_t now = i * SECOND / 10;

		if (what & LEAKS)
			took(run, now, 3, MB);
		if (what & CACHES)
			took(run, now, 4, 5 * MB);
		if (what & CACHES && i >= 10)
			freed(run, now + 1, 4, 5 * MB, SECOND + 1);
		if (what & STARTS && i < 40)
			took(run, now, 2, 10 * MB);
		/* Half of the time of a program may be start-up, too: it slows down until it ends. */
		if (what & SLOWS && (i < 100 ? i % 2 == 0 : i < 105))
			took(run, now, 2, 10 * MB);
		took(run, now, 1, MB);
		freed(run, now + 1, 1, MB, 1);
	}
	if (what & DRAINS)
		for (int i = 0; i < 200; i++)
			freed(run, 20 * SECOND, 3, MB, 20 * SECOND - i * SECOND / 10);
	return run;
}

static void test_growth(void **state)
{
	static const unsigned int leaky[] = { LEAKS, LEAKS | CACHES, LEAKS | STARTS,
					      LEAKS | DRAINS };
	struct heap_use use;

	(void)state;
	for (size_t i = 0; i < sizeof(leaky) / sizeof(leaky[0]); i++) {
		struct run *run = run_of(leaky[i]);

		assert_int_equal(heap_use_analyze(run, false, &everything, &use), 0);
		assert_true(use.leak < use.n);
		assert_string_equal(use.rows[use.leak].text, "walk < walk < main");
		assert_float_equal(use.rows[use.leak].growth.v, 10.0 * MB, 0.1 * MB);
		for (size_t k = 0; k < use.n; k++)
			assert_int_equal(use.rows[k].growth.known, k == use.leak);
		heap_use_release(&use);
		fake_run_free(run);
	}
	for (unsigned int what = 0; what < 16; what += 2) {
		struct run *run = run_of(what);

		assert_int_equal(heap_use_analyze(run, false, &everything, &use), 0);
		assert_int_equal(use.leak, use.n);
		heap_use_release(&use);
		fake_run_free(run);
	}
}

static void test_verdict(void **state)
{
	struct run *run = run_of(LEAKS | CACHES);
	struct verdict v;
	int found;

	(void)state;
	v = verdict_of(run, "heap-leak", &found);
	assert_true(found);
	assert_int_equal(v.severity, SEVERITY_WARNING);
	/* 140 MB in the 13.93 s of the window. */
	assert_string_equal(v.title, "host memory grows by 603 MB a minute at walk < walk < main");
	fake_run_free(run);
	run = run_of(CACHES | STARTS);
	SILENT(run, "heap-leak");
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_chosen_range),
		cmocka_unit_test(test_growth),
		cmocka_unit_test(test_verdict),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
