/* SPDX-License-Identifier: Apache-2.0
 *
 * MFU, roofs and limits, by hand; the file of measured peaks, good and bad.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "asking.h"
#include "device/sheets/data_sheets.h"
#include "fake_run.h"
#include "moescope.h"
#include "subjects/efficiency/efficiency.h"
#include "subjects/transfers/transfers.h"

#define US INT64_C(1000)

static const struct subject *const reads[] = { &subject_efficiency, &subject_transfers, NULL };

static struct answers analyzed(const struct run *run, const struct peaks_file *peaks,
			       struct selection sel)
{
	return answers_of(run, reads, &(struct question){ .sel = sel, .peaks = peaks });
}

static void near(struct value value, double expected)
{
	if (!value.known)
		fail_msg("absent: %s", value.reason);
	if (fabs(value.v - expected) > 1e-9 * (1 + fabs(expected)))
		fail_msg("%.17g is not %.17g", value.v, expected);
}

static void absent(struct value value, const char *word)
{
	assert_false(value.known);
	if (!strstr(value.reason, word))
		fail_msg("'%s' is not in '%s'", word, value.reason);
}

static void h200(struct run *run, uint16_t shard)
{
	fake_add_device(run, shard,
			&(struct row_device){ .name = fake_string(run, "NVIDIA H200"),
					      .memory_bytes = UINT64_C(150000000000) });
}

static void fact(struct run *run, const char *key, const char *value)
{
	fake_add_fact(run, 0,
		      &(struct row_fact){ .key = fake_string(run, key),
					  .value = fake_string(run, value) });
}

/* An operation that launches a kernel of `us` microseconds at its begin. */
static void work(struct run *run, uint32_t site, const char *kernel, int64_t at, int64_t us,
		 uint64_t flops, uint64_t bytes, uint64_t id)
{
	fake_add_op(run, 0,
		    &(struct row_op){ .site = site,
				      .start_ns = at,
				      .duration_ns = 50 * US,
				      .thread = 1,
				      .flops = flops,
				      .bytes = bytes,
				      .unknown = flops ? 0 : OP_FLOPS_UNKNOWN | OP_BYTES_UNKNOWN });
	fake_call(run, "cudaLaunchKernel", at + US, at + 2 * US, id);
	fake_kernel(run, kernel, at + 10 * US, at + (10 + us) * US, id);
}

/* Two steps of 1 ms. A product of 10 GFLOP in 100 us, one of 2 GFLOP and 100 MB in 100 us, a kernel
 * whose operation says nothing. */
static struct run *gpu_run(void)
{
	struct run *run = fake_run_new();
	uint32_t mm = fake_site(run, "mm", -1, -1, 0), add = fake_site(run, "add", -1, -1, 0);

	h200(run, 0);
	fake_step(run, 0, 0, 1000 * US, 0);
	fake_step(run, 1, 1000 * US, 2000 * US, 0);
	work(run, mm, "nvjet_tst_128x128_gemm", 100 * US, 100, 10000000000, 10000000, 1);
	work(run, add, "vectorized_elementwise_kernel", 300 * US, 100, 2000000000, 100000000, 2);
	work(run, mm, "nvjet_tst_128x128_gemm", 1100 * US, 300, 0, 0, 3);
	return run;
}

static const struct efficiency_row *row_of(const struct efficiency *e, const char *name)
{
	for (size_t i = 0; i < e->n; i++)
		if (!strcmp(e->rows[i].name, name))
			return &e->rows[i];
	fail_msg("no row '%s'", name);
	return NULL;
}

static void test_mfu_and_roof_of_a_gpu(void **state)
{
	struct run *run = gpu_run();
	struct answers a = analyzed(run, NULL, SELECT_ALL);
	const struct efficiency *e = answer_efficiency(&a);
	const struct efficiency_row *row;

	(void)state;
	assert_true(e->on_device);
	near(e->dtype, PEAK_BF16);
	assert_non_null(strstr(e->dtype_source, "est."));
	assert_int_equal(e->n_devices, 1);
	assert_non_null(strstr(e->devices[0].source, "data sheet"));
	assert_false(e->devices[0].calibrated);
	near(e->model_flops, 12e9);
	assert_int_equal(e->steps, 2);
	/* 12 GFLOP in 2 ms are 6 TFLOP/s of 989.4. */
	near(e->model_flops_per_s, 6e12);
	near(e->mfu_pct, 100 * 6.0 / 989.4);
	row = row_of(e, "gemm");
	assert_int_equal(row->time_ns, 400 * US);
	near(row->covered_pct, 25);
	near(row->flops_per_s, 1e14);
	near(row->flops_per_byte, 1000);
	assert_string_equal(row->bound, "compute"); /* 1000 * 4.8e12 > 989.4e12 */
	near(row->roof_pct, 100 * 1e14 / 989.4e12);
	row = row_of(e, "elementwise");
	near(row->flops_per_s, 2e13);
	near(row->bytes_per_s, 1e12);
	near(row->flops_per_byte, 20);
	assert_string_equal(row->bound, "memory");
	near(row->roof_flops_per_s, 20 * 4.8e12);
	near(row->roof_pct, 100 * 2e13 / (20 * 4.8e12));
	assert_int_equal(e->n_points, 2);
	answers_release(&a);
	fake_run_free(run);
}

static void test_window_and_parts(void **state)
{
	struct run *run = gpu_run();
	struct selection sel = SELECT_ALL;
	struct answers a;

	(void)state;
	sel.step_first = sel.step_last = 0;
	a = analyzed(run, NULL, sel);
	near(answer_efficiency(&a)->mfu_pct, 100 * 12.0 / 989.4);
	near(row_of(answer_efficiency(&a), "gemm")->covered_pct, 100);
	answers_release(&a);
	sel.step_first = sel.step_last = 7;
	a = analyzed(run, NULL, sel);
	absent(answer_efficiency(&a)->mfu_pct, "no finished, recorded step");
	answers_release(&a);
	sel = SELECT_ALL;
	sel.layer = 3;
	a = analyzed(run, NULL, sel);
	absent(answer_efficiency(&a)->mfu_pct, "layer or phase");
	answers_release(&a);
	fake_run_free(run);
}

static void test_kernels_share_their_operation(void **state)
{
	struct run *run = gpu_run();
	struct answers a;

	(void)state;
	/* A second kernel in the first product: a quarter of its time, so of its FLOPs. */
	fake_call(run, "cudaLaunchKernel", 110 * US, 111 * US, 9);
	fake_kernel(run, "some_reduce_kernel", 220 * US, 220 * US + 33334, 9);
	a = analyzed(run, NULL, SELECT_ALL);
	near(row_of(answer_efficiency(&a), "reduction")->flops, 1e10 * 33334 / 133334);
	near(row_of(answer_efficiency(&a), "gemm")->flops, 1e10 * 100000 / 133334);
	answers_release(&a);
	fake_run_free(run);
}

static void test_two_ranks(void **state)
{
	struct run *run = gpu_run();
	uint16_t other = fake_shard(run, 1, 4243);
	struct answers a;

	(void)state;
	h200(run, other);
	fake_add_step(run, other, &(struct row_step){ .duration_ns = 4000 * US, .recorded = 1 });
	fake_add_kernel(run, other,
			&(struct row_kernel){ .launch = fake_launch(run, "x"), .duration_ns = 5 });
	a = analyzed(run, NULL, SELECT_ALL);
	assert_int_equal(answer_efficiency(&a)->n_devices, 2);
	/* 12 GFLOP over 2 ms of one and 4 ms of the other. */
	near(answer_efficiency(&a)->mfu_pct, 100 * 12e9 / (0.006 * 989.4e12));
	/* A rank whose device nobody knows: nothing is said. */
	run->device.name[1] = fake_string(run, "Something else");
	answers_release(&a);
	a = analyzed(run, NULL, SELECT_ALL);
	absent(answer_efficiency(&a)->mfu_pct, "--calibrate");
	absent(answer_efficiency(&a)->rows[0].roof_pct, "differ");
	answers_release(&a);
	fake_run_free(run);
}

static void test_what_is_missing_is_said(void **state)
{
	struct run *run = fake_run_new();
	struct answers a = analyzed(run, NULL, SELECT_ALL);

	(void)state;
	absent(answer_efficiency(&a)->mfu_pct, "no finished, recorded step");
	absent(answer_efficiency(&a)->dtype, "moescope_info");
	assert_int_equal(answer_efficiency(&a)->n, 0);
	answers_release(&a);
	fake_step(run, 0, 0, 1000, 0);
	a = analyzed(run, NULL, SELECT_ALL);
	absent(answer_efficiency(&a)->mfu_pct, "reported its FLOPs");
	answers_release(&a);
	fake_op(run, fake_site(run, "mm", -1, -1, 0), 0, 500, 1, 0, 1000);
	fact(run, "dtype", "torch.bfloat16");
	a = analyzed(run, NULL, SELECT_ALL);
	near(answer_efficiency(&a)->dtype, PEAK_BF16);
	assert_string_equal(answer_efficiency(&a)->dtype_source, "reported by the program");
	absent(answer_efficiency(&a)->mfu_pct, "processor");
	near(answer_efficiency(&a)->model_flops_per_s, 1e9);
	answers_release(&a);
	fake_run_free(run);
}

static void test_words_of_data_types(void **state)
{
	static const struct {
		const char *words;
		enum peak_dtype dtype;
	} cases[] = { { "float16", PEAK_FP16 },
		      { "BF16", PEAK_BF16 },
		      { "torch.float8_e4m3fn", PEAK_FP8 },
		      { "float32", PEAK_FP32 },
		      { "tf32", PEAK_TF32 },
		      { "half", PEAK_FP16 },
		      { "double", PEAK_FP64 } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct run *run = fake_run_new();
		struct answers a;

		fact(run, "precision", cases[i].words);
		a = analyzed(run, NULL, SELECT_ALL);
		near(answer_efficiency(&a)->dtype, cases[i].dtype);
		answers_release(&a);
		fake_run_free(run);
	}
}

/* Names of hipBLASLt's and rocBLAS' kernels; PEAK_DTYPES: no peak is kept for such numbers. */
static void test_type_codes_of_tensile(void **state)
{
	static const struct {
		const char *name;
		enum peak_dtype dtype;
	} cases[] = {
		{ "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x64_MI16x16x1_SN",
		  PEAK_BF16 },
		{ "Cijk_Alik_Bljk_B_BS_BH_Bias_HA_S_SAV_UserArgs_MT16x16x128_MI16x16x1_SN",
		  PEAK_BF16 },
		{ "Cijk_Ailk_Bjlk_SB_Bias_AS_SAV_UserArgs_MT64x16x16_MI16x16x1_SN", PEAK_FP32 },
		{ "Cijk_Ailk_Bljk_S_B_Bias_HA_S_SAV_UserArgs_MT16x16x128_MI16x16x1", PEAK_FP32 },
		{ "Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_MI32x32x8x1_SN", PEAK_FP16 },
		{ "Cijk_Ailk_Bjlk_HSS_BH_MT64x64x64", PEAK_FP16 },
		{ "Cijk_Alik_Bljk_F8BS_BH_Bias_HA_S_SAB_SAV_UserArgs_MT256x256x128", PEAK_FP8 },
		{ "Custom_Cijk_Alik_Bljk_F8B8BS_BH_UserArgs_shortname1_MT256x256x128", PEAK_FP8 },
		{ "Cijk_Alik_Bljk_F8H_HHS_BH_MT64x64x64", PEAK_FP16 },
		{ "Cijk_Ailk_Bljk_DB_MT64x64x16_MI16x16x4x1_SN", PEAK_FP64 },
		{ "Cijk_Alik_Bljk_S_MX_B_Bias_HA_S_SAV_UserArgs_MT64x64x32", PEAK_TF32 },
		{ "Cijk_Alik_Bljk_I8II_BH_MT64x64x64", PEAK_DTYPES },
		{ "Cijk_Ailk_Bljk_SB<BF16,BF16,float>_MT128x128x32_SE_SU4_TT1_1", PEAK_BF16 },
		{ "Cijk_B_PostGSU2", PEAK_DTYPES },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct run *run = fake_run_new();
		struct answers a;

		fake_kernel(run, cases[i].name, 0, 100, 1);
		a = analyzed(run, NULL, SELECT_ALL);
		if (answer_efficiency(&a)->dtype.known != (cases[i].dtype != PEAK_DTYPES) ||
		    (answer_efficiency(&a)->dtype.known &&
		     (enum peak_dtype)answer_efficiency(&a)->dtype.v != cases[i].dtype))
			fail_msg("%s: %s", cases[i].name,
				 answer_efficiency(&a)->dtype.known
					 ? peak_dtype_name(
						   (enum peak_dtype)answer_efficiency(&a)->dtype.v)
					 : "none");
		answers_release(&a);
		fake_run_free(run);
	}
}

static void test_experts_alone(void **state)
{
	static const uint32_t load[4] = { 10, 10, 10, 10 };
	struct run *run = fake_run_new();
	struct answers a;

	(void)state;
	h200(run, 0);
	fact(run, "dtype", "bf16");
	fake_step(run, 0, 0, 1000, 0);
	fake_kernel(run, "x", 10, 20, 1);
	fake_routing(run, 0, 5, 0, 2, 4, load);
	fake_add_moe_layer(run, 0,
			   &(struct row_moe_layer){
				   .experts = 4, .k = 2, .hidden = 8, .inner = 16, .matrices = 3 });
	a = analyzed(run, NULL, SELECT_ALL);
	/* T = 20: router 2*20*8*4 + 5*20*4, experts 40 * 6*8*16. */
	near(answer_efficiency(&a)->model_flops, 1280 + 400 + 30720);
	assert_non_null(strstr(answer_efficiency(&a)->flops_source, "lower bound"));
	answers_release(&a);
	fake_run_free(run);
}

static void test_processor(void **state)
{
	struct run *run = fake_run_new();
	struct peaks cpu = { .name = "Test CPU",
			     .cpu = 1,
			     .cores = 2,
			     .flops_per_s[PEAK_FP32] = 8e9,
			     .memory_bytes_per_s = 1e9 };
	struct peaks_file file = { &cpu, 1 };
	struct answers a;

	(void)state;
	fact(run, "dtype", "fp32");
	fake_step(run, 0, 0, 1000000, 0);
	/* 1 MFLOP, 250 kB in 0.5 ms of a thread: 2 GFLOP/s at 4 FLOP a byte. */
	fake_op(run, fake_site(run, "mm", -1, -1, 0), 0, 500000, 1, 0, 1000000);
	a = analyzed(run, &file, SELECT_ALL);
	assert_true(answer_efficiency(&a)->devices[0].calibrated);
	near(answer_efficiency(&a)->mfu_pct, 100 * 1e6 / (0.001 * 8e9));
	near(answer_efficiency(&a)->rows[0].flops_per_s, 2e9);
	/* Of one core: 4 GFLOP/s, 0.5 GB/s; at 4 FLOP a byte 2 GFLOP/s. */
	assert_string_equal(answer_efficiency(&a)->rows[0].bound, "memory");
	near(answer_efficiency(&a)->rows[0].roof_pct, 100);
	answers_release(&a);
	fake_shard(run, 1, 7);
	fake_add_step(run, 1, &(struct row_step){ .duration_ns = 5, .recorded = 1 });
	a = analyzed(run, &file, SELECT_ALL);
	absent(answer_efficiency(&a)->mfu_pct, "share the processor");
	answers_release(&a);
	run->info.cpus = 64; /* another machine of that name */
	a = analyzed(run, &file, SELECT_ALL);
	absent(answer_efficiency(&a)->mfu_pct, "were not measured");
	answers_release(&a);
	fake_run_free(run);
}

static void test_measured_before_sheet_and_limits(void **state)
{
	struct run *run = gpu_run();
	struct peaks gpu = { .name = "NVIDIA H200",
			     .memory_bytes = 150e9,
			     .flops_per_s[PEAK_BF16] = 800e12,
			     .memory_bytes_per_s = 4e12,
			     .copy_bytes_per_s = 1.9e12,
			     .htod_pinned_bytes_per_s = 40e9 };
	struct peaks_file file = { &gpu, 1 };
	struct answers a;

	(void)state;
	fake_copy(run, 1, 1, 1000000, 500 * US, 600 * US, 50); /* pageable, 10 GB/s */
	fake_copy(run, 2, 2, 1000000, 700 * US, 800 * US, 51);
	fake_copy(run, 8, 3, 95000000, 700 * US, 800 * US, 52); /* 0.95 TB/s */
	a = analyzed(run, &file, SELECT_ALL);
	near(answer_efficiency(&a)->mfu_pct, 100 * 6.0 / 800);
	assert_true(answer_efficiency(&a)->devices[0].calibrated);
	for (size_t i = 0; i < answer_transfers(&a)->n; i++) {
		const struct transfer_row *row = &answer_transfers(&a)->rows[i];

		if (!strcmp(row->kind, "HtoD"))
			near(row->limit_pct, 25);
		else if (!strcmp(row->kind, "DtoD"))
			near(row->limit_pct, 50);
		else
			absent(row->limit_pct, "--calibrate");
	}
	answers_release(&a);
	fake_run_free(run);
}

static void test_counters_of_the_driver(void **state)
{
	struct run *run = gpu_run();
	struct answers a;

	(void)state;
	for (int i = 0; i < 2; i++)
		fake_add_sample(
			run, 0,
			&(struct row_sample){ .time_ns = i,
					      .metric = fake_string(run, "dram_bandwidth_pct"),
					      .value = 20 + 20 * i });
	a = analyzed(run, NULL, SELECT_ALL);
	near(answer_efficiency(&a)->devices[0].gpm[GPM_DRAM], 30);
	near(answer_efficiency(&a)->devices[0].dram_bytes_per_s, 0.3 * 4.8e12);
	absent(answer_efficiency(&a)->devices[0].gpm[GPM_TENSOR], "GPM");
	answers_release(&a);
	fake_run_free(run);
}

static void test_data_sheets(void **state)
{
	const char *source = NULL;
	struct peaks p;

	(void)state;
	assert_true(data_sheet_find("NVIDIA A100-SXM4-80GB", 85e9, &p, &source));
	assert_true(p.flops_per_s[PEAK_BF16] == 312e12 && p.flops_per_s[PEAK_FP8] == 0);
	assert_true(data_sheet_find("NVIDIA GeForce RTX 4090", 25e9, &p, &source));
	assert_true(p.memory_bytes_per_s == 1008e9);
	/* AMD's names, whole and lent to a virtual machine; a die of two. */
	assert_true(data_sheet_find("AMD Instinct MI300X", 206e9, &p, &source));
	assert_true(p.flops_per_s[PEAK_BF16] == 1307.4e12 && p.memory_bytes_per_s == 5300e9);
	assert_string_equal(source, "AMD Instinct MI300X data sheet");
	assert_true(data_sheet_find("AMD Instinct MI300X VF", 206e9, &p, &source));
	assert_true(p.flops_per_s[PEAK_FP8] == 2614.9e12);
	assert_true(data_sheet_find("AMD Instinct MI250X", 68e9, &p, &source));
	assert_true(p.flops_per_s[PEAK_FP16] == 191.5e12 && p.flops_per_s[PEAK_TF32] == 0);
	assert_true(data_sheet_find("NVIDIA B300 SXM6 AC", 288e9, &p, &source));
	assert_true(p.flops_per_s[PEAK_FP8] == 4500e12);
	assert_true(data_sheet_find("NVIDIA H20", 102e9, &p, &source));
	assert_true(p.flops_per_s[PEAK_BF16] == 148e12);
	assert_true(data_sheet_find("NVIDIA GB200", 0, &p, &source));
	assert_true(p.flops_per_s[PEAK_BF16] == 2500e12);
	assert_false(data_sheet_find("AMD Instinct VF", 0, &p, &source));
	assert_false(data_sheet_find("AMD Instinct MI300X VFX", 0, &p, &source));
	/* A laptop's. */
	assert_false(data_sheet_find("NVIDIA GeForce RTX 4090", 16e9, &p, &source));
	assert_false(data_sheet_find("NVIDIA H200 something", 0, &p, &source));
	assert_false(data_sheet_find("", 0, &p, &source));
}

static char path[] = "/tmp/moescope-peaks-XXXXXX";

static void write_text(const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void test_file_of_peaks(void **state)
{
	struct peaks cpu = { .name = "Some CPU @ 2.0GHz",
			     .cpu = 1,
			     .cores = 8,
			     .memory_bytes_per_s = 12345678901.0 };
	struct peaks_file file;
	const struct peaks *found;

	(void)state;
	close(mkstemp(path));
	/* Later lines add and replace; bad ones and bad words are left out. */
	write_text(
		"moescope-peaks 1 memory_bytes=150e9 bf16_flops_per_s=7e14 fp8_flops_per_s=1e15 "
		"name=NVIDIA H200\n"
		"moescope-peaks 2 bf16_flops_per_s=1 name=NVIDIA H200\n"
		"rubbish\n\n"
		"moescope-peaks 1 bf16_flops_per_s=1 name=\n"
		"moescope-peaks 1 memory_bytes=150e9 bf16_flops_per_s=8e14 fp16_flops_per_s=nan "
		"fp32_flops_per_s=-4 tf32_flops_per_s=1e300 memory_bytes_per_s=4e12x new_key=3 = x= "
		"name=NVIDIA H200\n");
	assert_int_equal(peaks_append(path, &cpu), 0);
	assert_int_equal(peaks_read(path, &file), 0);
	assert_int_equal(file.n, 2);
	found = peaks_find_gpu(&file, "NVIDIA H200", 151e9);
	assert_non_null(found);
	assert_true(found->flops_per_s[PEAK_BF16] == 8e14);
	assert_true(found->flops_per_s[PEAK_FP8] == 1e15);
	assert_true(found->flops_per_s[PEAK_FP16] == 0 && found->flops_per_s[PEAK_FP32] == 0);
	assert_true(found->flops_per_s[PEAK_TF32] == 0 && found->memory_bytes_per_s == 0);
	assert_null(peaks_find_gpu(&file, "NVIDIA H200", 80e9));
	assert_null(peaks_find_gpu(&file, "NVIDIA H100", 150e9));
	found = peaks_find_cpu(&file, "Some CPU @ 2.0GHz", 8);
	assert_non_null(found);
	assert_true(fabs(found->memory_bytes_per_s / 12345678901.0 - 1) < 1e-5);
	assert_null(peaks_find_cpu(&file, "Some CPU @ 2.0GHz", 4));
	assert_null(peaks_find_cpu(&file, "NVIDIA H200", 0));
	peaks_release(&file);
	unlink(path);
	assert_int_equal(peaks_read(path, &file), 0); /* not there: nothing measured */
	assert_int_equal(file.n, 0);
	assert_int_not_equal(peaks_read("/proc/self", &file), 0);
}

static void test_operations_of_some_steps(void **state)
{
	struct run *run = gpu_run();
	const struct efficiency *e;
	struct answers a;

	(void)state;
	fact(run, "auto operations", "recorded in step 0");
	a = analyzed(run, NULL, SELECT_ALL);
	e = answer_efficiency(&a);
	/* 12 GFLOP in the 1 ms of the step that has them. */
	assert_int_equal(e->steps, 1);
	near(e->model_flops_per_s, 12e12);
	near(e->mfu_pct, 100 * 12.0 / 989.4);
	answers_release(&a);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mfu_and_roof_of_a_gpu),
		cmocka_unit_test(test_operations_of_some_steps),
		cmocka_unit_test(test_window_and_parts),
		cmocka_unit_test(test_kernels_share_their_operation),
		cmocka_unit_test(test_two_ranks),
		cmocka_unit_test(test_what_is_missing_is_said),
		cmocka_unit_test(test_words_of_data_types),
		cmocka_unit_test(test_type_codes_of_tensile),
		cmocka_unit_test(test_experts_alone),
		cmocka_unit_test(test_processor),
		cmocka_unit_test(test_measured_before_sheet_and_limits),
		cmocka_unit_test(test_counters_of_the_driver),
		cmocka_unit_test(test_data_sheets),
		cmocka_unit_test(test_file_of_peaks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
