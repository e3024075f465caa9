/* SPDX-License-Identifier: Apache-2.0
 *
 * The columns of `smi` and its lines from the readings of a run, by hand.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/text/format.h"
#include "cmd/smi/smi.h"
#include "fake_run.h"

#define MS INT64_C(1000000)

static void sample(struct run *run, uint16_t shard, int64_t time_ms, uint32_t device,
		   const char *metric, double value)
{
	fake_add_sample(run, shard,
			&(struct row_sample){ .time_ns = time_ms * MS,
					      .device = device,
					      .metric = fake_string(run, metric),
					      .value = value });
}

static void device(struct run *run, uint16_t shard, uint32_t number, const char *name,
		   const char *uuid)
{
	fake_add_device(run, shard,
			&(struct row_device){ .device = number,
					      .name = fake_string(run, name),
					      .uuid = fake_string(run, uuid) });
}

static char *lines(const struct run *run, const char *columns, const char *devices,
		   int64_t interval_ms, uint64_t count)
{
	struct smi_plan plan = { .interval_ns = interval_ms * MS,
				 .count = count,
				 .devices = devices };
	struct err err = { "" };
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	assert_int_equal(smi_format_parse(columns, &plan.format, &err), 0);
	if (smi_from_run(run, &plan, out, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(fclose(out), 0);
	return text;
}

static void assert_lines(const struct run *run, const char *columns, const char *devices,
			 int64_t interval_ms, uint64_t count, const char *wanted)
{
	char *text = lines(run, columns, devices, interval_ms, count);

	assert_string_equal(text, wanted);
	free(text);
}

/* Two devices, ten readings a second, for 1.3 seconds. */
static struct run *two_devices(void)
{
	struct run *run = fake_run_new();

	/* 2026/01/31 12:00:00.123 */
	run->shards[0].realtime_offset_ns = INT64_C(1769860800123) * MS;
	device(run, 0, 0, "First", "GPU-0");
	device(run, 0, 1, "Second, \"the\" one", "GPU-1");
	fake_add_fact(run, 0,
		      &(struct row_fact){ .key = fake_string(run, "NVIDIA driver"),
					  .value = fake_string(run, "580.1") });
	for (int i = 0; i <= 13; i++)
		for (uint32_t d = 0; d < 2; d++) {
			sample(run, 0, 100 * i, d, "utilization_gpu_pct", i + 50 * d);
			if (i == 0)
				sample(run, 0, 0, d, "power_limit_w", 700);
			/* Device 1 stops telling. */
			if (d == 0 || i < 10)
				sample(run, 0, 100 * i, d, "power_w", 100.25 + i);
			sample(run, 0, 100 * i, d, "memory_used_bytes", 3.9 * 1048576 * (i + 1));
			sample(run, 0, 100 * i, d, "not a metric that has a column", 1);
		}
	return run;
}

static void test_intervals(void **state)
{
	struct run *run = two_devices();

	(void)state;
	assert_lines(run, "timestamp,index,name,utilization.gpu,power.draw,power.limit,memory.used",
		     NULL, 1000, 0,
		     "2026/01/31 12:00:01.023, 0, First, 9 %, 109.25 W, 700.00 W, 39 MiB\n"
		     "2026/01/31 12:00:01.023, 1, \"Second, \"\"the\"\" one\", 59 %, 109.25 W, "
		     "700.00 W, 39 MiB\n"
		     "2026/01/31 12:00:01.423, 0, First, 13 %, 113.25 W, 700.00 W, 54 MiB\n"
		     "2026/01/31 12:00:01.423, 1, \"Second, \"\"the\"\" one\", 63 %, [N/A], "
		     "700.00 W, 54 MiB\n");
	/* Every reading has a line of its own when the interval is as short. */
	assert_lines(run, "utilization.gpu,driver_version,uuid,pci.bus_id,temperature.gpu", "1",
		     100, 3,
		     "50 %, 580.1, GPU-1, [N/A], [N/A]\n"
		     "51 %, 580.1, GPU-1, [N/A], [N/A]\n"
		     "52 %, 580.1, GPU-1, [N/A], [N/A]\n");
	assert_lines(run, "index,utilization.gpu", "GPU-0,7", 500, 1, "0, 4 %\n");
	fake_run_free(run);
}

static void test_gap(void **state)
{
	struct run *run = fake_run_new();

	(void)state;
	/* Nothing was read for five seconds: no lines for them. */
	sample(run, 0, 0, 0, "temperature_c", 50);
	sample(run, 0, 900, 0, "temperature_c", 51);
	sample(run, 0, 6000, 0, "temperature_c", 52);
	sample(run, 0, 6999, 0, "temperature_c", 53);
	sample(run, 0, 7000, 0, "temperature_c", 54);
	assert_lines(run, "name,temperature.gpu", NULL, 1000, 0,
		     "[N/A], 51\n[N/A], 53\n[N/A], 54\n");
	fake_run_free(run);
}

/* Two processes, the one device of each; then both on one. */
static void test_processes(void **state)
{
	struct run *run = fake_run_new();
	uint16_t other = fake_shard(run, 1, 4243), third = fake_shard(run, 2, 4244);

	(void)state;
	device(run, 0, 0, "A", "GPU-a");
	device(run, other, 0, "B", "GPU-b");
	device(run, third, 0, "A", "GPU-a");
	sample(run, 0, 0, 0, "temperature_c", 50);
	sample(run, other, 1, 0, "temperature_c", 60);
	sample(run, third, 2, 0, "temperature_c", 50);
	assert_lines(run, "index,uuid,temperature.gpu", NULL, 1000, 0,
		     "0, GPU-a, 50\n0, GPU-b, 60\n");
	fake_run_free(run);
}

static void test_strange_values(void **state)
{
	struct run *run = fake_run_new();

	(void)state;
	sample(run, 0, 0, 0, "temperature_c", -1);
	sample(run, 0, 0, 0, "power_w", (double)INFINITY);
	sample(run, 0, 0, 0, "fan_pct", (double)NAN);
	sample(run, 0, 0, 0, "clock_limit_reasons", 0x104);
	assert_lines(run, "temperature.gpu,power.draw,fan.speed,clocks_throttle_reasons.active",
		     NULL, 1000, 0, "[N/A], [N/A], [N/A], 0x0000000000000104\n");
	fake_run_free(run);
}

static void test_nothing_there(void **state)
{
	struct smi_plan plan = { .interval_ns = 1000 * MS, .header = true };
	struct run *run = fake_run_new();
	struct err err = { "" };
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	(void)state;
	assert_int_equal(smi_format_parse("index", &plan.format, &err), 0);
	assert_int_equal(smi_from_run(run, &plan, out, &err), -ENODATA);
	assert_non_null(strstr(err.message, "has no device readings"));
	sample(run, 0, 0, 3, "temperature_c", 50);
	plan.devices = "0,1";
	assert_int_equal(smi_from_run(run, &plan, out, &err), -ENODEV);
	assert_non_null(strstr(err.message, "has no device '0,1'"));
	assert_int_equal(fclose(out), 0);
	assert_string_equal(text, "");
	free(text);
	fake_run_free(run);
}

static void test_columns(void **state)
{
	struct smi_format format;
	struct err err = { "" };

	(void)state;
	assert_int_equal(smi_format_parse(" index , gpu_uuid,clocks.current.memory", &format, &err),
			 0);
	assert_int_equal(format.n, 3);
	assert_true(smi_format_readings(&format) == GPU_BIT(GPU_CLOCK_MEMORY));
	format.n = 99;
	assert_int_equal(smi_format_parse("index,,name", &format, &err), -EINVAL);
	assert_int_equal(smi_format_parse("index,", &format, &err), -EINVAL);
	assert_int_equal(smi_format_parse("index,memory.usd", &format, &err), -EINVAL);
	assert_non_null(strstr(err.message, "'memory.usd'; did you mean 'memory.used'?"));
	assert_int_equal(format.n, 99);
}

static void test_intervals_in_words(void **state)
{
	static const struct {
		const char *text;
		int64_t ns;
	} good[] = { { "1", 1000 * MS },    { "2s", 2000 * MS }, { "500ms", 500 * MS },
		     { "0.25s", 250 * MS }, { "1ms", MS },	 { "86400", 86400000 * MS } };
	static const char *const bad[] = { "",	    "s",     "1m",    "1h",  "0",   "-1",
					   "0.5ms", "86401", "1 s x", "inf", "nan", "1ss" };
	struct err err = { "" };
	int64_t ns;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(interval_parse(good[i].text, &ns, &err), 0);
		assert_int_equal(ns, good[i].ns);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(interval_parse(bad[i], &ns, &err), -EINVAL);
}

static void test_device_lists(void **state)
{
	(void)state;
	assert_true(smi_devices_have(NULL, 5, ""));
	assert_true(smi_devices_have("0,5", 5, ""));
	assert_true(smi_devices_have("GPU-a,5", 0, "GPU-a"));
	assert_false(smi_devices_have("0,5", 1, "GPU-a"));
	assert_false(smi_devices_have("50", 5, "GPU-a"));
	assert_false(smi_devices_have("GPU-", 0, "GPU-a"));
	assert_false(smi_devices_have(",", 0, ""));
	assert_false(smi_devices_have("-0", 0, ""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_intervals),	   cmocka_unit_test(test_gap),
		cmocka_unit_test(test_processes),	   cmocka_unit_test(test_strange_values),
		cmocka_unit_test(test_nothing_there),	   cmocka_unit_test(test_columns),
		cmocka_unit_test(test_intervals_in_words), cmocka_unit_test(test_device_lists),
	};

	setenv("TZ", "UTC", 1);
	tzset();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
