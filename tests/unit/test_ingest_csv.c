/* SPDX-License-Identifier: Apache-2.0
 *
 * Comma-separated values, numbers of several countries, and what Nsight Compute and nvidia-smi write.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "imported.h"
#include "ingest/shared/csv.h"

static void open_text(struct csv *csv, const char *text)
{
	assert_int_equal(csv_open_bytes(csv, text, strlen(text)), 0);
}

static void check_record(struct csv *csv, uint64_t line, size_t n, const char *const *fields)
{
	assert_int_equal(csv_next(csv), 1);
	assert_false(csv->broken);
	assert_int_equal(csv->line, line);
	assert_int_equal(csv->n, n);
	for (size_t i = 0; i < n; i++) {
		assert_string_equal(csv->fields[i].text, fields[i]);
		assert_int_equal(csv->fields[i].length, strlen(fields[i]));
	}
}
#define RECORD(csv, line, ...)                                                                     \
	check_record(csv, line, sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *),          \
		     (const char *[]){ __VA_ARGS__ })

static void test_records(void **state)
{
	struct csv csv;

	(void)state;
	open_text(&csv,
		  "\xef\xbb\xbfone,\"two, or\"\r\n\n\"a \"\"b\"\"\",\"over\ntwo lines\", c\n,\n"
		  "x\"y, \"z\" ,\"\"\nlast");
	RECORD(&csv, 1, "one", "two, or");
	RECORD(&csv, 3, "a \"b\"", "over\ntwo lines", " c");
	RECORD(&csv, 5, "", "");
	RECORD(&csv, 6, "x\"y", "z ", "");
	RECORD(&csv, 7, "last");
	assert_int_equal(csv_next(&csv), 0);
	assert_int_equal(csv_next(&csv), 0);
	csv_close(&csv);
	open_text(&csv, "");
	assert_int_equal(csv_next(&csv), 0);
	csv_close(&csv);
}

/* A quote that is never closed costs its line, not the file. */
static void test_open_quote(void **state)
{
	struct csv csv;

	(void)state;
	open_text(&csv, "a,b\nc,\"d\ne,f\n");
	RECORD(&csv, 1, "a", "b");
	assert_int_equal(csv_next(&csv), 1);
	assert_true(csv.broken);
	assert_int_equal(csv.line, 2);
	assert_int_equal(csv.offset, 4);
	assert_int_equal(csv.n, 0);
	RECORD(&csv, 3, "e", "f");
	assert_int_equal(csv_next(&csv), 0);
	csv_close(&csv);
}

/* Larger than what is read at once, and than what a record may have. */
static void test_long(void **state)
{
	size_t size = CSV_RECORD_MAX + 100000;
	char *directory = temporary_directory(), *path = path_in(directory, "long.csv");
	char *text = malloc(size);
	FILE *f = fopen(path, "wb");
	struct csv csv;

	(void)state;
	assert_non_null(text);
	assert_non_null(f);
	memset(text, 'x', size);
	fputs("first,1\n", f);
	fwrite(text, 1, 300000, f);
	fputs(",2\n", f);
	fwrite(text, 1, size, f);
	fputs(",3\nlast,4\n", f);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(csv_open(&csv, path, NULL), 0);
	RECORD(&csv, 1, "first", "1");
	assert_int_equal(csv_next(&csv), 1);
	assert_int_equal(csv.fields[0].length, 300000);
	assert_string_equal(csv.fields[1].text, "2");
	assert_int_equal(csv_next(&csv), 1);
	assert_true(csv.broken);
	/* The rest of that line, which cannot be told from a record. */
	assert_int_equal(csv_next(&csv), 1);
	assert_false(csv.broken);
	assert_int_equal(csv.line, 3);
	RECORD(&csv, 4, "last", "4");
	assert_int_equal(csv_next(&csv), 0);
	csv_close(&csv);
	free(text);
	free(path);
	remove_directory(directory);
}

static void see(struct number_form *form, const char *text)
{
	number_form_see(form, text, strlen(text));
}

static double number(const struct number_form *form, const char *text)
{
	double value = -1;

	assert_int_equal(number_read(form, text, strlen(text), &value), NUMBER_READ);
	return value;
}

static enum number_kind kind(const struct number_form *form, const char *text)
{
	double value;

	return number_read(form, text, strlen(text), &value);
}

static void test_numbers(void **state)
{
	struct number_form point = { .decimal = '.' }, comma = { .decimal = ',' };

	(void)state;
	assert_true(number(&point, "12,319,469") == 12319469);
	assert_true(number(&point, "4,963,609,951.19") == 4963609951.19);
	assert_true(number(&point, "-1,234.5") == -1234.5);
	assert_true(number(&point, "0.17") == 0.17);
	assert_true(number(&point, "1'234'567.5") == 1234567.5);
	assert_true(number(&point, "1.5e-3") == 0.0015);
	assert_true(number(&comma, "12.319.469") == 12319469);
	assert_true(number(&comma, "4.963.609.951,19") == 4963609951.19);
	assert_true(number(&comma, "1 234,5") == 1234.5);
	assert_true(number(&comma, "1\xe2\x80\xaf"
				   "234\xc2\xa0"
				   "567,5") == 1234567.5);
	assert_true(number(&comma, "1.234") == 1234);
	assert_true(number(&point, "1.234") == 1.234);
	assert_int_equal(kind(&point, "1.234,5"), NUMBER_OTHER);
	assert_int_equal(kind(&point, "1,23"), NUMBER_OTHER);
	assert_int_equal(kind(&point, "0,234"), NUMBER_OTHER);
	assert_int_equal(kind(&point, "12345,678"), NUMBER_OTHER);
	assert_int_equal(kind(&comma, "12.3456"), NUMBER_OTHER);
	assert_int_equal(kind(&point, "nan"), NUMBER_NONE);
	assert_int_equal(kind(&point, "inf"), NUMBER_NONE);
	assert_int_equal(kind(&point, "1e999"), NUMBER_NONE);
	assert_int_equal(kind(&point, "(1, 1, 1)"), NUMBER_NONE);
	assert_int_equal(kind(&point, "12 blocks"), NUMBER_NONE);
	assert_int_equal(kind(&point, "0x12"), NUMBER_NONE);
	assert_int_equal(kind(&point, ""), NUMBER_NONE);
	assert_int_equal(kind(&point, "-"), NUMBER_NONE);
}

/* What could be either says nothing; what cannot, decides. */
static void test_number_form(void **state)
{
	struct number_form form = { 0 };

	(void)state;
	see(&form, "1,234");
	see(&form, "1.234");
	see(&form, "No-CC");
	see(&form, "17");
	assert_int_equal(form.points + form.commas, 0);
	number_form_decide(&form);
	assert_int_equal(form.decimal, '.');
	see(&form, "0,234"); /* no group begins with a zero */
	see(&form, "1.234.567");
	see(&form, "12,5");
	assert_int_equal(form.commas, 3);
	see(&form, "1,234.5");
	assert_int_equal(form.points, 1);
	number_form_decide(&form);
	assert_int_equal(form.decimal, ',');
}

static struct imported import(const char *text)
{
	return import_text(text, strlen(text));
}

/* The figure of a launch; its row. */
static size_t find_metric(const struct run *run, uint32_t profile, const char *name)
{
	for (size_t i = 0; i < run->metric.n; i++)
		if (run->metric.profile[i] == profile &&
		    !strcmp(run_string(run, run->metric.name[i]), name))
			return i;
	fail_msg("no metric %s", name);
	return 0;
}

static void test_ncu_details(void **state)
{
	struct imported in = import(
		"==PROF== Connected to process 583\n"
		"loss, 0.25\n"
		"\"ID\",\"Process ID\",\"Process Name\",\"Host Name\",\"Kernel Name\",\"Context\","
		"\"Stream\",\"Block Size\",\"Grid Size\",\"Device\",\"CC\",\"Section Name\","
		"\"Metric Name\",\"Metric Unit\",\"Metric Value\",\"Rule Name\",\"Rule Type\","
		"\"Rule Description\",\"Estimated Speedup Type\",\"Estimated Speedup\"\n"
		"\"0\",\"583\",\"micro\",\"host\",\"k(int, float *)\",\"1\",\"7\",\"(256, 1, 1)\","
		"\"(1024, 2, 3)\",\"1\",\"9.0\",\"Speed\",\"Elapsed Cycles\",\"cycle\","
		"\"12,319,469\",\n"
		"==PROF== Disconnected\n"
		"\"0\",\"583\",\"micro\",\"host\",\"k(int, float *)\",\"1\",\"7\",\"(256, 1, 1)\","
		"\"(1024, 2, 3)\",\"1\",\"9.0\",\"Speed\",\"DRAM Throughput\",\"%\",\"61.84\",\n"
		"\"0\",\"583\",\"micro\",\"host\",\"k(int, float *)\",\"1\",\"7\",\"(256, 1, 1)\","
		"\"(1024, 2, 3)\",\"1\",\"9.0\",\"Speed\",\"\",\"\",\"\",\"Bottleneck\",\"OPT\","
		"\"Look at it.\",\"global\",\"12.5\"\n"
		"\"1\",\"583\",\"micro\",\"host\",\"k2\",\"1\",\"7\",\"(32, 1, 1)\",\"(1, 1, 1)\",\"1\","
		"\"9.0\",\"Launch\",\"Cache\",\"\",\"PreferNone\",\n"
		"\"1\",\"583\",\"mic\n");
	const struct run *run = in.run;
	struct row_launch launch;
	size_t i;

	(void)state;
	assert_non_null(run);
	assert_int_equal(run->shards[0].pid, 583);
	assert_int_equal(run->metric.n, 5);
	i = find_metric(run, 0, "Elapsed Cycles");
	assert_true(run->metric.value[i] == 12319469);
	assert_string_equal(run_string(run, run->metric.unit[i]), "cycle");
	assert_string_equal(run_string(run, run->metric.section[i]), "Speed");
	assert_int_equal(run->metric.device[i], 1);
	assert_int_equal(run->metric.stream[i], 7);
	launch = run_launch(run, run->metric.launch[i]);
	assert_string_equal(run_string(run, launch.name), "k(int, float *)");
	assert_int_equal(launch.grid_x, 1024);
	assert_int_equal(launch.grid_z, 3);
	assert_int_equal(launch.block_x, 256);
	assert_true(run->metric.value[find_metric(run, 0, "DRAM Throughput")] == 61.84);
	i = find_metric(run, 0, "rule Bottleneck");
	assert_string_equal(run_string(run, run->metric.text[i]), "Look at it.");
	i = find_metric(run, 0, "rule Bottleneck estimated speedup");
	assert_true(run->metric.value[i] == 12.5);
	i = find_metric(run, 1, "Cache");
	assert_string_equal(run_string(run, run->metric.text[i]), "PreferNone");
	assert_int_equal(run->device.n, 1);
	assert_int_equal(run->device.capability[0], 90);
	/* This page does not say: the launch's number is neither. */
	assert_int_equal(run->device.name[0], 0);
	assert_int_equal(run->device.memory_bytes[0], 0);
	assert_int_equal(run->loss.damaged_events, 1); /* the row that is cut */
	imported_release(&in);
}

/* The same with the marks of another country, where most figures have no decimals. */
static void test_ncu_raw(void **state)
{
	struct imported in = import(
		"\"ID\",\"Process ID\",\"Kernel Name\",\"Device\",\"CC\",\"a__cycles.sum\","
		"\"b__rate\",\"device__attribute_display_name\",\"device__attribute_multiprocessor_"
		"count\",\"launch__registers_per_thread\",\"c__none\",\"d__nan\"\n"
		"\"\",\"\",\"\",\"\",\"\",\"cycle\",\"%\",\"\",\"\",\"register\",\"\",\"\"\n"
		"\"0\",\"5\",\"k\",\"0\",\"10.3\",\"1.234\",\"0,5\",\"NVIDIA\",\"132\",\"16\",\"\","
		"\"nan\"\n"
		"\"1\",\"6\",\"k\",\"0\",\"10.3\",\"12.345.678\",\"1.5\",\"NVIDIA\",\"132\",\"32\",\"\","
		"\"0\"\n");
	const struct run *run = in.run;
	size_t i;

	(void)state;
	assert_non_null(run);
	assert_int_equal(run->n_shards, 2);
	i = find_metric(run, 0, "a__cycles.sum");
	assert_true(run->metric.value[i] == 1234);
	assert_string_equal(run_string(run, run->metric.unit[i]), "cycle");
	assert_true(run->metric.value[find_metric(run, 0, "b__rate")] == 0.5);
	assert_string_equal(run_string(run, run->metric.text[find_metric(run, 0, "d__nan")]),
			    "nan");
	assert_true(run->metric.value[find_metric(run, 1, "a__cycles.sum")] == 12345678);
	i = find_metric(run, 1, "launch__registers_per_thread");
	assert_int_equal(run_launch(run, run->metric.launch[i]).registers, 32);
	/* "1.5" is not a number with a decimal comma; empty fields are no figures. */
	assert_int_equal(run->metric.n, 6 + 5);
	assert_int_equal(run->loss.damaged_events, 1);
	assert_int_equal(run->device.n, 2);
	assert_int_equal(run->device.capability[0], 103);
	assert_int_equal(run->device.multiprocessors[0], 132);
	assert_string_equal(run_string(run, run->device.name[1]), "NVIDIA");
	assert_non_null(strstr(run->info.notes, "decimal comma"));
	imported_release(&in);
}

/* A log that several runs were written to: what columns are is told again each time. */
static void test_ncu_headers(void **state)
{
	struct imported in = import(
		"\"ID\",\"Process ID\",\"Kernel Name\",\"a__sum\",\"b__sum\"\n"
		"\"\",\"\",\"\",\"byte\",\"%\"\n"
		"\"0\",\"5\",\"k\",\"1\",\"2\"\n"
		"\"1\",\"5\",\"k\",\"3\",\"4\"\n"
		"==PROF== Connected to process 5\n"
		"\"ID\",\"Process ID\",\"Kernel Name\",\"b__sum\",\"c__sum\",\"a__sum\"\n"
		"\"\",\"\",\"\",\"%\",\"cycle\",\"byte\"\n"
		"\"0\",\"5\",\"k\",\"5\",\"6\",\"7\"\n"
		"\"ID\",\"Process ID\",\"Kernel Name\",\"b__sum\",\"c__sum\",\"a__sum\"\n"
		"\"9\",\"5\",\"k\",\"8\",\"9\",\"10\"\n"
		"\"ID\",\"Process ID\",\"Kernel Name\",\"launch__shared_mem_per_block_static\","
		"\"launch__shared_mem_per_block_dynamic\",\"launch__registers_per_thread\"\n"
		"\"\",\"\",\"\",\"Kbyte/block\",\"byte/block\",\"register/thread\"\n"
		"\"20\",\"5\",\"k\",\"49.15\",\"1,024\",\"24\"\n"
		"\"ID\",\"Process ID\",\"Kernel Name\",\"Section Name\",\"Metric Name\",\"Metric Unit\","
		"\"Metric Value\"\n"
		"\"0\",\"5\",\"k\",\"Speed\",\"Duration\",\"ns\",\"11\"\n");
	static const struct {
		uint32_t profile;
		const char *name, *unit;
		double value;
	} expected[] = {
		{ 0, "a__sum", "byte", 1 },
		{ 0, "b__sum", "%", 2 },
		{ 1, "a__sum", "byte", 3 },
		{ 1, "b__sum", "%", 4 },
		{ 2, "b__sum", "%", 5 },
		{ 2, "c__sum", "cycle", 6 },
		{ 2, "a__sum", "byte", 7 },
		{ 9, "b__sum", "%", 8 },
		{ 9, "c__sum", "cycle", 9 },
		{ 9, "a__sum", "byte", 10 },
		{ 20, "launch__shared_mem_per_block_static", "Kbyte/block", 49.15 },
		{ 20, "launch__shared_mem_per_block_dynamic", "byte/block", 1024 },
		{ 20, "launch__registers_per_thread", "register/thread", 24 },
		{ 21, "Duration", "ns", 11 },
	};
	const struct run *run = in.run;
	struct row_launch launch;

	(void)state;
	assert_non_null(run);
	assert_int_equal(run->metric.n, sizeof(expected) / sizeof(expected[0]));
	for (size_t i = 0; i < run->metric.n; i++) {
		assert_int_equal(run->metric.profile[i], expected[i].profile);
		assert_string_equal(run_string(run, run->metric.name[i]), expected[i].name);
		assert_string_equal(run_string(run, run->metric.unit[i]), expected[i].unit);
		assert_true(run->metric.value[i] == expected[i].value);
	}
	assert_null(strstr(run->info.notes, "no rows of its table"));
	/* Bytes, whatever the unit of the column. */
	launch = run_launch(
		run, run->metric.launch[find_metric(run, 20, "launch__registers_per_thread")]);
	assert_int_equal(launch.static_shared_bytes, 49150);
	assert_int_equal(launch.dynamic_shared_bytes, 1024);
	assert_int_equal(launch.registers, 24);
	imported_release(&in);
}

static void test_ncu_real(void **state)
{
	struct imported in;
	size_t i;

	(void)state;
	if (access(FIXTURES "ncu-raw.csv", R_OK))
		skip();
	in = import_path(FIXTURES "ncu-raw.csv", WANT_ALL);
	assert_non_null(in.run);
	assert_int_equal(in.run->metric.n, 4430); /* fields that are not empty */
	assert_int_equal(in.run->loss.damaged_events, 0);
	assert_int_equal(in.run->device.memory_bytes[0], 150109880320);
	assert_string_equal(run_string(in.run, in.run->device.name[0]), "NVIDIA H200");
	i = find_metric(in.run, 1, "launch__shared_mem_config_size");
	assert_true(in.run->metric.value[i] == 32768);
	imported_release(&in);
	in = import_path(FIXTURES "ncu-details.csv", WANT_ALL);
	assert_non_null(in.run);
	assert_int_equal(in.run->loss.damaged_events, 0);
	i = find_metric(in.run, 0, "DRAM Frequency");
	assert_true(in.run->metric.value[i] == 4963609951.19);
	i = find_metric(in.run, 0, "Elapsed Cycles");
	assert_true(in.run->metric.value[i] == 12319469);
	imported_release(&in);
}

static double sample(const struct run *run, size_t n, const char *metric, uint32_t device)
{
	for (size_t i = 0; i < run->sample.n; i++)
		if (!strcmp(run_string(run, run->sample.metric[i]), metric) &&
		    run->sample.device[i] == device && !n--)
			return run->sample.value[i];
	fail_msg("no sample of %s", metric);
	return 0;
}

static void test_smi(void **state)
{
	struct imported in;

	(void)state;
	setenv("TZ", "UTC", 1);
	in = import("timestamp, index, name, uuid, driver_version, utilization.gpu [%], "
		    "memory.used [MiB], memory.total [MiB], clocks.current.sm [MHz], "
		    "clocks_event_reasons.active, encoder.stats.sessionCount, clocks.video [MHz], "
		    "pstate\n"
		    "2026/11/15 00:45:02.409, 0, NVIDIA H200, GPU-a, 570.1, 88 %, 4096 MiB, 8 GiB, "
		    "1980 MHz, 0x0000000000000004, 3, 1500 MHz, P0\n"
		    "2026/11/15 00:45:02.409, 1, NVIDIA H200, GPU-b, 570.1, [N/A], 1 MiB, "
		    "8192 MiB, [Unknown Error], 0x0, [N/A], 1200 MHz, P8\n"
		    "2026/11/15 00:45:03.411, 0, NVIDIA H200, GPU-a, 570.1, x, 4097, 8192 MiB, "
		    "1000 MHz, 0x0, 4, 1500 MHz, P0\n"
		    "yesterday, 0, NVIDIA H200, GPU-a, 570.1, 1 %, 1 MiB, 1 MiB, 1 MHz, 0x0, 4, "
		    "1 MHz, P0\n"
		    "cut, line\n");
	assert_non_null(in.run);
	assert_true(sample(in.run, 0, "utilization_gpu_pct", 0) == 88);
	assert_true(sample(in.run, 0, "memory_used_bytes", 0) == 4096.0 * 1048576);
	assert_true(sample(in.run, 1, "memory_used_bytes", 0) == 4097.0 * 1048576);
	assert_true(sample(in.run, 0, "memory_used_bytes", 1) == 1048576);
	assert_true(sample(in.run, 0, "memory_total_bytes", 0) == 8192.0 * 1048576);
	assert_true(sample(in.run, 1, "clock_sm_mhz", 0) == 1000);
	assert_true(sample(in.run, 0, "clock_limit_reasons", 0) == 4);
	assert_true(sample(in.run, 0, "smi clocks.video [MHz]", 1) == 1200);
	assert_true(sample(in.run, 1, "smi encoder.stats.sessionCount", 0) == 4);
	assert_int_equal(in.run->sample.n, 7 + 4 + 6);
	assert_int_equal(in.run->loss.damaged_events, 3);
	assert_int_equal(in.run->device.n, 2);
	assert_string_equal(run_string(in.run, in.run->device.uuid[1]), "GPU-b");
	assert_int_equal(in.run->device.memory_bytes[1], INT64_C(8192) << 20);
	assert_int_equal(in.run->fact.n, 1);
	assert_int_equal(in.run->info.started_realtime_ns, INT64_C(1794703502409000000));
	assert_int_equal(in.run->sample.time_ns[in.run->sample.n - 1] - in.run->sample.time_ns[0],
			 1002000000);
	assert_non_null(strstr(in.run->info.notes, "column pstate"));
	imported_release(&in);
}

/* A log that was interrupted inside a number: it is not the number that was written. */
static void test_smi_cut(void **state)
{
	struct imported in;

	(void)state;
	setenv("TZ", "UTC", 1);
	in = import("timestamp, index, power.draw [W]\n2026/11/15 00:45:02.409, 0, 512.25 W\n"
		    "2026/11/15 00:45:03.409, 0, 51");
	assert_non_null(in.run);
	assert_int_equal(in.run->sample.n, 1);
	assert_int_equal(in.run->loss.damaged_events, 1);
	imported_release(&in);

	in = import("timestamp, index, power.draw [W]\n2026/11/15 00:45:02.409, 0, 512.25 W\n"
		    "2026/11/15 00:45:03.409, 0, 513.5 W");
	assert_non_null(in.run);
	assert_int_equal(in.run->sample.n, 2);
	assert_null(strstr(in.run->info.notes, "has no end"));
	imported_release(&in);

	in = import("timestamp, index, power.draw [W]\n2026/11/15 00:45:02.409, 0, 512.25\n"
		    "2026/11/15 00:45:03.409, 0, 51");
	assert_non_null(in.run);
	assert_int_equal(in.run->sample.n, 2);
	assert_non_null(strstr(in.run->info.notes, "has no end"));
	imported_release(&in);
}

/* Without a column that tells them apart, lines of one time are devices one after the other. */
static void test_smi_poor(void **state)
{
	struct imported in;

	(void)state;
	setenv("TZ", "UTC", 1);
	in = import("timestamp, utilization.gpu [%]\n2026/11/15 00:45:02.409, 1\n"
		    "2026/11/15 00:45:02.409, 2\n2026/11/15 00:45:03.409, 3\n"
		    "timestamp, utilization.gpu [%]\n2026/11/15 00:45:04.409, 4\n");
	assert_non_null(in.run);
	assert_int_equal(in.run->device.n, 2);
	assert_true(sample(in.run, 0, "utilization_gpu_pct", 1) == 2);
	assert_true(sample(in.run, 2, "utilization_gpu_pct", 0) == 4);
	assert_int_equal(in.run->loss.damaged_events, 0);
	assert_non_null(strstr(in.run->info.notes, "tells devices apart"));
	imported_release(&in);

	in = import("utilization.gpu [%], power.draw [W]\n7 %, 12.5 W\n");
	assert_non_null(in.run);
	assert_true(sample(in.run, 0, "power_w", 0) == 12.5);
	assert_non_null(strstr(in.run->info.notes, "no timestamp"));
	imported_release(&in);

	in = import("2026/11/15 00:45:02.409, NVIDIA H200, 2 %\n");
	assert_null(in.run);
	assert_non_null(strstr(in.err.message, "noheader"));
	imported_release(&in);

	in = import("timestamp, utilization.gpu [%]\n");
	assert_null(in.run);
	assert_non_null(strstr(in.err.message, "no line"));
	imported_release(&in);
}

static void test_smi_real(void **state)
{
	struct imported in;

	(void)state;
	if (access(FIXTURES "nvidia-smi.csv", R_OK))
		skip();
	in = import_path(FIXTURES "nvidia-smi.csv", WANT_ALL);
	assert_non_null(in.run);
	assert_int_equal(in.run->sample.n, 8 * 5);
	assert_true(sample(in.run, 0, "memory_used_bytes", 0) == 809.0 * 1048576);
	assert_true(sample(in.run, 7, "temperature_c", 0) == 34);
	assert_string_equal(run_string(in.run, in.run->device.name[0]), "NVIDIA H200");
	imported_release(&in);
}

/* Other text is nobody's. */
static void test_strangers(void **state)
{
	static const char *const texts[] = { "name,age\nTom,3\n", "", "ID,Kernel\n0,k\n", "a\n" };

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		char *directory = temporary_directory(), *path = path_in(directory, "file");
		FILE *f = fopen(path, "wb");
		const struct importer *importer;

		assert_non_null(f);
		fputs(texts[i], f);
		assert_int_equal(fclose(f), 0);
		assert_int_equal(ingest_recognise(path, &importer, NULL), 0);
		free(path);
		remove_directory(directory);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_records),	    cmocka_unit_test(test_open_quote),
		cmocka_unit_test(test_long),	    cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_number_form), cmocka_unit_test(test_ncu_details),
		cmocka_unit_test(test_ncu_raw),	    cmocka_unit_test(test_ncu_headers),
		cmocka_unit_test(test_ncu_real),    cmocka_unit_test(test_smi),
		cmocka_unit_test(test_smi_cut),	    cmocka_unit_test(test_smi_poor),
		cmocka_unit_test(test_smi_real),    cmocka_unit_test(test_strangers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
