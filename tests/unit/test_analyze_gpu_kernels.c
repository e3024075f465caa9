/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of the run of fake_gpu_run, by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fake_run.h"
#include "subjects/kernels/kernels.h"
#include "subjects/shared/fields.h"

#define US INT64_C(1000)

static struct kernels analyzed(const struct run *run, struct selection sel, enum kernels_by by)
{
	struct kernels_options options = { .by = by };
	struct kernels kernels;

	assert_int_equal(kernels_analyze(run, &sel, &options, &kernels), 0);
	return kernels;
}

static void check_row(const struct kernel_row *row, uint64_t count, int64_t time_us)
{
	assert_int_equal(row->count, count);
	assert_int_equal(row->time_ns, time_us * US);
}

static void test_by_name(void **state)
{
	struct run *run = fake_gpu_run();
	struct kernels k = analyzed(run, SELECT_ALL, KERNELS_BY_NAME);
	const struct kernel_row *add;

	(void)state;
	assert_int_equal(k.n, 3);
	assert_int_equal(k.count, 20);
	assert_int_equal(k.untimed, 1);
	assert_int_equal(k.time_ns, 3460 * US);
	assert_false(k.without_call.known);
	check_row(&k.rows[0], 6, 1800);
	assert_string_equal(k.rows[0].class, "gemm");
	assert_true(fabs(k.rows[0].share_pct - 100.0 * 1800 / 3460) < 1e-9);
	check_row(&k.rows[1], 7, 1200);
	assert_string_equal(k.rows[1].short_name, "flash_fwd_kernel");
	assert_string_equal(k.rows[1].class, "attention");
	assert_int_equal(k.rows[1].untimed, 1);
	assert_int_equal(k.rows[1].summary.n, 6);
	assert_true(k.rows[1].summary.min == 200000); /* an untimed one is no zero */
	add = &k.rows[2];
	check_row(add, 7, 460);
	assert_string_equal(add->short_name, "at::native::CUDAFunctor_add");
	assert_non_null(strstr(add->name, "CUDAFunctor_add<float>"));
	/* 10, 50, 50, 50, 100, 100, 100 us */
	assert_true(add->summary.p50 == 50000);
	assert_true(add->summary.p95 == 100000);
	assert_true(add->summary.min == 10000);
	assert_true(fabs(add->summary.mean - 460000.0 / 7) < 1e-6);
	kernels_release(&k);
	fake_run_free(run);
}

static const struct field *field_of(const char *key)
{
	for (size_t i = 0; i < kernels_fields.n_fields; i++)
		if (!strcmp(kernels_fields.fields[i].key, key))
			return &kernels_fields.fields[i];
	return NULL;
}

static bool is_timed_one(const struct run *run, size_t i, uint32_t name)
{
	return !run->kernel.untimed[i] && run_launch(run, run->kernel.launch[i]).name == name;
}

/* From the records, in two passes. */
static double deviation_of(const struct run *run, uint32_t name, size_t *ret_n)
{
	double sum = 0, squares = 0;
	size_t n = 0;

	for (size_t i = 0; i < run->kernel.n; i++)
		if (is_timed_one(run, i, name)) {
			sum += (double)run->kernel.duration_ns[i];
			n++;
		}
	for (size_t i = 0; i < run->kernel.n; i++)
		if (is_timed_one(run, i, name))
			squares += pow((double)run->kernel.duration_ns[i] - sum / (double)n, 2);
	*ret_n = n;
	return sqrt(squares / (double)n);
}

static void test_deviation(void **state)
{
	struct run *run = fake_gpu_run();
	struct kernels k = analyzed(run, SELECT_ALL, KERNELS_BY_NAME);
	struct kernel_row untimed = { .count = 1, .untimed = 1 };
	struct field_row at = { .run = run, .form = 1U << KERNELS_BY_NAME };

	(void)state;
	for (size_t i = 0; i < k.n; i++) {
		size_t n;
		double expected = deviation_of(run, k.rows[i].name_id, &n);
		struct cell cell;

		at.item = &k.rows[i];
		cell = field_read(field_of("std_ns"), &at);
		assert_int_equal(k.rows[i].summary.n, n);
		assert_int_equal(cell.kind, CELL_REAL);
		assert_true(fabs(cell.d - expected) < 1e-6);
	}
	/* 10, 50, 50, 50, 100, 100, 100 us */
	assert_true(fabs(k.rows[2].summary.std - 32450.9) < 0.1);
	at.item = &untimed;
	assert_int_equal(field_read(field_of("std_ns"), &at).kind, CELL_ABSENT);
	kernels_release(&k);
	fake_run_free(run);
}

static void test_by_place(void **state)
{
	struct run *run = fake_gpu_run();
	struct kernels k = analyzed(run, SELECT_ALL, KERNELS_BY_RANGE);

	(void)state;
	assert_int_equal(k.n, 4);
	check_row(&k.rows[0], 12, 3000);
	assert_string_equal(k.rows[0].range, "forward/block");
	check_row(&k.rows[1], 3, 300);
	assert_string_equal(k.rows[1].range, "backward");
	check_row(&k.rows[2], 3, 150);
	assert_string_equal(k.rows[2].no_place, "launched outside all ranges");
	check_row(&k.rows[3], 2, 10);
	assert_string_equal(k.rows[3].no_place, "its launch call was not recorded");
	assert_true(k.without_call.v == 2 && k.outside_ranges.v == 3);
	assert_int_equal(k.count, 20);
	kernels_release(&k);

	k = analyzed(run, SELECT_ALL, KERNELS_BY_LAYER);
	assert_int_equal(k.n, 4);
	check_row(&k.rows[0], 6, 1500);
	check_row(&k.rows[1], 6, 1500);
	assert_int_equal(k.rows[0].layer, 0);
	assert_int_equal(k.rows[1].layer, 1);
	check_row(&k.rows[2], 6, 450);
	kernels_release(&k);

	k = analyzed(run, SELECT_ALL, KERNELS_BY_PHASE);
	assert_int_equal(k.n, 4);
	check_row(&k.rows[0], 12, 3000);
	assert_int_equal(k.rows[0].phase, 1);
	check_row(&k.rows[1], 3, 300);
	assert_int_equal(k.rows[1].phase, 2);
	kernels_release(&k);

	k = analyzed(run, SELECT_ALL, KERNELS_BY_STEP);
	assert_int_equal(k.n, 4);
	for (int i = 0; i < 3; i++) {
		check_row(&k.rows[i], 6, 1150);
		assert_int_equal(k.rows[i].step, i);
	}
	kernels_release(&k);
	fake_run_free(run);
}

static void launched(struct run *run, const char *name, int64_t at_us, uint64_t correlation)
{
	fake_call(run, "cudaLaunchKernel", at_us * US, (at_us + 1) * US, correlation);
	fake_kernel(run, name, (at_us + 5) * US, (at_us + 15) * US, correlation);
}

static const struct kernel_row *row_of_class(const struct kernels *k, const char *class)
{
	for (size_t i = 0; i < k->n; i++)
		if (!strcmp(k->rows[i].class, class))
			return &k->rows[i];
	return NULL;
}

/* The innermost range that says more than the name decides, for products and unknown kernels. */
static void test_class_in_ranges(void **state)
{
	struct run *run = fake_run_new();
	uint32_t layer = fake_site(run, "layers.0.self_attn", 0, -1, 0),
		 mlp = fake_site(run, "mlp", 0, -1, 0),
		 experts = fake_site(run, "mlp.experts", 0, -1, 0),
		 shared = fake_site(run, "mlp.shared_expert", 0, -1, 0);
	struct kernels k;

	(void)state;
	fake_span(run, 0, 1000 * US);
	fake_range(run, layer, 0, 100 * US, 1, 0);
	launched(run, "nvjet_sm90_tst_8x64", 10, 1);
	launched(run, "my_kernel", 30, 2);
	launched(run, "rms_norm_kernel", 50, 3); /* stays what it is */
	fake_range(run, mlp, 100 * US, 300 * US, 1, 0);
	launched(run, "nvjet_sm90_tst_8x64", 110, 4); /* the range says nothing */
	fake_range(run, experts, 150 * US, 200 * US, 1, 1);
	launched(run, "nvjet_sm90_tst_8x64", 160, 5);
	launched(run, "my_kernel", 180, 6);
	fake_range(run, shared, 210 * US, 250 * US, 1, 1);
	launched(run, "nvjet_sm90_tst_8x64", 220, 7);
	launched(run, "nvjet_sm90_tst_8x64", 400, 8);			 /* outside */
	fake_kernel(run, "nvjet_sm90_tst_8x64", 500 * US, 510 * US, 99); /* no call */
	k = analyzed(run, SELECT_ALL, KERNELS_BY_CLASS);
	check_row(row_of_class(&k, "attention"), 2, 20);
	check_row(row_of_class(&k, "normalisation"), 1, 10);
	check_row(row_of_class(&k, "gemm"), 4, 40);
	check_row(row_of_class(&k, "grouped_gemm"), 1, 10);
	check_row(row_of_class(&k, "other"), 1, 10);
	assert_int_equal(k.n, 5);
	assert_false(k.without_call.known);
	kernels_release(&k);
	/* By name each kernel is what its name says. */
	k = analyzed(run, SELECT_ALL, KERNELS_BY_NAME);
	assert_string_equal(k.rows[0].class, "gemm");
	kernels_release(&k);
	fake_run_free(run);
}

/* Kernels that are called the same in short are told apart, whatever they differ in. */
static void test_rows_look_different(void **state)
{
	static const char *const names[] = {
		"void ns::f<float, 4>(int)",
		"void ns::f<float, 8>(int)",
		"void ns::f<double, 4>(int)",
		"void ns::g<1>()",
		"void h<1, 2>()",
		"void h<1, 3>()",
		"void h<2, 2>()",
		"void h<2, 3>()",
	};
	struct run *run = fake_run_new();
	struct kernels k;

	(void)state;
	fake_span(run, 0, 1000 * US);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		launched(run, names[i], (int64_t)i * 20, i + 1);
	k = analyzed(run, SELECT_ALL, KERNELS_BY_NAME);
	assert_int_equal(k.n, sizeof(names) / sizeof(names[0]));
	for (size_t i = 0; i < k.n; i++) {
		if (strstr(k.rows[i].name, "::g"))
			assert_string_equal(k.rows[i].short_name, "ns::g");
		if (strstr(k.rows[i].name, "double"))
			assert_string_equal(k.rows[i].short_name, "ns::f …double");
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(k.rows[i].short_name, k.rows[j].short_name);
	}
	kernels_release(&k);
	fake_run_free(run);
}

static void test_by_class_stream_device(void **state)
{
	struct run *run = fake_gpu_run();
	uint16_t other = fake_shard(run, 5, 77);
	struct row_kernel row = {
		.launch = 1, .start_ns = 1, .duration_ns = 9, .stream = 8, .device = 2
	};
	struct kernels k;

	(void)state;
	fake_add_kernel(run, other, &row);
	k = analyzed(run, SELECT_ALL, KERNELS_BY_CLASS);
	assert_int_equal(k.n, 3);
	assert_string_equal(k.rows[0].class, "gemm");
	assert_int_equal(k.rows[0].count, 7);
	assert_string_equal(k.rows[2].class, "elementwise");
	kernels_release(&k);
	for (enum kernels_by by = KERNELS_BY_STREAM; by <= KERNELS_BY_DEVICE; by++) {
		k = analyzed(run, SELECT_ALL, by);
		assert_int_equal(k.n, 2);
		check_row(&k.rows[0], 20, 3460);
		assert_int_equal(k.rows[1].rank, 5);
		assert_int_equal(k.rows[1].device, 2);
		assert_int_equal(k.rows[1].stream, by == KERNELS_BY_STREAM ? 8 : 0);
		kernels_release(&k);
	}
	fake_run_free(run);
}

/* Looking up places costs a walk over all ranges: only where one of them tells a class. */
static void test_who_needs_places(void **state)
{
	struct run *run = fake_run_new();
	struct kernels_options by = { .by = KERNELS_BY_CLASS };
	bool needed = true;

	(void)state;
	fake_range(run, fake_site(run, "data loading", -1, -1, 0), 0, 100, 1, 0);
	assert_int_equal(kernels_need_places(run, &by, &needed), 0);
	assert_false(needed);
	fake_range(run, fake_site(run, "self_attn", -1, -1, 0), 10, 20, 1, 1);
	assert_int_equal(kernels_need_places(run, &by, &needed), 0);
	assert_true(needed);
	by.by = KERNELS_BY_NAME;
	assert_int_equal(kernels_need_places(run, &by, &needed), 0);
	assert_false(needed);
	fake_run_free(run);
}

static void test_selection(void **state)
{
	struct run *run = fake_gpu_run();
	struct selection sel = SELECT_ALL;
	struct kernels k;

	(void)state;
	sel.layer = 1;
	k = analyzed(run, sel, KERNELS_BY_NAME);
	assert_int_equal(k.n, 2);
	assert_int_equal(k.count, 6);
	assert_int_equal(k.time_ns, 1500 * US);
	assert_true(k.without_call.v == 2);
	kernels_release(&k);
	sel.step_first = sel.step_last = 2;
	k = analyzed(run, sel, KERNELS_BY_CLASS);
	assert_int_equal(k.count, 2);
	kernels_release(&k);
	sel = SELECT_ALL;
	sel.step_first = 77;
	k = analyzed(run, sel, KERNELS_BY_NAME);
	assert_int_equal(k.n, 0);
	kernels_release(&k);
	fake_run_free(run);
}

static void test_nothing(void **state)
{
	struct run *run = fake_run_new();
	struct kernels k = analyzed(run, SELECT_ALL, KERNELS_BY_RANGE);

	(void)state;
	assert_int_equal(k.n, 0);
	assert_int_equal(k.count, 0);
	kernels_release(&k);
	/* All untimed: no statistics. */
	fake_kernel(run, "k", 5, -1, 1);
	k = analyzed(run, SELECT_ALL, KERNELS_BY_NAME);
	assert_int_equal(k.n, 1);
	assert_int_equal(k.rows[0].summary.n, 0);
	assert_int_equal(k.untimed, 1);
	kernels_release(&k);
	fake_run_free(run);
}

/* Wait and warm-up: collecting is on a little before the steps that count. */
static void test_steps_outside_the_schedule(void **state)
{
	struct selection sel = SELECT_ALL;
	struct kernels_options options = { .by = KERNELS_BY_NAME };
	struct run *run = fake_run_new();
	struct kernels kernels;

	(void)state;
	fake_add_step(run, 0, &(struct row_step){ .step = 0, .start_ns = 0, .duration_ns = 100 });
	fake_add_step(run, 0,
		      &(struct row_step){
			      .step = 1, .start_ns = 100, .duration_ns = 100, .recorded = 1 });
	fake_call(run, "cudaLaunchKernel", 50, 60, 1);
	fake_call(run, "cudaLaunchKernel", 150, 160, 2);
	/* Launched in the step before, and running in the one that counts. */
	fake_kernel(run, "warm", 110, 120, 1);
	/* The other way round. */
	fake_kernel(run, "counts", 210, 230, 2);
	/* Nobody can tell. */
	fake_kernel(run, "lost", 300, 310, 3);
	assert_int_equal(kernels_analyze(run, &sel, &options, &kernels), 0);
	assert_int_equal(kernels.n, 2);
	assert_int_equal(kernels.count, 2);
	assert_int_equal(kernels.time_ns, 30);
	kernels_release(&kernels);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_name),
		cmocka_unit_test(test_deviation),
		cmocka_unit_test(test_by_place),
		cmocka_unit_test(test_class_in_ranges),
		cmocka_unit_test(test_rows_look_different),
		cmocka_unit_test(test_by_class_stream_device),
		cmocka_unit_test(test_who_needs_places),
		cmocka_unit_test(test_selection),
		cmocka_unit_test(test_steps_outside_the_schedule),
		cmocka_unit_test(test_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
