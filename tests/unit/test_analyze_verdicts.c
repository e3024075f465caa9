/* SPDX-License-Identifier: Apache-2.0
 *
 * Each rule speaks when it should and is silent when it should not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judge.h"
#include "moescope.h"
#include "subjects/pages/section.h"
#include "surfaces/views/views.h"
#include "verdicts/rules.h"

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
	judged_release(&j);
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
	run->loss.unfinished = 1;
	SAYS(run, "records-lost", SEVERITY_NOTE);
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

/* A layer in training and in one request. */
static void add_phase(struct run *run, int32_t layer, uint8_t phase, uint32_t *load)
{
	uint32_t total = load[0] + load[1] + load[2] + load[3], hist[] = { 0, total };
	struct row_routing row = { .layer = layer,
				   .phase = phase,
				   .k = 1,
				   .tokens = total,
				   .experts = 4,
				   .k_slots = 2,
				   .load = load,
				   .k_hist = hist };

	fake_add_routing(run, 0, &row);
}

static void test_phases_of_a_layer_are_one_layer(void **state)
{
	uint32_t training[] = { 2510, 2490, 2500, 2500 }, request[] = { 60, 60, 60, 0 };
	uint32_t never[] = { 2500, 2500, 2500, 0 };
	struct run *run = fake_run_new();
	struct judged j;

	(void)state;
	for (int32_t layer = 0; layer < 2; layer++) {
		add_phase(run, layer, MOESCOPE_FORWARD, training);
		add_phase(run, layer, MOESCOPE_DECODE, request);
	}
	SILENT(run, "dead-experts"); /* the request did not touch one; training did */
	add_phase(run, 2, MOESCOPE_FORWARD, never);
	add_phase(run, 2, MOESCOPE_DECODE, request);
	j = judge(run);
	assert_string_equal(judged_find(&j, "dead-experts")->title,
			    "1 dead expert in 1 layer: no token in the whole window, in any phase");
	assert_non_null(strstr(judged_find(&j, "routing-imbalance")->title, "in 3 of 3 layers"));
	judged_release(&j);
	fake_run_free(run);
}

static void test_chance_is_named(void **state)
{
	uint32_t even[] = { 2510, 2490, 2500, 2500 };
	struct run *run = fake_run_new();
	struct judged j;

	(void)state;
	fake_routing(run, 0, 0, 0, 1, 4, even);
	j = judge(run);
	assert_string_equal(judged_find(&j, "routing-imbalance")->title,
			    "routing is balanced to within chance in all 1 layer");
	judged_release(&j);
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
	judged_release(&j);
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

/* 20 steps; each keeps 1 MB more on the device. */
static struct run *leaking_run(void)
{
	struct run *run = fake_run_new();

	for (int i = 0; i < 20; i++) {
		fake_add_memory(run, 0,
				&(struct row_memory){ .time_ns = i * 1000 + 500,
						      .address = 0x1000 + (uint64_t)i * 0x100000,
						      .bytes = 1000000,
						      .site = fake_string(run, "history") });
		fake_step(run, i, i * 1000, i * 1000 + 1000, 1);
	}
	return run;
}

/* A device of 1 GB of which `used` bytes are taken at last. */
static void add_device(struct run *run, double used)
{
	fake_add_device(run, 0, &(struct row_device){ .memory_bytes = 1000000000 });
	fake_add_sample(run, 0,
			&(struct row_sample){ .time_ns = 19900,
					      .metric = fake_string(run, "memory_used_bytes"),
					      .value = used });
}

static void test_leak(void **state)
{
	struct run *run = fake_training_run();
	struct judged j;

	(void)state;
	SAYS(run, "memory-leak", SEVERITY_WARNING);
	fake_run_free(run);
	run = leaking_run();
	SAYS(run, "memory-leak", SEVERITY_WARNING);
	add_device(run, 2.5e8);
	/* 750 MB are left: at 1 MB a step they last 750 steps. */
	j = judge(run);
	assert_string_equal(j.v.items[0].id, "memory-leak");
	assert_int_equal(j.v.items[0].severity, SEVERITY_CRITICAL);
	assert_non_null(strstr(j.v.items[0].title, "out of memory in est. 750 steps"));
	assert_false(j.v.items[0].gain_pct.known);
	judged_release(&j);
	fake_run_free(run);
	/* Ten thousand steps are far away. */
	run = leaking_run();
	add_device(run, 2.5e8);
	run->device.memory_bytes[0] = 20000000000;
	SAYS(run, "memory-leak", SEVERITY_WARNING);
	fake_run_free(run);
	/* What is given back is not a leak. */
	run = fake_gpu_run();
	SILENT(run, "memory-leak");
	fake_run_free(run);
}

static void test_collapsed_router(void **state)
{
	uint32_t collapsed[] = { 9700, 100, 100, 100 };
	struct run *run = steps_run(30, 10, 0);
	struct judged j;

	(void)state;
	fake_routing(run, 0, 0, 0, 1, 4, collapsed);
	j = judge(run);
	/* Among equals the gains decide: here it has none. */
	assert_string_equal(j.v.items[0].id, "data-loading");
	assert_string_equal(j.v.items[1].id, "router-collapsed");
	assert_int_equal(j.v.items[1].severity, SEVERITY_CRITICAL);
	assert_false(j.v.items[1].gain_pct.known);
	judged_release(&j);
	fake_run_free(run);
	/* Two threads take turns: in each step one has all the work, 800 of 1000 ns. */
	run = steps_run(5, 10, 0);
	fake_routing(run, 0, 0, 0, 1, 4, collapsed);
	for (int i = 0; i < 20; i++)
		fake_range(run, fake_site(run, "expert", 0, 0, MOESCOPE_FORWARD), i * 1000 + 100,
			   i * 1000 + 900, 1 + i % 2, 1);
	FIRST(run, "router-collapsed", 40); /* 800 less the mean of 400 */
	j = judge(run);
	/* Its time is in no other verdict. */
	assert_null(judged_find(&j, "routing-imbalance"));
	judged_release(&j);
	fake_run_free(run);
}

static void test_imbalance_costs_what_was_measured(void **state)
{
	uint32_t uneven[] = { 4000, 3000, 2000, 1000 }, even[] = { 2510, 2490, 2500, 2500 };
	struct run *run = steps_run(5, 10, 0);

	(void)state;
	/* Layer 0: 400 beside 200 of 1000 ns; layer 1 likewise, but its routing is even. */
	for (int i = 0; i < 20; i++)
		for (int layer = 0; layer < 2; layer++) {
			uint32_t site = fake_site(run, "expert", layer, 0, MOESCOPE_FORWARD);
			int64_t at = i * 1000 + 50 + layer * 400;

			fake_range(run, site, at, at + 400, 1, 1);
			fake_range(run, site, at, at + 200, 2, 1);
			fake_routing(run, i, at, layer, 1, 4, layer ? even : uneven);
		}
	FIRST(run, "routing-imbalance", 10); /* 400 less the mean of 300 */
	SAYS(run, "routing-imbalance", SEVERITY_WARNING);
	fake_run_free(run);
}

/* A third of the steps is ten times as long: the mean is four times the median. */
static void test_variation_is_never_critical(void **state)
{
	struct run *run = fake_run_new();
	int found;

	(void)state;
	for (int i = 0; i < 21; i++)
		fake_step(run, i, i * 10000, i * 10000 + (i % 3 ? 1000 : 10000), 1);
	assert_float_equal(verdict_of(run, "step-variation", &found).gain_pct.v, 75, 1e-6);
	SAYS(run, "step-variation", SEVERITY_WARNING);
	fake_run_free(run);
}

static void test_few_steps_do_not_vary(void **state)
{
	struct run *run = fake_run_new();

	(void)state;
	for (int i = 0; i < 7; i++)
		fake_step(run, i, i * 1000, i * 1000 + (i % 2 ? 900 : 100), 1);
	SILENT(run, "step-variation");
	SILENT(run, "data-loading");
	SILENT(run, "slow-start");
	fake_run_free(run);
}

static void test_severity_follows_gain(void **state)
{
	(void)state;
	assert_int_equal(rule_severity_of_gain(20), SEVERITY_CRITICAL);
	assert_int_equal(rule_severity_of_gain(19.9), SEVERITY_WARNING);
	assert_int_equal(rule_severity_of_gain(5), SEVERITY_WARNING);
	assert_int_equal(rule_severity_of_gain(4.9), SEVERITY_NOTE);
}

static void test_governor_says_the_cost(void **state)
{
	static const struct {
		double cost_pct;
		enum severity severity;
	} cases[] = { { 0.5, SEVERITY_OK }, { 4, SEVERITY_WARNING } };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct run *run = fake_run_new();

		fake_span(run, 0, 1000);
		SILENT(run, "profiler-cost");
		fake_add_gear(run, 0,
			      &(struct row_gear){
				      .gear = 3, .attached = 1, .cost_pct = cases[i].cost_pct });
		SAYS(run, "profiler-cost", cases[i].severity);
		fake_run_free(run);
	}
}

static bool has_column(const struct section *section, const char *key)
{
	for (size_t i = 0; i < section->rows->n_fields; i++)
		if (!strcmp(section->rows->fields[i].key, key) && !section->rows->fields[i].of)
			return true;
	return false;
}

static void test_evidence_is_in_a_table(void **state)
{
	(void)state;
	for (const struct verdict_kind *kind = verdict_kinds; kind->id; kind++) {
		const char *dot = kind->place ? strchr(kind->place, '.') : NULL;
		char table[32];

		assert_true(kind->about[0] && kind == verdict_kind_find(kind->id));
		if (!kind->place)
			continue;
		assert_non_null(dot);
		snprintf(table, sizeof(table), "%.*s", (int)(dot - kind->place), kind->place);
		assert_non_null(section_find(table));
		assert_true(has_column(section_find(table), dot + 1));
	}
	assert_null(verdict_kind_find("none"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty_run_says_nothing),
		cmocka_unit_test(test_end_of_program),
		cmocka_unit_test(test_routing_rules),
		cmocka_unit_test(test_phases_of_a_layer_are_one_layer),
		cmocka_unit_test(test_chance_is_named),
		cmocka_unit_test(test_drops_and_self_check),
		cmocka_unit_test(test_step_rules),
		cmocka_unit_test(test_cost_and_slow_start),
		cmocka_unit_test(test_leak),
		cmocka_unit_test(test_collapsed_router),
		cmocka_unit_test(test_imbalance_costs_what_was_measured),
		cmocka_unit_test(test_variation_is_never_critical),
		cmocka_unit_test(test_few_steps_do_not_vary),
		cmocka_unit_test(test_severity_follows_gain),
		cmocka_unit_test(test_governor_says_the_cost),
		cmocka_unit_test(test_evidence_is_in_a_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
