/* SPDX-License-Identifier: Apache-2.0
 *
 * Each rule speaks when it should and is silent when it should not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "analyze/verdicts.h"
#include "fake_run.h"
#include "moescope.h"

struct judged {
	struct findings f;
	struct verdicts v;
};

static struct judged judge(const struct run *run)
{
	struct findings_options options = { .want = FIND_ALL, .sel = SELECT_ALL };
	struct judged j;

	assert_int_equal(findings_analyze(run, &options, &j.f), 0);
	assert_int_equal(verdicts_analyze(run, &j.f, &j.v), 0);
	return j;
}

static void release(struct judged *j)
{
	verdicts_release(&j->v);
	findings_release(&j->f);
}

static const struct verdict *find(const struct judged *j, const char *id)
{
	for (size_t i = 0; i < j->v.n; i++)
		if (!strcmp(j->v.items[i].id, id))
			return &j->v.items[i];
	return NULL;
}

static enum severity severity_of(const struct run *run, const char *id, int *ret_found)
{
	struct judged j = judge(run);
	const struct verdict *v = find(&j, id);
	enum severity severity = v ? v->severity : SEVERITY_OK;

	*ret_found = v != NULL;
	release(&j);
	return severity;
}

#define SAYS(run, id, severity)                                                                    \
	do {                                                                                       \
		int found;                                                                         \
		assert_int_equal(severity_of(run, id, &found), severity);                          \
		assert_true(found);                                                                \
	} while (0)
#define SILENT(run, id)                                                                            \
	do {                                                                                       \
		int found;                                                                         \
		severity_of(run, id, &found);                                                      \
		assert_false(found);                                                               \
	} while (0)

static void set_status(struct run *run, const char *status, int exit_status, int signal)
{
	free(run->info.status);
	run->info.status = strdup(status);
	run->info.exit_status = exit_status;
	run->info.signal = signal;
}

static void test_empty_run_says_nothing(void **state)
{
	struct run *run = fake_run_new();
	struct judged j = judge(run);

	(void)state;
	assert_int_equal(j.v.n, 0);
	release(&j);
	fake_run_free(run);
}

static void test_end_of_program(void **state)
{
	struct run *run = fake_run_new();

	(void)state;
	set_status(run, "exited", 3, 0);
	SAYS(run, "program-failed", SEVERITY_CRITICAL);
	set_status(run, "killed", 0, 11);
	SAYS(run, "program-failed", SEVERITY_CRITICAL);
	set_status(run, "unknown", 0, 0);
	SAYS(run, "program-failed", SEVERITY_WARNING);
	set_status(run, "running", 0, 0);
	SILENT(run, "program-failed");
	run->loss.salvaged = 5;
	SILENT(run, "records-lost");
	run->loss.dropped_too_deep = 1;
	SAYS(run, "records-lost", SEVERITY_WARNING);
	fake_run_free(run);
}

static void test_routing_rules(void **state)
{
	uint32_t even[] = { 2510, 2490, 2500, 2500 }, uneven[] = { 4000, 3000, 2000, 1000 };
	uint32_t some[] = { 2900, 2300, 2400, 2400 }, dead[] = { 3400, 3300, 3300, 0 };
	uint32_t collapsed[] = { 9700, 100, 100, 100 }, few[] = { 4, 0, 0, 0 };
	static const struct {
		int load;
		enum severity imbalance;
	} cases[] = { { 0, SEVERITY_OK }, { 1, SEVERITY_WARNING }, { 2, SEVERITY_OK } };
	const uint32_t *const loads[] = { even, uneven, some };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct run *run = fake_run_new();

		fake_routing(run, 0, 0, 0, 1, 4, loads[cases[i].load]);
		SAYS(run, "routing-imbalance", cases[i].imbalance);
		SILENT(run, "dead-experts");
		SILENT(run, "router-collapsed");
		SILENT(run, "capacity-drops");
		fake_routing(run, 0, 0, 1, 1, 4, dead);
		SAYS(run, "dead-experts", SEVERITY_WARNING);
		fake_routing(run, 0, 0, 2, 1, 4, collapsed);
		SAYS(run, "router-collapsed", SEVERITY_CRITICAL);
		fake_run_free(run);
	}
	/* Four tokens prove nothing. */
	{
		struct run *run = fake_run_new();

		fake_routing(run, 0, 0, 0, 1, 4, few);
		SILENT(run, "dead-experts");
		SILENT(run, "routing-imbalance");
		SILENT(run, "router-collapsed");
		fake_run_free(run);
	}
}

static void test_chance_is_named(void **state)
{
	uint32_t even[] = { 2510, 2490, 2500, 2500 };
	struct run *run = fake_run_new();
	struct judged j;

	(void)state;
	fake_routing(run, 0, 0, 0, 1, 4, even);
	j = judge(run);
	assert_string_equal(find(&j, "routing-imbalance")->title,
			    "routing is balanced to within chance in all 1 layer");
	release(&j);
	fake_run_free(run);
}

static void test_drops_and_self_check(void **state)
{
	uint32_t load[] = { 90, 90 }, hist[] = { 20, 180 };
	struct row_routing row = { .k = 1,
				   .tokens = 200,
				   .dropped = 20,
				   .experts = 2,
				   .k_slots = 2,
				   .load = load,
				   .k_hist = hist };
	struct run *run = fake_run_new();

	(void)state;
	fake_add_routing(run, 0, &row);
	SAYS(run, "capacity-drops", SEVERITY_WARNING);
	SILENT(run, "self-check-failed");
	SILENT(run, "routing-invalid");
	row.dropped = 19;
	row.invalid = 2;
	fake_add_routing(run, 0, &row);
	SAYS(run, "self-check-failed", SEVERITY_CRITICAL);
	SAYS(run, "routing-invalid", SEVERITY_WARNING);
	fake_run_free(run);
}

static struct run *steps_run(int data_pct, int optimizer_pct, int64_t wobble)
{
	struct run *run = fake_run_new();
	uint32_t data = fake_site(run, "d", -1, -1, MOESCOPE_DATA);
	uint32_t optimizer = fake_site(run, "o", -1, -1, MOESCOPE_OPTIMIZER);
	int64_t at = 0;

	for (int i = 0; i < 20; i++) {
		int64_t duration = 1000 + (i % 2 ? wobble : 0);

		fake_range(run, data, at, at + duration * data_pct / 100, 1, 0);
		fake_range(run, optimizer, at + duration - duration * optimizer_pct / 100,
			   at + duration, 1, 0);
		fake_step(run, i, at, at + duration, 1);
		at += duration;
	}
	return run;
}

static void test_step_rules(void **state)
{
	struct run *run = steps_run(5, 10, 0);
	struct judged j;

	(void)state;
	SAYS(run, "data-loading", SEVERITY_OK);
	SAYS(run, "step-variation", SEVERITY_OK);
	SILENT(run, "optimizer-share");
	SILENT(run, "slow-start");
	fake_run_free(run);
	run = steps_run(30, 25, 900);
	SAYS(run, "data-loading", SEVERITY_CRITICAL);
	SAYS(run, "step-variation", SEVERITY_WARNING);
	SAYS(run, "optimizer-share", SEVERITY_NOTE);
	j = judge(run);
	/* The larger gain comes first among equals. */
	assert_string_equal(j.v.items[0].id, "data-loading");
	assert_true(j.v.items[0].gain_pct.v > 29 && j.v.items[0].gain_pct.v < 31);
	assert_non_null(j.v.items[0].gain_assumption);
	for (size_t i = 1; i < j.v.n; i++)
		assert_true(j.v.items[i - 1].severity <= j.v.items[i].severity);
	release(&j);
	fake_run_free(run);
}

static void test_cost_and_slow_start(void **state)
{
	static const struct {
		int64_t on;
		enum severity severity;
	} cases[] = { { 10030, SEVERITY_OK }, { 10300, SEVERITY_WARNING }, { 0, SEVERITY_NOTE } };

	(void)state;
	for (size_t c = 0; c < 3; c++) {
		struct run *run = fake_run_new();
		int64_t at = 0;

		for (int i = 0; i < 40; i++) {
			bool on = i % 4 == 0 || i % 4 == 3;
			/* 0: noise of a tenth of the step, on and off alike. */
			int64_t noise = cases[c].on ? 0 : (i * 7919) % 13 * 100;
			int64_t duration = (on && cases[c].on ? cases[c].on : 10000) + noise;

			fake_add_step(run, 0,
				      &(struct row_step){ .step = i,
							  .start_ns = at,
							  .duration_ns = i < 5 ? 40000 : duration,
							  .recorded = on,
							  .probe = on ? 1 : 2 });
			at += 40000;
		}
		SAYS(run, "profiler-cost", cases[c].severity);
		SAYS(run, "slow-start", SEVERITY_NOTE);
		fake_run_free(run);
	}
}

static void test_leak(void **state)
{
	struct run *run = fake_training_run();

	(void)state;
	SAYS(run, "memory-leak", SEVERITY_WARNING);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty_run_says_nothing),
		cmocka_unit_test(test_end_of_program),
		cmocka_unit_test(test_routing_rules),
		cmocka_unit_test(test_chance_is_named),
		cmocka_unit_test(test_drops_and_self_check),
		cmocka_unit_test(test_step_rules),
		cmocka_unit_test(test_cost_and_slow_start),
		cmocka_unit_test(test_leak),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
