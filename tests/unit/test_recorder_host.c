/* SPDX-License-Identifier: Apache-2.0
 *
 * The recorder as a whole against a scripted driver that runs its kernels: what is in the run equals
 * an independent count; drops, graphs, sessions, forks, a driver that goes away, bad input.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <dlfcn.h>

#include "fake_recorder_cuda.h"
#include "probe_child.h"
#include "recount.h"

#define LAYERS 3
#define EXPERTS 16
#define K 4
#define STEPS 20
#define STREAM ((void *)0x7)

static const struct fake_recorder_cuda *cuda;

static void use_fake(void)
{
	void *library;

	CHECK(setenv("MOESCOPE_CUDA", FAKE_RECORDER_CUDA_PATH, 1) == 0);
	CHECK(setenv("MOESCOPE_NVRTC", FAKE_RECORDER_CUDA_PATH, 1) == 0);
	library = dlopen(FAKE_RECORDER_CUDA_PATH, RTLD_NOW);
	CHECK(library);
	cuda = dlsym(library, "fake_recorder_cuda");
	CHECK(cuda);
}

static struct moescope_recorder *opened(uint32_t experts, uint64_t tokens, uint32_t slots)
{
	struct moescope_recorder_options options = { .struct_size = sizeof(options),
						     .layers = LAYERS,
						     .experts = experts,
						     .k = K,
						     .tokens = tokens,
						     .slots = slots,
						     .weights = 1 };
	struct moescope_recorder *recorder = NULL;
	int r = moescope_recorder_open(&options, &recorder);

	if (r != 0)
		fprintf(stderr, "%s\n", moescope_recorder_words());
	CHECK(r == 0);
	CHECK(moescope_recorder_words()[0] == '\0');
	return recorder;
}

/* The call of a layer and step, the same in the scenario and in its test. */
static void make_given(uint32_t experts, int64_t step, uint32_t layer, struct given *given)
{
	uint64_t seed = (uint64_t)step * 31 + layer + 1;

	given_random(given, experts, K, 1 + any(&seed, 400), 12, &seed);
	if (step % 2)
		given_weights(given, &seed);
	if (step % 3 == 0)
		given_mask(given, &seed);
}

static int route_given(struct moescope_recorder *recorder, uint32_t layer,
		       const struct given *given)
{
	struct moescope_device_routing routing = { .struct_size = sizeof(routing),
						   .layer = (int32_t)layer,
						   .phase = MOESCOPE_DECODE,
						   .experts = given->experts,
						   .k = given->k,
						   .tokens = given->rows,
						   .indices = given->slots,
						   .indices_type = MOESCOPE_I64,
						   .weights_type = MOESCOPE_F32,
						   .weights = given->weights,
						   .valid = &given->valid,
						   .mask = given->mask,
						   .stream = STREAM };

	return moescope_recorder_route(recorder, &routing);
}

static void route_step(struct moescope_recorder *recorder, uint32_t experts, int64_t step)
{
	for (uint32_t layer = 0; layer < LAYERS; layer++) {
		struct given given;

		make_given(experts, step, layer, &given);
		CHECK(route_given(recorder, layer, &given) == 0);
		given_release(&given);
	}
	CHECK(moescope_recorder_step(recorder, step, STREAM) == 0);
}

static void assert_routing(const struct run *run, size_t row, uint32_t experts, int64_t step,
			   uint32_t layer)
{
	const struct table_routing *t = &run->routing;
	struct recount want = { 0 };
	struct given given;

	make_given(experts, step, layer, &given);
	recount_add(&given, &want);
	assert_int_equal(t->step[row], step);
	assert_int_equal(t->layer[row], layer);
	assert_int_equal(t->phase[row], MOESCOPE_DECODE);
	assert_int_equal(t->k[row], K);
	assert_int_equal(t->experts[row], experts);
	assert_int_equal(t->tokens[row], want.tokens);
	assert_int_equal(t->padding[row], want.padding);
	assert_int_equal(t->unused[row], want.unused);
	assert_int_equal(t->dropped[row], want.dropped);
	assert_int_equal(t->invalid[row], want.invalid);
	assert_int_equal(t->weighted_tokens[row], want.weighted);
	assert_near(t->confidence_sum[row], want.confidence);
	assert_memory_equal(t->load + t->load_first[row], want.load, experts * 4);
	assert_memory_equal(t->k_hist + t->k_hist_first[row], want.k_hist, (K + 1) * 4);
	assert_true(t->time_ns[row] > 0);
	given_release(&given);
	recount_release(&want);
}

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

/* ---- endings */

static void forks(void)
{
	struct moescope_recorder *recorder;
	int status;
	pid_t pid;

	start_at(MOESCOPE_COUNTS);
	recorder = opened(EXPERTS, 0, 0);
	route_step(recorder, EXPERTS, 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		struct moescope_recorder_options options = {
			.struct_size = sizeof(options), .layers = 1, .experts = 4, .k = 1
		};
		struct moescope_recorder *another;
		unsigned int before = cuda->calls();

		CHECK(moescope_recorder_step(recorder, 1, STREAM) == -ENOTSUP);
		CHECK(strstr(moescope_recorder_words(), "fork"));
		CHECK(moescope_recorder_flush(recorder) == -ENOTSUP);
		CHECK(moescope_recorder_open(&options, &another) == -ENOTSUP);
		moescope_recorder_close(recorder);
		moescope_stop();
		CHECK(cuda->calls() == before);
#ifdef __SANITIZE_ADDRESS__
		_exit(0); /* a forked child leaves the session's memory alone, which is a leak there */
#else
		exit(0);
#endif
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	route_step(recorder, EXPERTS, 1);
	moescope_recorder_close(recorder);
	moescope_stop();
}

static void test_fork(void **state)
{
	struct run *run = run_of(forks);

	(void)state;
	assert_int_equal(run->routing.n, 2 * LAYERS);
	run_free(run);
}

/* Nothing is closed or stopped. */
static void just_exits(void)
{
	start_at(MOESCOPE_COUNTS);
	route_step(opened(EXPERTS, 0, 0), EXPERTS, 0);
	exit(0);
}

static void test_exit_records(void **state)
{
	struct run *run = run_of(just_exits);

	(void)state;
	assert_int_equal(run->routing.n, LAYERS);
	assert_routing(run, 1, EXPERTS, 0, 1);
	run_free(run);
}

/* The driver ends first. */
static void exits_without_driver(void)
{
	struct moescope_recorder *recorder;

	start_at(MOESCOPE_COUNTS);
	recorder = opened(EXPERTS, 0, 0);
	cuda->hold(true);
	route_step(recorder, EXPERTS, 0);
	CHECK(cuda->wait_queries(2)); /* a copy is under way */
	cuda->fail_call("*", CUDA_ERROR_DEINITIALIZED);
	CHECK(moescope_recorder_flush(recorder) == -EIO);
	CHECK(moescope_recorder_words()[0]);
	moescope_stop();
	exit(0);
}

static void closes_without_driver(void)
{
	struct moescope_recorder *recorder;

	start_at(MOESCOPE_COUNTS);
	recorder = opened(EXPERTS, 0, 0);
	cuda->fail_call("*", CUDA_ERROR_DEINITIALIZED);
	CHECK(moescope_recorder_step(recorder, 0, STREAM) == -EIO);
	CHECK(strstr(moescope_recorder_words(), "CUDA_ERROR_DEINITIALIZED"));
	moescope_recorder_close(recorder);
	moescope_stop();
	exit(0);
}

static void test_driver_gone(void **state)
{
	(void)state;
	assert_int_equal(in_child(exits_without_driver), 0);
	tear_down(state);
	set_up(state);
	assert_int_equal(in_child(closes_without_driver), 0);
}

/* ---- bad input */

static void refused(const struct moescope_recorder_options *options, int error, const char *word)
{
	struct moescope_recorder *recorder = (void *)&recorder;
	int r = moescope_recorder_open(options, &recorder);

	if (r != error || !strstr(moescope_recorder_words(), word))
		fprintf(stderr, "%d: %s\n", r, moescope_recorder_words());
	CHECK(r == error && strstr(moescope_recorder_words(), word));
	CHECK(recorder == (void *)&recorder);
	CHECK(cuda->live() == 0);
}

static void opens_badly(void)
{
	const struct moescope_recorder_options good = { .struct_size = sizeof(good),
							.layers = 2,
							.experts = 8,
							.k = 2,
							.tokens = 10,
							.weights = 1 };
	struct moescope_recorder_options bad = good;
	struct moescope_recorder *recorder;
	/* Each of what opening calls. */
	static const char *const calls[] = { "cuCtxGetDevice",
					     "cuDeviceGetAttribute",
					     "cuThreadExchangeStreamCaptureMode",
					     "cuModuleLoadData",
					     "cuModuleGetFunction",
					     "cuMemAlloc_v2",
					     "cuMemHostAlloc",
					     "cuMemHostGetDevicePointer_v2",
					     "cuMemsetD32Async",
					     "cuStreamCreate",
					     "cuStreamSynchronize",
					     "cuEventCreate" };

	bad.layers = 1025;
	refused(&bad, -EINVAL, "layers");
	bad = good;
	bad.experts = 1025;
	refused(&bad, -EINVAL, "experts");
	bad = good;
	bad.k = 9;
	refused(&bad, -EINVAL, "k is 9");
	bad = good;
	bad.struct_size--;
	refused(&bad, -EINVAL, "struct_size");
	refused(NULL, -EINVAL, "struct_size");
	CHECK(moescope_recorder_open(&good, NULL) == -EINVAL);
	cuda->set_context(false);
	refused(&good, -ENOTSUP, "context");
	cuda->set_context(true);
	cuda->fail_call("nvrtcCompileProgram", CUDA_ERROR_UNKNOWN);
	refused(&good, -ENOTSUP, "line 1: trouble");
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		cuda->fail_call(calls[i], CUDA_ERROR_UNKNOWN);
		refused(&good, -EIO, i == 1 ? "" : calls[i]);
	}
	cuda->fail_call("cuMemAlloc_v2", CUDA_ERROR_OUT_OF_MEMORY);
	refused(&good, -ENOMEM, "fewer slots");
	cuda->fail_call(NULL, CUDA_SUCCESS);
	CHECK(moescope_recorder_open(&good, &recorder) == 0);
	moescope_recorder_close(recorder);
	CHECK(cuda->live() == 0);
}

static void without_libraries(void)
{
	const struct moescope_recorder_options good = {
		.struct_size = sizeof(good), .layers = 2, .experts = 8, .k = 2
	};

	CHECK(setenv("MOESCOPE_CUDA", "/nowhere/libcuda.so", 1) == 0);
	refused(&good, -ENOTSUP, "NVIDIA driver");
	CHECK(setenv("MOESCOPE_CUDA", FAKE_RECORDER_CUDA_PATH, 1) == 0);
	CHECK(setenv("MOESCOPE_NVRTC", "/nowhere/libnvrtc.so", 1) == 0);
	refused(&good, -ENOTSUP, "nvidia-cuda-nvrtc");
}

static void routes_badly(void)
{
	struct moescope_recorder *recorder = opened(8, 0, 0);
	int64_t indices[4] = { 0 };
	const struct moescope_device_routing good = { .struct_size = sizeof(good),
						      .experts = 8,
						      .k = 2,
						      .tokens = 2,
						      .indices = indices,
						      .indices_type = MOESCOPE_I64 };
	struct moescope_device_routing bad;

#define REFUSED(change, word)                                                                      \
	do {                                                                                       \
		bad = good;                                                                        \
		bad.change;                                                                        \
		CHECK(moescope_recorder_route(recorder, &bad) == -EINVAL);                         \
		CHECK(strstr(moescope_recorder_words(), word));                                    \
	} while (0)

	start_at(MOESCOPE_COUNTS);
	KEEPS(CHECK(moescope_recorder_route(recorder, &good) == 0));
	REFUSED(layer = LAYERS, "3 layers");
	REFUSED(layer = -1, "layer -1");
	REFUSED(experts = 9, "opened for 8");
	REFUSED(k = 5, "k 5");
	REFUSED(k = 1, "before");
	REFUSED(indices = NULL, "NULL");
	REFUSED(indices_type = MOESCOPE_F32, "indices_type");
	REFUSED(tokens = UINT64_MAX, "tokens");
	REFUSED(struct_size = 8, "struct_size");
	bad = good;
	bad.weights = indices;
	bad.weights_type = MOESCOPE_I64;
	CHECK(moescope_recorder_route(recorder, &bad) == -EINVAL);
	CHECK(moescope_recorder_route(recorder, NULL) == -EINVAL);
	CHECK(moescope_recorder_route(NULL, &good) == -EINVAL);
	CHECK(moescope_recorder_step(NULL, 0, NULL) == -EINVAL);
	CHECK(moescope_recorder_flush(NULL) == -EINVAL);
	moescope_recorder_close(NULL);
	cuda->fail_call("cuLaunchKernel", CUDA_ERROR_LAUNCH_FAILED);
	CHECK(moescope_recorder_route(recorder, &good) == -EIO);
	cuda->fail_call(NULL, CUDA_SUCCESS);
	bad = good;
	bad.tokens = 0;
	CHECK(moescope_recorder_route(recorder, &bad) == 0);
	CHECK(moescope_recorder_words()[0] == '\0');
	moescope_recorder_close(recorder);
	moescope_stop();
}

static void test_bad_input(void **state)
{
	(void)state;
	assert_int_equal(in_child(opens_badly), 0);
	assert_int_equal(in_child(without_libraries), 0);
	assert_int_equal(in_child(routes_badly), 0);
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
		TEST(test_close_waits_for_the_device),
		TEST(test_other_contexts),
		TEST(test_phase_of_the_range),
		TEST(test_fork),
		TEST(test_exit_records),
		TEST(test_driver_gone),
		TEST(test_bad_input),
	};

	prepare = use_fake;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
