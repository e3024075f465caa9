/* SPDX-License-Identifier: Apache-2.0
 *
 * Sampled stacks from tables made by hand: recursion, two processes, and what a damaged file may hold.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "fake_run.h"
#include "subjects/stacks/sampled_stacks.h"
#include "subjects/stacks/stack_choice.h"

static void stack(struct run *run, uint16_t shard, uint32_t id, uint32_t parent, const char *name)
{
	fake_add_stack(
		run, shard,
		&(struct row_stack){ .id = id, .parent = parent, .name = fake_string(run, name) });
}

static const struct stack_choice everything;

/* duration_ns is all time, waiting too. */
static void sample(struct run *run, uint16_t shard, uint32_t thread, uint32_t of,
		   int64_t duration_ns, int64_t cpu_ns, int64_t ready_ns)
{
	fake_add_stack_sample(run, shard,
			      &(struct row_stack_sample){ .thread = thread,
							  .stack = of,
							  .duration_ns = duration_ns,
							  .cpu_ns = cpu_ns,
							  .ready_ns = ready_ns,
							  .samples = 1 });
}

static const struct stack_row *row(const struct sampled_stacks *stacks, const char *text)
{
	const struct stack_row *found = NULL;

	for (size_t i = 0; i < stacks->n; i++) {
		if (strcmp(stacks->rows[i].text, text) != 0)
			continue;
		assert_null(found); /* one row each */
		found = &stacks->rows[i];
	}
	if (!found)
		fail_msg("no row '%s'", text);
	return found;
}

static void times_are(const struct stack_times *times, uint64_t samples, int64_t cpu_ns,
		      int64_t ready_ns, int64_t wait_ns)
{
	assert_int_equal(times->samples, samples);
	assert_int_equal(times->cpu_ns, cpu_ns);
	assert_int_equal(times->ready_ns, ready_ns);
	assert_int_equal(times->wait_ns, wait_ns);
}

/* What is true of every run: rows by time on a processor, whose own times sum to the whole, in each view. */
static void check_sums(const struct run *run)
{
	static const enum stacks_by views[] = { STACKS_BY_FUNCTION, STACKS_BY_THREAD,
						STACKS_BY_STACK, STACKS_BY_WAIT };

	for (size_t v = 0; v < sizeof(views) / sizeof(views[0]); v++) {
		struct sampled_stacks stacks;
		struct stack_times sum = { 0 };

		assert_int_equal(sampled_stacks_analyze(run, views[v], &everything, &stacks), 0);
		for (size_t i = 0; i < stacks.n; i++) {
			const struct stack_row *r = &stacks.rows[i];

			sum.samples += r->self.samples;
			sum.cpu_ns += r->self.cpu_ns;
			sum.ready_ns += r->self.ready_ns;
			sum.wait_ns += r->self.wait_ns;
			assert_true(r->self.cpu_ns >= 0 && r->self.ready_ns >= 0 &&
				    r->self.wait_ns >= 0);
			/* With what it called is never less than alone, nor more than all. */
			assert_true(r->total.samples >= r->self.samples &&
				    r->total.samples <= stacks.all.samples);
			assert_true(r->total.cpu_ns >= r->self.cpu_ns &&
				    r->total.cpu_ns <= stacks.all.cpu_ns);
			assert_true(r->total.wait_ns >= r->self.wait_ns &&
				    r->total.wait_ns <= stacks.all.wait_ns);
			assert_true(!i || r[-1].self.cpu_ns >= r->self.cpu_ns);
		}
		if (views[v] == STACKS_BY_WAIT) /* nothing else has a cause */
			times_are(&sum, sum.samples, 0, 0, stacks.all.wait_ns);
		else
			times_are(&sum, stacks.all.samples, stacks.all.cpu_ns, stacks.all.ready_ns,
				  stacks.all.wait_ns);
		sampled_stacks_release(&stacks);
	}
}

static struct sampled_stacks analyzed(const struct run *run, enum stacks_by by)
{
	struct sampled_stacks stacks;

	check_sums(run);
	assert_int_equal(sampled_stacks_analyze(run, by, &everything, &stacks), 0);
	return stacks;
}

static void test_nothing(void **state)
{
	struct run *run = fake_run_new();
	struct sampled_stacks stacks = analyzed(run, STACKS_BY_FUNCTION);

	(void)state;
	assert_int_equal(stacks.n, 0);
	assert_int_equal(stacks.threads, 0);
	times_are(&stacks.all, 0, 0, 0, 0);
	sampled_stacks_release(&stacks);
	fake_run_free(run);
}

/* main > walk > walk > leaf: 30 ns there, 10 in the inner walk, 60 of waiting in main. */
static void test_recursion_counts_once(void **state)
{
	struct run *run = fake_run_new();
	struct sampled_stacks stacks;

	(void)state;
	stack(run, 0, 1, 0, "main");
	stack(run, 0, 2, 1, "walk");
	stack(run, 0, 3, 2, "walk");
	stack(run, 0, 4, 3, "leaf");
	sample(run, 0, 7, 4, 35, 30, 5);
	sample(run, 0, 7, 3, 10, 10, 0);
	sample(run, 0, 7, 1, 60, 0, 0);
	stacks = analyzed(run, STACKS_BY_FUNCTION);
	assert_int_equal(stacks.n, 3);
	assert_int_equal(stacks.threads, 1);
	times_are(&stacks.all, 3, 40, 5, 60);
	assert_string_equal(stacks.rows[0].text, "leaf");
	times_are(&row(&stacks, "walk")->self, 1, 10, 0, 0);
	times_are(&row(&stacks, "walk")->total, 2, 40, 5, 0);
	times_are(&row(&stacks, "main")->self, 1, 0, 0, 60);
	times_are(&row(&stacks, "main")->total, 3, 40, 5, 60);
	assert_true(row(&stacks, "leaf")->cpu_pct == 75);
	assert_true(row(&stacks, "main")->total_cpu_pct == 100);
	assert_true(row(&stacks, "main")->wait_pct == 100);
	sampled_stacks_release(&stacks);

	stacks = analyzed(run, STACKS_BY_STACK);
	assert_int_equal(stacks.n, 3);
	times_are(&row(&stacks, "main;walk;walk;leaf")->self, 1, 30, 5, 0);
	times_are(&row(&stacks, "main;walk;walk")->total, 1, 10, 0, 0);
	sampled_stacks_release(&stacks);
	fake_run_free(run);
}

/* The same numbers of stacks and threads mean others in another process. */
static void test_numbers_of_two_shards(void **state)
{
	struct run *run = fake_run_new();
	uint16_t other = fake_shard(run, 1, 4243);
	struct sampled_stacks stacks;

	(void)state;
	fake_add_thread(run, 0,
			&(struct row_thread){ .thread = 7, .name = fake_string(run, "one") });
	fake_add_thread(run, other,
			&(struct row_thread){ .thread = 7, .name = fake_string(run, "two") });
	stack(run, 0, 1, 0, "main");
	stack(run, other, 1, 0, "start");
	stack(run, 0, 2, 1, "work");
	stack(run, other, 2, 1, "work");
	sample(run, 0, 7, 2, 10, 10, 0);
	sample(run, other, 7, 2, 5, 3, 0);
	sample(run, other, 8, 1, 1, 1, 0);
	stacks = analyzed(run, STACKS_BY_FUNCTION);
	assert_int_equal(stacks.threads, 3);
	times_are(&row(&stacks, "main")->total, 1, 10, 0, 0);
	times_are(&row(&stacks, "start")->total, 2, 4, 0, 2);
	times_are(&row(&stacks, "work")->self, 2, 13, 0, 2); /* one function, two processes */
	sampled_stacks_release(&stacks);

	stacks = analyzed(run, STACKS_BY_THREAD);
	assert_int_equal(stacks.n, 3);
	times_are(&row(&stacks, "one, thread 7 of 4242")->self, 1, 10, 0, 0);
	times_are(&row(&stacks, "two, thread 7 of 4243")->self, 1, 3, 0, 2);
	times_are(&row(&stacks, "(no name), thread 8 of 4243")->self, 1, 1, 0, 0);
	sampled_stacks_release(&stacks);

	stacks = analyzed(run, STACKS_BY_STACK);
	times_are(&row(&stacks, "main;work")->self, 1, 10, 0, 0);
	times_are(&row(&stacks, "start;work")->self, 1, 3, 0, 2);
	sampled_stacks_release(&stacks);
	fake_run_free(run);
}

/* 3 of 10 ns on a processor; the rest waiting, for one thing or the other; of a newer moescope; for none. */
static void test_causes(void **state)
{
	static const uint8_t causes[] = { WAIT_LOCK, WAIT_FILE, WAIT_LOCK, 200, 0, WAIT_SLEEP };
	struct run *run = fake_run_new();
	struct sampled_stacks stacks;

	(void)state;
	stack(run, 0, 1, 0, "main");
	for (size_t i = 0; i < 6; i++)
		fake_add_stack_sample(run, 0,
				      &(struct row_stack_sample){ .thread = 7,
								  .stack = 1,
								  .duration_ns = 10,
								  .cpu_ns = i < 5 ? 3 : 10,
								  .samples = 1,
								  .wait = causes[i] });
	stacks = analyzed(run, STACKS_BY_WAIT);
	assert_int_equal(stacks.n, 3); /* nobody waited for time */
	times_are(&stacks.all, 6, 25, 0, 35);
	times_are(&row(&stacks, "lock")->self, 2, 0, 0, 14);
	times_are(&row(&stacks, "file")->self, 1, 0, 0, 7);
	times_are(&row(&stacks, "unknown")->self, 2, 0, 0, 14);
	assert_true(row(&stacks, "lock")->wait_pct == 40);
	sampled_stacks_release(&stacks);

	stacks = analyzed(run, STACKS_BY_FUNCTION);
	assert_int_equal(row(&stacks, "main")->self.wait_for_ns[WAIT_LOCK], 14);
	assert_int_equal(row(&stacks, "main")->self.wait_for_ns[WAIT_FILE], 7);
	assert_int_equal(row(&stacks, "main")->self.wait_for_ns[WAIT_UNKNOWN], 14);
	assert_int_equal(stack_times_cause(&(struct stack_times){ 0 }), WAIT_CAUSE_LIMIT);
	assert_int_equal(stack_times_cause(&stacks.all), WAIT_UNKNOWN); /* the first of equals */
	assert_string_equal(wait_cause_name(WAIT_GIL), "gil");
	assert_string_equal(wait_cause_name(200), "?");
	sampled_stacks_release(&stacks);
	fake_run_free(run);
}

/* Steps 1 to 3 of 100 ns each from 100 on, and "inner" on thread 7 in the middle 40 ns of each, twice inside
 * itself; the process that records them has another shard with the samples. */
static struct run *run_with_steps(uint16_t *ret_samples, uint16_t *ret_worker)
{
	struct run *run = fake_run_new();
	uint32_t site = fake_site(run, "inner", -1, -1, 0);
	uint16_t samples = fake_shard(run, 0, 4242), worker = fake_shard(run, 0, 5000);

	for (int64_t at = 100; at <= 300; at += 100) {
		fake_step(run, at / 100, at, at + 100, 0);
		fake_range(run, site, at + 30, at + 70, 7, 0);
		fake_range(run, site, at + 31, at + 69, 7, 1);
	}
	stack(run, samples, 1, 0, "main");
	stack(run, worker, 1, 0, "load");
	*ret_samples = samples;
	*ret_worker = worker;
	return run;
}

static void sample_at(struct run *run, uint16_t shard, uint32_t thread, int64_t start_ns,
		      int64_t duration_ns, int64_t cpu_ns, uint32_t samples)
{
	fake_add_stack_sample(run, shard,
			      &(struct row_stack_sample){ .start_ns = start_ns,
							  .thread = thread,
							  .stack = 1,
							  .duration_ns = duration_ns,
							  .cpu_ns = cpu_ns,
							  .samples = samples,
							  .wait = WAIT_PIPE });
}

static struct stack_times chosen(const struct run *run, int64_t first, int64_t last,
				 const char *range, size_t *ret_threads)
{
	struct selection sel = SELECT_ALL;
	struct sampled_stacks stacks;
	struct stack_choice choice;
	struct stack_times all;

	sel.step_first = first;
	sel.step_last = last;
	assert_int_equal(stack_choice_init(&choice, run, &sel, range), 0);
	assert_int_equal(sampled_stacks_analyze(run, STACKS_BY_FUNCTION, &choice, &stacks), 0);
	all = stacks.all;
	*ret_threads = stacks.threads;
	sampled_stacks_release(&stacks);
	stack_choice_release(&choice);
	return all;
}

static void test_steps_and_ranges(void **state)
{
	uint16_t samples, worker;
	struct run *run = run_with_steps(&samples, &worker);
	struct stack_times times;
	size_t threads;

	(void)state;
	/* One that ran counts where it was looked at, at its end. */
	sample_at(run, samples, 7, 180, 20, 20, 1); /* ends with step 1 */
	sample_at(run, samples, 7, 190, 11, 10, 1); /* in step 2 */
	sample_at(run, samples, 7, 230, 40, 5, 1);  /* ends with inner */
	sample_at(run, samples, 7, 231, 40, 5, 1);  /* after it */
	sample_at(run, samples, 9, 240, 10, 10, 1); /* another thread */
	/* One that waited, by its part. */
	sample_at(run, samples, 8, 50, 300, 0, 30); /* from before all to the middle of step 3 */
	sample_at(run, worker, 1, 150, 100, 0, 10); /* a process without steps: those of its rank */
	sample_at(run, worker, 1, 400, 100, 0, 10); /* after all */

	times = chosen(run, INT64_MIN, INT64_MAX, NULL, &threads);
	times_are(&times, 55, 50, 0, 571);
	times = chosen(run, 1, 1, NULL, &threads);
	times_are(&times, 1 + 10 + 5, 20, 0, 100 + 50);
	assert_int_equal(times.wait_for_ns[WAIT_PIPE], 150);
	assert_int_equal(threads, 3);
	times = chosen(run, 2, 2, NULL, &threads);
	times_are(&times, 4 + 10 + 5, 30, 0, 1 + 35 + 35 + 100 + 50);
	times = chosen(run, 2, INT64_MAX, NULL, &threads);
	times_are(&times, 4 + 15 + 5, 30, 0, 71 + 150 + 50);
	times = chosen(run, 4, 9, NULL, &threads);
	times_are(&times, 0, 0, 0, 0);
	assert_int_equal(threads, 0);

	times = chosen(run, INT64_MIN, INT64_MAX, "inner", &threads);
	times_are(&times, 1, 5, 0, 35);
	assert_int_equal(threads, 1);
	sample_at(run, samples, 7, 100, 300, 0, 30); /* 40 of each step */
	times = chosen(run, INT64_MIN, INT64_MAX, "inner", &threads);
	times_are(&times, 1 + 12, 5, 0, 35 + 120);
	times = chosen(run, 1, 2, "inner", &threads);
	times_are(&times, 1 + 8, 5, 0, 35 + 80);
	times = chosen(run, INT64_MIN, INT64_MAX, "nowhere", &threads);
	times_are(&times, 0, 0, 0, 0);
	fake_run_free(run);
}

/* A stack or a parent that is nowhere, or only in another shard. */
static void test_missing(void **state)
{
	struct run *run = fake_run_new();
	uint16_t other = fake_shard(run, 1, 4243);
	struct sampled_stacks stacks;

	(void)state;
	stack(run, other, 9, 0, "elsewhere");
	stack(run, 0, 1, 9, "orphan");
	stack(run, 0, 2, 1, "child");
	sample(run, 0, 7, 2, 10, 10, 0);
	sample(run, 0, 7, 9, 4, 4, 0);		/* of the other shard */
	sample(run, 0, 7, 0, 2, 2, 0);		/* none */
	sample(run, 0, 7, UINT32_MAX, 1, 0, 0); /* nowhere */
	stacks = analyzed(run, STACKS_BY_FUNCTION);
	assert_int_equal(stacks.n, 3);
	times_are(&stacks.all, 4, 16, 0, 1);
	times_are(&row(&stacks, "orphan")->total, 1, 10, 0, 0);
	times_are(&row(&stacks, "child")->self, 1, 10, 0, 0);
	times_are(&row(&stacks, "(no stack)")->self, 3, 6, 0, 1);
	times_are(&row(&stacks, "(no stack)")->total, 3, 6, 0, 1);
	sampled_stacks_release(&stacks);

	stacks = analyzed(run, STACKS_BY_STACK);
	assert_int_equal(stacks.n, 2);
	times_are(&row(&stacks, "orphan;child")->self, 1, 10, 0, 0);
	times_are(&row(&stacks, "(no stack)")->self, 3, 6, 0, 1);
	sampled_stacks_release(&stacks);
	fake_run_free(run);
}

/* Its own parent, two of each other's, and one whose parent comes later. */
static void test_circles(void **state)
{
	struct run *run = fake_run_new();
	struct sampled_stacks stacks;

	(void)state;
	stack(run, 0, 1, 1, "self");
	stack(run, 0, 2, 3, "first");
	stack(run, 0, 3, 2, "second");
	stack(run, 0, 4, 5, "early");
	stack(run, 0, 5, 0, "late");
	for (uint32_t i = 1; i <= 5; i++)
		sample(run, 0, 7, i, 10, 10, 0);
	stacks = analyzed(run, STACKS_BY_FUNCTION);
	assert_int_equal(stacks.n, 5);
	times_are(&row(&stacks, "self")->total, 1, 10, 0, 0);
	times_are(&row(&stacks, "first")->total, 2, 20, 0, 0);
	times_are(&row(&stacks, "second")->total, 1, 10, 0, 0);
	times_are(&row(&stacks, "late")->total, 1, 10, 0, 0);
	sampled_stacks_release(&stacks);
	fake_run_free(run);
}

/* The same number twice: one of the two, always the same. */
static void test_number_twice(void **state)
{
	struct run *run = fake_run_new();
	struct sampled_stacks stacks;

	(void)state;
	stack(run, 0, 1, 0, "one");
	stack(run, 0, 1, 0, "again");
	sample(run, 0, 7, 1, 10, 10, 0);
	sample(run, 0, 7, 1, 10, 10, 0);
	stacks = analyzed(run, STACKS_BY_FUNCTION);
	assert_int_equal(stacks.n, 1);
	times_are(&stacks.rows[0].self, 2, 20, 0, 0);
	sampled_stacks_release(&stacks);
	fake_run_free(run);
}

/* Negative times count as none, and waiting is never less than that. */
static void test_negative_times(void **state)
{
	struct run *run = fake_run_new();
	struct sampled_stacks stacks;

	(void)state;
	stack(run, 0, 1, 0, "f");
	sample(run, 0, 7, 1, 10, -5, 0);
	sample(run, 0, 7, 1, 10, 4, -3);
	sample(run, 0, 7, 1, -10, 4, 3);
	sample(run, 0, 7, 1, 10, 8, 8); /* more than all: the rest */
	sample(run, 0, 7, 1, -10, -4, -3);
	stacks = analyzed(run, STACKS_BY_FUNCTION);
	times_are(&row(&stacks, "f")->self, 5, 12, 2, 16);
	sampled_stacks_release(&stacks);
	fake_run_free(run);
}

/* Deeper than anything that is followed. */
static void test_deep(void **state)
{
	enum { DEPTH = 10000 };
	struct run *run = fake_run_new();
	struct sampled_stacks stacks;

	(void)state;
	for (uint32_t i = 1; i <= DEPTH; i++)
		stack(run, 0, i, i - 1, i % 2 ? "odd" : "even");
	sample(run, 0, 7, DEPTH, 10, 10, 0);
	stacks = analyzed(run, STACKS_BY_FUNCTION);
	times_are(&row(&stacks, "odd")->total, 1, 10, 0, 0);
	times_are(&row(&stacks, "even")->total, 1, 10, 0, 0);
	sampled_stacks_release(&stacks);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_recursion_counts_once),
		cmocka_unit_test(test_numbers_of_two_shards),
		cmocka_unit_test(test_causes),
		cmocka_unit_test(test_steps_and_ranges),
		cmocka_unit_test(test_missing),
		cmocka_unit_test(test_circles),
		cmocka_unit_test(test_number_twice),
		cmocka_unit_test(test_negative_times),
		cmocka_unit_test(test_deep),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
