/* SPDX-License-Identifier: Apache-2.0
 *
 * Device metrics: what the scripted NVML reads is in the run, what a device does not have is not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

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
};
#define N_EXPECTED (sizeof(expected) / sizeof(expected[0]))

static enum moescope_level wanted_level;

static void readings(void)
{
	start_at(wanted_level);
	CHECK(nvml->wait_readings(3));
	moescope_stop();
	CHECK(nvml->bad_gpm_requests() == 0);
}

static void assert_readings(const struct run *run)
{
	size_t found[N_EXPECTED][FAKE_NVML_DEVICES] = { { 0 } };

	for (size_t i = 0; i < run->sample.n; i++) {
		const char *metric = run_string(run, run->sample.metric[i]);
		uint32_t device = run->sample.device[i];
		size_t e = 0;

		while (e < N_EXPECTED && strcmp(expected[e].metric, metric) != 0)
			e++;
		if (e == N_EXPECTED || device >= FAKE_NVML_DEVICES || !expected[e].has[device])
			fail_msg("device %u has no %s", device, metric);
		assert_true(run->sample.value[i] == expected[e].value[device]);
		assert_in_range(run->sample.time_ns[i], run->shards[0].start_ns,
				run->shards[0].end_ns);
		found[e][device]++;
	}
	for (size_t e = 0; e < N_EXPECTED; e++)
		for (int d = 0; d < FAKE_NVML_DEVICES; d++)
			assert_int_equal(found[e][d] >= 2, expected[e].has[d]);
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

static void no_library(void)
{
	setenv("MOESCOPE_NVML", "/nonexistent/libnvidia-ml.so", 1);
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_readings),
		TEST(test_readings_again),
		TEST(test_init_fails),
		TEST(test_no_library),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
