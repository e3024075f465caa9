/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts of /proc taken apart, and readings written and read again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/machine/limits.h"
#include "host/machine/proc_text.h"
#include "host/machine/readings.h"
#include "tables/tables.h"

static void numbers(void **state)
{
	int64_t n[3];

	(void)state;
	assert_int_equal(proc_numbers("  12 -3\t4 5", n, 3), 3);
	assert_true(n[0] == 12 && n[1] == -3 && n[2] == 4);
	assert_int_equal(proc_numbers("max 100000", n, 2), 0);
	assert_int_equal(proc_numbers("", n, 2), 0);
}

static void lines(void **state)
{
	char text[] = "a 1\n\nb";
	char *at = text;

	(void)state;
	assert_string_equal(proc_line(&at), "a 1");
	assert_string_equal(proc_line(&at), "");
	assert_string_equal(proc_line(&at), "b");
	assert_null(proc_line(&at));
}

static void keys(void **state)
{
	static const char text[] = "MemTotal:   100 kB\nMem: 7\nnr_throttled 5\nlast x\n";
	int64_t n;

	(void)state;
	assert_true(proc_number(text, "MemTotal", &n) && n == 100);
	assert_true(proc_number(text, "Mem", &n) && n == 7);
	assert_true(proc_number(text, "nr_throttled", &n) && n == 5);
	assert_false(proc_number(text, "last", &n));
	assert_false(proc_number(text, "nr", &n));
	assert_null(proc_after("", "x"));
	assert_false(proc_file_number("/nonexistent", &n));
}

static void add(void *sum, unsigned int number)
{
	*(uint64_t *)sum += number;
}

static void lists(void **state)
{
	uint64_t sum = 0;

	(void)state;
	assert_int_equal(proc_list("0-3,8\n", add, &sum), 5);
	assert_int_equal(sum, 14);
	assert_int_equal(proc_list("", NULL, NULL), 0);
	assert_int_equal(proc_list("5-2", NULL, NULL), 0);
	/* No loop is endless. */
	assert_true(proc_list("0-18446744073709551615", NULL, NULL) <= 65536);
}

/* Only what changes is written; what held is, where asked. */
static void written(void **state)
{
	char folder[] = "/tmp/moescope-readings-XXXXXX", *path = NULL;
	struct readings *r = NULL;
	struct run *run = NULL;
	struct err err = { "" };

	(void)state;
	assert_non_null(mkdtemp(folder));
	assert_int_equal(readings_open(&r, folder, getpid(), &err), 0);
	for (int i = 0; i < 10; i++) {
		readings_at(r, 1000 + i);
		readings_put(r, HOST_MACHINE, "", HOST_LOOKS, i);
		readings_put(r, HOST_DISK, "sda", HOST_READ_BYTES, 5);
		readings_fact(r, "a", "b");
	}
	readings_held(r, HOST_DISK, "sda", HOST_READ_BYTES, 5, 1005);
	assert_int_equal(readings_close(r, &err), 0);
	assert_true(asprintf(&path, "%s/host-%d.mst", folder, (int)getpid()) > 0);
	assert_int_equal(run_load(path, NULL, &run, &err), 0);
	assert_int_equal(run->shards[0].role, ROLE_MACHINE);
	assert_int_equal(run->host_sample.n, 12);
	assert_int_equal(run->fact.n, 1);
	assert_string_equal(run_string(run, run->host_sample.name[1]), "sda");
	assert_string_equal(run_string(run, run->host_sample.metric[1]), "read_bytes");
	run_free(run);
	/* The name is taken. */
	assert_true(readings_open(&r, folder, getpid(), &err) < 0);
	assert_non_null(strstr(err.message, "machine"));
	unlink(path);
	rmdir(folder);
	free(path);
}

static void make_file(const char *folder, const char *name, const char *text)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "we");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

/* The last reading of a metric; -1: there is none. */
static int64_t reading(const struct run *run, const char *metric)
{
	int64_t value = -1;

	for (size_t i = 0; i < run->host_sample.n; i++)
		if (strcmp(run_string(run, run->host_sample.metric[i]), metric) == 0)
			value = run->host_sample.value[i];
	return value;
}

/* Files as both versions have them. */
static void limited(void **state)
{
	static const char *const files[][2] = {
		{ "cpu.max", "150000 100000\n" },
		{ "cpu.cfs_quota_us", "150000\n" },
		{ "cpu.cfs_period_us", "100000\n" },
		{ "cpu.stat", "nr_periods 40\nnr_throttled 10\nthrottled_usec 2000\n"
			      "throttled_time 2000000\n" },
		{ "memory.max", "1000000\n" },
		{ "memory.limit_in_bytes", "1000000\n" },
		{ "memory.current", "900000\n" },
		{ "memory.usage_in_bytes", "900000\n" },
		{ "memory.stat", "anon 1\ninactive_file 100000\ntotal_inactive_file 100000\n" },
		{ "memory.events", "low 0\nhigh 0\nmax 7\noom 0\noom_kill 1\n" },
		{ "memory.oom_control", "oom_kill_disable 0\noom_kill 1\n" },
		{ "memory.failcnt", "7\n" },
	};
	size_t n = sizeof(files) / sizeof(files[0]);

	(void)state;
	for (int v2 = 0; v2 < 2; v2++) {
		char folder[] = "/tmp/moescope-limits-XXXXXX", path[256];
		struct limits limits = { .cpu_is_v2 = v2, .memory_is_v2 = v2 };
		struct readings *r = NULL;
		struct run *run = NULL;
		struct err err = { "" };

		assert_non_null(mkdtemp(folder));
		for (size_t i = 0; i < n; i++)
			make_file(folder, files[i][0], files[i][1]);
		snprintf(limits.cpu, sizeof(limits.cpu), "%s", folder);
		snprintf(limits.memory, sizeof(limits.memory), "%s", folder);
		assert_int_equal(readings_open(&r, folder, getpid(), &err), 0);
		readings_at(r, 1);
		limits_look(&limits, r);
		/* "max": no limit, and no reading. */
		make_file(folder, v2 ? "cpu.max" : "cpu.cfs_quota_us", v2 ? "max 100000" : "-1");
		limits_look(&limits, r);
		assert_int_equal(readings_close(r, &err), 0);
		assert_int_equal(run_load(folder, NULL, &run, &err), 0);
		assert_int_equal(reading(run, "quota_millicpus"), 1500);
		assert_int_equal(reading(run, "periods"), 40);
		assert_int_equal(reading(run, "throttled_periods"), 10);
		assert_int_equal(reading(run, "throttled_ns"), 2000000);
		assert_int_equal(reading(run, "limit_bytes"), 1000000);
		assert_int_equal(reading(run, "used_bytes"), 800000);
		assert_int_equal(reading(run, "limit_hits"), 7);
		assert_int_equal(reading(run, "oom_kills"), 1);
		run_free(run);
		for (size_t i = 0; i < n; i++) {
			snprintf(path, sizeof(path), "%s/%s", folder, files[i][0]);
			unlink(path);
		}
		snprintf(path, sizeof(path), "%s/host-%d.mst", folder, (int)getpid());
		unlink(path);
		assert_int_equal(rmdir(folder), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers), cmocka_unit_test(lines),   cmocka_unit_test(keys),
		cmocka_unit_test(lists),   cmocka_unit_test(written), cmocka_unit_test(limited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
