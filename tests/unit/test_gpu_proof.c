/* SPDX-License-Identifier: Apache-2.0
 *
 * What has been proved for a CUPTI and a driver: the table in the source, and the file that the
 * stress test leaves. The file may be anything.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "device/driver/proof.h"
#include "probe/gpu/proved.h"
#include "table_rows.h"

#define CUPTI 130500 /* in no table */
#define DRIVER "590.1"

static char *directory;

static int set_up(void **state)
{
	(void)state;
	directory = temporary_directory();
	setenv("MOESCOPE_CACHE", directory, 1);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	remove_directory(directory);
	return 0;
}

static struct proof proof_of(const char *text, size_t size)
{
	char *path = path_in(directory, "stress");
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, size, f), size);
	assert_int_equal(fclose(f), 0);
	free(path);
	return proof_find(CUPTI, DRIVER);
}

static void assert_reference(const struct proof *proof)
{
	assert_false(proof->graphs);
	assert_true(proof->prices.launch_ns > 500 && proof->prices.launch_ns < 5000);
	assert_true(proof->prices.node_ns > 100 && proof->prices.node_ns < 5000);
	assert_true(proof->prices.window_bytes > 100000);
	assert_true(proof->prices.attach_bytes > proof->prices.window_bytes);
}

static void test_table(void **state)
{
	static const struct {
		uint32_t cupti;
		const char *driver;
		bool graphs;
	} cases[] = {
		{ 130000, "580.95.05", true },	{ 130099, "580", true },
		{ 130100, "580.95.05", false }, { 129999, "580.95.05", false },
		{ 130000, "581.1", false },	{ 130000, "", false },
		{ 130000, "nonsense", false },	{ 0, "580", false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(proof_find(cases[i].cupti, cases[i].driver).graphs,
				 cases[i].graphs);
}

static void test_own(void **state)
{
	static const char text[] =
		"cupti 130000 driver 590.1 graphs 1 launch_ns 1 node_ns 1 window_bytes 1\n"
		"cupti 130500 driver 590.1 graphs 0 launch_ns 2 node_ns 2 window_bytes 2\n"
		"some words\n"
		"cupti 130500 driver 590.1 graphs 1 launch_ns 2345.5 node_ns 321 window_bytes 5000\n"
		"cupti 130500 driver 590.2 graphs 0 launch_ns 3 node_ns 3 window_bytes 3\n";
	static const char failed[] =
		"cupti 130500 driver 590.1 graphs 0 launch_ns 2000 node_ns 700 window_bytes 9\n";
	struct proof proof = proof_of(text, sizeof(text) - 1);

	(void)state;
	assert_true(proof.graphs);
	/* More than the reference counts, less does not. */
	assert_true(proof.prices.launch_ns == 2345.5 && proof.prices.node_ns > 321);
	assert_int_equal(proof.prices.window_bytes, 5000);
	/* A machine that has failed its own test is not believed the table. */
	proof = proof_of(failed, sizeof(failed) - 1);
	assert_false(proof.graphs);
}

static void test_broken(void **state)
{
	static const char *const texts[] = {
		"",
		"\n\n\n",
		"cupti",
		"cupti 130500 driver 590.1 graphs 1",
		"cupti 130500 driver 590.1 graphs 1 launch_ns x node_ns 1 window_bytes 1\n",
		"cupti -1 driver 590.1 graphs 1 launch_ns 1 node_ns 1 window_bytes 1\n",
		"cupti 130500 driver 590.10 graphs 1 launch_ns 1 node_ns 1 window_bytes 1\n",
		"CUPTI 130500 DRIVER 590.1 GRAPHS 1 LAUNCH_NS 1 NODE_NS 1 WINDOW_BYTES 1\n",
		"\x7f\x45LF\x01\xff\xfe",
	};
	char large[4096];
	struct proof proof;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		proof = proof_of(texts[i], strlen(texts[i]));
		assert_reference(&proof);
	}
	memset(large, 'x', sizeof(large));
	proof = proof_of(large, sizeof(large));
	assert_reference(&proof);
	memset(large, 0, sizeof(large));
	proof = proof_of(large, sizeof(large));
	assert_reference(&proof);
}

/* A line with prices that cannot be is not a line. */
static void test_prices(void **state)
{
	static const char *const prices[] = {
		"launch_ns 0 node_ns 0 window_bytes 0",
		"launch_ns -5 node_ns -5 window_bytes 99999999999",
		"launch_ns nan node_ns nan window_bytes 0",
		"launch_ns inf node_ns inf window_bytes 0",
		"launch_ns 1e300 node_ns 1e9 window_bytes 1073741824",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(prices) / sizeof(prices[0]); i++) {
		char line[256];
		struct proof proof;

		snprintf(line, sizeof(line), "cupti 130500 driver 590.1 graphs 1 %s\n", prices[i]);
		proof = proof_of(line, strlen(line));
		assert_reference(&proof);
	}
}

static void test_no_file(void **state)
{
	struct proof proof = proof_find(CUPTI, DRIVER);

	(void)state;
	assert_reference(&proof);
	setenv("MOESCOPE_CACHE", "/nonexistent", 1);
	proof = proof_find(CUPTI, DRIVER);
	assert_reference(&proof);
	unsetenv("MOESCOPE_CACHE");
	unsetenv("XDG_CACHE_HOME");
	unsetenv("HOME");
	proof = proof_find(CUPTI, DRIVER);
	assert_reference(&proof);
}

/* What is written is found, in each of the places. */
static void test_written(void **state)
{
	static const char *const names[] = { "MOESCOPE_CACHE", "XDG_CACHE_HOME", "HOME" };
	struct proof_line line = { .cupti = CUPTI,
				   .driver = DRIVER,
				   .graphs = true,
				   .launch_ns = 4000,
				   .node_ns = 900,
				   .window_bytes = 77777 };
	char path[512];

	(void)state;
	for (int i = 0; i < 3; i++) {
		char *folder = path_in(directory, names[i]);
		struct proof proof;

		if (i == 2) /* a new home has no .cache */
			assert_int_equal(mkdir(folder, 0700), 0);
		unsetenv("MOESCOPE_CACHE");
		unsetenv("XDG_CACHE_HOME");
		setenv(names[i], folder, 1);
		assert_int_equal(proof_append(&line, path, sizeof(path)), 0);
		proof = proof_find(CUPTI, DRIVER);
		assert_true(proof.graphs && proof.prices.launch_ns == 4000);
		assert_int_equal(proof.prices.window_bytes, 77777);
		free(folder);
	}
	setenv("MOESCOPE_CACHE", "/nonexistent/folder", 1);
	assert_int_equal(proof_append(&line, path, sizeof(path)), -ENOENT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_table),  TEST(test_own),     TEST(test_broken),
		TEST(test_prices), TEST(test_no_file), TEST(test_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
