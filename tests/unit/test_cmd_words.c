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
#include "cmd/definitions/parts.h"
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

static void check_metric(const struct metric_group *group, const struct metric *m)
{
	const struct metric_group *found = NULL;

	assert_true(*group->name && *m->name && *m->unit && *m->definition && *m->source);
	assert_true(!m->caveats || *m->caveats);
	/* No other metric has its name, also not as a key. */
	assert_ptr_equal(metric_find(m->name, &found), m);
	assert_ptr_equal(found, group);
}

static void metric_table(void **state)
{
	size_t n = 0;

	(void)state;
	for (const struct metric_group *const *g = metric_groups; *g; g++)
		for (size_t i = 0; i < (*g)->n; i++, n++)
			check_metric(*g, &(*g)->metrics[i]);
	assert_true(n > 150);
	assert_string_equal(metric_find("self_cpu_ns", NULL)->name, "self_time");
	assert_string_equal(metric_find("p99_ns", NULL)->name, "kernel_time");
	assert_null(metric_find("p99", NULL));
	assert_null(metric_find("nonsense", NULL));
	assert_null(metric_find("", NULL));
}

/* What the schema, the documentation and explain need of each field. */
static void check_key(const struct part *part, const struct part_key *key, void *data)
{
	const struct field *field = key->field;
	size_t *n = data;

	if (!part_key_meaning(key))
		fail_msg("%s.%s has no meaning", part->name, key->key);
	if (field->metric && *field->metric && !metric_find(field->metric, NULL))
		fail_msg("%s.%s: no metric '%s'", part->name, key->key, field->metric);
	if (!field->of && field->type == FIELD_UNTYPED)
		fail_msg("%s.%s has no type", part->name, key->key);
	if (field->of && field->of->shape != FIELD_ARRAY && !field->of->part &&
	    !(field->of->table && field->of->table->part))
		fail_msg("%s.%s is an object without a name", part->name, key->key);
	(*n)++;
}

static void fields_have_meanings(void **state)
{
	struct parts parts;
	size_t n = 0;

	(void)state;
	assert_int_equal(parts_collect(&parts), 0);
	for (size_t i = 0; i < parts.n; i++) {
		const struct part *part = &parts.items[i];

		assert_true(part->meaning && *part->meaning);
		part_each(part, check_key, &n);
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(part->name, parts.items[j].name);
	}
	assert_true(n > 600);
	assert_string_equal(parts_find(&parts, "kernels")->name, "kernels_row");
	assert_string_equal(parts_find(&parts, "slow_step")->name, "slow_step");
	assert_null(parts_find(&parts, "nonsense"));
}

struct expected {
	const char *key;
	bool nullable, always, found;
};

static void expect_key(const struct part *part, const struct part_key *key, void *data)
{
	(void)part;
	for (struct expected *e = data; e->key; e++) {
		if (strcmp(e->key, key->key) != 0)
			continue;
		assert_false(e->found);
		assert_int_equal(key->nullable, e->nullable);
		assert_int_equal(key->always, e->always);
		e->found = true;
	}
}

/* A key that some forms lack, one that each form reads in its own way, one that may be absent, and names
 * that are made. */
static void keys_of_forms(void **state)
{
	struct expected kernels[] = { { "count", false, true, false },
				      { "time_ns", true, true, false },
				      { "layer", true, false, false },
				      { "launch_bound", false, false, false },
				      { NULL, false, false, false } };
	struct expected total[] = { { "names", true, true, false }, { NULL, false, false, false } };
	struct expected moe[] = { { "count", false, true, false }, { NULL, false, false, false } };
	struct expected idle[] = { { "host_ns", false, true, false },
				   { "collective_ns", true, true, false },
				   { NULL, false, false, false } };
	struct {
		const char *part;
		struct expected *keys;
	} cases[] = { { "kernels", kernels },
		      { "kernels_total", total },
		      { "moe", moe },
		      { "idle_by_cause", idle } };
	struct parts parts;

	(void)state;
	assert_int_equal(parts_collect(&parts), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		part_each(parts_find(&parts, cases[i].part), expect_key, cases[i].keys);
		for (struct expected *e = cases[i].keys; e->key; e++)
			assert_true(e->found);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(distances),	 cmocka_unit_test(suggestions),
		cmocka_unit_test(schedules),	 cmocka_unit_test(wrong_schedules),
		cmocka_unit_test(metric_table),	 cmocka_unit_test(fields_have_meanings),
		cmocka_unit_test(keys_of_forms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
