/* SPDX-License-Identifier: Apache-2.0
 *
 * What the C API records: ranges, levels, schedules and steps, row by row.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "probe_child.h"

static void nested(void)
{
	moescope_name a = moescope_intern("a"), b = moescope_intern("b"), c = moescope_intern("c");

	start_at(MOESCOPE_TRACE);
	moescope_range_begin(a, 3, 5, MOESCOPE_BACKWARD);
	moescope_range_begin(b, -1, -1, MOESCOPE_PHASE_NONE);
	moescope_op_begin(c, -1, 7, moescope_intern("[2]"));
	moescope_op_end(11, 22);
	moescope_range_end();
	moescope_range_begin(b, 4, -1, MOESCOPE_FORWARD);
	moescope_range_end();
	moescope_range_end();
	moescope_range_push("alone");
	moescope_range_pop();
	moescope_stop();
}

static void test_nested_ranges_inherit(void **state)
{
	struct run *run = run_of(nested);

	(void)state;
	assert_int_equal(run->range.n, 4); /* by their end */
	assert_site(run, run->range.site[0], "b", 3, 5, MOESCOPE_BACKWARD);
	assert_site(run, run->range.site[1], "b", 4, 5, MOESCOPE_FORWARD);
	assert_site(run, run->range.site[2], "a", 3, 5, MOESCOPE_BACKWARD);
	assert_site(run, run->range.site[3], "alone", -1, -1, 0);
	assert_int_equal(run->range.depth[0], 1);
	assert_int_equal(run->range.depth[1], 1);
	assert_int_equal(run->range.depth[2], 0);
	assert_int_equal(run->op.n, 1);
	assert_site(run, run->op.site[0], "c", 3, 7, MOESCOPE_BACKWARD);
	assert_int_equal(run->op.depth[0], 2);
	assert_int_equal(run->op.flops[0], 11);
	assert_int_equal(run->op.bytes[0], 22);
	assert_string_equal(run_string(run, run->op.shape[0]), "[2]");
	/* Inside each other in time, too. */
	assert_true(run->range.start_ns[2] <= run->range.start_ns[0]);
	assert_true(run->range.start_ns[0] <= run->op.start_ns[0]);
	assert_true(run->op.start_ns[0] + run->op.duration_ns[0] <=
		    run->range.start_ns[0] + run->range.duration_ns[0]);
	assert_true(run->range.start_ns[1] + run->range.duration_ns[1] <=
		    run->range.start_ns[2] + run->range.duration_ns[2]);
	run_free(run);
}

#define PAST 60000 /* several times what a ring holds */

static void past_ops(void)
{
	static struct moescope_past_op ops[PAST];

	start_at(MOESCOPE_TRACE);
	for (size_t i = 0; i < PAST; i++)
		ops[i] = (struct moescope_past_op){ .name = moescope_intern(i % 2 ? "odd" : "even"),
						    .shape = moescope_intern("[3]"),
						    .layer = 2,
						    .expert = -1,
						    .phase = MOESCOPE_BACKWARD,
						    .thread = 4242,
						    .depth = (uint32_t)(i % 3),
						    .start_ns = 1000000 + (int64_t)i * 10,
						    .duration_ns = 7,
						    .flops = i % 5 ? i : MOESCOPE_UNKNOWN,
						    .bytes = 5 };
	moescope_past_ops(ops, PAST);
	ops[0].duration_ns = -1;
	moescope_past_ops(ops, 1);
	moescope_stop();
	moescope_past_ops(ops, 1); /* nobody listens */
}

static void test_past_ops(void **state)
{
	struct run *run = run_of(past_ops);

	(void)state;
	assert_int_equal(run->op.n, PAST);
	for (size_t i = 0; i < PAST; i += 777) {
		assert_site(run, run->op.site[i], i % 2 ? "odd" : "even", 2, -1, MOESCOPE_BACKWARD);
		assert_int_equal(run->op.start_ns[i], 1000000 + (int64_t)i * 10);
		assert_int_equal(run->op.duration_ns[i], 7);
		assert_int_equal(run->op.thread[i], 4242);
		assert_int_equal(run->op.depth[i], i % 3);
		assert_int_equal(run->op.flops[i], i % 5 ? i : 0);
		assert_int_equal(run->op.unknown[i], i % 5 ? 0 : OP_FLOPS_UNKNOWN);
		assert_int_equal(run->op.bytes[i], 5);
		assert_string_equal(run_string(run, run->op.shape[i]), "[3]");
	}
	run_free(run);
}

static void past_memory(void)
{
	struct moescope_past_memory events[] = {
		{ 5000, 0x1000, 4096, 1, MOESCOPE_EVENT_RESERVE, MOESCOPE_MEMORY_OTHER, 0 },
		{ 6000, 0x1000, 512, 1, MOESCOPE_EVENT_ALLOC, MOESCOPE_MEMORY_GRADIENTS, 0 },
		{ 7000, 0x1000, 512, 1, MOESCOPE_EVENT_FREE, MOESCOPE_MEMORY_OTHER, 0 },
		{ 8000, 0x1000, 4096, 1, MOESCOPE_EVENT_RELEASE, MOESCOPE_MEMORY_OTHER, 0 },
	};

	start_at(MOESCOPE_STEPS);
	events[1].site = moescope_intern("train.py:7");
	moescope_past_memory(events, 4);
	moescope_device_sample(3, moescope_intern("allocated_bytes"), 512.5);
	moescope_stop();
	moescope_past_memory(events, 4); /* nobody listens */
	moescope_device_sample(3, moescope_intern("allocated_bytes"), 1);
}

static void test_past_memory(void **state)
{
	struct run *run = run_of(past_memory);

	(void)state;
	assert_int_equal(run->memory.n, 4);
	for (size_t i = 0; i < 4; i++) {
		static const uint64_t bytes[] = { 4096, 512, 0, 4096 };
		static const uint8_t events[] = { 2, 0, 1, 3 };

		assert_int_equal(run->memory.time_ns[i], 5000 + 1000 * (int64_t)i);
		assert_int_equal(run->memory.event[i], events[i]);
		assert_int_equal(run->memory.bytes[i], bytes[i]);
		assert_int_equal(run->memory.address[i], 0x1000);
		assert_int_equal(run->memory.device[i], 1);
	}
	assert_int_equal(run->memory.use[1], MOESCOPE_MEMORY_GRADIENTS);
	assert_string_equal(run_string(run, run->memory.site[1]), "train.py:7");
	assert_int_equal(run->sample.n, 1);
	assert_int_equal(run->sample.device[0], 3);
	assert_string_equal(run_string(run, run->sample.metric[0]), "allocated_bytes");
	assert_true(run->sample.value[0] == 512.5);
	run_free(run);
}

static void too_deep_and_unbalanced(void)
{
	start_at(MOESCOPE_TRACE);
	for (int i = 0; i < 70; i++)
		moescope_range_push("deep");
	for (int i = 0; i < 70; i++)
		moescope_range_pop();
	for (int i = 0; i < 3; i++)
		moescope_range_pop();
	moescope_op_end(1, 1);
	moescope_range_push("after");
	moescope_range_pop();
	moescope_stop();
}

static void test_too_deep_and_unbalanced(void **state)
{
	struct run *run = run_of(too_deep_and_unbalanced);

	(void)state;
	assert_int_equal(run->range.n, 65);
	assert_int_equal(run->loss.dropped_too_deep, 6);
	assert_int_equal(run->loss.dropped_unbalanced, 4);
	assert_int_equal(run->range.depth[64], 0);
	run_free(run);
}

static void pauses(void)
{
	start_at(MOESCOPE_TRACE);
	for (int i = 0; i < 6; i++) {
		if (i == 2)
			moescope_pause();
		if (i == 4)
			moescope_resume();
		CHECK(moescope_recording() == (i < 2 || i >= 4));
		moescope_step_begin(i);
		moescope_range_push("r");
		moescope_mark("m");
		moescope_alloc(&i, 8, -1, MOESCOPE_MEMORY_OTHER, 0);
		moescope_range_pop();
		moescope_step_end((uint64_t)i);
	}
	moescope_stop();
}

static void test_pause_and_resume(void **state)
{
	struct run *run = run_of(pauses);

	(void)state;
	assert_int_equal(run->step.n, 6);
	for (size_t i = 0; i < 6; i++) {
		assert_int_equal(run->step.step[i], i);
		assert_int_equal(run->step.recorded[i], i < 2 || i >= 4);
		assert_int_equal(run->step.tokens[i], i);
		assert_int_equal(run->step.tokens_known[i], i > 0);
		assert_true(run->step.duration_ns[i] > 0);
	}
	assert_int_equal(run->range.n, 4);
	assert_int_equal(run->mark.n, 4);
	assert_int_equal(run->memory.n, 4);
	assert_int_equal(loss_total(&run->loss), 0);
	run_free(run);
}

static enum moescope_level wanted_level;

static void at_level(void)
{
	start_at(wanted_level);
	for (int i = 0; i < 5; i++)
		every_call();
	moescope_stop();
}

static void test_levels(void **state)
{
	(void)state;
	for (int level = MOESCOPE_COUNTS; level <= MOESCOPE_FULL; level++) {
		struct run *run;

		wanted_level = (enum moescope_level)level;
		run = run_of(at_level);
		assert_level_rows(run, wanted_level, 5);
		run_free(run);
		tear_down(state);
		set_up(state);
	}
}

static void level_switched(void)
{
	start_at(MOESCOPE_COUNTS);
	for (int level = MOESCOPE_COUNTS; level <= MOESCOPE_FULL; level++) {
		moescope_set_level((enum moescope_level)level);
		every_call();
	}
	moescope_set_level(MOESCOPE_OFF);
	moescope_mark("none");
	moescope_stop();
}

static void test_level_switched(void **state)
{
	struct run *run = run_of(level_switched);

	(void)state;
	assert_int_equal(run->mark.n, 4);
	assert_int_equal(run->range.n, 0 + 1 + 2 + 2);
	assert_int_equal(run->op.n, 2);
	assert_int_equal(run->routed.n, 1);
	assert_int_equal(run->memory.n, 6);
	assert_int_equal(loss_total(&run->loss), 0);
	run_free(run);
}

/* Expected by hand from the table of torch.profiler.schedule. */
static void test_schedule_table(void **state)
{
	static const struct {
		struct moescope_schedule schedule;
		const char *records; /* step by step */
	} cases[] = {
		{ { .wait = 1, .warmup = 1, .active = 2 }, "0011001100110011" },
		{ { .wait = 1, .warmup = 1, .active = 2, .repeat = 1 }, "0011000000000000" },
		{ { .wait = 1, .warmup = 1, .active = 2, .repeat = 2 }, "0011001100000000" },
		{ { .skip_first = 3, .wait = 1, .warmup = 1, .active = 2 }, "0000011001100110" },
		{ { .skip_first = 2, .wait = 2, .active = 1, .repeat = 3 }, "0000100100100000" },
		{ { .active = 1 }, "1111111111111111" },
		{ { .active = 3, .repeat = 2 }, "1111110000000000" },
		{ { .warmup = 2, .active = 1 }, "0010010010010010" },
		{ { .skip_first = 5 }, "0000011111111111" },
		{ { .sample = 3 }, "1001001001001001" },
		{ { .sample = 1 }, "1111111111111111" },
		{ { .skip_first = 1, .sample = 2 }, "0101010101010101" },
		{ { .wait = 1, .active = 4, .sample = 2 }, "0101001010010100" },
		{ { .wait = 1, .active = 3, .sample = 2 }, "0101001001010010" },
		{ { .wait = 3 }, "0000000000000000" },
		{ { .skip_first = UINT32_MAX }, "0000000000000000" },
		{ { .wait = UINT32_MAX, .warmup = UINT32_MAX, .active = UINT32_MAX },
		  "0000000000000000" },
	};

	(void)state;
	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		struct moescope_schedule schedule = cases[c].schedule;

		schedule.struct_size = sizeof(schedule);
		for (int step = 0; cases[c].records[step]; step++)
			if (!moescope_schedule_records(&schedule, step) !=
			    (cases[c].records[step] == '0'))
				fail_msg("case %zu, step %d", c, step);
		assert_false(moescope_schedule_records(&schedule, -1));
		assert_false(moescope_schedule_records(&schedule, INT64_MIN));
	}
	assert_true(moescope_schedule_records(NULL, 3));
}

static bool schedule_before_start;

static void scheduled(void)
{
	struct moescope_schedule schedule = { .struct_size = sizeof(schedule),
					      .skip_first = 1,
					      .wait = 1,
					      .warmup = 1,
					      .active = 2,
					      .repeat = 2 };

	if (schedule_before_start)
		moescope_set_schedule(&schedule);
	start_at(MOESCOPE_TRACE);
	if (!schedule_before_start)
		moescope_set_schedule(&schedule);
	moescope_mark("before the first step");
	for (int i = 0; i < 12; i++) {
		moescope_step_begin(100 + i);
		moescope_range_push("r");
		moescope_alloc(&i, 8, -1, MOESCOPE_MEMORY_OTHER, 0);
		route_once();
		moescope_range_pop();
		moescope_free(&i, -1);
		moescope_step_end(1);
	}
	moescope_stop();
}

static void test_schedule_in_a_session(void **state)
{
	static const char want[] = "000110011000";

	for (int before = 0; before < 2; before++) {
		struct run *run;

		schedule_before_start = before;
		run = run_of(scheduled);
		assert_int_equal(run->step.n, 12);
		for (size_t i = 0; i < 12; i++) {
			assert_int_equal(run->step.step[i], 100 + i);
			assert_int_equal(run->step.recorded[i], want[i] == '1');
		}
		assert_int_equal(run->range.n, 4);
		assert_int_equal(run->routing.n, 4);
		for (size_t i = 0; i < 4; i++)
			assert_int_equal(run->routing.step[i], 103 + i + i / 2 * 2);
		assert_int_equal(run->memory.n, 24); /* every step: frees need their allocations */
		assert_int_equal(run->mark.n, 0);
		assert_int_equal(loss_total(&run->loss), 0);
		run_free(run);
		tear_down(state);
		set_up(state);
	}
}

static int asked;

static int odd_steps(int64_t step, void *arg)
{
	CHECK(arg == &asked);
	asked++;
	moescope_mark("asked"); /* calling back is allowed */
	return step % 2 != 0;
}

static void step_function(void)
{
	moescope_set_step_function(odd_steps, &asked);
	start_at(MOESCOPE_TRACE);
	for (int i = 0; i < 8; i++) {
		if (i == 6)
			moescope_set_step_function(NULL, NULL);
		moescope_step_begin(i);
		moescope_range_push("r");
		moescope_range_pop();
	}
	CHECK(asked == 6);
	moescope_step_end(0);
	moescope_stop();
}

static void test_step_function(void **state)
{
	static const char want[] = "01010111";
	struct run *run = run_of(step_function);

	(void)state;
	assert_int_equal(run->step.n, 8);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(run->step.recorded[i], want[i] == '1');
	assert_int_equal(run->range.n, 5);
	run_free(run);
}

static void plain_steps(void)
{
	start_at(MOESCOPE_TRACE);
	moescope_mark("set-up");
	for (int i = 0; i < 5; i++)
		moescope_step((uint64_t)(i + 1) * 10);
	moescope_stop();
}

/* moescope_step: the call ends one and begins the next. The first has begun with the session; what
 * comes after the last call is none. */
static void test_plain_steps(void **state)
{
	struct run *run = run_of(plain_steps);

	(void)state;
	assert_int_equal(run->step.n, 5);
	for (size_t i = 0; i < 5; i++) {
		assert_int_equal(run->step.step[i], i);
		assert_int_equal(run->step.unfinished[i], 0);
		assert_int_equal(run->step.tokens[i], 10 * (i + 1));
		assert_int_equal(run->step.first[i], i ? 0 : STEP_FIRST_STARTED);
	}
	assert_true(run->step.start_ns[0] <= run->mark.time_ns[0]);
	assert_int_equal(run->loss.unfinished, 0);
	run_free(run);
}

static void routed_before_the_first_call(void)
{
	start_at(MOESCOPE_FULL);
	route_once();
	moescope_step(2);
	route_once();
	moescope_step(2);
	route_once();
	moescope_stop();
}

/* What is recorded before the first call is of step 0; behind the last, of no step that ended. */
static void test_routing_of_the_first_step(void **state)
{
	struct run_want want = { .kinds = WANT(ROUTING) };
	struct run *run = run_of(routed_before_the_first_call), *alone;

	(void)state;
	assert_int_equal(run->step.n, 2);
	assert_int_equal(run->routing.n, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(run->routing.step[i], i);
		assert_int_equal(run->routed.step[i], i);
	}
	assert_int_equal(run_load(run->info.path, &want, &alone, NULL), 0);
	assert_int_equal(alone->routing.step[0], 0);
	run_free(alone);
	run_free(run);
}

static void routed_before_a_begin(void)
{
	start_at(MOESCOPE_TRACE);
	route_once();
	moescope_step_begin(0);
	route_once();
	moescope_step_end(0);
	moescope_stop();
}

/* A program that says where its steps begin has none before that. */
static void test_routing_before_a_step(void **state)
{
	struct run *run = run_of(routed_before_a_begin);

	(void)state;
	assert_int_equal(run->step.n, 1);
	assert_int_equal(run->step.first[0], 0);
	assert_int_equal(run->routing.step[0], -1);
	assert_int_equal(run->routing.step[1], 0);
	run_free(run);
}

static void guessed_steps(void)
{
	start_at(MOESCOPE_TRACE);
	for (int i = 0; i < 2; i++) {
		moescope_step_guess(i);
		moescope_mark("guess");
		moescope_step_end(5);
		moescope_mark("behind it");
	}
	CHECK(moescope_flush() == 0);
	moescope_step_guess(2);
	moescope_step_end(5);
	moescope_step(7); /* the program has steps of its own: the last guess was one */
	moescope_mark("of the program");
	moescope_step(0);
	moescope_stop();
}

static void test_guessed_steps(void **state)
{
	static const uint64_t tokens[] = { 5, 5, 7, 0 };
	struct run *run = run_of(guessed_steps);
	const struct table_step *step = &run->step;

	(void)state;
	assert_int_equal(step->n, 4);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(step->step[i], i);
		assert_int_equal(step->tokens[i], tokens[i]);
		assert_int_equal(step->unfinished[i], 0);
	}
	/* A guess ends where the tool says. */
	for (size_t i = 0; i < 2; i++) {
		int64_t end = step->start_ns[i] + step->duration_ns[i];

		assert_true(run->mark.time_ns[2 * i] <= end);
		assert_true(run->mark.time_ns[2 * i + 1] >= end);
	}
	assert_true(step->start_ns[2] + step->duration_ns[2] <= run->mark.time_ns[4]);
	assert_int_equal(run->loss.unfinished, 0);
	run_free(run);
}

static void killed_behind_a_guess(void)
{
	start_at(MOESCOPE_TRACE);
	moescope_step_guess(0);
	moescope_step_end(5);
	CHECK(kill(getpid(), SIGKILL) == 0);
}

static void test_killed_behind_a_guess(void **state)
{
	struct run *run;

	(void)state;
	assert_int_equal(in_child(killed_behind_a_guess), -SIGKILL);
	run = load_run("run.mscope");
	assert_int_equal(run->step.n, 1);
	assert_int_equal(run->step.unfinished[0], 1);
	run_free(run);
}

static void looked_at_while_it_records(void)
{
	struct moescope_stats stats = { .struct_size = sizeof(stats) };
	struct run *run;

	CHECK(moescope_flush() == 0 && !moescope_shard());
	start_at(MOESCOPE_TRACE);
	for (size_t i = 1; i <= 20; i++) {
		moescope_mark("one more");
		CHECK(moescope_flush() == 0);
		CHECK(run_load(moescope_shard(), NULL, &run, NULL) == 0);
		CHECK(run->n_shards == 1 && run->mark.n == i);
		run_free(run);
	}
	moescope_get_stats(&stats);
	CHECK(stats.recorded >= 20);
	moescope_stop();
	CHECK(moescope_flush() == 0 && !moescope_shard());
}

/* A flush, and what was recorded is in the shard, at once and each time. */
static void test_flush(void **state)
{
	(void)state;
	run_free(run_of(looked_at_while_it_records));
}

static void cancelled_steps(void)
{
	start_at(MOESCOPE_TRACE);
	moescope_step_cancel(); /* there is none */
	CHECK(moescope_current_step() == -1);
	for (int i = 0; i < 3; i++) {
		moescope_step_begin(i);
		if (i == 1)
			moescope_step_cancel();
		moescope_step_end(0);
	}
	moescope_step_begin(7); /* this one is cut by the end */
	CHECK(moescope_current_step() == 7);
	moescope_stop();
}

static void test_cancelled_steps(void **state)
{
	struct run *run = run_of(cancelled_steps);

	(void)state;
	assert_int_equal(run->step.n, 3);
	assert_int_equal(run->step.step[0], 0);
	assert_int_equal(run->step.step[1], 2);
	assert_int_equal(run->step.step[2], 7);
	assert_int_equal(run->step.unfinished[2], 1);
	assert_int_equal(run->loss.unfinished, 1);
	run_free(run);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_nested_ranges_inherit),
		TEST(test_past_ops),
		TEST(test_past_memory),
		TEST(test_too_deep_and_unbalanced),
		TEST(test_pause_and_resume),
		TEST(test_levels),
		TEST(test_level_switched),
		cmocka_unit_test(test_schedule_table),
		TEST(test_schedule_in_a_session),
		TEST(test_step_function),
		TEST(test_plain_steps),
		TEST(test_cancelled_steps),
		TEST(test_guessed_steps),
		TEST(test_killed_behind_a_guess),
		TEST(test_flush),
		TEST(test_routing_before_a_step),
		TEST(test_routing_of_the_first_step),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
