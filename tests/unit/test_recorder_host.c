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

/* ---- many calls at once */

#define MANY 70
#define MOST_CALLS 80

struct some_call {
	uint32_t layer, rows;
	void *stream;
};

/* What one moescope_recorder_routes is given, and how many kernels that takes. */
static const struct calls_case {
	const char *name;
	struct some_call calls[MOST_CALLS]; /* the first with rows 0 ends them; none: all layers */
	uint32_t launches;
} calls_cases[] = {
	{ "one a layer, 62 and 8", { { 0 } }, 2 },
	{ "a layer twice",
	  { { 0, 3, STREAM }, { 1, 32, STREAM }, { 0, 30, STREAM }, { 2, 1, STREAM } },
	  2 },
	{ "one of many rows",
	  { { 0, 5, STREAM }, { 1, 100, STREAM }, { 2, 7, STREAM }, { 1, 4, STREAM } },
	  3 },
	{ "streams",
	  { { 0, 5, STREAM }, { 1, 6, (void *)0x8 }, { 2, 7, (void *)0x8 }, { 3, 1, STREAM } },
	  3 },
};
static const struct calls_case *wanted_calls;

/* The calls of a case; the same in the scenario and in its test. Their number. */
static size_t make_calls(const struct calls_case *c, struct some_call *calls, struct given *given)
{
	uint64_t seed = 17;
	size_t n = 0;

	while (c->calls[n].rows) {
		calls[n] = c->calls[n];
		n++;
	}
	if (!n)
		for (; n < MANY; n++)
			calls[n] = (struct some_call){ (uint32_t)n, 1 + any(&seed, 32), STREAM };
	for (size_t i = 0; i < n; i++) {
		given_random(&given[i], EXPERTS, K, calls[i].rows, 40, &seed);
		if (i % 2)
			given_weights(&given[i], &seed);
		if (i % 3 == 0)
			given_mask(&given[i], &seed);
		if (i % 5 == 0)
			given[i].valid = any(&seed, calls[i].rows + 1);
	}
	return n;
}

static void many_calls(void)
{
	struct moescope_device_routing routings[MOST_CALLS];
	struct some_call calls[MOST_CALLS];
	struct given given[MOST_CALLS];
	size_t n = make_calls(wanted_calls, calls, given);
	struct moescope_recorder *recorder;

	for (size_t i = 0; i < n; i++) {
		routings[i] = routing_of(calls[i].layer, &given[i]);
		routings[i].stream = calls[i].stream;
	}
	recorder = opened_for(MANY, EXPERTS, 50, 0);
	CHECK(moescope_recorder_routes(recorder, routings, n) == 0);
	CHECK(cuda->launches() == 0); /* nobody records */
	start_at(MOESCOPE_TRACE);
	for (int64_t step = 0; step < 2; step++) {
		CHECK(moescope_recorder_routes(recorder, routings, n) == 0);
		CHECK(moescope_recorder_routes(recorder, NULL, 0) == 0);
		CHECK(moescope_recorder_step(recorder, step, STREAM) == 0);
		CHECK(cuda->launches() == (wanted_calls->launches + 1) * (step + 1));
	}
	CHECK(moescope_recorder_flush(recorder) == 0);
	CHECK(!cuda->waited_for_program());
	moescope_stop();
	moescope_recorder_close(recorder);
	for (size_t i = 0; i < n; i++)
		given_release(&given[i]);
}

static void assert_calls(const struct run *run, const struct calls_case *c)
{
	struct some_call calls[MOST_CALLS];
	struct given given[MOST_CALLS];
	size_t n = make_calls(c, calls, given), row = 0;

	for (int64_t step = 0; step < 2; step++)
		for (uint32_t layer = 0; layer < MANY; layer++) {
			const struct table_routed *kept = &run->routed;
			struct recount want = { 0 };

			for (size_t i = 0; i < n; i++)
				if (calls[i].layer == layer)
					recount_add(&given[i], &want);
			if (!want.n_kept)
				continue;
			assert_int_equal(run->routing.step[row], step);
			assert_int_equal(run->routing.layer[row], layer);
			assert_counts(run, row, EXPERTS, &want);
			assert_int_equal(kept->layer[row], layer);
			assert_int_equal(kept->slots[row],
					 want.n_kept < 50 * K ? want.n_kept : 50 * K);
			assert_memory_equal(kept->expert + kept->expert_first[row], want.kept,
					    kept->slots[row] * sizeof(int32_t));
			recount_release(&want);
			row++;
		}
	assert_int_equal(run->routing.n, row);
	assert_int_equal(loss_total(&run->loss), 0);
	for (size_t i = 0; i < n; i++)
		given_release(&given[i]);
}

static void test_many_calls_at_once(void **state)
{
	for (size_t i = 0; i < sizeof(calls_cases) / sizeof(calls_cases[0]); i++) {
		struct run *run;

		print_message("%s\n", calls_cases[i].name);
		wanted_calls = &calls_cases[i];
		run = run_of(many_calls);
		assert_calls(run, wanted_calls);
		run_free(run);
		tear_down(state);
		set_up(state);
	}
}

/* In a graph, where each replay reads them again; with no slot left, each of them is a loss. */
static void many_replayed(void)
{
	struct moescope_device_routing routings[LAYERS];
	struct moescope_recorder *recorder;
	struct given given[LAYERS];
	uint64_t seed = 4;

	recorder = opened(EXPERTS, 0, 2);
	for (uint32_t layer = 0; layer < LAYERS; layer++) {
		given_random(&given[layer], EXPERTS, K, 2, 0, &seed);
		routings[layer] = routing_of(layer, &given[layer]);
	}
	cuda->capture(true);
	CHECK(moescope_recorder_routes(recorder, routings, LAYERS) == 0);
	CHECK(moescope_recorder_step(recorder, -1, STREAM) == 0);
	cuda->capture(false);
	CHECK(cuda->launches() == 2);
	start_at(MOESCOPE_COUNTS);
	cuda->replay();
	given[1].slots[0] = (given[1].slots[0] + 1) % EXPERTS;
	cuda->replay();
	CHECK(moescope_recorder_flush(recorder) == 0);
	CHECK(moescope_recorder_step(recorder, -1, STREAM) == 0); /* sees the free slots */
	cuda->hold(true);
	for (int i = 0; i < 5; i++)
		cuda->replay();
	cuda->hold(false);
	moescope_recorder_lost(recorder, 7); /* and these the program could not hand over */
	moescope_stop();
	moescope_recorder_lost(recorder, 100); /* nobody records */
	CHECK(moescope_start("second.mscope") == 0);
	CHECK(moescope_recorder_step(recorder, -1, STREAM) == 0);
	CHECK(moescope_recorder_routes(recorder, routings, LAYERS) == 0);
	CHECK(moescope_recorder_step(recorder, 0, STREAM) == 0);
	moescope_stop();
	for (uint32_t layer = 0; layer < LAYERS; layer++)
		given_release(&given[layer]);
	moescope_recorder_close(recorder);
}

static void test_many_calls_in_a_graph(void **state)
{
	struct run *run = run_of(many_replayed);
	uint32_t *before = run->routing.load + run->routing.load_first[1],
		 *after = run->routing.load + run->routing.load_first[LAYERS + 1];

	(void)state;
	assert_int_equal(run->routing.n, 4 * LAYERS);
	assert_int_equal(run->routing.tokens[1], 2);
	assert_memory_not_equal(before, after, EXPERTS * sizeof(*before));
	assert_int_equal(run->loss.dropped_device, 3 * LAYERS + 7);
	run_free(run);
	run = load_run("second.mscope"); /* has lost nothing of its own */
	assert_int_equal(run->routing.n, LAYERS);
	assert_int_equal(loss_total(&run->loss), 0);
	run_free(run);
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
		TEST(test_many_calls_at_once),
		TEST(test_many_calls_in_a_graph),
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
