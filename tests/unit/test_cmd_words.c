/* SPDX-License-Identifier: Apache-2.0
 *
 * Nearest words and schedules.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/options/command.h"
#include "cmd/definitions/metrics.h"
#include "base/text/nearest.h"
#include "cmd/options/run_options.h"

static void distances(void **state)
{
	char long_word[100];

	(void)state;
	assert_int_equal(word_distance("", ""), 0);
	assert_int_equal(word_distance("", "abc"), 3);
	assert_int_equal(word_distance("abc", ""), 3);
	assert_int_equal(word_distance("limit", "limit"), 0);
	assert_int_equal(word_distance("limt", "limit"), 1);
	assert_int_equal(word_distance("limmit", "limit"), 1);
	assert_int_equal(word_distance("lomit", "limit"), 1);
	assert_int_equal(word_distance("lmiit", "limit"), 1);
	assert_int_equal(word_distance("kitten", "sitting"), 3);
	assert_int_equal(word_distance("sitting", "kitten"), 3);
	memset(long_word, 'a', sizeof(long_word));
	long_word[sizeof(long_word) - 1] = '\0';
	assert_true(word_distance(long_word, "a") == SIZE_MAX);
	long_word[63] = '\0';
	assert_int_equal(word_distance(long_word, "a"), 62);
}

static const char *suggest(const char *word)
{
	struct nearest nearest = nearest_to(word);

	nearest_offer(&nearest, "limit");
	nearest_offer(&nearest, "layer");
	nearest_offer(&nearest, "overhead-check");
	return nearest.best;
}

static void suggestions(void **state)
{
	(void)state;
	assert_string_equal(suggest("limt"), "limit");
	assert_string_equal(suggest("lyaer"), "layer");
	assert_string_equal(suggest("overhead"), "overhead-check");
	assert_null(suggest("xyzzy"));
	assert_null(suggest(""));
	assert_null(suggest("li"));
}

static void schedules(void **state)
{
	char text[160];
	struct err err;

	(void)state;
	assert_int_equal(schedule_canonical(NULL, 4, text, sizeof(text), &err), 0);
	assert_string_equal(text, "skip_first=0,wait=0,warmup=0,active=0,repeat=0,sample=4");
	assert_int_equal(schedule_canonical("repeat=1,active=3,warmup=2,wait=5,skip_first=9", 1,
					    text, sizeof(text), &err),
			 0);
	assert_string_equal(text, "skip_first=9,wait=5,warmup=2,active=3,repeat=1,sample=1");
	assert_int_equal(schedule_canonical("skip_first=10", 1, text, sizeof(text), &err), 0);
	assert_string_equal(text, "skip_first=10,wait=0,warmup=0,active=0,repeat=0,sample=1");
}

static void wrong_schedules(void **state)
{
	static const char *const wrong[] = {
		"",
		"wait",
		"wait=",
		"wait=x",
		"wait=1x",
		"wait=-1",
		"wait= 1",
		"wait=1,",
		",active=1",
		"wat=1",
		"=1",
		"active=1,active=1",
		"wait=5",
		"warmup=1",
		"repeat=2",
		"active=4294967296",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa=1",
	};
	char text[160] = "untouched";

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct err err = { "" };

		assert_int_equal(schedule_canonical(wrong[i], 1, text, sizeof(text), &err),
				 -EINVAL);
		assert_true(strlen(err.message) > 10);
		assert_string_equal(text, "untouched");
	}
}

static void metric_table(void **state)
{
	(void)state;
	for (const struct metric *m = metrics; m->name; m++) {
		assert_true(*m->group && *m->name && *m->unit && *m->definition && *m->source);
		assert_non_null(m->caveats);
		for (const struct metric *other = m + 1; other->name; other++)
			assert_string_not_equal(m->name, other->name);
		assert_ptr_equal(metric_find(m->name), m);
	}
	assert_string_equal(metric_find("self_cpu_ns")->name, "self_time");
	assert_null(metric_find("nonsense"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(distances),	cmocka_unit_test(suggestions),
		cmocka_unit_test(schedules),	cmocka_unit_test(wrong_schedules),
		cmocka_unit_test(metric_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
