/* SPDX-License-Identifier: Apache-2.0
 *
 * Digests of runs built by hand, and comparisons of them; figures computed by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/compare.h"
#include "compare/compare_conditions.h"
#include "fake_windows.h"
#include "moescope.h"
#include "subjects/shared/coverage.h"

#define US INT64_C(1000)
#define MS INT64_C(1000000)

static void assert_near(double got, double wanted)
{
	if (!(fabs(got - wanted) <= 1e-9 * fmax(1, fabs(wanted))))
		fail_msg("got %.12g, wanted %.12g", got, wanted);
}

static struct run_digest digest_of(struct run *run)
{
	struct selection sel = SELECT_ALL;
	struct run_digest digest;

	assert_int_equal(digest_take(run, &sel, &digest), 0);
	fake_run_free(run); /* a digest lives without its run */
	return digest;
}

static const struct digest_figure *figure(const struct run_digest *d, enum compare_metric_id metric,
					  const char *of)
{
	for (size_t i = 0; i < d->n; i++)
		if (d->figures[i].metric == metric && !strcmp(d->figures[i].of, of))
			return &d->figures[i];
	return NULL;
}

static const struct difference *compared(const struct compare_pair *pair,
					 enum compare_metric_id metric, const char *of)
{
	for (size_t i = 0; i < pair->n; i++)
		if (pair->figures[i].metric == metric && !strcmp(pair->figures[i].of, of))
			return &pair->figures[i].d;
	fail_msg("%s[%s] was not compared", compare_metrics[metric].name, of);
	return NULL;
}

static const struct compare_row *row_of(const struct compare_rows *rows, const char *name)
{
	for (size_t i = 0; i < rows->n; i++)
		if (!strcmp(rows->rows[i].name, name))
			return &rows->rows[i];
	fail_msg("no row %s", name);
	return NULL;
}

/* 20 steps of `us` microseconds, and every other one `wobble` more; 64 tokens each. */
static struct run *plain_run(int64_t us, int64_t wobble)
{
	struct run *run = fake_run_new();

	fake_span(run, 0, 1000 * MS);
	for (int64_t i = 0; i < 20; i++)
		fake_step(run, i, i * 10 * MS, i * 10 * MS + (us + (i % 2) * wobble) * US, 64);
	return run;
}

static void test_warmup_and_windows(void **state)
{
	struct selection window = SELECT_ALL;
	struct run *run = plain_run(1000, 10);
	struct run_digest d;

	(void)state;
	run->step.duration_ns[0] = 500 * MS;
	window.step_first = 3;
	window.step_last = 12;
	assert_int_equal(digest_take(run, &window, &d), 0);
	/* Chosen steps are all taken. */
	assert_int_equal(d.steps, 10);
	assert_int_equal(d.warmup, 0);
	digest_release(&d);
	d = digest_of(run);
	assert_int_equal(d.steps, 15);
	assert_int_equal(d.warmup, 5);
	/* Steps 5 to 19: eight odd ones of 1010 us, seven of 1000. */
	assert_near(figure(&d, COMPARE_STEP_TIME, "")->value.v, 1010 * US);
	assert_near(figure(&d, COMPARE_STEP_TIME_MEAN, "")->value.v,
		    (8 * 1010.0 + 7 * 1000) / 15 * US);
	assert_near(figure(&d, COMPARE_TOKENS_PER_S, "")->value.v, 64 / 1010e-6);
	assert_null(figure(&d, COMPARE_KERNEL_TIME, ""));
	assert_string_equal(d.missing[COMPARE_KERNEL_TIME], "no device records in this run");
	digest_release(&d);
}

static void test_faster_and_slower(void **state)
{
	struct run_digest runs[] = { digest_of(plain_run(1000, 10)), digest_of(plain_run(1100, 10)),
				     digest_of(plain_run(1001, 10)) };
	struct compare_group groups[] = { { "a", &runs[0], 1 },
					  { "b", &runs[1], 1 },
					  { "c", &runs[2], 1 } };
	const struct difference *d;
	struct comparison c;

	(void)state;
	assert_int_equal(compare_groups(groups, 3, &c), 0);
	d = compared(&c.pairs[0], COMPARE_STEP_TIME, "");
	assert_near(d->a.v, 1010 * US);
	assert_near(d->b.v, 1110 * US);
	assert_near(d->pct.v, 100 * 100.0 / 1010);
	assert_true(d->p.v < 1e-6 && d->low_pct.v > 5 && d->high_pct.v < 15);
	assert_int_equal(d->verdict, COMPARE_WORSE);
	assert_false(d->by_runs);
	assert_int_equal(d->n_a, 15);
	/* Fewer tokens a second are worse as well. */
	d = compared(&c.pairs[0], COMPARE_TOKENS_PER_S, "");
	assert_true(d->diff.v < 0);
	assert_int_equal(d->verdict, COMPARE_WORSE);
	/* A tenth of a percent is below what is called a difference. */
	d = compared(&c.pairs[1], COMPARE_STEP_TIME, "");
	assert_int_equal(d->verdict, COMPARE_NOISE);
	assert_true(d->visible_pct.v >= COMPARE_RESOLUTION_PCT);
	comparison_release(&c);
	for (size_t i = 0; i < 3; i++)
		digest_release(&runs[i]);
}

/* Ten equal steps: two kernels, a copy, a gap, in ranges. `other`: gemm takes 150 us in place of
 * 100, "old" is gone, "fresh" has come, and the step takes 1100 us in place of 1000. */
static struct run *gpu_run(bool other)
{
	struct run *run = fake_run_new();
	uint32_t forward = fake_site(run, "forward", -1, -1, MOESCOPE_FORWARD);
	uint32_t inner = fake_site(run, "inner", -1, -1, 0);

	fake_span(run, 0, 1000 * MS);
	for (int64_t i = 0; i < 10; i++) {
		int64_t at = i * 10 * MS, gemm = other ? 150 * US : 100 * US;
		uint64_t id = (uint64_t)i * 10;

		fake_call(run, "cudaLaunchKernel", at + 100 * US, at + 105 * US, id + 1);
		fake_kernel(run, "gemm", at + 110 * US, at + 110 * US + gemm, id + 1);
		fake_call(run, "cudaLaunchKernel", at + 400 * US, at + 405 * US, id + 2);
		fake_kernel(run, other ? "fresh" : "old", at + 410 * US,
			    at + (other ? 430 : 460) * US, id + 2);
		fake_call(run, "cudaMemcpyAsync", at + 600 * US, at + 610 * US, id + 3);
		fake_copy(run, 1, 2, 4000, at + 620 * US, at + 640 * US, id + 3);
		fake_range(run, inner, at + 300 * US, at + 500 * US, 1, 1);
		fake_range(run, forward, at + 50 * US, at + 800 * US, 1, 0);
		fake_step(run, i, at, at + (other ? 1100 : 1000) * US, 0);
	}
	return run;
}

static void test_device_figures(void **state)
{
	struct run_digest d = digest_of(gpu_run(false));

	(void)state;
	assert_int_equal(d.steps, 10);
	assert_int_equal(d.covered, 10);
	assert_near(figure(&d, COMPARE_KERNEL_TIME, "")->value.v, 150 * US);
	assert_near(figure(&d, COMPARE_KERNEL_COUNT, "")->value.v, 2);
	assert_near(figure(&d, COMPARE_API_TIME, "")->value.v, 20 * US);
	assert_near(figure(&d, COMPARE_COPY_TIME, "")->value.v, 20 * US);
	assert_near(figure(&d, COMPARE_COPY_BYTES, "")->value.v, 4000);
	assert_near(figure(&d, COMPARE_GPU_BUSY_PCT, "")->value.v, 17);
	/* Of 830 us: 10 + 10 + 20 from the begin of a call on. */
	assert_near(figure(&d, COMPARE_IDLE_TIME, "launch")->value.v, 40 * US);
	assert_near(figure(&d, COMPARE_IDLE_TIME, "host")->value.v, 790 * US);
	assert_near(figure(&d, COMPARE_PHASE_TIME, "forward")->value.v, 750 * US);
	/* Self times: 750 without the 200 of the inner range. */
	assert_int_equal(d.tables[COMPARE_HOST].n, 2);
	assert_string_equal(d.tables[COMPARE_HOST].rows[0].name, "forward");
	assert_near(d.tables[COMPARE_HOST].rows[0].time.mean, 550 * US);
	assert_near(d.tables[COMPARE_HOST].rows[1].time.mean, 200 * US);
	assert_near(d.tables[COMPARE_HOST].rows[1].count, 1);
	digest_release(&d);
}

static void test_kernels_new_gone_changed(void **state)
{
	struct run_digest runs[] = { digest_of(gpu_run(false)), digest_of(gpu_run(true)) };
	struct compare_group groups[] = { { "a", &runs[0], 1 }, { "b", &runs[1], 1 } };
	const struct compare_row *row;
	const struct difference *d;
	struct comparison c;

	(void)state;
	assert_int_equal(compare_groups(groups, 2, &c), 0);
	assert_int_equal(c.pairs[0].tables[COMPARE_KERNELS].n, 3);
	/* Both changed by 50 us; the one that still runs comes first. */
	row = &c.pairs[0].tables[COMPARE_KERNELS].rows[0];
	assert_string_equal(row->name, "gemm");
	assert_near(row->d.diff.v, 50 * US);
	assert_near(row->d.pct.v, 50);
	assert_near(row->explains_pct.v, 50); /* of 100 us */
	assert_int_equal(row->d.verdict, COMPARE_WORSE);
	assert_false(row->is_new || row->is_gone);
	row = row_of(&c.pairs[0].tables[COMPARE_KERNELS], "old");
	assert_true(row->is_gone && !row->is_new);
	assert_near(row->explains_pct.v, -50);
	assert_near(row->count_a.v, 1);
	assert_near(row->count_b.v, 0);
	row = row_of(&c.pairs[0].tables[COMPARE_KERNELS], "fresh");
	assert_true(row->is_new);
	assert_near(row->d.a.v, 0);
	assert_near(row->d.b.v, 20 * US);
	assert_false(row->d.pct.known);
	/* 170 and 190 of 1000 and 1100 us. */
	d = compared(&c.pairs[0], COMPARE_GPU_BUSY_PCT, "");
	assert_near(d->a.v, 17);
	assert_near(d->b.v, 100 * 190.0 / 1100);
	d = compared(&c.pairs[0], COMPARE_COPY_BYTES, "");
	assert_int_equal(d->verdict, COMPARE_SAME);
	comparison_release(&c);
	for (size_t i = 0; i < 2; i++)
		digest_release(&runs[i]);
}

static void test_one_without_device(void **state)
{
	struct run_digest runs[] = { digest_of(gpu_run(false)), digest_of(plain_run(1000, 10)),
				     digest_of(fake_run_new()) };
	struct compare_group groups[] = { { "a", &runs[0], 1 },
					  { "b", &runs[1], 1 },
					  { "c", &runs[2], 1 } };
	const struct difference *d;
	struct comparison c;

	(void)state;
	assert_int_equal(compare_groups(groups, 3, &c), 0);
	d = compared(&c.pairs[0], COMPARE_KERNEL_TIME, "");
	assert_int_equal(d->verdict, COMPARE_ABSENT);
	assert_near(d->a.v, 150 * US);
	assert_false(d->b.known || d->diff.known);
	assert_string_equal(d->diff.reason, "no device records in this run");
	assert_string_equal(c.pairs[0].tables[COMPARE_KERNELS].reason,
			    "no device records in this run");
	assert_true(compared(&c.pairs[0], COMPARE_STEP_TIME, "")->p.known);
	/* An empty run beside one with everything. */
	d = compared(&c.pairs[1], COMPARE_STEP_TIME, "");
	assert_int_equal(d->verdict, COMPARE_ABSENT);
	assert_string_equal(d->b.reason, "no steps were recorded");
	assert_non_null(c.pairs[1].tables[COMPARE_HOST].reason);
	comparison_release(&c);
	for (size_t i = 0; i < 3; i++)
		digest_release(&runs[i]);
}

static void test_few_steps_are_not_tested(void **state)
{
	struct run *run = fake_run_new();
	struct run_digest runs[2];
	struct compare_group groups[] = { { "a", &runs[0], 1 }, { "b", &runs[1], 1 } };
	const struct difference *d;
	struct comparison c;

	(void)state;
	fake_step(run, 0, 0, 3 * MS, 0);
	runs[0] = digest_of(run);
	runs[1] = digest_of(plain_run(1000, 0));
	assert_int_equal(compare_groups(groups, 2, &c), 0);
	d = compared(&c.pairs[0], COMPARE_STEP_TIME, "");
	assert_int_equal(d->verdict, COMPARE_UNTESTED);
	assert_near(d->diff.v, -2 * MS);
	assert_false(d->p.known || d->low.known);
	comparison_release(&c);
	for (size_t i = 0; i < 2; i++)
		digest_release(&runs[i]);
}

/* Rank 1 takes 2 ms more and ends two steps early. */
static void test_ranks_that_disagree(void **state)
{
	struct run *run = plain_run(1000, 0);
	uint16_t shard = fake_shard(run, 1, 77);
	struct run_digest d;

	(void)state;
	for (int64_t i = 0; i < 18; i++)
		fake_add_step(run, shard,
			      &(struct row_step){ .step = i,
						  .start_ns = i * 10 * MS,
						  .duration_ns = 3 * MS,
						  .tokens = 36,
						  .tokens_known = 1,
						  .recorded = 1 });
	d = digest_of(run);
	assert_int_equal(d.partial, 2);
	assert_int_equal(d.steps, 13);
	assert_near(figure(&d, COMPARE_STEP_TIME, "")->value.v, 2 * MS);
	assert_near(figure(&d, COMPARE_TOKENS_PER_S, "")->value.v, 100 / 2e-3);
	digest_release(&d);
	run = plain_run(1000, 0);
	shard = fake_shard(run, 1, 77);
	fake_add_step(run, shard,
		      &(struct row_step){ .step = 900, .duration_ns = 5, .recorded = 1 });
	d = digest_of(run);
	assert_int_equal(d.steps, 0);
	assert_int_equal(d.partial, 21);
	assert_string_equal(d.missing[COMPARE_STEP_TIME], "no step was finished by every rank");
	digest_release(&d);
}

/* A program may count its steps from 0 again; a cut step is none. */
static void test_numbers_again_and_cut_steps(void **state)
{
	struct run *run = fake_run_new();
	struct run_digest d;

	(void)state;
	for (int64_t i = 0; i < 8; i++)
		fake_step(run, i % 4, i * 10 * MS, i * 10 * MS + (i + 1) * MS, 0);
	run->step.unfinished[7] = 1;
	d = digest_of(run);
	assert_int_equal(d.steps, 7);
	assert_int_equal(d.unfinished, 1);
	for (size_t i = 0; i < 7; i++)
		assert_near(figure(&d, COMPARE_STEP_TIME, "")->x[i], (double)(i + 1) * MS);
	digest_release(&d);
}

static void test_covered_steps_only(void **state)
{
	struct run *run = fake_windows_run();
	struct coverage coverage;
	struct run_digest d;
	size_t steps = run->step.n, covered = 0;

	(void)state;
	assert_int_equal(coverage_analyze(run, &coverage), 0);
	for (size_t i = 0; i < run->step.n; i++)
		covered += run->step.recorded[i] && coverage_has_step(&coverage, run, i);
	coverage_release(&coverage);
	assert_true(covered > 0 && covered < steps);
	d = digest_of(run);
	assert_true(d.sampled);
	assert_int_equal(d.covered, covered);
	assert_int_equal(d.tables[COMPARE_KERNELS].steps, covered);
	assert_int_equal(figure(&d, COMPARE_KERNEL_TIME, "")->n, covered);
	assert_true(figure(&d, COMPARE_STEP_TIME, "")->n > covered);
	digest_release(&d);
}

static void test_groups_of_runs(void **state)
{
	static const int64_t times[] = { 1000, 1020, 1040, 1100, 1120, 1140 };
	struct run_digest runs[6];
	struct compare_group groups[] = { { "a", runs, 3 },
					  { "b", runs + 3, 3 },
					  { "c", runs, 2 } };
	const struct difference *d;
	struct comparison c;

	(void)state;
	for (size_t i = 0; i < 6; i++)
		runs[i] = digest_of(plain_run(times[i], 0));
	assert_int_equal(compare_groups(groups, 3, &c), 0);
	d = compared(&c.pairs[0], COMPARE_STEP_TIME, "");
	assert_true(d->by_runs);
	assert_int_equal(d->n_a, 3);
	assert_near(d->a.v, 1020 * US);
	assert_near(d->b.v, 1120 * US);
	/* Sample variance 400 of each: error sqrt(2 * 400 / 3) = 16.33 us, t 6.1237, 4 degrees of
	 * freedom; t(0.975, 4) = 2.776445. */
	assert_true(fabs(d->p.v - 0.00360) < 1e-4);
	assert_true(fabs(d->low.v / 1e3 - (100 - 2.776445 * 16.329932)) < 1e-3);
	assert_int_equal(d->verdict, COMPARE_WORSE);
	/* Two runs of one side: their steps are what is compared. */
	d = compared(&c.pairs[1], COMPARE_STEP_TIME, "");
	assert_false(d->by_runs);
	assert_int_equal(d->n_b, 30);
	comparison_release(&c);
	for (size_t i = 0; i < 6; i++)
		digest_release(&runs[i]);
}

static void test_program_figures(void **state)
{
	struct run_digest d = digest_of(fake_training_run());

	(void)state;
	/* 4 MB of parameters, 6 of activations, 12 times 50 kB less the last. */
	assert_near(figure(&d, COMPARE_PEAK_ALLOCATED, "host")->value.v, 4e6 + 6e6 + 11 * 50000);
	assert_near(figure(&d, COMPARE_TTFT, "")->value.v, 10 * MS);
	assert_near(figure(&d, COMPARE_ITL, "")->value.v, 4 * MS);
	assert_int_equal(figure(&d, COMPARE_ITL, "")->n, 8);
	assert_int_equal(figure(&d, COMPARE_IMBALANCE, "layer 0")->n, 12);
	assert_true(figure(&d, COMPARE_IMBALANCE, "layer 1")->value.v > 1.5);
	assert_near(figure(&d, COMPARE_PHASE_TIME, "backward")->value.v, 45 * MS);
	digest_release(&d);
}

/* Whatever is in a run, compared with itself it shows no difference. */
static void test_itself(void **state)
{
	struct run *(*const makers[])(void) = { fake_training_run, fake_gpu_run, fake_windows_run,
						fake_run_new };

	(void)state;
	for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); i++) {
		struct run_digest runs[] = { digest_of(makers[i]()), digest_of(makers[i]()) };
		struct compare_group groups[] = { { "a", &runs[0], 1 }, { "b", &runs[1], 1 } };
		struct comparison c;

		assert_int_equal(compare_groups(groups, 2, &c), 0);
		for (size_t k = 0; k < c.pairs[0].n; k++)
			assert_true(c.pairs[0].figures[k].d.verdict == COMPARE_NOISE ||
				    c.pairs[0].figures[k].d.verdict == COMPARE_SAME ||
				    c.pairs[0].figures[k].d.verdict == COMPARE_UNTESTED);
		for (size_t k = 0; k < c.pairs[0].tables[COMPARE_HOST].n; k++)
			assert_near(c.pairs[0].tables[COMPARE_HOST].rows[k].d.diff.v, 0);
		assert_int_equal(c.n_facts, 0);
		comparison_release(&c);
		digest_release(&runs[0]);
		digest_release(&runs[1]);
	}
}

static void test_facts_that_differ(void **state)
{
	struct run *run = plain_run(1000, 10);
	struct run_digest runs[3];
	struct compare_group groups[] = { { "a", runs, 1 }, { "b", runs + 1, 2 } };
	struct comparison c;

	(void)state;
	runs[0] = digest_of(plain_run(1000, 10));
	strcpy(run->info.level, "step");
	fake_add_fact(run, 0,
		      &(struct row_fact){ .key = fake_string(run, "dtype"),
					  .value = fake_string(run, "bf16") });
	runs[1] = digest_of(run);
	runs[2] = digest_of(plain_run(1000, 10));
	assert_int_equal(compare_groups(groups, 2, &c), 0);
	assert_int_equal(c.n_facts, 2);
	assert_string_equal(c.facts[0].key, "level");
	assert_true(c.facts[0].doubtful);
	assert_string_equal(c.facts[0].values[0], "full");
	assert_string_equal(c.facts[0].values[1], "step | full");
	assert_string_equal(c.facts[1].key, "dtype");
	assert_string_equal(c.facts[1].values[0], "not said");
	comparison_release(&c);
	for (size_t i = 0; i < 3; i++)
		digest_release(&runs[i]);
}

static void test_conditions_parse(void **state)
{
	static const char *const wrong[] = {
		"",
		"steptime > 5%",
		"step_time",
		"step_time = 5%",
		"step_time >",
		"step_time > five",
		"step_time > 5kg",
		"step_time > 5",
		"step_time[ > 5%",
		"step_time[] > 5%",
		"step_time > 5% 6",
		"imbalance > 3ms",
	};
	struct condition c;
	struct err err;

	(void)state;
	assert_int_equal(condition_parse(" step_time>=-2.5 % ", &c, &err), 0);
	assert_true(c.metric == COMPARE_STEP_TIME && c.op == CONDITION_GE && c.relative);
	assert_near(c.value, -2.5);
	assert_int_equal(condition_parse("step_time > 12ms", &c, &err), 0);
	assert_false(c.relative);
	assert_near(c.value, 12 * MS);
	assert_int_equal(condition_parse("idle_time[host] < 1us", &c, &err), 0);
	assert_string_equal(c.of, "host");
	assert_int_equal(c.op, CONDITION_LT);
	assert_int_equal(condition_parse("peak_allocated <= 1.5GB", &c, &err), 0);
	assert_near(c.value, 1.5e9);
	assert_int_equal(condition_parse("gpu_busy_pct < 50", &c, &err), 0);
	assert_false(c.relative);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		err.message[0] = '\0';
		assert_int_equal(condition_parse(wrong[i], &c, &err), -EINVAL);
		assert_true(strlen(err.message) > 20);
	}
	assert_int_equal(condition_parse("nonsense > 5%", &c, &err), -EINVAL);
	for (int i = 0; i < COMPARE_METRICS; i++)
		assert_non_null(strstr(err.message, compare_metrics[i].name));
}

static enum condition_result judged(const char *text, const struct compare_pair *pair)
{
	struct condition condition;
	struct err err;

	assert_int_equal(condition_parse(text, &condition, &err), 0);
	return condition_judge(&condition, pair).result;
}

static void test_conditions_judge(void **state)
{
	struct run *more = plain_run(1100, 10), *less = plain_run(1000, 10);
	struct row_memory memory = { .time_ns = MS, .address = 1, .bytes = 1000, .device = 0 };
	struct run_digest runs[3];
	struct compare_group groups[] = { { "a", runs, 1 },
					  { "b", runs + 1, 1 },
					  { "c", runs + 2, 1 } };
	struct comparison c;

	(void)state;
	fake_add_memory(less, 0, &memory);
	memory.bytes = 1200;
	fake_add_memory(more, 0, &memory);
	runs[0] = digest_of(less);
	runs[1] = digest_of(more);
	runs[2] = digest_of(plain_run(1002, 10));
	assert_int_equal(compare_groups(groups, 3, &c), 0);
	/* 9.9% slower, with an interval of about half a percent on both sides. */
	assert_int_equal(judged("step_time > 5%", &c.pairs[0]), CONDITION_HOLDS);
	assert_int_equal(judged("step_time > 15%", &c.pairs[0]), CONDITION_NOT);
	/* 9.9% are more than 9.85, but not surely. */
	assert_int_equal(judged("step_time > 9.85%", &c.pairs[0]), CONDITION_NOT);
	assert_int_equal(judged("tokens_per_s > 5%", &c.pairs[0]), CONDITION_HOLDS);
	assert_int_equal(judged("tokens_per_s < 5%", &c.pairs[0]), CONDITION_NOT);
	assert_int_equal(judged("step_time < 15%", &c.pairs[0]), CONDITION_HOLDS);
	assert_int_equal(judged("step_time > 1ms", &c.pairs[0]), CONDITION_HOLDS);
	assert_int_equal(judged("step_time > 2ms", &c.pairs[0]), CONDITION_NOT);
	assert_int_equal(judged("tokens_per_s < 60k/s", &c.pairs[0]), CONDITION_HOLDS);
	/* One value a run: as it is. */
	assert_int_equal(judged("peak_allocated > 19%", &c.pairs[0]), CONDITION_HOLDS);
	assert_int_equal(judged("peak_allocated[gpu 0] >= 20%", &c.pairs[0]), CONDITION_HOLDS);
	assert_int_equal(judged("peak_allocated > 21%", &c.pairs[0]), CONDITION_NOT);
	assert_int_equal(judged("peak_allocated > 1.1kB", &c.pairs[0]), CONDITION_HOLDS);
	/* What is not there cannot be judged. */
	assert_int_equal(judged("peak_allocated[gpu 7] > 1%", &c.pairs[0]), CONDITION_UNKNOWN);
	assert_int_equal(judged("kernel_time > 1%", &c.pairs[0]), CONDITION_UNKNOWN);
	assert_int_equal(judged("peak_allocated > 1%", &c.pairs[1]), CONDITION_UNKNOWN);
	/* Noise never fails. */
	assert_int_equal(judged("step_time > 0%", &c.pairs[1]), CONDITION_NOT);
	comparison_release(&c);
	for (size_t i = 0; i < 3; i++)
		digest_release(&runs[i]);
}

/* No steps: gemm n times, and attention or its successor once, launched in a range; a collective. */
static struct run *stepless_run(int64_t gemm_us, int n, const char *attention)
{
	struct run *run = fake_run_new();
	uint32_t mlp = fake_site(run, "mlp", -1, -1, 0);
	int64_t at = 1000 * US;

	fake_span(run, 0, 1000 * MS);
	for (int i = 0; i < n; i++, at += 1000 * US) {
		fake_range(run, mlp, at - 500 * US, at - 100 * US, 1, 0);
		fake_call(run, "cudaLaunchKernel", at - 400 * US, at - 390 * US, (uint64_t)i + 1);
		fake_kernel(run, "gemm_kernel", at, at + (gemm_us + i % 2) * US, (uint64_t)i + 1);
	}
	fake_kernel(run, attention, at, at + 40 * US, 0);
	fake_add_collective(run, 0,
			    &(struct row_collective){ .name = fake_string(run, "allreduce"),
						      .start_ns = at,
						      .duration_ns = 7 * US });
	return run;
}

static void test_whole_runs(void **state)
{
	struct run_digest runs[] = { digest_of(stepless_run(100, 10, "flash_fwd")),
				     digest_of(stepless_run(120, 8, "flash_v3")) };
	struct compare_group groups[] = { { "a", &runs[0], 1 }, { "b", &runs[1], 1 } };
	const struct compare_row *row;
	const struct compare_rows *tables;
	const struct difference *d;
	struct comparison c;

	(void)state;
	assert_true(runs[0].whole && !runs[0].has_steps);
	assert_int_equal(compare_groups(groups, 2, &c), 0);
	assert_true(c.pairs[0].whole);
	tables = c.pairs[0].tables;
	/* Ten of 100.5 us in the mean and 40 us; eight of 120.5 and 40. */
	d = compared(&c.pairs[0], COMPARE_KERNEL_TIME, "");
	assert_near(d->a.v, 1045 * US);
	assert_near(d->b.v, 1004 * US);
	assert_int_equal(d->verdict, COMPARE_UNTESTED);
	assert_false(d->low.known);
	assert_string_equal(d->low.reason, COMPARE_WHOLE_UNTESTED);
	/* From the first range, 500 us before the first kernel, to the end of the last kernel. */
	d = compared(&c.pairs[0], COMPARE_RUN_TIME, "");
	assert_near(d->a.v, 10540 * US);
	assert_near(d->b.v, 8540 * US);
	assert_near(compared(&c.pairs[0], COMPARE_KERNEL_COUNT, "")->b.v, 9);
	/* The largest change first; the time of one gemm is tested, the sum is not. */
	row = &tables[COMPARE_KERNELS].rows[0];
	assert_string_equal(row->name, "gemm_kernel");
	assert_near(row->d.diff.v, (8 * 120.5 - 10 * 100.5) * US);
	assert_near(row->count_a.v, 10);
	assert_near(row->call.a.v, 100.5 * US);
	assert_near(row->call.b.v, 120.5 * US);
	assert_int_equal(row->call.n_a, 10);
	assert_int_equal(row->call.verdict, COMPARE_WORSE);
	assert_int_equal(row->d.verdict, COMPARE_UNTESTED);
	/* -41 of -41 us: the two others cancel out. */
	assert_near(row->explains_pct.v, 100);
	assert_true(row_of(&tables[COMPARE_KERNELS], "flash_v3")->is_new);
	assert_true(row_of(&tables[COMPARE_KERNELS], "flash_fwd")->is_gone);
	assert_int_equal(row_of(&tables[COMPARE_KERNELS], "flash_v3")->call.verdict,
			 COMPARE_ABSENT);
	assert_near(row_of(&tables[COMPARE_CLASSES], "attention")->d.diff.v, 0);
	assert_int_equal(row_of(&tables[COMPARE_CLASSES], "attention")->d.verdict, COMPARE_SAME);
	assert_near(row_of(&tables[COMPARE_RANGES], "mlp")->d.diff.v, -41 * US);
	assert_near(row_of(&tables[COMPARE_RANGES], "(outside all ranges)")->d.b.v, 40 * US);
	assert_near(row_of(&tables[COMPARE_COLLECTIVES], "allreduce")->d.a.v, 7 * US);
	assert_near(row_of(&tables[COMPARE_HOST], "mlp")->count_b.v, 8);
	comparison_release(&c);
	digest_release(&runs[0]);
	digest_release(&runs[1]);
}

/* A run with steps as a whole, so that it can stand beside one without. */
static void test_steps_as_a_whole(void **state)
{
	struct run *run = plain_run(1000, 10);
	struct run_digest d;

	(void)state;
	fake_kernel(run, "gemm_kernel", 3 * MS, 4 * MS, 0);
	assert_int_equal(digest_take_whole(run, &d), 0);
	assert_true(d.whole && d.has_steps);
	assert_int_equal(d.steps, 0);
	assert_near(figure(&d, COMPARE_RUN_TIME, "")->value.v, 1 * MS);
	assert_near(figure(&d, COMPARE_KERNEL_TIME, "")->value.v, 1 * MS);
	assert_null(figure(&d, COMPARE_STEP_TIME, ""));
	digest_release(&d);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_warmup_and_windows),
		cmocka_unit_test(test_faster_and_slower),
		cmocka_unit_test(test_device_figures),
		cmocka_unit_test(test_kernels_new_gone_changed),
		cmocka_unit_test(test_one_without_device),
		cmocka_unit_test(test_few_steps_are_not_tested),
		cmocka_unit_test(test_ranks_that_disagree),
		cmocka_unit_test(test_numbers_again_and_cut_steps),
		cmocka_unit_test(test_covered_steps_only),
		cmocka_unit_test(test_groups_of_runs),
		cmocka_unit_test(test_program_figures),
		cmocka_unit_test(test_itself),
		cmocka_unit_test(test_facts_that_differ),
		cmocka_unit_test(test_conditions_parse),
		cmocka_unit_test(test_conditions_judge),
		cmocka_unit_test(test_whole_runs),
		cmocka_unit_test(test_steps_as_a_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
