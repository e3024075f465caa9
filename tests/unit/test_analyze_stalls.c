/* SPDX-License-Identifier: Apache-2.0
 *
 * Where warps wait, every value by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "fake_run.h"
#include "subjects/counters/stalls.h"

#define STALLED "smsp__pcsamp_warps_issue_stalled_"

struct place {
	const char *kernel, *file;
	uint32_t line;
	uint64_t module, offset;
};

static void add(struct run *run, const struct place *at, const char *reason, uint64_t samples)
{
	fake_add_pc_sample(
		run, 0,
		&(struct row_pc_sample){ .kernel = at->kernel ? fake_string(run, at->kernel) : 0,
					 .reason = fake_string(run, reason),
					 .samples = samples,
					 .module = at->module,
					 .offset = at->offset,
					 .file = at->file ? fake_string(run, at->file) : 0,
					 .line = at->line });
}

static void check_reason(const struct stall_row *row, const char *kernel, const char *stall,
			 uint64_t samples, uint64_t not_issued, double pct)
{
	assert_string_equal(row->kernel->short_name, kernel);
	assert_string_equal(row->stall, stall);
	assert_int_equal(row->samples, samples);
	assert_int_equal(row->not_issued, not_issued);
	assert_float_equal(row->kernel_pct.v, pct, 1e-9);
}

static void test_kernels_and_lines(void **state)
{
	static const struct place first = { "_ZN2at4gemmEv", "/a/b/gemm.cu", 12, 7, 0x10 },
				  second = { "_ZN2at4gemmEv", "/a/b/gemm.cu", 12, 7, 0x20 },
				  third = { "_ZN2at4gemmEv", "/a/b/gemm.cu", 13, 7, 0x30 },
				  bare = { "copy", NULL, 0, 9, 0x1f0 },
				  other = { "copy", NULL, 0, 8, 0x1f0 }, none = { .kernel = NULL };
	struct run *run = fake_run_new();
	struct stalls stalls;

	(void)state;
	/* In no order, and the same again later. */
	add(run, &bare, STALLED "barrier", 5);
	add(run, &second, STALLED "long_scoreboard", 30);
	add(run, &first, STALLED "selected", 40);
	add(run, &third, STALLED "selected", 10);
	add(run, &first, STALLED "long_scoreboard", 6);
	add(run, &first, STALLED "long_scoreboard_not_issued", 4);
	add(run, &second, STALLED "long_scoreboard", 4);
	add(run, &second, STALLED "wait", 10);
	add(run, &other, STALLED "barrier", 2);
	add(run, &none, "dropped", 11);
	add(run, &none, "driver", 13);
	add(run, &none, "unnamed", 17);
	/* No reasons for which warps wait. */
	add(run, &first, "smsp__pcsamp_sample_buffer_full", 1000);
	add(run, &first, STALLED, 1000);
	assert_int_equal(stalls_analyze(run, &stalls), 0);
	assert_int_equal(stalls.samples, 107);
	assert_int_equal(stalls.dropped, 11);
	assert_int_equal(stalls.driver, 13);
	assert_int_equal(stalls.unnamed, 17);
	assert_int_equal(stalls.n_reasons, 4);
	check_reason(&stalls.reasons[0], "at::gemm", "selected", 50, 0, 50);
	check_reason(&stalls.reasons[1], "at::gemm", "long_scoreboard", 40, 4, 40);
	check_reason(&stalls.reasons[2], "at::gemm", "wait", 10, 0, 10);
	check_reason(&stalls.reasons[3], "copy", "barrier", 7, 0, 100);
	assert_int_equal(stalls.n_lines, 4);
	/* 0x10 has 46 samples, 0x20 44. */
	assert_string_equal(stalls.lines[0].source, "gemm.cu:12");
	assert_int_equal(stalls.lines[0].offset, 0x10);
	assert_int_equal(stalls.lines[0].samples, 90);
	assert_int_equal(stalls.lines[0].not_issued, 4);
	assert_string_equal(stalls.lines[0].stall, "long_scoreboard");
	assert_float_equal(stalls.lines[0].stall_pct.v, 100 * 40.0 / 90, 1e-9);
	assert_float_equal(stalls.lines[0].share_pct.v, 100 * 90.0 / 107, 1e-9);
	assert_float_equal(stalls.lines[0].kernel_pct.v, 90, 1e-9);
	/* Warps that went on waited for nothing. */
	assert_string_equal(stalls.lines[1].source, "gemm.cu:13");
	assert_null(stalls.lines[1].stall);
	assert_false(stalls.lines[1].stall_pct.known);
	/* The same offset of two modules. */
	assert_string_equal(stalls.lines[2].source, "+0x1f0");
	assert_int_equal(stalls.lines[2].samples, 5);
	assert_int_equal(stalls.lines[3].samples, 2);
	stalls_release(&stalls);
	fake_run_free(run);
}

static void test_nothing(void **state)
{
	struct run *run = fake_run_new();
	struct stalls stalls;

	(void)state;
	assert_int_equal(stalls_analyze(run, &stalls), 0);
	assert_int_equal(stalls.n_lines + stalls.n_reasons, 0);
	stalls_release(&stalls);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kernels_and_lines),
		cmocka_unit_test(test_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
