/* SPDX-License-Identifier: Apache-2.0
 *
 * Theoretical occupancy, computed by hand from the limits of real devices.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "fake_run.h"
#include "subjects/kernels/kernels.h"
#include "subjects/shared/occupancy.h"

/* As the driver tells it: an H100 or H200. */
#define SM90                                                                                       \
	{                                                                                          \
		.capability = 90, .threads_per_multiprocessor = 2048,                              \
		.registers_per_multiprocessor = 65536, .shared_bytes_per_multiprocessor = 233472,  \
		.blocks_per_multiprocessor = 32                                                    \
	}

static struct occupancy of(const struct row_device *device, uint32_t threads, uint32_t registers,
			   uint32_t shared)
{
	struct row_launch launch = { .block_x = threads,
				     .block_y = 1,
				     .block_z = 1,
				     .registers = registers,
				     .dynamic_shared_bytes = shared };

	return occupancy_of(&launch, device);
}

static void test_sm90(void **state)
{
	static const struct {
		uint32_t threads, registers, shared;
		uint32_t blocks;
		double pct;
		enum occupancy_limiter limiter;
	} cases[] = {
		/* 8 warps; 32 regs: 1024 a warp, 16 warps a partition: 64. All 8 blocks fit. */
		{ 256, 32, 0, 8, 100, OCCUPANCY_THREADS },
		/* 33 regs: 1056 up to 1280 a warp, 12 a partition, 48 warps: 6 blocks of 8. */
		{ 256, 33, 0, 6, 75, OCCUPANCY_REGISTERS },
		/* 255 regs: 8160 up to 8192, 2 a partition, 8 warps: one block. */
		{ 256, 255, 0, 1, 12.5, OCCUPANCY_REGISTERS },
		/* 168 regs: 5376, 3 a partition, 12 warps; blocks of 12 warps: one. */
		{ 384, 168, 0, 1, 18.75, OCCUPANCY_REGISTERS },
		/* One warp a block: 32 blocks of 64 warps. */
		{ 32, 16, 0, 32, 50, OCCUPANCY_BLOCKS },
		/* A single thread takes a warp. */
		{ 1, 16, 0, 32, 50, OCCUPANCY_BLOCKS },
		/* 100 KiB and 1 KiB of the system: 2 in 228 KiB. 4 warps each. */
		{ 128, 32, 102400, 2, 12.5, OCCUPANCY_SHARED },
		/* 113 KiB and 1 KiB: exactly 2. One byte more: 1. */
		{ 128, 32, 113 * 1024, 2, 12.5, OCCUPANCY_SHARED },
		{ 128, 32, 113 * 1024 + 1, 1, 6.25, OCCUPANCY_SHARED },
		/* 768 threads are 24 warps: two blocks leave 16 warps empty. */
		{ 768, 32, 0, 2, 75, OCCUPANCY_THREADS },
	};
	const struct row_device device = SM90, bare = { .capability = 90 };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct occupancy o = of(&device, cases[i].threads, cases[i].registers,
					cases[i].shared);

		assert_true(o.pct.known);
		assert_int_equal(o.blocks, cases[i].blocks);
		assert_true(fabs(o.pct.v - cases[i].pct) < 1e-9);
		assert_int_equal(o.limiter, cases[i].limiter);
		/* The table of capabilities has the same limits. */
		o = of(&bare, cases[i].threads, cases[i].registers, cases[i].shared);
		assert_true(o.pct.known && fabs(o.pct.v - cases[i].pct) < 1e-9);
	}
}

static void test_other_devices(void **state)
{
	const struct row_device a100 = { .capability = 80 }, rtx3090 = { .capability = 86 },
				l40s = { .capability = 89 }, t4 = { .capability = 75 },
				v100 = { .capability = 70 }, b200 = { .capability = 100 },
				rtx5090 = { .capability = 120 };

	(void)state;
	/* 48 KiB and 1 KiB: 3 in 164 KiB, 12 of 64 warps; without the 1 KiB it would be 3 as well,
	 * 54 KiB tell them apart. */
	assert_int_equal(of(&a100, 128, 32, 48 * 1024).blocks, 3);
	assert_int_equal(of(&a100, 128, 32, 54 * 1024).blocks, 2);
	/* 16 blocks of one warp in 48. */
	assert_true(fabs(of(&rtx3090, 32, 32, 0).pct.v - 100.0 * 16 / 48) < 1e-9);
	assert_true(fabs(of(&l40s, 32, 32, 0).pct.v - 100.0 * 24 / 48) < 1e-9);
	assert_true(fabs(of(&t4, 64, 32, 0).pct.v - 100) < 1e-9);
	/* 96 KiB, no KiB for the system: 48 KiB twice. */
	assert_int_equal(of(&v100, 128, 32, 48 * 1024).blocks, 2);
	assert_int_equal(of(&b200, 128, 32, 113 * 1024).blocks, 2);
	assert_int_equal(of(&rtx5090, 1024, 32, 0).blocks, 1);
}

static void test_unknown(void **state)
{
	const struct row_device device = SM90, old = { .capability = 61 }, none = { 0 };

	(void)state;
	assert_false(of(&none, 128, 32, 0).pct.known);
	assert_false(of(&old, 128, 32, 0).pct.known);
	assert_false(of(&device, 0, 32, 0).pct.known);
	assert_false(of(&device, 128, 0, 0).pct.known);
	assert_false(of(&device, 4096, 32, 0).pct.known);
	assert_false(of(&device, 128, 32, 240000).pct.known);
	assert_false(of(&device, 1024, 255, 0).pct.known); /* 32 warps, 8 fit */
	assert_non_null(strstr(of(&device, 128, 32, 240000).pct.reason, "does not fit"));
}

static uint32_t launch(struct run *run, const char *name, uint32_t registers)
{
	struct row_launch row = { .id = (uint32_t)run->launch.n + 1,
				  .name = fake_string(run, name),
				  .block_x = 256,
				  .block_y = 1,
				  .block_z = 1,
				  .registers = registers };

	fake_add_launch(run, 0, &row);
	return row.id;
}

static void kernel(struct run *run, uint32_t id, uint32_t device, int64_t duration, bool untimed)
{
	fake_add_kernel(run, 0,
			&(struct row_kernel){ .launch = id,
					      .start_ns = 1000,
					      .duration_ns = duration,
					      .device = device,
					      .untimed = untimed });
}

static void test_rows_are_weighted_by_time(void **state)
{
	struct run *run = fake_run_new();
	struct selection all = SELECT_ALL;
	struct kernels kernels;
	struct row_device h200 = SM90;
	uint32_t full, three_quarters, other;

	(void)state;
	fake_add_device(run, 0, &h200);
	full = launch(run, "k", 32);
	three_quarters = launch(run, "k", 33);
	other = launch(run, "other", 32);
	kernel(run, full, 0, 100, false);
	kernel(run, three_quarters, 0, 300, false);
	kernel(run, three_quarters, 0, 0, true);
	kernel(run, other, 5, 1, false); /* of a device that is not described */
	assert_int_equal(kernels_analyze(run, &all, &(struct kernels_options){ 0 }, &kernels), 0);
	assert_int_equal(kernels.n, 2);
	assert_true(kernels.rows[0].occupancy_pct.known);
	assert_true(fabs(kernels.rows[0].occupancy_pct.v - (100 * 100 + 300 * 75) / 400.0) < 1e-9);
	assert_string_equal(kernels.rows[0].occupancy_limiter, "registers");
	assert_false(kernels.rows[1].occupancy_pct.known);
	assert_null(kernels.rows[1].occupancy_limiter);
	kernels_release(&kernels);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sm90),
		cmocka_unit_test(test_other_devices),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_rows_are_weighted_by_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
