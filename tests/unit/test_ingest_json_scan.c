/* SPDX-License-Identifier: Apache-2.0
 *
 * Ends of strings and objects: every way of this processor against a byte at a time, on texts that
 * are made of little else than what matters.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ingest/shared/json_scan.h"

#define MOST 400

static char text[MOST + SCAN_PAD];

static unsigned int next_random(void)
{
	static uint32_t x = 12345;

	x = x * 1664525 + 1013904223;
	return x >> 16;
}

static void make_text(size_t size, unsigned int spread)
{
	static const char alphabet[] = "\"\\{}\n\x1f\x80\xff\x20\x22\x5c";

	memset(text, 0, sizeof(text));
	for (size_t i = 0; i < size; i++)
		text[i] = next_random() % spread ? (char)('a' + next_random() % 26)
						 : alphabet[next_random() % (sizeof(alphabet) - 1)];
}

static const char *slow_string_end(const char *p, const char *end, bool *ret_escaped)
{
	for (; p < end && *p != '"'; p++)
		if (*p == '\\') {
			*ret_escaped = true;
			p++;
		}
	return p < end ? p : NULL;
}

/* A backslash takes away the meaning of a quote, in a string or not; braces have theirs outside. */
static const char *slow_object_end(const char *p, const char *end, unsigned int depth,
				   bool *ret_control)
{
	bool inside = false, control = false, escaped = false;

	for (; p < end; p++) {
		if (*p == '"' && !escaped)
			inside = !inside;
		escaped = *p == '\\' && !escaped;
		control = control || (inside && (unsigned char)*p < 0x20);
		if (inside || (*p != '{' && *p != '}'))
			continue;
		depth += *p == '{' ? 1 : -1U;
		if (!depth) {
			*ret_control = *ret_control || control;
			return p + 1;
		}
	}
	return NULL;
}

static void test_ways_agree(void **state)
{
	const struct scan *way;

	(void)state;
	for (int round = 0; round < 40000; round++) {
		size_t size = next_random() % MOST, from = size ? next_random() % size : 0;
		const char *end = text + size;
		unsigned int depth = 1 + next_random() % 3;
		bool escaped = false, control = false;
		const char *string, *object;

		make_text(size, 1 + next_random() % 40);
		string = slow_string_end(text + from, end, &escaped);
		object = slow_object_end(text + from, end, depth, &control);
		for (size_t i = 0; (way = scan_way(i)); i++) {
			bool way_escaped = false, way_control = false;
			const char *found = way->string_end(text + from, end, &way_escaped);

			assert_ptr_equal(found < end ? found : NULL, string);
			if (string)
				assert_int_equal(way_escaped, escaped);
			found = way->object_end(text + from, end, depth, &way_control);
			assert_ptr_equal(found, object);
			assert_int_equal(way_control, control);
		}
	}
}

static void test_near(void **state)
{
	(void)state;
	for (int round = 0; round < 20000; round++) {
		unsigned int n = 0;

		make_text(SCAN_NEAR, 1 + next_random() % 20);
		while (n < SCAN_NEAR && text[n] != '"' && text[n] != '\\')
			n++;
		assert_int_equal(scan_near(text), n);
		assert_int_equal(scan_near_portable(text), n);
	}
}

static void test_every_place(void **state)
{
	const struct scan *way;

	(void)state;
	for (size_t i = 0; (way = scan_way(i)); i++)
		for (size_t place = 0; place < 300; place++) {
			bool flag = false;

			memset(text, ' ', sizeof(text));
			text[place] = '}';
			assert_ptr_equal(way->object_end(text, text + 300, 1, &flag),
					 text + place + 1);
			/* Not before the end is not at all. */
			assert_null(way->object_end(text, text + place, 1, &flag));
			text[place] = '"';
			assert_ptr_equal(way->string_end(text, text + 300, &flag), text + place);
			assert_true(way->string_end(text, text + place, &flag) >= text + place);
			assert_false(flag);
		}
	assert_non_null(scan_best());
	assert_string_equal(scan_way(0)->name, "portable");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ways_agree),
		cmocka_unit_test(test_near),
		cmocka_unit_test(test_every_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
