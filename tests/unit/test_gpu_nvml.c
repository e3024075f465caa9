/* SPDX-License-Identifier: Apache-2.0
 *
 * Device metrics: what the scripted NVML reads is in the run, what a device does not have is not;
 * devices have the numbers that the scripted CUDA gives them; processes come when they change.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "device/sheets/clock_reasons.h"
#include "gpu_child.h"

struct expectation {
	const char *metric;
	double value[FAKE_NVML_DEVICES];
	bool has[FAKE_NVML_DEVICES];
};

#define BOTH(metric, reading)                                                                      \
	{                                                                                          \
		metric, { reading(0), reading(1) },                                                \
		{                                                                                  \
			true, true                                                                 \
		}                                                                                  \
	}
#define FIRST(metric, value)                                                                       \
	{                                                                                          \
		metric, { value, 0 },                                                              \
		{                                                                                  \
			true, false                                                                \
		}                                                                                  \
	}
#define SECOND(metric, value)                                                                      \
	{                                                                                          \
		metric, { 0, value },                                                              \
		{                                                                                  \
			false, true                                                                \
		}                                                                                  \
	}

static const struct expectation expected[] = {
	BOTH("utilization_gpu_pct", FAKE_NVML_UTILIZATION),
	BOTH("utilization_memory_pct", FAKE_NVML_UTILIZATION_MEMORY),
	BOTH("memory_used_bytes", FAKE_NVML_USED),
	BOTH("memory_free_bytes", FAKE_NVML_FREE),
	FIRST("power_w", 312.5),
	BOTH("temperature_c", FAKE_NVML_TEMPERATURE),
	BOTH("clock_sm_mhz", FAKE_NVML_CLOCK_SM),
	BOTH("clock_memory_mhz", FAKE_NVML_CLOCK_MEMORY),
	BOTH("clock_limit_reasons", FAKE_NVML_REASONS),
	FIRST("sm_active_pct", FAKE_NVML_GPM(NVML_GPM_METRIC_SM_UTIL)),
	FIRST("sm_occupancy_pct", FAKE_NVML_GPM(NVML_GPM_METRIC_SM_OCCUPANCY)),
	FIRST("tensor_active_pct", FAKE_NVML_GPM(NVML_GPM_METRIC_ANY_TENSOR_UTIL)),
	FIRST("dram_bandwidth_pct", FAKE_NVML_GPM(NVML_GPM_METRIC_DRAM_BW_UTIL)),
	FIRST("pcie_tx_mib_per_s", FAKE_NVML_GPM(NVML_GPM_METRIC_PCIE_TX_PER_SEC)),
	FIRST("pcie_rx_mib_per_s", FAKE_NVML_GPM(NVML_GPM_METRIC_PCIE_RX_PER_SEC)),
	FIRST("nvlink_tx_mib_per_s", FAKE_NVML_GPM(NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC)),
	/* From here on not in every sample. */
	BOTH("memory_total_bytes", FAKE_NVML_TOTAL),
	FIRST("memory_reserved_bytes", FAKE_NVML_RESERVED(0)),
	FIRST("power_limit_w", 700.0),
	BOTH("clock_sm_max_mhz", FAKE_NVML_CLOCK_SM_MAX),
	BOTH("clock_memory_max_mhz", FAKE_NVML_CLOCK_MEMORY_MAX),
	BOTH("pcie_link_generation", FAKE_NVML_PCIE_GENERATION),
	BOTH("pcie_link_width", FAKE_NVML_PCIE_WIDTH),
	FIRST("ecc_corrected_errors", 3),
	FIRST("ecc_uncorrected_errors", 1),
	FIRST("energy_j", 1234567.89),
	SECOND("fan_pct", FAKE_NVML_FAN),
	/* Where GPM does not give them. */
	SECOND("pcie_tx_mib_per_s", 2),
	SECOND("pcie_rx_mib_per_s", 5),
};
#define N_EXPECTED (sizeof(expected) / sizeof(expected[0]))
#define N_OFTEN 16 /* the first of them are in every sample */

static enum moescope_level wanted_level;

static void readings(void)
{
	start_at(wanted_level);
	CHECK(nvml->wait_readings(3));
	moescope_stop();
	CHECK(nvml->bad_gpm_requests() == 0);
	CHECK(nvml->pcie_requests(0) == 0); /* 20 ms each, and GPM has it */
}

static size_t find_expected(const char *metric, uint32_t device)
{
	size_t e = 0;

	while (e < N_EXPECTED &&
	       (strcmp(expected[e].metric, metric) != 0 || !expected[e].has[device]))
		e++;
	return e;
}

/* nvml_index[d]: which of the scripted devices is the program's device d. */
static void assert_readings_of(const struct run *run, const int *nvml_index, uint32_t n)
{
	size_t found[N_EXPECTED][FAKE_NVML_DEVICES] = { { 0 } };

	for (size_t i = 0; i < run->sample.n; i++) {
		const char *metric = run_string(run, run->sample.metric[i]);
		uint32_t device = run->sample.device[i];
		size_t e;

		assert_in_range(device, 0, n - 1);
		assert_true(nvml_index[device] >= 0);
		device = (uint32_t)nvml_index[device];
		e = find_expected(metric, device);
		if (e == N_EXPECTED)
			fail_msg("device %u has no %s", device, metric);
		assert_true(run->sample.value[i] == expected[e].value[device]);
		assert_in_range(run->sample.time_ns[i], run->shards[0].start_ns,
				run->shards[0].end_ns);
		found[e][device]++;
	}
	for (uint32_t i = 0; i < n; i++)
		for (size_t e = 0; nvml_index[i] >= 0 && e < N_EXPECTED; e++) {
			size_t least = e < N_OFTEN ? 2 : 1, d = (size_t)nvml_index[i];

			if (found[e][d] >= least ? !expected[e].has[d] : expected[e].has[d])
				fail_msg("device %zu: %s comes %zu times", d, expected[e].metric,
					 found[e][d]);
		}
}

static void assert_readings(const struct run *run)
{
	assert_readings_of(run, (const int[]){ 0, 1 }, 2);
}

/* Where there are no records by CUPTI, NVML describes the devices. */
static void assert_devices(const struct run *run, bool described)
{
	assert_int_equal(run->device.n, described ? FAKE_NVML_DEVICES : 0);
	for (size_t i = 0; i < run->device.n; i++) {
		uint32_t d = run->device.device[i];

		assert_string_equal(run_string(run, run->device.name[i]), FAKE_NVML_NAME(d));
		assert_string_equal(run_string(run, run->device.uuid[i]),
				    d ? "GPU-a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1"
				      : "GPU-a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a0a0");
		assert_int_equal(run->device.memory_bytes[i], FAKE_NVML_TOTAL(d));
	}
}

static void test_readings(void **state)
{
	for (int level = MOESCOPE_COUNTS; level <= MOESCOPE_FULL; level++) {
		struct run *run;

		wanted_level = (enum moescope_level)level;
		run = run_of(readings);
		assert_readings(run);
		assert_string_equal(fact_of(run, "NVIDIA driver"), FAKE_NVML_DRIVER);
		assert_null(fact_of(run, "NVML"));
		assert_devices(run, level < MOESCOPE_TRACE);
		assert_int_equal(loss_total(&run->loss), 0);
		run_free(run);
		tear_down(state);
		set_up(state);
	}
}

static void readings_again(void)
{
	start_in("first.mscope", MOESCOPE_TRACE);
	CHECK(nvml->wait_readings(3));
	moescope_stop();
	start_at(MOESCOPE_TRACE);
	CHECK(nvml->wait_readings(8));
	moescope_stop();
	CHECK(nvml->bad_gpm_requests() == 0);
	CHECK(nvml->gpm_samples() == 2); /* kept, not allocated again */
}

static void test_readings_again(void **state)
{
	struct run *run = run_of(readings_again);

	(void)state;
	assert_readings(run);
	run_free(run);
	run = load_run("first.mscope");
	assert_readings(run);
	run_free(run);
}

static void init_fails(void)
{
	nvml->fail_init(NVML_ERROR_DRIVER_NOT_LOADED);
	start_at(MOESCOPE_TRACE);
	deliver_kernels(0, 1, 10);
	moescope_stop();
}

static void test_init_fails(void **state)
{
	struct run *run = run_of(init_fails);

	(void)state;
	assert_non_null(fact_of(run, "NVML"));
	assert_non_null(strstr(fact_of(run, "NVML"), "device metrics off"));
	assert_non_null(strstr(fact_of(run, "NVML"), "Driver Not Loaded"));
	assert_int_equal(run->sample.n, 0);
	assert_kernels(run, 10);
	run_free(run);
}

static void named_library(void)
{
	setenv("MOESCOPE_NVML", "/nonexistent/libnvidia-ml.so", 1);
	start_at(MOESCOPE_TRACE);
	deliver_kernels(0, 1, 10);
	moescope_stop();
}

/* Even where the machine has one: who names a library wants that one. */
static void test_named_library(void **state)
{
	struct run *run = run_of(named_library);

	(void)state;
	assert_non_null(fact_of(run, "NVML"));
	assert_non_null(strstr(fact_of(run, "NVML"), "device metrics off: MOESCOPE_NVML names "
						     "'/nonexistent/libnvidia-ml.so'"));
	assert_int_equal(run->sample.n, 0);
	assert_kernels(run, 10);
	run_free(run);
}

static void no_library(void)
{
	unsetenv("MOESCOPE_NVML");
	start_at(MOESCOPE_TRACE);
	deliver_kernels(0, 1, 10);
	moescope_stop();
}

static void test_no_library(void **state)
{
	struct run *run;

	(void)state;
	if (dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL))
		skip(); /* the machine has one, and the probe would use it */
	run = run_of(no_library);
	assert_non_null(fact_of(run, "NVML"));
	assert_non_null(strstr(fact_of(run, "NVML"), "no usable libnvidia-ml.so.1"));
	assert_non_null(strstr(fact_of(run, "NVML"), "NVIDIA_DRIVER_CAPABILITIES=utility"));
	assert_int_equal(run->sample.n, 0);
	assert_kernels(run, 10);
	run_free(run);
}

/* As with CUDA_VISIBLE_DEVICES=1,0. */
static void reordered(void)
{
	cuda->set_devices((struct fake_cuda_device[]){ { 0xa1, 0xa1 }, { 0xa0, 0xa0 } }, 2);
	start_at(MOESCOPE_STEPS);
	CHECK(nvml->wait_readings(3));
	moescope_stop();
}

static void test_reordered(void **state)
{
	struct run *run = run_of(reordered);

	(void)state;
	assert_readings_of(run, (const int[]){ 1, 0 }, 2);
	assert_null(fact_of(run, "NVML"));
	run_free(run);
}

/* As with CUDA_VISIBLE_DEVICES=1: the other device is no business of the program. */
static void hidden(void)
{
	cuda->set_devices((struct fake_cuda_device[]){ { 0xa1, 0xa1 } }, 1);
	start_at(MOESCOPE_STEPS);
	CHECK(nvml->wait_readings(3));
	moescope_stop();
}

static void test_hidden(void **state)
{
	struct run *run = run_of(hidden);

	(void)state;
	assert_readings_of(run, (const int[]){ 1 }, 1);
	assert_null(fact_of(run, "NVML"));
	run_free(run);
}

/* The program's device 0 is an instance of the scripted device 1. NVML knows the one UUID; of the
 * other only CUDA's older call tells the GPU. */
static unsigned char instance_uuid;

static void instance(void)
{
	nvml->set_mig(true);
	cuda->set_devices((struct fake_cuda_device[]){ { instance_uuid, 0xa1 } }, 1);
	start_at(MOESCOPE_STEPS);
	CHECK(nvml->wait_readings(3));
	moescope_stop();
}

static void test_mig(void **state)
{
	static const unsigned char uuids[] = { FAKE_NVML_MIG_UUID, 0xcc };

	for (size_t i = 0; i < 2; i++) {
		struct run *run;

		instance_uuid = uuids[i];
		run = run_of(instance);
		assert_readings_of(run, (const int[]){ 1 }, 1);
		assert_non_null(fact_of(run, "NVML"));
		assert_string_equal(fact_of(run, "NVML"),
				    "device 0 is a MIG instance; its readings are those of the "
				    "whole GPU-a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1");
		run_free(run);
		tear_down(state);
		set_up(state);
	}
}

static void unknown_device(void)
{
	cuda->set_devices((struct fake_cuda_device[]){ { 0xee, 0xee }, { 0xa1, 0xa1 } }, 2);
	start_at(MOESCOPE_STEPS);
	CHECK(nvml->wait_readings(3));
	moescope_stop();
}

static void test_unknown_device(void **state)
{
	struct run *run = run_of(unknown_device);

	(void)state;
	assert_readings_of(run, (const int[]){ -1, 1 }, 2);
	assert_string_equal(fact_of(run, "NVML"), "no readings for device 0: NVML has no device "
						  "eeeeeeee-eeee-eeee-eeee-eeeeeeeeeeee");
	run_free(run);
}

static void no_order(void)
{
	setenv("MOESCOPE_CUDA", "/nonexistent/libcuda.so", 1);
	start_at(MOESCOPE_STEPS);
	CHECK(nvml->wait_readings(3));
	moescope_stop();
}

static void test_no_order(void **state)
{
	struct run *run = run_of(no_order);

	(void)state;
	assert_readings(run);
	assert_non_null(strstr(fact_of(run, "NVML"), "numbered as by nvidia-smi"));
	assert_non_null(strstr(fact_of(run, "NVML"), "cannot open libcuda.so.1"));
	run_free(run);
}

/* The driver calls the probe from inside cuInit: the order is known only later. */
static void late(void)
{
	cuda->set_result(CUDA_ERROR_NOT_INITIALIZED);
	start_at(MOESCOPE_STEPS);
	CHECK(cuda->wait_counts(2));
	cuda->set_devices((struct fake_cuda_device[]){ { 0xa1, 0xa1 }, { 0xa0, 0xa0 } }, 2);
	cuda->set_result(CUDA_SUCCESS);
	CHECK(nvml->wait_readings(3));
	moescope_stop();
}

static void test_late(void **state)
{
	struct run *run = run_of(late);

	(void)state;
	assert_readings_of(run, (const int[]){ 1, 0 }, 2);
	assert_null(fact_of(run, "NVML"));
	run_free(run);
}

static void never(void)
{
	cuda->set_result(CUDA_ERROR_NOT_INITIALIZED);
	start_at(MOESCOPE_STEPS);
	CHECK(cuda->wait_counts(2));
	moescope_stop();
}

static void test_never(void **state)
{
	struct run *run = run_of(never);

	(void)state;
	assert_int_equal(run->sample.n, 0);
	assert_string_equal(fact_of(run, "NVML"),
			    "no device readings: the program did not initialise CUDA");
	run_free(run);
}

#define MIB (1ull << 20)

static void processes(void)
{
	unsigned int self = (unsigned int)getpid();
	nvmlProcessInfo_t table[20] = {
		{ .pid = self, .usedGpuMemory = 100 * MIB },
		{ .pid = 0x7ffffff0, .usedGpuMemory = (unsigned long long)-1 },
	};

	nvml->set_processes(table, 1);
	start_at(MOESCOPE_COUNTS);
	CHECK(nvml->wait_process_lists(1));
	nvml->set_processes(table, 2); /* one appears */
	CHECK(nvml->wait_process_lists(1));
	table[0].usedGpuMemory += MIB; /* too little to tell */
	nvml->set_processes(table, 2);
	CHECK(nvml->wait_process_lists(1));
	table[0].usedGpuMemory += 1;
	nvml->set_processes(table, 1); /* one goes */
	CHECK(nvml->wait_process_lists(1));
	for (unsigned int i = 1; i < 20; i++)
		table[i] = (nvmlProcessInfo_t){ .pid = 0x7ffffff0 + i - 1, .usedGpuMemory = i };
	nvml->set_processes(table, 20); /* and more than there was room for come */
	CHECK(nvml->wait_process_lists(1));
	moescope_stop();
}

static void test_processes(void **state)
{
	struct run *run = run_of(processes);
	const struct table_process *p = &run->process;

	(void)state;
	assert_int_equal(p->n, 3 + 19);
	assert_string_equal(run_string(run, p->name[0]), "test_gpu_nvml");
	assert_int_equal(p->pid[0], run->shards[0].pid);
	assert_int_equal(p->bytes[0], 100 * MIB);
	assert_int_equal(p->pid[1], 0x7ffffff0);
	assert_string_equal(run_string(run, p->name[1]), "");
	assert_int_equal(p->bytes[1], 0); /* the driver does not tell */
	assert_int_equal(p->pid[2], run->shards[0].pid);
	assert_int_equal(p->bytes[2], 101 * MIB + 1);
	for (size_t i = 3; i < p->n; i++)
		assert_int_equal(p->pid[i], 0x7ffffff0 + i - 3);
	for (size_t i = 0; i < p->n; i++) {
		assert_int_equal(p->device[i], 0);
		assert_int_equal(p->kind[i], 0);
	}
	run_free(run);
}

/* The table of words has NVML's bits, all of them and no other. */
static void test_clock_reasons(void **state)
{
	(void)state;
	for (unsigned int bit = 0; bit < CLOCK_REASON_BITS; bit++)
		assert_int_equal(clock_reason_words(bit) != NULL,
				 (unsigned long long)nvmlClocksEventReasonAll >> bit & 1);
	assert_string_equal(clock_reason_words((unsigned int)__builtin_ctzll(
				    nvmlClocksThrottleReasonHwThermalSlowdown)),
			    "thermal slowdown by hardware");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_readings),	   TEST(test_readings_again),
		TEST(test_init_fails),	   TEST(test_named_library),
		TEST(test_no_library),	   TEST(test_reordered),
		TEST(test_hidden),	   TEST(test_mig),
		TEST(test_unknown_device), TEST(test_no_order),
		TEST(test_late),	   TEST(test_never),
		TEST(test_processes),	   cmocka_unit_test(test_clock_reasons),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
