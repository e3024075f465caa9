/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a step was slow: the extra time of planted steps, by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "asking.h"
#include "fake_run.h"
#include "moescope.h"
#include "subjects/steps/slow_steps.h"
#include "subjects/steps/steps.h"

#define US INT64_C(1000)
#define MS INT64_C(1000000)
#define STEPS 20

static const struct subject *const reads[] = { &subject_slow_steps, &subject_steps, NULL };

static struct answers look(const struct run *run)
{
	return answers_of(run, reads, &(struct question){ .sel = SELECT_ALL });
}

static double part(const struct slow_part *parts, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(parts[i].name, name))
			return parts[i].extra_ns;
	fail_msg("there is no part %s", name);
	return 0;
}

static void test_no_outliers(void **state)
{
	struct run *run = fake_training_run();
	struct answers a = look(run);

	(void)state;
	assert_int_equal(answer_slow_steps(&a)->n, 0);
	assert_false(answer_slow_steps(&a)->usual_ns.known);
	answers_release(&a);
	fake_run_free(run);
}

/* Steps of 10 ms: kernel a for 4 ms, then b for 6 ms, both queued before the step. The slow one
 * takes 16 ms: 2 ms of host code before a, and b for 10 ms. */
static struct run *device_run(int slow)
{
	struct run *run = fake_run_new();
	int64_t at = 0;
	uint64_t id = 1;

	for (int i = 0; i < STEPS; i++, id += 10) {
		int64_t late = i == slow ? 2 * MS : 0, b = i == slow ? 10 * MS : 6 * MS;
		int64_t call = late ? at + late - 10 * US : at - MS;

		fake_call(run, "cudaLaunchKernel", call, call + 5 * US, id);
		fake_kernel(run, "a", at + late, at + late + 4 * MS, id);
		fake_call(run, "cudaLaunchKernel", call + 6 * US, call + 9 * US, id + 1);
		fake_kernel(run, "b", at + late + 4 * MS, at + late + 4 * MS + b, id + 1);
		fake_step(run, i, at, at + late + 4 * MS + b, i == slow ? 96 : 64);
		at += late + 4 * MS + b;
	}
	fake_span(run, 0, at);
	return run;
}

static void test_device_parts_add_up(void **state)
{
	struct run *run = device_run(12);
	struct answers a = look(run);
	const struct slow_step *s = &answer_slow_steps(&a)->steps[0];
	double sum = 0;

	(void)state;
	assert_int_equal(answer_slow_steps(&a)->n, 1);
	assert_int_equal(answer_slow_steps(&a)->usual, SLOW_USUAL);
	assert_float_equal(answer_slow_steps(&a)->usual_ns.v, 10 * MS, 0);
	assert_int_equal(answer_steps(&a)->rows[s->row].step, 12);
	assert_float_equal(s->extra_ns, 6 * MS, 0);
	assert_true(s->device_known.known);
	assert_float_equal(part(s->device, s->n_device, "kernels"), 4 * MS, 0);
	assert_float_equal(part(s->device, s->n_device, "idle: host"), 1990 * US, 0);
	assert_float_equal(part(s->device, s->n_device, "idle: launch"), 10 * US, 0);
	for (size_t i = 0; i < s->n_device; i++)
		sum += s->device[i].extra_ns;
	assert_float_equal(sum, 6 * MS, 1);
	assert_string_equal(s->device[0].name, "kernels"); /* the largest first */
	assert_int_equal(s->n_kernels, 1);
	assert_string_equal(s->kernels[0].name, "b");
	assert_float_equal(s->kernels[0].extra_ns, 4 * MS, 0);
	assert_float_equal(s->gap_ns.v, 2 * MS, 0);
	assert_float_equal(s->gap_at_ns.v, 0, 0);
	assert_false(s->phases_known.known);
	assert_false(s->clock_mhz.known);
	assert_float_equal(answer_slow_steps(&a)->usual_tokens.v, 64, 0);
	answers_release(&a);
	fake_run_free(run);
}

static void test_clock_and_allocations(void **state)
{
	struct run *run = device_run(12);
	uint32_t clock = fake_string(run, "clock_sm_mhz");
	struct answers a;

	(void)state;
	for (int i = 0; i < STEPS; i++)
		fake_add_sample(run, 0,
				&(struct row_sample){ .time_ns = run->step.start_ns[i] + MS,
						      .metric = clock,
						      .value = i == 12 ? 1200 : 1800 });
	/* The driver's call is inside the runtime's; 1.5 ms in all. */
	fake_call(run, "cudaMalloc", 121 * MS, 122 * MS + 500 * US, 900);
	fake_add_api(run, 0,
		     &(struct row_api){ .name = fake_string(run, "cuMemAlloc_v2"),
					.start_ns = 121 * MS + 100 * US,
					.duration_ns = MS,
					.thread = 1,
					.correlation = 900,
					.driver = 1 });
	a = look(run);
	assert_float_equal(answer_slow_steps(&a)->steps[0].clock_mhz.v, 1200, 0);
	assert_float_equal(answer_slow_steps(&a)->usual_clock_mhz.v, 1800, 0);
	assert_int_equal(answer_slow_steps(&a)->steps[0].allocation_calls, 1);
	assert_float_equal(answer_slow_steps(&a)->steps[0].allocation_ns.v, 1500 * US, 0);
	assert_float_equal(answer_slow_steps(&a)->usual_allocation_ns.v, 0, 0);
	answers_release(&a);
	fake_run_free(run);
}

static void test_phases_of_a_host_run(void **state)
{
	struct run *run = fake_run_new();
	uint32_t data = fake_site(run, "d", -1, -1, MOESCOPE_DATA);
	uint32_t forward = fake_site(run, "f", -1, -1, MOESCOPE_FORWARD);
	struct answers a;
	int64_t at = 0;

	(void)state;
	for (int i = 0; i < STEPS; i++) {
		int64_t load = i == 3 ? 9 * MS : MS;

		fake_range(run, data, at, at + load, 1, 0);
		fake_range(run, forward, at + load, at + load + 8 * MS, 1, 0);
		fake_step(run, i, at, at + load + 9 * MS, 0);
		at += load + 9 * MS;
	}
	a = look(run);
	assert_int_equal(answer_slow_steps(&a)->n, 1);
	assert_false(answer_slow_steps(&a)->steps[0].device_known.known);
	assert_true(answer_slow_steps(&a)->steps[0].phases_known.known);
	assert_string_equal(answer_slow_steps(&a)->steps[0].phases[0].name, "data");
	assert_float_equal(answer_slow_steps(&a)->steps[0].phases[0].extra_ns, 8 * MS, 0);
	assert_float_equal(part(answer_slow_steps(&a)->steps[0].phases,
				answer_slow_steps(&a)->steps[0].n_phases, "forward"),
			   0, 0);
	assert_float_equal(part(answer_slow_steps(&a)->steps[0].phases,
				answer_slow_steps(&a)->steps[0].n_phases, "other"),
			   0, 0);
	assert_false(answer_slow_steps(&a)->usual_tokens.known);
	answers_release(&a);
	fake_run_free(run);
}

static void test_steps_outside_windows(void **state)
{
	struct run *run = device_run(12);
	struct answers a;

	(void)state;
	/* Records until 60 ms: six usual steps are covered, the slow one is not. */
	fake_add_gear(run, 0, &(struct row_gear){ .time_ns = -2 * MS, .gear = 2, .attached = 1 });
	fake_add_gear(run, 0, &(struct row_gear){ .time_ns = 60 * MS, .gear = 2 });
	a = look(run);
	assert_int_equal(answer_slow_steps(&a)->n, 1);
	assert_int_equal(answer_slow_steps(&a)->usual, 6);
	assert_false(answer_slow_steps(&a)->steps[0].device_known.known);
	assert_non_null(answer_slow_steps(&a)->steps[0].device_known.reason);
	assert_int_equal(answer_slow_steps(&a)->steps[0].n_kernels, 0);
	answers_release(&a);
	fake_run_free(run);
}

static void test_only_the_slowest(void **state)
{
	struct run *run = fake_run_new();
	struct answers a;
	int64_t at = 0;

	(void)state;
	for (int i = 0; i < 60; i++) {
		int64_t time = i % 5 ? 1000 : 2000 + i;

		fake_step(run, i, at, at + time, 0);
		at += time;
	}
	a = look(run);
	assert_int_equal(answer_slow_steps(&a)->outliers, 12);
	assert_int_equal(answer_slow_steps(&a)->n, SLOW_STEPS);
	assert_int_equal(answer_steps(&a)->rows[answer_slow_steps(&a)->steps[0].row].step, 55);
	assert_int_equal(answer_steps(&a)->rows[answer_slow_steps(&a)->steps[9].row].step, 10);
	answers_release(&a);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_outliers),
		cmocka_unit_test(test_device_parts_add_up),
		cmocka_unit_test(test_clock_and_allocations),
		cmocka_unit_test(test_phases_of_a_host_run),
		cmocka_unit_test(test_steps_outside_windows),
		cmocka_unit_test(test_only_the_slowest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
