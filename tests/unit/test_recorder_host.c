/* SPDX-License-Identifier: Apache-2.0
 *
 * What the recorder leaves in the run, behind a scripted driver: equal to an independent count; drops,
 * the gate, graphs, sessions, pauses, contexts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "recorder_child.h"

#define STEPS 20

static void assert_routed(const struct run *run, size_t row, uint32_t experts, int64_t step,
			  uint32_t layer, uint32_t kept)
{
	const struct table_routed *t = &run->routed;
	struct recount want = { 0 };
	struct given given;
	size_t n;

	make_given(experts, step, layer, &given);
	recount_add(&given, &want);
	n = want.n_kept < (size_t)kept * K ? want.n_kept : (size_t)kept * K;
	assert_int_equal(t->step[row], step);
	assert_int_equal(t->layer[row], layer);
	assert_int_equal(t->first[row], 0);
	assert_int_equal(t->slots[row], n);
	assert_memory_equal(t->expert + t->expert_first[row], want.kept, n * sizeof(int32_t));
	assert_int_equal(t->weights[row], want.weighted ? n : 0);
	for (size_t i = 0; i < t->weights[row] && want.kept[i] >= 0; i++) {
		const float *w = given.weights + i / K * K;
		double sum = 0;

		for (uint32_t s = 0; s < K; s++)
			sum += want.kept[i / K * K + s] >= 0 ? (double)w[s] : 0;
		if (sum > 0)
			assert_int_equal(t->weight[t->weight_first[row] + i],
					 (int)((double)given.weights[i] / sum * 255 + 0.5));
	}
	given_release(&given);
	recount_release(&want);
}

/* ---- what is recorded */

static uint32_t wanted_experts, wanted_kept;

static void many_steps(void)
{
	struct moescope_recorder *recorder;

	start_at(MOESCOPE_TRACE);
	recorder = opened(wanted_experts, wanted_kept, 0);
	for (int64_t step = 0; step < STEPS; step++)
		route_step(recorder, wanted_experts, step);
	CHECK(moescope_recorder_flush(recorder) == 0);
	CHECK(!cuda->waited_for_program());
	moescope_recorder_close(recorder);
	CHECK(cuda->live() == 0);
	moescope_stop();
}

static void test_run_equals_recount(void **state)
{
	static const struct {
		uint32_t experts, kept;
	} cases[] = { { 16, 0 }, { 16, 150 }, { 256, 1000 }, { 1024, 0 } };

	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		struct run *run;

		wanted_experts = cases[c].experts;
		wanted_kept = cases[c].kept;
		run = run_of(many_steps);
		assert_int_equal(run->routing.n, STEPS * LAYERS);
		assert_int_equal(run->routed.n, cases[c].kept ? STEPS * LAYERS : 0);
		for (size_t i = 0; i < STEPS * LAYERS; i++) {
			assert_routing(run, i, cases[c].experts, (int64_t)(i / LAYERS), i % LAYERS);
			if (cases[c].kept)
				assert_routed(run, i, cases[c].experts, (int64_t)(i / LAYERS),
					      i % LAYERS, cases[c].kept);
		}
		assert_int_equal(loss_total(&run->loss), 0);
		run_free(run);
		tear_down(state);
		set_up(state);
	}
}

/* Copies that are not done hold their slots: what finds none is dropped, and counted by calls. */
static void too_many_steps(void)
{
	struct moescope_recorder *recorder;

	start_at(MOESCOPE_COUNTS);
	recorder = opened(EXPERTS, 0, 4);
	cuda->hold(true);
	for (int64_t step = 0; step < 10; step++)
		route_step(recorder, EXPERTS, step);
	CHECK(cuda->wait_queries(3)); /* the drain waits for its copy, and has given nothing back */
	cuda->hold(false);
	CHECK(moescope_recorder_flush(recorder) == 0);
	CHECK(moescope_recorder_step(recorder, 10, STREAM) == 0); /* sees the free slots */
	route_step(recorder, EXPERTS, 11);
	moescope_stop(); /* flushes by itself */
	moescope_recorder_close(recorder);
}

static void test_full_ring_drops_and_counts(void **state)
{
	static const int64_t steps[] = { 0, 1, 2, 3, 11 };
	struct run *run = run_of(too_many_steps);

	(void)state;
	assert_int_equal(run->routing.n, 5 * LAYERS);
	for (size_t i = 0; i < 5 * LAYERS; i++)
		assert_routing(run, i, EXPERTS, steps[i / LAYERS], i % LAYERS);
	assert_int_equal(run->loss.dropped_device, 6 * LAYERS);
	assert_int_equal(loss_total(&run->loss), 6 * LAYERS);
	run_free(run);
}

static void gated(void)
{
	struct moescope_recorder *recorder;

	start_at(MOESCOPE_COUNTS);
	recorder = opened(EXPERTS, 0, 0);
	for (int64_t step = 0; step < 6; step++) {
		CHECK(moescope_recorder_gate(recorder, step % 2 == 0, STREAM) == 0);
		route_step(recorder, EXPERTS, step);
	}
	cuda->capture(true);
	CHECK(moescope_recorder_gate(recorder, 1, STREAM) == -EBUSY);
	CHECK(strstr(moescope_recorder_words(), "captured"));
	cuda->capture(false);
	moescope_recorder_close(recorder);
	moescope_stop();
}

static void test_gate(void **state)
{
	struct run *run = run_of(gated);

	(void)state;
	assert_int_equal(run->routing.n, 3 * LAYERS);
	for (size_t i = 0; i < 3 * LAYERS; i++)
		assert_routing(run, i, EXPERTS, (int64_t)(i / LAYERS) * 2, i % LAYERS);
	assert_int_equal(loss_total(&run->loss), 0);
	run_free(run);
}

/* ---- graphs, sessions, contexts */

#define REPLAYS 50

/* A graph made when nobody recorded; replayed in a session. Opening in a capture is allowed, too. */
static void replayed(void)
{
	struct moescope_recorder *recorder;
	struct given given[LAYERS];

	cuda->capture(true);
	recorder = opened(EXPERTS, 50, 4);
	for (uint32_t layer = 0; layer < LAYERS; layer++) {
		make_given(EXPERTS, 7, layer, &given[layer]);
		CHECK(route_given(recorder, layer, &given[layer]) == 0);
	}
	CHECK(moescope_recorder_step(recorder, 7, STREAM) == 0);
	cuda->capture(false);
	CHECK(cuda->launches() == LAYERS + 1);
	start_at(MOESCOPE_COUNTS);
	for (int i = 0; i < REPLAYS; i++) {
		cuda->replay();
		CHECK(moescope_recorder_flush(recorder) == 0);
	}
	moescope_stop();
	for (uint32_t layer = 0; layer < LAYERS; layer++)
		given_release(&given[layer]);
	moescope_recorder_close(recorder);
}

static void test_every_replay_is_recorded(void **state)
{
	struct run *run = run_of(replayed);
	struct recount want[LAYERS] = { { 0 } };

	(void)state;
	for (uint32_t layer = 0; layer < LAYERS; layer++) {
		struct given given;

		make_given(EXPERTS, 7, layer, &given);
		recount_add(&given, &want[layer]);
		given_release(&given);
	}
	assert_int_equal(run->routing.n, REPLAYS * LAYERS);
	for (size_t i = 0; i < REPLAYS * LAYERS; i++) {
		assert_int_equal(run->routing.step[i], i / LAYERS);
		assert_int_equal(run->routing.tokens[i], want[i % LAYERS].tokens);
		assert_memory_equal(run->routing.load + run->routing.load_first[i],
				    want[i % LAYERS].load, EXPERTS * 4);
	}
	assert_int_equal(loss_total(&run->loss), 0);
	for (uint32_t layer = 0; layer < LAYERS; layer++)
		recount_release(&want[layer]);
	run_free(run);
}

/* Without a session nothing is launched; a recorder lives through sessions. */
static void two_sessions(void)
{
	struct moescope_recorder *recorder = opened(EXPERTS, 0, 0);

	route_step(recorder, EXPERTS, 0);
	CHECK(cuda->launches() == 0);
	start_at(MOESCOPE_TRACE);
	route_step(recorder, EXPERTS, 1);
	moescope_stop();
	route_step(recorder, EXPERTS, 2);
	CHECK(cuda->launches() == LAYERS + 1);
	CHECK(moescope_start("second.mscope") == 0);
	route_step(recorder, EXPERTS, 3);
	moescope_stop();
	moescope_recorder_close(recorder);
	CHECK(cuda->live() == 0);
}

static void test_sessions(void **state)
{
	struct run *run = run_of(two_sessions);

	(void)state;
	assert_int_equal(run->routing.n, LAYERS);
	assert_routing(run, 0, EXPERTS, 1, 0);
	run_free(run);
	run = load_run("second.mscope");
	assert_int_equal(run->routing.n, LAYERS);
	assert_routing(run, 2, EXPERTS, 3, 2);
	run_free(run);
}

/* A pause takes nothing from the step before it, and gives nothing to the one after it. */
static void paused(void)
{
	struct moescope_recorder *recorder;
	struct given given;

	make_given(EXPERTS, 1, 0, &given);
	start_at(MOESCOPE_COUNTS);
	recorder = opened(EXPERTS, 0, 0);
	CHECK(route_given(recorder, 0, &given) == 0);
	moescope_pause();
	CHECK(route_given(recorder, 0, &given) == 0); /* not recorded */
	CHECK(moescope_recorder_step(recorder, 1, STREAM) == 0);
	CHECK(moescope_recorder_flush(recorder) == 0);
	moescope_resume();
	route_step(recorder, EXPERTS, 2);
	moescope_stop();
	moescope_recorder_close(recorder);
	given_release(&given);
}

static void test_pause(void **state)
{
	struct run *run = run_of(paused);

	(void)state;
	assert_int_equal(run->routing.n, 1 + LAYERS);
	assert_routing(run, 0, EXPERTS, 1, 0);
	assert_routing(run, 1, EXPERTS, 2, 0);
	run_free(run);
}

/* A step that the device has not come to is recorded all the same when the recorder is closed. */
static void closes_early(void)
{
	struct moescope_recorder *recorder;
	struct given given;

	make_given(EXPERTS, 1, 0, &given);
	start_at(MOESCOPE_COUNTS);
	recorder = opened(EXPERTS, 0, 0);
	cuda->defer();
	CHECK(route_given(recorder, 0, &given) == 0);
	CHECK(moescope_recorder_step(recorder, 1, STREAM) == 0);
	CHECK(moescope_recorder_flush(recorder) == 0); /* does not wait for it */
	moescope_recorder_close(recorder);
	moescope_stop();
	given_release(&given);
}

static void test_close_waits_for_the_device(void **state)
{
	struct run *run = run_of(closes_early);

	(void)state;
	assert_int_equal(run->routing.n, 1);
	assert_routing(run, 0, EXPERTS, 1, 0);
	run_free(run);
}

/* The hook of another device's module runs with that device's context or with none. */
static void other_contexts(void)
{
	struct moescope_recorder *recorder;

	start_at(MOESCOPE_COUNTS);
	recorder = opened(EXPERTS, 0, 0);
	cuda->other_context();
	route_step(recorder, EXPERTS, 0);
	cuda->set_context(false);
	route_step(recorder, EXPERTS, 1);
	CHECK(moescope_recorder_gate(recorder, 1, STREAM) == 0);
	moescope_recorder_close(recorder);
	CHECK(cuda->live() == 0);
	moescope_stop();
}

static void test_other_contexts(void **state)
{
	struct run *run = run_of(other_contexts);

	(void)state;
	assert_int_equal(run->routing.n, 2 * LAYERS);
	run_free(run);
}

static void in_range(void)
{
	struct moescope_recorder *recorder;
	struct given given;
	struct moescope_device_routing routing = { .struct_size = sizeof(routing),
						   .experts = EXPERTS,
						   .k = K };

	make_given(EXPERTS, 0, 0, &given);
	routing.tokens = given.rows;
	routing.indices = given.slots;
	routing.indices_type = MOESCOPE_I64;
	start_at(MOESCOPE_TRACE);
	recorder = opened(EXPERTS, 0, 0);
	moescope_range_begin(moescope_intern("prefill"), -1, -1, MOESCOPE_PREFILL);
	CHECK(moescope_recorder_route(recorder, &routing) == 0);
	moescope_range_end();
	CHECK(moescope_recorder_step(recorder, -1, NULL) == 0);
	moescope_stop();
	moescope_recorder_close(recorder);
	given_release(&given);
}

static void test_phase_of_the_range(void **state)
{
	struct run *run = run_of(in_range);

	(void)state;
	assert_int_equal(run->routing.n, 1);
	assert_int_equal(run->routing.phase[0], MOESCOPE_PREFILL);
	/* Between the session's beginning and end, though the device's clock has another epoch. */
	assert_true(run->routing.time_ns[0] >= run->range.start_ns[0]);
	run_free(run);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(test_run_equals_recount),
		TEST(test_full_ring_drops_and_counts),
		TEST(test_gate),
		TEST(test_every_replay_is_recorded),
		TEST(test_sessions),
		TEST(test_pause),
		TEST(test_close_waits_for_the_device),
		TEST(test_other_contexts),
		TEST(test_phase_of_the_range),
	};

	prepare = use_fake;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
