/* SPDX-License-Identifier: Apache-2.0
 *
 * Imports of CSV and SQLite in which each allocation fails once: a sentence, nothing leaked, and no
 * row missing without one.
 */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "failing_alloc.h"
#include "imported.h"
#include "ingest/importers.h"
#include "ingest/shared/intake.h"
#include "ingest/shared/intake_inside.h"
#include "nsight_file.h"

static uint64_t rows_of(const struct intake *intake)
{
	uint64_t n = 0;

	for (size_t p = 0; p < intake->n_processes; p++)
		for (size_t i = 0; i < intake->processes[p]->inside->n_parts; i++) {
			const struct intake_part *part = intake->processes[p]->inside->parts[i];

			for (size_t s = 0; s < part->n_segments; s++)
				n += part->segments[s].rows;
		}
	return n;
}

static void fail_in_turn(const struct importer *importer, const char *path, uint64_t rows)
{
	struct ingest_file file = { .path = path };
	long n = 0;
	bool reached = true;

	for (; reached; n++) {
		struct err err = { "" };
		struct intake *intake;
		int r;

		assert_int_equal(intake_new(UINT64_MAX, &intake), 0);
		countdown = n;
		r = importer->read(&file, intake, &err);
		reached = countdown < 0;
		countdown = -1;
		if (r < 0) {
			assert_int_equal(r, -ENOMEM);
			assert_string_not_equal(err.message, "");
		} else {
			assert_int_equal(rows_of(intake), rows);
		}
		assert_true(r < 0 ? reached : true);
		intake_free(intake);
	}
	assert_true(n > 10);
}

static void fail_text(const struct importer *importer, const char *text, uint64_t rows)
{
	char *directory = temporary_directory(), *path = path_in(directory, "file");
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
	fail_in_turn(importer, path, rows);
	free(path);
	remove_directory(directory);
}

static void test_csv(void **state)
{
	(void)state;
	fail_text(
		&ncu_importer,
		"\"ID\",\"Process ID\",\"Process Name\",\"Kernel Name\",\"Device\",\"a.sum\",\"b\"\n"
		"\"\",\"\",\"\",\"\",\"\",\"cycle\",\"%\"\n\"0\",\"5\",\"p\",\"k\",\"0\",\"1\",\"x\"\n"
		"\"1\",\"6\",\"p\",\"k\",\"0\",\"2\",\"3\"\n",
		4 + 2 + 2); /* metrics, devices, programs */
	fail_text(
		&smi_importer,
		"timestamp, index, name, driver_version, utilization.gpu [%], clocks.video [MHz]\n"
		"2026/11/15 00:45:02.409, 0, NVIDIA H200, 570, 1 %, 1500 MHz\n"
		"2026/11/15 00:45:02.409, 1, NVIDIA H200, 570, 2 %, 1500 MHz\n",
		4 + 2 + 1); /* samples, devices, the driver */
}

static void test_nsight(void **state)
{
	struct nsight_file file = nsight_file_new();

	(void)state;
	nsight_run(
		&file,
		"create table StringIds (id integer primary key, value text);"
		"insert into StringIds values (1, 'cudaLaunchKernel_v7000'), (2, 'mul');"
		"create table CUPTI_ACTIVITY_KIND_KERNEL (start, end, globalPid, demangledName);"
		"insert into CUPTI_ACTIVITY_KIND_KERNEL values (1, 2, 16777216, 2),"
		" (3, 4, 33554432, 2);"
		"create table CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, nameId);"
		"insert into CUPTI_ACTIVITY_KIND_RUNTIME values (0, 1, 16777217, 1);"
		"create table NVTX_EVENTS (start, end, eventType, text, globalTid, domainId, textId);"
		"insert into NVTX_EVENTS values (0, null, 75, 'D', 16777217, 1, null),"
		" (0, 5, 59, 'r', 16777217, 1, null), (0, 6, 59, null, 16777217, 0, 2);"
		"create table ThreadNames (nameId, globalTid);"
		"insert into ThreadNames values (2, 16777217);");
	nsight_file_close(&file);
	fail_in_turn(&nsight_importer, file.path, 2 + 1 + 2 + 1);
	nsight_file_release(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_csv),
		cmocka_unit_test(test_nsight),
	};
	cpu_set_t one;

	/* On one CPU there is one thread, and each allocation has its turn. */
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	if (sched_setaffinity(0, sizeof(one), &one) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
