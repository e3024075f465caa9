/* SPDX-License-Identifier: Apache-2.0
 *
 * The option parser on a table with every kind of option. What it says on stderr is checked by
 * the command-line tests; here it is the values and the verdict.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/options/options.h"

struct shared {
	bool json;
	int color;
};

struct values {
	bool flag;
	const char *text;
	int64_t number;
	uint64_t count;
	double factor;
	int64_t window[2];
	double numbers[NUMBERS_MAX];
	unsigned int n_numbers; /* right behind them */
	struct string_list words;
	struct shared shared;
};

static const char *const colors[] = { "auto", "always", "never", NULL };

static const struct option_desc own[] = {
	{ .name = "flag",
	  .short_name = 'f',
	  .kind = OPTION_FLAG,
	  .offset = offsetof(struct values, flag) },
	{ .name = "text",
	  .short_name = 't',
	  .kind = OPTION_STRING,
	  .metavar = "T",
	  .offset = offsetof(struct values, text) },
	{ .name = "number",
	  .short_name = 'n',
	  .kind = OPTION_INT,
	  .metavar = "N",
	  .min = -10,
	  .max = 10,
	  .offset = offsetof(struct values, number) },
	{ .name = "count",
	  .kind = OPTION_UINT,
	  .metavar = "N",
	  .min = 1,
	  .max = 1e15,
	  .offset = offsetof(struct values, count) },
	{ .name = "factor",
	  .kind = OPTION_DOUBLE,
	  .metavar = "X",
	  .min = 0,
	  .max = 2,
	  .offset = offsetof(struct values, factor) },
	{ .name = "window",
	  .kind = OPTION_WINDOW,
	  .metavar = "A:B",
	  .offset = offsetof(struct values, window) },
	{ .name = "numbers",
	  .kind = OPTION_NUMBERS,
	  .metavar = "X,...",
	  .min = 0.5,
	  .max = 2,
	  .offset = offsetof(struct values, numbers) },
	{ .name = "word",
	  .short_name = 'w',
	  .kind = OPTION_STRINGS,
	  .metavar = "W",
	  .offset = offsetof(struct values, words) },
	{ 0 },
};

static const struct option_desc shared[] = {
	{ .name = "json", .kind = OPTION_FLAG, .offset = offsetof(struct shared, json) },
	{ .name = "color",
	  .kind = OPTION_CHOICE,
	  .metavar = "WHEN",
	  .choices = colors,
	  .offset = offsetof(struct shared, color) },
	{ 0 },
};

static const struct option_group groups[] = { { own, 0 },
					      { shared, offsetof(struct values, shared) },
					      { NULL, 0 } };

static const struct values defaults = { .number = 5, .window = { INT64_MIN, INT64_MAX } };

static char *words[16];
static struct invocation inv;

/* Parses the words up to NULL with a fresh set of values. */
static enum parse_result parse(const struct command *command, struct values *values, ...)
{
	va_list args;
	int n = 0;

	va_start(args, values);
	while ((words[n] = va_arg(args, char *)))
		n++;
	va_end(args);
	*values = defaults;
	inv = (struct invocation){ .command = command, .values = values };
	return options_parse(&inv, n, words);
}

static const struct command plain = {
	.name = "plain", .words = "", .groups = groups, .max_args = 2
};
static const struct command runner = { .name = "runner",
				       .words = "PROGRAM",
				       .groups = groups,
				       .max_args = -1,
				       .min_args = 1,
				       .args_end_options = true };
static const struct command passer = {
	.name = "passer", .words = "", .groups = groups, .max_args = -1, .args_after_dashes = true
};

static void every_kind(void **state)
{
	struct values v;

	(void)state;
	assert_int_equal(parse(&plain, &v, NULL), PARSE_OK);
	assert_memory_equal(&v, &defaults, sizeof(v));
	assert_int_equal(parse(&plain, &v, "--flag", "--text", "x", "--number=-7", "--count",
			       "1000000000000", "--factor=1.5", "--window", "-3:9", "--json",
			       "--color=never", NULL),
			 PARSE_OK);
	assert_true(v.flag && v.shared.json);
	assert_string_equal(v.text, "x");
	assert_int_equal(v.number, -7);
	assert_true(v.count == UINT64_C(1000000000000));
	assert_true(v.factor == 1.5);
	assert_int_equal(v.window[0], -3);
	assert_int_equal(v.window[1], 9);
	assert_int_equal(v.shared.color, 2);
	assert_int_equal(parse(&plain, &v, "--numbers=1,1.25,2", NULL), PARSE_OK);
	assert_int_equal(v.n_numbers, 3);
	assert_true(v.numbers[0] == 1 && v.numbers[1] == 1.25 && v.numbers[2] == 2);
	assert_int_equal(parse(&plain, &v, "--word", "a", "-wb", "--word=c=d", NULL), PARSE_OK);
	assert_int_equal(v.words.n, 3);
	assert_string_equal(v.words.v[0], "a");
	assert_string_equal(v.words.v[1], "b");
	assert_string_equal(v.words.v[2], "c=d");
	assert_int_equal(parse(&plain, &v, "--word=", NULL), PARSE_WRONG);
}

static void short_forms(void **state)
{
	struct values v;

	(void)state;
	assert_int_equal(parse(&plain, &v, "-fn", "3", "-tx", NULL), PARSE_OK);
	assert_true(v.flag);
	assert_int_equal(v.number, 3);
	assert_string_equal(v.text, "x");
	assert_int_equal(parse(&plain, &v, "-fn-3", NULL), PARSE_OK);
	assert_int_equal(v.number, -3);
	assert_int_equal(parse(&plain, &v, "-x", NULL), PARSE_WRONG);
	assert_int_equal(parse(&plain, &v, "-n", NULL), PARSE_WRONG);
	assert_int_equal(parse(&plain, &v, "-h", NULL), PARSE_HELP);
	assert_int_equal(parse(&plain, &v, "--help", NULL), PARSE_HELP);
}

static void windows(void **state)
{
	static const struct {
		const char *text;
		int64_t first, last;
	} good[] = {
		{ "4", 4, 4 },	 { "4:", 4, INT64_MAX }, { ":4", INT64_MIN, 4 },
		{ "4:4", 4, 4 }, { "-4:-2", -4, -2 },
	};
	static const char *const bad[] = {
		"",	 ":",	 "a",
		"1:a",	 "a:1",	 "2:1",
		"1:2:3", "1 :2", "11111111111111111111111111111111111:5"
	};
	struct values v;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_int_equal(parse(&plain, &v, "--window", good[i].text, NULL), PARSE_OK);
		assert_true(v.window[0] == good[i].first && v.window[1] == good[i].last);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(parse(&plain, &v, "--window", bad[i], NULL), PARSE_WRONG);
}

static void wrong_values(void **state)
{
	static const char *const wrong[][2] = {
		{ "--number", "11" },
		{ "--number", "-11" },
		{ "--number", "1.5" },
		{ "--number", "" },
		{ "--count", "0" },
		{ "--count", "-1" },
		{ "--factor", "2.1" },
		{ "--factor", "inf" },
		{ "--factor", "nan" },
		{ "--factor", "1,5" },
		{ "--numbers", "" },
		{ "--numbers", "1," },
		{ "--numbers", ",1" },
		{ "--numbers", "1,3" },
		{ "--numbers", "1;2" },
		{ "--numbers", "1,nan" },
		{ "--numbers", "1,1,1,1,1,1,1,1,1" },
		{ "--color", "pink" },
		{ "--color", "" },
		{ "--text", "" },
		{ "--json=1", NULL },
		{ "--jso", NULL },
		{ "--text", "--" },
		{ "--count", "99999999999999999999" },
	};
	struct values v;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_int_equal(parse(&plain, &v, wrong[i][0], wrong[i][1], NULL), PARSE_WRONG);
}

static void arguments(void **state)
{
	struct values v;

	(void)state;
	assert_int_equal(parse(&plain, &v, "a", "--flag", "b", NULL), PARSE_OK);
	assert_int_equal(inv.n_args, 2);
	assert_string_equal(inv.args[0], "a");
	assert_string_equal(inv.args[1], "b");
	assert_true(v.flag);
	assert_int_equal(parse(&plain, &v, "--", "--flag", "-", NULL), PARSE_OK);
	assert_int_equal(inv.n_args, 2);
	assert_string_equal(inv.args[0], "--flag");
	assert_false(v.flag);
	assert_int_equal(parse(&plain, &v, "-", NULL), PARSE_OK);
	assert_int_equal(inv.n_args, 1);
	assert_int_equal(parse(&plain, &v, "a", "b", "c", NULL), PARSE_WRONG);
}

static void programs(void **state)
{
	struct values v;

	(void)state;
	assert_int_equal(parse(&runner, &v, "-f", "prog", "--json", "--", "-f", NULL), PARSE_OK);
	assert_int_equal(inv.n_args, 4);
	assert_string_equal(inv.args[1], "--json");
	assert_string_equal(inv.args[2], "--");
	assert_null(inv.args[4]);
	assert_false(v.shared.json);
	assert_int_equal(parse(&runner, &v, "--", "prog", "-n", NULL), PARSE_OK);
	assert_int_equal(inv.n_args, 2);
	assert_null(inv.args[2]);
	assert_int_equal(parse(&runner, &v, "--", NULL), PARSE_WRONG);
	assert_int_equal(parse(&runner, &v, NULL), PARSE_WRONG);
	assert_int_equal(parse(&passer, &v, "--json", "--", "-x", "y", NULL), PARSE_OK);
	assert_int_equal(inv.n_args, 2);
	assert_int_equal(parse(&passer, &v, "y", NULL), PARSE_WRONG);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind), cmocka_unit_test(short_forms),
		cmocka_unit_test(windows),    cmocka_unit_test(wrong_values),
		cmocka_unit_test(arguments),  cmocka_unit_test(programs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
