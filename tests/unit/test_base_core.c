/* SPDX-License-Identifier: Apache-2.0
 *
 * The ground floor: checksums, buffers, maps, error sentences, the JSON reader, ticks to nanoseconds.
 */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/boot.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/dynlib.h"
#include "base/err.h"
#include "base/hash_map.h"
#include "base/interned.h"
#include "base/parallel.h"
#include "base/text/json_read.h"
#include "device/sheets/clock_reasons.h"

/* Vectors of RFC 3720, B.4, and the usual check value. */
static void test_crc32c_vectors(void **state)
{
	uint8_t bytes[32];

	(void)state;
	assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283u);
	assert_int_equal(crc32c_portable(0, "123456789", 9), 0xe3069283u);
	assert_int_equal(crc32c(0, "", 0), 0);
	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(crc32c(0, bytes, 32), 0x8a9136aau);
	memset(bytes, 0xff, sizeof(bytes));
	assert_int_equal(crc32c(0, bytes, 32), 0x62a8ab43u);
	for (int i = 0; i < 32; i++)
		bytes[i] = (uint8_t)i;
	assert_int_equal(crc32c(0, bytes, 32), 0x46dd794eu);
}

static void test_crc32c_hardware_agrees(void **state)
{
	uint8_t bytes[300];
	uint32_t x = 1;

	(void)state;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)((x = x * 1664525 + 1013904223) >> 24);
	for (size_t from = 0; from < 9; from++)
		for (size_t n = 0; n + from <= sizeof(bytes); n++)
			assert_int_equal(crc32c((uint32_t)n, bytes + from, n),
					 crc32c_portable((uint32_t)n, bytes + from, n));
	/* In pieces as in one. */
	for (size_t cut = 0; cut <= sizeof(bytes); cut++)
		assert_int_equal(crc32c(crc32c(0, bytes, cut), bytes + cut, sizeof(bytes) - cut),
				 crc32c(0, bytes, sizeof(bytes)));
}

static void test_buf(void **state)
{
	struct buf buf = { 0 };
	char expected[5001] = "";

	(void)state;
	for (int i = 0; i < 1000; i++) {
		buf_printf(&buf, "%04d", i);
		buf_append(&buf, ";", 1);
	}
	for (int i = 0; i < 1000; i++)
		sprintf(expected + 5 * i, "%04d;", i);
	assert_false(buf.failed);
	assert_int_equal(buf.size, 5000);
	assert_memory_equal(buf.data, expected, 5000);
	buf_append(&buf, NULL, 0);
	assert_int_equal(buf.size, 5000);
	/* A growth that cannot be had: noted once, later appends do nothing. */
	assert_null(buf_reserve(&buf, SIZE_MAX / 2));
	assert_true(buf.failed);
	buf_append(&buf, "x", 1);
	buf_printf(&buf, "x");
	assert_int_equal(buf.size, 5000);
	assert_null(buf_reserve(&buf, 1));
	buf_release(&buf);
	assert_null(buf.data);
	assert_false(buf.failed);
}

static void test_array_grow(void **state)
{
	uint64_t *array = NULL;
	size_t capacity = 0;

	(void)state;
	for (size_t n = 1; n < 1000; n++) {
		assert_int_equal(array_grow(&array, &capacity, n, sizeof(*array)), 0);
		assert_true(capacity >= n);
		array[n - 1] = n;
	}
	for (size_t i = 0; i < 999; i++)
		assert_int_equal(array[i], i + 1);
	assert_int_equal(array_grow(&array, &capacity, SIZE_MAX / 4, sizeof(*array)), -ENOMEM);
	assert_int_equal(array[998], 999);
	free(array);
}

/* Four hashes for all: every walk meets the others' numbers, and wraps around the end. */
static void test_hash_map(void **state)
{
	struct hash_map map = { 0 };
	struct hash_walk walk = hash_map_walk(&map, 7);

	(void)state;
	assert_int_equal(hash_map_next(&map, &walk), 0);
	for (uint32_t number = 1; number <= 1000; number++)
		assert_int_equal(hash_map_add(&map, UINT32_MAX - number % 4, number), 0);
	for (uint32_t hash = 0; hash < 4; hash++) {
		uint32_t number, found = 0;

		walk = hash_map_walk(&map, UINT32_MAX - hash);
		while ((number = hash_map_next(&map, &walk))) {
			assert_int_equal(number % 4, hash);
			found++;
		}
		assert_int_equal(found, 250);
	}
	walk = hash_map_walk(&map, 7);
	assert_int_equal(hash_map_next(&map, &walk), 0);
	hash_map_release(&map);
	/* With room for all, equal ones keep their order. */
	assert_int_equal(hash_map_reserve(&map, 100), 0);
	for (uint32_t number = 1; number <= 100; number++)
		assert_int_equal(hash_map_add(&map, UINT32_MAX, number), 0);
	walk = hash_map_walk(&map, UINT32_MAX);
	for (uint32_t number = 1; number <= 100; number++)
		assert_int_equal(hash_map_next(&map, &walk), number);
	assert_int_equal(hash_map_next(&map, &walk), 0);
	hash_map_release(&map);
}

static void test_interned(void **state)
{
	struct interned interned = { 0 };
	char key[16];

	(void)state;
	for (int round = 0; round < 2; round++)
		for (uint32_t i = 1; i <= 3000; i++) {
			int length = snprintf(key, sizeof(key), "key %u", i);

			assert_int_equal(interned_id(&interned, key, (size_t)length), i);
			assert_string_equal(interned_key(&interned, i), key);
		}
	assert_int_equal(interned_id(&interned, "", 0), 3001);
	assert_int_equal(interned_id(&interned, "\0", 1), 3002);
	assert_int_equal(interned_id(&interned, "", 0), 3001);
	assert_null(interned_key(&interned, 0));
	assert_null(interned_key(&interned, 3003));
	interned_release(&interned);
}

static void test_err(void **state)
{
	struct err err = { "" };
	char text[3000];

	(void)state;
	assert_int_equal(err_set(&err, -EINVAL, "%s: no", "file"), -EINVAL);
	assert_string_equal(err.message, "file: no");
	assert_int_equal(err_sys(&err, -ENOENT, "%s", "file"), -ENOENT);
	assert_string_equal(err.message, "file: No such file or directory");
	assert_int_equal(err_set(NULL, -EIO, "%d", 1), -EIO);
	assert_int_equal(err_sys(NULL, -EIO, "%d", 1), -EIO);
	memset(text, 'a', sizeof(text));
	text[sizeof(text) - 1] = 0;
	err_sys(&err, -EIO, "%s", text);
	assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
}

static struct json_node *parse(const char *text)
{
	struct json_node *root = NULL;
	struct err err = { "" };

	if (json_parse("t", text, strlen(text), &root, &err) < 0)
		fail_msg("%s: %s", text, err.message);
	return root;
}

static void test_json_valid(void **state)
{
	static const char *const texts[] = { "null",
					     " true ",
					     "\n[]\t",
					     "{}",
					     "[1,2,[3,{\"a\":null}]]",
					     "-0",
					     "0",
					     "0.5",
					     "-12.5e-3",
					     "1E+9",
					     "\"\"",
					     "\"\\u00e9\"",
					     "{\"a\":1,\"a\":2}" };

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		json_node_free(parse(texts[i]));
	json_node_free(NULL);
}

static void test_json_invalid(void **state)
{
	static const char *const texts[] = {
		"",	   " ",	      "[",	   "]",		  "{",	      "}",
		"[1,]",	   "[,1]",    "{\"a\"}",   "{a:1}",	  "{\"a\":}", "{\"a\":1,}",
		"nul",	   "truex",   "01",	   "-01",	  "-",	      "+1",
		"1.",	   ".5",      "1e",	   "1e+",	  "0x10",     "NaN",
		"\"",	   "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "\"\n\"",   "'a'",
		"[1 2]",   "1 2",     "{\"a\" 1}", "\"\\",	  "[1}",      "{\"a\":1]",
		"/* */ 1",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct json_node *root = NULL;
		struct err err = { "" };

		if (json_parse("doc", texts[i], strlen(texts[i]), &root, &err) != -EBADMSG)
			fail_msg("taken: %s", texts[i]);
		assert_null(root);
		assert_ptr_equal(strstr(err.message, "doc: not valid JSON at byte "), err.message);
	}
}

static void test_json_nul_and_depth(void **state)
{
	struct json_node *root = NULL;
	struct err err = { "" };
	char deep[400];

	(void)state;
	assert_int_equal(json_parse("t", "1\0", 2, &root, &err), -EBADMSG);
	assert_int_equal(json_parse("t", "\"a\0b\"", 5, &root, &err), -EBADMSG);
	memset(deep, '[', 200);
	memset(deep + 200, ']', 200);
	assert_int_equal(json_parse("t", deep, 400, &root, &err), -EBADMSG);
	assert_non_null(strstr(err.message, "nested too deep"));
	assert_int_equal(json_parse("t", deep + 150, 100, &root, &err), 0);
	json_node_free(root);
}

static void test_json_values(void **state)
{
	struct json_node *root = parse("{\"s\":\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\u20ac"
				       "\\ud83d\\ude00\\ud83d\\u0000\",\"i\":-42,\"f\":1.5,"
				       "\"big\":99999999999999999999,\"max\":9223372036854775807,"
				       "\"o\":{\"x\":[7]},\"t\":true}");

	(void)state;
	assert_string_equal(json_get_string(root, "s", ""),
			    "a\"\\/\b\f\n\r\t\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xef\xbf\xbd");
	assert_int_equal(json_get_int(root, "i", 1), -42);
	assert_int_equal(json_get_int(root, "max", 1), INT64_MAX);
	assert_int_equal(json_get_int(root, "f", 1), 1);
	assert_int_equal(json_get_int(root, "big", 1), 1);
	assert_int_equal(json_get_int(root, "s", 1), 1);
	assert_int_equal(json_get_int(root, "absent", 5), 5);
	assert_string_equal(json_get_string(root, "i", "no"), "no");
	assert_int_equal(json_get(json_get(root, "o"), "x")->type, JSON_ARRAY);
	assert_null(json_get(json_get(json_get(root, "o"), "x"), "y"));
	assert_null(json_get(NULL, "x"));
	json_node_free(root);
}

static void wait_until(int64_t ns)
{
	while (clock_monotonic_ns() < ns)
		;
}

/* Against the real clock: monotone, a tick keeps its value, and the map follows the clock. */
static void test_tick_map(void **state)
{
	struct tick_map map;
	uint64_t ticks[40];
	int64_t told[40], previous = INT64_MIN, off, last_off = 0;

	(void)state;
	clock_init();
	tick_map_init(&map);
	assert_true(tick_map_valid(&map));
	for (int i = 0; i < 40; i++) {
		wait_until(clock_monotonic_ns() + 5000000);
		ticks[i] = clock_ticks();
		told[i] = tick_map_ns(&map, ticks[i]);
		off = told[i] - clock_monotonic_ns();
		assert_true(told[i] > previous);
		previous = told[i];
		/* One hundredth of a millisecond, but for being put off the processor. */
		last_off = off < 0 ? -off : off;
		tick_map_update(&map);
		assert_true(tick_map_valid(&map));
		/* The bend begins here and not before. */
		assert_int_equal(tick_map_ns(&map, ticks[i]), told[i]);
	}
	for (int i = 0; i < 40; i++)
		assert_int_equal(tick_map_ns(&map, ticks[i]), told[i]);
	for (int i = 0; i < 100 && last_off > 10000; i++) {
		off = tick_map_ns(&map, clock_ticks()) - clock_monotonic_ns();
		last_off = off < 0 ? -off : off;
	}
	assert_true(last_off <= 10000);
}

/* A map that is off converges: bent so that the difference is gone a second later. */
static void test_tick_map_converges(void **state)
{
	struct tick_map map;
	int64_t off;

	(void)state;
	clock_init();
	if (!clock_has_counter) {
		tick_map_init(&map);
		assert_int_equal(tick_map_ns(&map, 12345), 12345);
		return;
	}
	tick_map_init(&map);
	map.segments[0].ns -= 20000000; /* 20 ms behind */
	tick_map_update(&map);
	assert_int_equal(map.n_segments, 2);
	off = clock_monotonic_ns() - tick_map_ns(&map, clock_ticks());
	assert_true(off > 19000000 && off < 21000000 + 5000000);
	/* The same map a second of ticks later, without waiting for it. */
	{
		uint64_t second = (uint64_t)(1e9 / map.segments[0].ns_per_tick);
		uint64_t then = map.segments[1].ticks + second;
		int64_t want = map.segments[1].ns + 20000000 + 1000000000;

		off = tick_map_ns(&map, then) - want;
		assert_true(off > -1000000 && off < 1000000);
	}
}

static void test_tick_map_many_bends(void **state)
{
	struct tick_map map;
	int64_t previous;

	(void)state;
	clock_init();
	tick_map_init(&map);
	for (int i = 0; i < 3 * TICK_SEGMENTS; i++) {
		uint64_t now;

		map.first_ns += i % 2 ? 1000000 : -1000000; /* the rate wobbles: always a bend */
		map.segments[map.n_segments - 1].ns_per_tick *= 1.01;
		wait_until(clock_monotonic_ns() + 50000);
		now = clock_ticks();
		previous = tick_map_ns(&map, now);
		tick_map_update(&map);
		assert_true(map.n_segments <= TICK_SEGMENTS);
		assert_int_equal(tick_map_ns(&map, now), previous);
		for (uint32_t s = 1; s < map.n_segments; s++)
			assert_true(map.segments[s].ticks > map.segments[s - 1].ticks);
	}
	if (clock_has_counter)
		assert_int_equal(map.n_segments, TICK_SEGMENTS);
}

static void test_tick_map_hostile(void **state)
{
	struct tick_map map = { .n_segments = 1 };
	uint64_t ticks[] = { 0, 1, UINT64_MAX, (uint64_t)INT64_MAX, (uint64_t)INT64_MIN };

	(void)state;
	map.segments[0] = (struct tick_segment){ 0, INT64_C(1) << 60, 9e5 };
	assert_true(tick_map_valid(&map));
	for (size_t i = 0; i < 5; i++)
		tick_map_ns(&map, ticks[i]); /* the sanitizer says whether it overflows */
	map.segments[0].ns_per_tick = 0.0 / 0.0;
	assert_false(tick_map_valid(&map));
	map.segments[0].ns_per_tick = -1;
	assert_false(tick_map_valid(&map));
	map.segments[0].ns_per_tick = 1;
	map.segments[0].ns = -1;
	assert_false(tick_map_valid(&map));
	map.segments[0].ns = 0;
	map.n_segments = TICK_SEGMENTS + 1;
	assert_false(tick_map_valid(&map));
	map.n_segments = 0;
	assert_false(tick_map_valid(&map));
}

static void test_boot(void **state)
{
	static const char id[] = "00112233-4455-6677-8899-aabbccddeeff\n";
	struct boot boot;

	(void)state;
	assert_true(boot_parse(id, NULL, &boot));
	for (int i = 0; i < BOOT_ID_BYTES; i++)
		assert_int_equal((unsigned char)boot.id[i], 0x11 * i);
	assert_int_equal(boot.offset_ns, 0);
	assert_true(
		boot_parse(id, "monotonic           -2         500\nboottime   7   0\n", &boot));
	assert_int_equal(boot.offset_ns, -1999999500);
	assert_false(boot_parse("", NULL, &boot));
	assert_int_equal(boot.id[1], 0); /* nothing of the one before */
	assert_false(boot_parse("00112233-4455-6677-8899-aabbccddeef", NULL, &boot));
	assert_false(boot_parse("00000000-0000-0000-0000-000000000000", NULL, &boot));
	assert_false(boot_parse(id, "", &boot));
	assert_false(boot_parse(id, "monotonic", &boot));
	assert_false(boot_parse(id, "monotonic 99999999999999 0", &boot));
}

static void test_clock_reasons(void **state)
{
	(void)state;
	assert_string_equal(clock_reason_words(0), "idle");
	assert_string_equal(clock_reason_words(2), "power limit");
	assert_null(clock_reason_words(9));
	assert_null(clock_reason_words(CLOCK_REASON_BITS));
}

static void test_dynlib(void **state)
{
	static const char *const names[] = { "libmoescope-not-there.so", "libc.so.6", NULL };
	size_t (*length)(const char *) = NULL;
	const struct dynlib_symbol symbols[] = { { "strlen", &length },
						 { "no_such", &(void *){ 0 } } };
	char path[400];
	void *library;

	(void)state;
	unsetenv("MOESCOPE_TEST_LIBRARY");
	library = dynlib_open(names, "MOESCOPE_TEST_LIBRARY");
	assert_non_null(library);
	assert_int_equal(dynlib_symbols(library, symbols, 2), 1);
	assert_int_equal(length("four"), 4);
	dynlib_path(library, path, sizeof(path));
	assert_non_null(strstr(path, "/libc"));
	/* What the user names is tried alone. */
	setenv("MOESCOPE_TEST_LIBRARY", "/nonexistent.so", 1);
	assert_null(dynlib_open(names, "MOESCOPE_TEST_LIBRARY"));
	setenv("MOESCOPE_TEST_LIBRARY", "", 1);
	assert_ptr_equal(dynlib_open(names, "MOESCOPE_TEST_LIBRARY"), library);
}

struct tasks {
	int done[1000];
	int fails_from;
};

static int do_task(void *context, size_t i, unsigned int worker)
{
	struct tasks *tasks = context;

	assert_true(worker < PARALLEL_MOST);
	tasks->done[i]++;
	return tasks->fails_from && (int)i >= tasks->fails_from ? -(int)i : 0;
}

static void test_parallel(void **state)
{
	struct tasks tasks = { 0 };
	int done = 0;

	(void)state;
	for (unsigned int workers = 0; workers <= PARALLEL_MOST + 1; workers += 4) {
		memset(&tasks, 0, sizeof(tasks));
		assert_int_equal(parallel_run(1000, workers, do_task, &tasks), 0);
		for (int i = 0; i < 1000; i++)
			assert_int_equal(tasks.done[i], 1);
	}
	/* Tasks are begun in order, so that the first to fail is always among those done. */
	memset(&tasks, 0, sizeof(tasks));
	tasks.fails_from = 300;
	assert_int_equal(parallel_run(1000, 4, do_task, &tasks), -300);
	for (int i = 0; i < 1000; i++)
		done += tasks.done[i];
	assert_in_range(done, 301, 304);
	assert_int_equal(parallel_run(0, 4, do_task, &tasks), 0);
	assert_int_equal(parallel_workers(1), 1);
	assert_in_range(parallel_workers(1000), 1, PARALLEL_MOST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_crc32c_vectors),
		cmocka_unit_test(test_crc32c_hardware_agrees),
		cmocka_unit_test(test_buf),
		cmocka_unit_test(test_array_grow),
		cmocka_unit_test(test_hash_map),
		cmocka_unit_test(test_interned),
		cmocka_unit_test(test_parallel),
		cmocka_unit_test(test_err),
		cmocka_unit_test(test_json_valid),
		cmocka_unit_test(test_json_invalid),
		cmocka_unit_test(test_json_nul_and_depth),
		cmocka_unit_test(test_json_values),
		cmocka_unit_test(test_tick_map),
		cmocka_unit_test(test_tick_map_converges),
		cmocka_unit_test(test_tick_map_many_bends),
		cmocka_unit_test(test_tick_map_hostile),
		cmocka_unit_test(test_boot),
		cmocka_unit_test(test_clock_reasons),
		cmocka_unit_test(test_dynlib),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
