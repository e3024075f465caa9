/* SPDX-License-Identifier: Apache-2.0
 *
 * Which rows a slice of a run keeps.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fake_run.h"
#include "subjects/shared/run_slice.h"

static void add_kernel(struct run *run, uint16_t shard, int64_t start_ns, int64_t end_ns)
{
	fake_add_kernel(run, shard,
			&(struct row_kernel){ .launch = fake_launch(run, "k"),
					      .start_ns = start_ns,
					      .duration_ns = end_ns - start_ns });
}

static void test_what_touches_is_kept(void **state)
{
	struct run *run = fake_run_new(), slice;
	uint16_t other = fake_shard(run, 1, 4243);
	/* Not in order: they are sorted. */
	struct stretch stretches[] = { { 300, 400, 0 }, { 100, 200, 0 }, { 0, 50, other } };

	(void)state;
	add_kernel(run, 0, 50, 100);  /* ends where the first begins */
	add_kernel(run, 0, 90, 101);  /* kept */
	add_kernel(run, 0, 199, 500); /* kept, once */
	add_kernel(run, 0, 200, 300); /* between them */
	add_kernel(run, 0, 100, 100); /* kept: a moment inside */
	add_kernel(run, 0, 400, 401);
	add_kernel(run, other, 100, 200);
	add_kernel(run, other, 40, 200); /* kept */
	fake_step(run, 7, 100, 200, 1);	 /* kept */
	fake_step(run, 8, 190, 310, 1);
	assert_int_equal(run_slice_init(&slice, run, stretches, 3, 0), 0);
	assert_int_equal(slice.kernel.n, 4);
	assert_int_equal(slice.kernel.start_ns[0], 90);
	assert_int_equal(slice.kernel.start_ns[1], 199);
	assert_int_equal(slice.kernel.duration_ns[2], 0);
	assert_int_equal(slice.kernel.shard[3], other);
	assert_int_equal(slice.step.n, 1);
	assert_int_equal(slice.step.step[0], 7);
	assert_string_equal(run_string(&slice, run_launch(&slice, slice.kernel.launch[0]).name),
			    "k");
	run_slice_release(&slice);
	fake_run_free(run);
}

static void test_calls_from_before(void **state)
{
	struct run *run = fake_run_new(), slice;
	struct stretch stretch = { 1000, 1100, 0 };

	(void)state;
	fake_call(run, "a", 900, 940, 1); /* ends 60 before */
	fake_call(run, "b", 900, 960, 2); /* 40 before: kept */
	fake_call(run, "c", 1050, 1060, 3);
	fake_call(run, "d", 1100, 1160, 4); /* after it */
	assert_int_equal(run_slice_init(&slice, run, &stretch, 1, 50), 0);
	assert_int_equal(slice.api.n, 2);
	assert_int_equal(slice.api.correlation[0], 2);
	assert_int_equal(slice.api.correlation[1], 3);
	run_slice_release(&slice);
	/* Four calls in 200 ns: a queue of 1024 fills in 51,200. */
	assert_int_equal(run_slice_calls_before(run), 51200);
	fake_run_free(run);
}

static void test_empty(void **state)
{
	struct run *run = fake_run_new(), slice;

	(void)state;
	assert_int_equal(run_slice_calls_before(run), 0);
	assert_int_equal(run_slice_init(&slice, run, NULL, 0, 0), 0);
	assert_int_equal(slice.kernel.n, 0);
	run_slice_release(&slice);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_touches_is_kept),
		cmocka_unit_test(test_calls_from_before),
		cmocka_unit_test(test_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
