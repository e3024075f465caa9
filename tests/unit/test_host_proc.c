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

#include "host/proc_text.h"
#include "host/readings.h"
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
	assert_true(run->shards[0].of_machine);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers), cmocka_unit_test(lines),   cmocka_unit_test(keys),
		cmocka_unit_test(lists),   cmocka_unit_test(written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
