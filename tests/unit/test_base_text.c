/* SPDX-License-Identifier: Apache-2.0
 *
 * The writers of src/base/text: JSON, tables, numbers for people, UTF-8.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/csv_write.h"
#include "base/text/format.h"
#include "base/text/json_write.h"
#include "base/text/shell_word.h"
#include "base/text/text_table.h"
#include "base/text/utf8.h"
#include "json_check.h"

static void json_is(struct json *json, const char *expected)
{
	char *text = NULL;

	assert_int_equal(json_finish(json, &text), 0);
	assert_true(json_check(text));
	assert_string_equal(text, expected);
	free(text);
}

static void test_json_strings(void **state)
{
	struct json json;

	(void)state;
	json_init_buffer(&json, 0);
	json_array(&json);
	json_string(&json, "plain \xC3\xA4 \xF0\x9F\x98\x80");
	json_string(&json, "\"\\\n\t\r\x01\x7F/");
	json_string(&json, "bad \xFF\xC0\x80 cut \xE2\x82");
	json_string(&json, "\xED\xA0\x80"); /* a surrogate */
	json_string_n(&json, "a\0b", 3);
	json_string(&json, "\xC2\x9B\xC2\xA0\xE2\x80\xAE");
	json_string(&json, NULL);
	json_array_end(&json);
	json_is(&json, "[\"plain \xC3\xA4 \xF0\x9F\x98\x80\",\"\\\"\\\\\\n\\t\\r\\u0001\\u007f/\","
		       "\"bad \xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD cut \xEF\xBF\xBD\xEF\xBF\xBD\","
		       "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\",\"a\\u0000b\","
		       "\"\\u009b\xC2\xA0\\u202e\",null]");
}

static void test_json_numbers(void **state)
{
	struct json json;

	(void)state;
	json_init_buffer(&json, 0);
	json_array(&json);
	json_int(&json, INT64_MIN);
	json_uint(&json, UINT64_MAX);
	json_double(&json, 0.1);
	json_double(&json, 1.0 / 3);
	json_double(&json, 1e300);
	json_double(&json, NAN);
	json_double(&json, -INFINITY);
	json_double(&json, 3);
	json_bool(&json, true);
	json_array_end(&json);
	json_is(&json, "[-9223372036854775808,18446744073709551615,0.1,0.3333333333333333,1e+300,"
		       "null,null,3,true]");
}

static void test_json_doubles_read_back(void **state)
{
	uint64_t x = 88172645463325252u;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		char text[40];
		double value;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(&value, &x, sizeof(value));
		if (!isfinite(value))
			continue;
		json_format_double(text, sizeof(text), value);
		assert_true(strtod(text, NULL) == value);
	}
}

static void test_json_decimals(void **state)
{
	static const struct {
		int64_t value;
		unsigned int places;
		const char *text;
	} cases[] = {
		{ 0, 0, "0" },
		{ 0, 6, "0.000000" },
		{ 1500, 6, "0.001500" },
		{ -7, 0, "-7" },
		{ -12345, 3, "-12.345" },
		{ 1769868187123456789, 9, "1769868187.123456789" },
		{ INT64_MAX, 18, "9.223372036854775807" },
		{ INT64_MIN, 0, "-9223372036854775808" },
		{ INT64_MIN, 18, "-9.223372036854775808" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char room[JSON_DECIMAL_SIZE];

		assert_string_equal(json_format_decimal(room, cases[i].value, cases[i].places),
				    cases[i].text);
	}
}

static void test_json_layout(void **state)
{
	struct json json;

	(void)state;
	json_init_buffer(&json, 2);
	json_object(&json);
	json_key(&json, "a");
	json_array(&json);
	json_object_line(&json);
	json_key(&json, "b");
	json_array(&json);
	json_int(&json, 1);
	json_int(&json, 2);
	json_array_end(&json);
	json_object_end(&json);
	json_array_end(&json);
	json_key(&json, "e");
	json_object(&json);
	json_object_end(&json);
	json_object_end(&json);
	json_is(&json, "{\n  \"a\": [\n    { \"b\": [ 1, 2 ] }\n  ],\n  \"e\": {}\n}\n");
}

static void test_json_failures(void **state)
{
	struct json json;
	char *text = NULL;
	FILE *full = fopen("/dev/full", "w");

	(void)state;
	json_init_buffer(&json, 0);
	json_array(&json);
	assert_int_equal(json_finish(&json, &text), -EINVAL);
	assert_null(text);
	json_init_buffer(&json, 0);
	for (int i = 0; i < JSON_DEPTH_MAX + 5; i++)
		json_array(&json);
	assert_int_equal(json_finish(&json, &text), -EOVERFLOW);
	if (!full)
		skip();
	json_init_file(&json, full, 0);
	json_string(&json, "x");
	assert_int_equal(json_finish(&json, NULL), -ENOSPC);
	fclose(full);
}

static void test_formats(void **state)
{
	(void)state;
	assert_string_equal(format_ns(0).text, "0 ns");
	assert_string_equal(format_ns(412).text, "412 ns");
	assert_string_equal(format_ns(999.6).text, "1.00 us");
	assert_string_equal(format_ns(12345678).text, "12.3 ms");
	assert_string_equal(format_ns(1.24e9).text, "1.24 s");
	assert_string_equal(format_ns(185e9).text, "3m 05s");
	assert_string_equal(format_ns(7620e9).text, "2h 07m");
	assert_string_equal(format_ns(-1500).text, "-1.50 us");
	assert_string_equal(format_bytes(512).text, "512 B");
	assert_string_equal(format_bytes(1.24e9).text, "1.24 GB");
	assert_string_equal(format_count(3.4e6).text, "3.40 M");
	assert_string_equal(format_count(812).text, "812");
	assert_string_equal(format_count(9.995e6).text, "10.0 M");
	assert_string_equal(format_pct(0.04).text, "0.04%");
	assert_string_equal(format_pct(42.04).text, "42.0%");
	assert_string_equal(format_pct(100).text, "100%");
	assert_string_equal(format_flops(1.2e10).text, "12.0 GFLOP/s");
	assert_string_equal(format_date(INT64_C(1769868187000000000)).text,
			    "2026-01-31 14:03:07 UTC");
}

static void test_utf8(void **state)
{
	(void)state;
	assert_int_equal(utf8_width("abc"), 3);
	assert_int_equal(utf8_width("\xE6\xBC\xA2\xE5\xAD\x97"), 4);
	assert_int_equal(utf8_width("e\xCC\x81"), 1);
	assert_int_equal(utf8_width("\xE2\x96\x88\xE2\x96\x88"), 2);
}

/* Both ends of every length, there and back. */
static void test_utf8_encode(void **state)
{
	static const struct {
		uint32_t point;
		const char *text;
	} cases[] = {
		{ 0x41, "A" },
		{ 0x7F, "\x7F" },
		{ 0x80, "\xC2\x80" },
		{ 0x7FF, "\xDF\xBF" },
		{ 0x800, "\xE0\xA0\x80" },
		{ 0xFFFF, "\xEF\xBF\xBF" },
		{ 0x10000, "\xF0\x90\x80\x80" },
		{ 0x10FFFF, "\xF4\x8F\xBF\xBF" },
	};
	char text[5] = "";

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t n = utf8_encode(cases[i].point, text);
		uint32_t point;
		int valid;

		assert_int_equal(n, strlen(cases[i].text));
		assert_memory_equal(text, cases[i].text, n);
		assert_int_equal(utf8_decode(text, n, &point, &valid), n);
		assert_true(valid);
		assert_int_equal(point, cases[i].point);
	}
	assert_int_equal(utf8_encode(0xD800, text), 3);
	assert_memory_equal(text, "\xED\xA0\x80", 3);
}

static char *printed(void (*print)(FILE *out, void *arg), void *arg)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	print(out, arg);
	fclose(out);
	return text;
}

struct fit {
	const char *text;
	size_t width;
	bool right, utf8;
};

static void print_fit(FILE *out, void *arg)
{
	const struct fit *fit = arg;

	text_fit(out, fit->text, fit->width, fit->right, fit->utf8);
}

static void fit_is(struct fit fit, const char *expected)
{
	char *text = printed(print_fit, &fit);

	assert_string_equal(text, expected);
	free(text);
}

static void test_harmless(void **state)
{
	char text[] = "a\033[2Jb\x7f\xc2\x9b"
		      "c\xe2\x80\xae"
		      "d\xe2\x81\xa6\xe2\x80\x8f\xd8\x9c"
		      "e\xff"
		      "f\xc3\xa9\xe2\x82\xac";

	(void)state;
	utf8_make_harmless(text);
	assert_string_equal(text, "a?[2Jb??c?d???e?f\xc3\xa9\xe2\x82\xac");
	assert_true(utf8_is_harmless(' '));
	assert_true(utf8_is_harmless(0xA0));
	assert_true(utf8_is_harmless(0x200D)); /* joins emoji */
	assert_true(utf8_is_harmless(0x10FFFF));
	assert_false(utf8_is_harmless(0x2028));
	assert_false(utf8_is_harmless(0x2069));
}

static void check_csv(const char *text, const char *wanted)
{
	char *got = NULL;
	size_t size;
	FILE *out = open_memstream(&got, &size);

	assert_non_null(out);
	csv_write_text(text, out);
	fclose(out);
	assert_string_equal(got, wanted);
	free(got);
}

static void test_csv_text(void **state)
{
	(void)state;
	check_csv("", "");
	check_csv("plain text", "plain text");
	check_csv("a,b", "\"a,b\"");
	check_csv("a \"b\"", "\"a \"\"b\"\"\"");
	check_csv("a\nb", "\"a\nb\"");
	/* Formulas of spreadsheets. */
	check_csv("=1+2", "'=1+2");
	check_csv("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0");
	check_csv("@SUM(A1)", "'@SUM(A1)");
	check_csv("-1+2", "'-1+2");
	check_csv("--help", "'--help");
	check_csv("-", "'-");
	check_csv("\t=1", "'\t=1");
	check_csv("\r=1", "\"'\r=1\"");
	check_csv("=A1,\"x\"", "\"'=A1,\"\"x\"\"\"");
	/* Numbers stay numbers. */
	check_csv("-1", "-1");
	check_csv("+2.5", "+2.5");
	check_csv("-1.5e-3", "-1.5e-3");
	check_csv("-.5", "-.5");
	check_csv("-1e", "'-1e");
	check_csv("a=1", "a=1");
	check_csv("x\033[2J\xc2\x9b\xe2\x80\xae\xff y\xc3\xa9", "x?[2J??? y\xc3\xa9");
}

static char *written(void (*write)(struct buf *, const char *), const char *text)
{
	struct buf out = { 0 };

	write(&out, text);
	buf_append(&out, "", 1);
	assert_false(out.failed);
	return out.data;
}

/* A shell reads each back as it was. */
static void test_shell_words(void **state)
{
	static const struct {
		const char *text, *word, *quoted;
	} words[] = {
		{ "python3", "python3", "'python3'" },
		{ "--rate=1.5,2", "--rate=1.5,2", "'--rate=1.5,2'" },
		{ "", "''", "''" },
		{ "two words", "'two words'", "'two words'" },
		{ "it's", "'it'\\''s'", "'it'\\''s'" },
		{ "''", "''\\'''\\'''", "''\\'''\\'''" },
		{ "a\nb", "'a\nb'", "'a\nb'" },
		{ "$HOME `id` \\ \"*\" ~", "'$HOME `id` \\ \"*\" ~'", "'$HOME `id` \\ \"*\" ~'" },
		{ "\xC3\xA4", "'\xC3\xA4'", "'\xC3\xA4'" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		char *word = written(shell_word, words[i].text);
		char *quoted = written(shell_quote, words[i].text), *command, back[64];
		size_t n;
		FILE *shell;

		assert_string_equal(word, words[i].word);
		assert_string_equal(quoted, words[i].quoted);
		assert_true(asprintf(&command, "printf '%%s' %s%s", word, quoted) > 0);
		shell = popen(command, "r");
		assert_non_null(shell);
		n = fread(back, 1, sizeof(back) - 1, shell);
		back[n] = '\0';
		assert_int_equal(pclose(shell), 0);
		assert_int_equal(n, 2 * strlen(words[i].text));
		assert_memory_equal(back, words[i].text, n / 2);
		assert_memory_equal(back + n / 2, words[i].text, n / 2);
		free(command);
		free(word);
		free(quoted);
	}
}

static void test_fit(void **state)
{
	(void)state;
	fit_is((struct fit){ "abc", 5, false, true }, "abc  ");
	fit_is((struct fit){ "abc", 5, true, true }, "  abc");
	fit_is((struct fit){ "abcdefghij", 7, false, true }, "abc\xE2\x80\xA6hij");
	fit_is((struct fit){ "abcdefghij", 7, false, false }, "ab...ij");
	fit_is((struct fit){ "abc", 2, false, false }, "ab");
	fit_is((struct fit){ "a\033[31mb\xFF", 9, false, true }, "a?[31mb? ");
	fit_is((struct fit){ "\xC3\xA4", 2, false, false }, "? ");
	/* Wide characters never overflow, whatever the width. */
	for (size_t width = 0; width < 14; width++) {
		struct fit fit = { "\xE6\xBC\xA2\xE5\xAD\x97\xE6\xBC\xA2\xE5\xAD\x97\xE6\xBC\xA2",
				   width, false, true };
		char *text = printed(print_fit, &fit);

		assert_int_equal(utf8_width(text), width);
		free(text);
	}
}

static void print_table(FILE *out, void *arg)
{
	static const struct text_column columns[] = { { "name", TEXT_LEFT, true },
						      { "n", TEXT_RIGHT, false },
						      { "note", TEXT_LEFT, false } };
	struct text_table *table = text_table_new(columns, 3);

	text_table_cell(table, "a rather long name of something", TEXT_PLAIN);
	text_table_cellf(table, TEXT_RED, "%d", 12345);
	text_table_cell(table, "x", TEXT_PLAIN);
	text_table_cell(table, "b", TEXT_PLAIN);
	text_table_cellf(table, TEXT_PLAIN, "%d", 7);
	text_table_cell(table, "yy", TEXT_PLAIN);
	assert_int_equal(text_table_print(table, arg, out), 0);
	text_table_cell(table, "half a row", TEXT_PLAIN);
	assert_int_equal(text_table_print(table, arg, out), -EINVAL);
	text_table_free(table);
	text_table_free(NULL);
}

static void test_table(void **state)
{
	struct text_layout layout = { .width = 32, .indent = 1, .utf8 = true };
	char *text = printed(print_table, &layout);

	(void)state;
	assert_string_equal(text, " name                    n  note\n"
				  " a rather \xE2\x80\xA6omething  12345  x\n"
				  " b                       7  yy\n");
	free(text);
	layout.color = true;
	layout.width = 0;
	text = printed(print_table, &layout);
	assert_non_null(strstr(text, "a rather long name of something  \033[31m12345\033[0m  x\n"));
	free(text);
}

static void print_wrap(FILE *out, void *arg)
{
	text_wrap(out, arg, 12, 2, 4);
}

static void test_wrap(void **state)
{
	char words[] = "one two three  four\nfive", number[] = "gaps 1.03 k, 50 longer";
	char *text = printed(print_wrap, words);

	(void)state;
	assert_string_equal(text, "one two\n    three\n    four\n    five\n");
	free(text);
	/* A number stays with its unit. */
	text = printed(print_wrap, number);
	assert_string_equal(text, "gaps\n    1.03 k,\n    50\n    longer\n");
	free(text);
}

static void print_long_names(FILE *out, void *arg)
{
	static const struct text_column columns[] = { { "name", TEXT_LEFT, true } };
	static const char *const names[] = {
		"Cijk_Alik_Bljk_BBS_MT128x64x64_SN_LDSB0_WGM8",
		"Cijk_Alik_Bljk_BBS_MT256x16x64_SN_LDSB0_WGM8",
		"Cijk_Alik_Bljk_BBS_MT256x16x64_SN_LDSB1_WGM8",
		"Cijk_Alik_Bljk_BBS_MT256x16x64_SN_LDSB1_WGM8",
		"Cijk_Alik_Bljk_BBS_MT128x64x64_SN_LDSB1_WGM8",
		"a name of its own, long as the others are long",
	};
	struct text_table *table = text_table_new(columns, 1);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		text_table_cell(table, names[i], TEXT_PLAIN);
	/* Twice: what is shown is made anew. */
	assert_int_equal(text_table_print(table, &(struct text_layout){ .width = 12 }, out), 0);
	rewind(out);
	assert_int_equal(text_table_print(table, arg, out), 0);
	text_table_free(table);
}

/* Names that differ never look the same, equal ones do. */
static void test_cut_names_differ(void **state)
{
	(void)state;
	for (int width = 12; width < 50; width++)
		for (int utf8 = 0; utf8 < 2; utf8++) {
			struct text_layout layout = { .width = width,
						      .no_header = true,
						      .utf8 = utf8 };
			char *text = printed(print_long_names, &layout), *lines[6], *rest = text;

			for (int i = 0; i < 6; i++) {
				lines[i] = strsep(&rest, "\n");
				assert_non_null(lines[i]);
				assert_true(utf8_width(lines[i]) <= (size_t)width);
			}
			for (int i = 0; i < 6; i++)
				for (int j = 0; j < i; j++)
					assert_int_equal(!strcmp(lines[i], lines[j]),
							 i == 3 && j == 2);
			free(text);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_json_strings),
		cmocka_unit_test(test_json_numbers),
		cmocka_unit_test(test_json_doubles_read_back),
		cmocka_unit_test(test_json_decimals),
		cmocka_unit_test(test_json_layout),
		cmocka_unit_test(test_json_failures),
		cmocka_unit_test(test_formats),
		cmocka_unit_test(test_utf8),
		cmocka_unit_test(test_utf8_encode),
		cmocka_unit_test(test_harmless),
		cmocka_unit_test(test_csv_text),
		cmocka_unit_test(test_shell_words),
		cmocka_unit_test(test_fit),
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_cut_names_differ),
		cmocka_unit_test(test_wrap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
