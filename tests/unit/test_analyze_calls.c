/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls into libraries, on runs built by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fake_run.h"
#include "subjects/calls/library_calls.h"
#include "subjects/shared/attribution.h"

static struct library_calls calls_of(const struct run *run, bool by_size)
{
	struct library_calls calls;
	struct attribution at;

	assert_int_equal(attribution_init_calls(&at, run), 0);
	assert_int_equal(library_calls_analyze(&at, by_size, &calls), 0);
	attribution_release(&at);
	return calls;
}

static const struct call_row *find_call(const struct run *run, const struct library_calls *calls,
					const char *name, const char *sizes)
{
	for (size_t i = 0; i < calls->n; i++)
		if (!strcmp(run_string(run, calls->rows[i].key.name), name) &&
		    !strcmp(calls->rows[i].sizes, sizes))
			return &calls->rows[i];
	fail_msg("no row of %s '%s'", name, sizes);
	return NULL;
}

static void add_os_call(struct run *run, const char *name, int64_t start_ns, int64_t duration_ns,
			int64_t bytes, uint8_t file)
{
	fake_add_os_call(run, 0,
			 &(struct row_os_call){ .name = fake_string(run, name),
						.start_ns = start_ns,
						.duration_ns = duration_ns,
						.thread = 1,
						.bytes = bytes > 0 ? (uint64_t)bytes : 0,
						.bytes_known = bytes >= 0,
						.file = file });
}

static void add_gemm(struct run *run, const char *name, uint32_t thread, int64_t start_ns,
		     int64_t end_ns, uint64_t m, uint64_t batch)
{
	fake_add_library_call(run, 0,
			      &(struct row_library_call){ .name = fake_string(run, name),
							  .library = fake_string(run, "cublas"),
							  .type = fake_string(run, "bf16"),
							  .start_ns = start_ns,
							  .duration_ns = end_ns - start_ns,
							  .thread = thread,
							  .gemm_m = m,
							  .gemm_n = 10,
							  .gemm_k = 5,
							  .batch = batch,
							  .peer = -1,
							  .status = m == 7 ? 3 : 0 });
}

static void test_recorded_and_counted(void **state)
{
	struct run *run = fake_run_new();
	struct library_calls calls;
	const struct call_row *row;

	(void)state;
	add_os_call(run, "read", 1000, 30000, 100, CALL_ON_PIPE);
	add_os_call(run, "read", 50000, 10000, 0, CALL_ON_FILE);
	add_os_call(run, "poll", 90000, 80000, -1, CALL_ON_NONE);
	for (int i = 0; i < 2; i++)
		fake_add_call_count(run, 0,
				    &(struct row_call_count){ .time_ns = 1000000 * (i + 1),
							      .name = fake_string(run, "read"),
							      .calls = 50,
							      .total_ns = 5000,
							      .bytes = 8 });
	fake_add_call_count(run, 0,
			    &(struct row_call_count){ .time_ns = 1000000,
						      .name = fake_string(run, "write"),
						      .calls = 4,
						      .total_ns = 30000 });
	calls = calls_of(run, false);
	assert_int_equal(calls.n, 3);
	assert_int_equal(calls.count, 107);
	assert_int_equal(calls.recorded, 3);
	assert_int_equal(calls.time_ns, 160000);
	row = find_call(run, &calls, "read", "");
	assert_int_equal(row->count, 102);
	assert_int_equal(row->recorded, 2);
	assert_int_equal(row->time_ns, 50000);
	assert_float_equal(row->p50_ns.v, 20000, 0);
	assert_float_equal(row->bytes.v, 116, 0);
	assert_float_equal(row->share_pct, 31.25, 1e-9);
	assert_false(row->device_ns.known);
	row = find_call(run, &calls, "write", "");
	assert_false(row->p50_ns.known);
	assert_false(row->bytes.known);
	/* The longest first. */
	assert_string_equal(run_string(run, calls.rows[0].key.name), "poll");
	library_calls_release(&calls);
	calls = calls_of(run, true);
	assert_int_equal(calls.n, 5); /* read of a pipe, of a file, and those only counted */
	assert_int_equal(find_call(run, &calls, "read", "pipe")->count, 1);
	assert_int_equal(find_call(run, &calls, "read", "")->count, 100);
	assert_true(find_call(run, &calls, "read", "file")->bytes.known);
	library_calls_release(&calls);
	fake_run_free(run);
}

/* A launch on another thread at the same time is not inside; of two calls around it the inner one has the kernel. */
static void test_kernels_inside(void **state)
{
	struct run *run = fake_run_new();
	struct library_calls calls;
	const struct call_row *row;

	(void)state;
	add_gemm(run, "cublasGemmEx", 1, 1000, 9000, 20, 1);
	add_gemm(run, "cublasLtMatmul", 1, 2000, 5000, 20, 1);
	add_gemm(run, "cublasGemmEx", 2, 1000, 9000, 7, 3);
	fake_call(run, "cudaLaunchKernel", 3000, 3500, 1);
	fake_call(run, "cudaLaunchKernel", 6000, 6500, 2);
	fake_call(run, "cudaLaunchKernel", 9500, 9600, 3);
	fake_kernel(run, "inner", 10000, 11000, 1);
	fake_kernel(run, "outer", 11000, 11300, 2);
	fake_kernel(run, "outside", 12000, 12500, 3);
	calls = calls_of(run, true);
	assert_int_equal(calls.n, 3);
	row = find_call(run, &calls, "cublasLtMatmul", "20 x 10 x 5 bf16");
	assert_float_equal(row->device_ns.v, 1000, 0);
	assert_float_equal(row->flops_per_s.v, 2.0 * 20 * 10 * 5 / 1e-6, 1);
	row = find_call(run, &calls, "cublasGemmEx", "20 x 10 x 5 bf16");
	assert_float_equal(row->device_ns.v, 300, 0);
	row = find_call(run, &calls, "cublasGemmEx", "7 x 10 x 5 bf16, 3 times");
	assert_false(row->device_ns.known);
	assert_int_equal(row->errors, 1);
	library_calls_release(&calls);
	calls = calls_of(run, false);
	assert_int_equal(calls.n, 2);
	library_calls_release(&calls);
	fake_run_free(run);
}

static void test_none(void **state)
{
	struct run *run = fake_run_new();
	struct library_calls calls = calls_of(run, false);

	(void)state;
	assert_int_equal(calls.n, 0);
	library_calls_release(&calls);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recorded_and_counted),
		cmocka_unit_test(test_kernels_inside),
		cmocka_unit_test(test_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
