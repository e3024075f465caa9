/* SPDX-License-Identifier: Apache-2.0
 *
 * How the recorder ends and what it refuses, behind a scripted driver: forks, exits, a driver that
 * goes away, bad input.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "recorder_child.h"

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

/* The recorder's thread does not keep the process alive, with a session or after it. */
static void main_thread_ends(void)
{
	start_at(MOESCOPE_COUNTS);
	route_step(opened(EXPERTS, 0, 0), EXPERTS, 0);
	pthread_exit(NULL);
}

static void main_thread_ends_after_stop(void)
{
	start_at(MOESCOPE_COUNTS);
	route_step(opened(EXPERTS, 0, 0), EXPERTS, 0);
	moescope_stop();
	pthread_exit(NULL);
}

static void test_main_thread_ends(void **state)
{
	struct run *run;

	(void)state;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
	skip(); /* one has a thread that goes on, the other misses what main's stack held */
#endif
	run = run_of(main_thread_ends);
	assert_int_equal(run->routing.n, LAYERS);
	assert_int_equal(run->shards[0].state, SHARD_CLOSED);
	run_free(run);
	tear_down(state);
	set_up(state);
	run = run_of(main_thread_ends_after_stop);
	assert_int_equal(run->routing.n, LAYERS);
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
	bad.struct_size = 0;
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
	bad = good; /* of a header that had no tokens yet */
	bad.struct_size = offsetof(struct moescope_recorder_options, tokens);
	bad.tokens = UINT64_MAX;
	CHECK(moescope_recorder_open(&bad, &recorder) == 0);
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
	struct moescope_device_routing bad, mixed[3];

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
	REFUSED(layer = -1, "layer is -1");
	REFUSED(experts = 9, "recorder has 8");
	REFUSED(k = 5, "k is 5");
	REFUSED(k = 1, "before");
	REFUSED(indices = NULL, "NULL");
	REFUSED(indices_type = MOESCOPE_F32, "indices_type");
	REFUSED(tokens = UINT64_MAX, "tokens");
	REFUSED(struct_size = 0, "struct_size");
	REFUSED(struct_size = 8, "experts");
	bad = good;
	bad.weights = indices;
	bad.weights_type = MOESCOPE_I64;
	CHECK(moescope_recorder_route(recorder, &bad) == -EINVAL);
	CHECK(moescope_recorder_route(recorder, NULL) == -EINVAL);
	CHECK(moescope_recorder_route(NULL, &good) == -EINVAL);
	CHECK(moescope_recorder_step(NULL, 0, NULL) == -EINVAL);
	CHECK(moescope_recorder_flush(NULL) == -EINVAL);
	moescope_recorder_close(NULL);
	mixed[0] = mixed[1] = mixed[2] = good;
	mixed[0].layer = -7;
	mixed[1].experts = 9;
	mixed[2].layer = 2;
	KEEPS(CHECK(moescope_recorder_routes(recorder, mixed, 3) == -EINVAL));
	CHECK(strstr(moescope_recorder_words(),
		     "layer is -7")); /* the first; the last is counted */
	CHECK(cuda->launches() == 2);
	mixed[0].layer = 1;
	mixed[1].struct_size -= 8;
	CHECK(moescope_recorder_routes(recorder, mixed, 3) == -EINVAL);
	CHECK(strstr(moescope_recorder_words(), "struct_size"));
	CHECK(cuda->launches() == 3);
	CHECK(moescope_recorder_routes(recorder, NULL, 1) == -EINVAL);
	CHECK(moescope_recorder_routes(NULL, &good, 1) == -EINVAL);
	moescope_recorder_lost(NULL, 1);
	cuda->fail_call("cuLaunchKernel", CUDA_ERROR_LAUNCH_FAILED);
	CHECK(moescope_recorder_route(recorder, &good) == -EIO);
	CHECK(moescope_recorder_routes(recorder, &good, 1) == -EIO);
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
		TEST(test_fork),	TEST(test_exit_records), TEST(test_main_thread_ends),
		TEST(test_driver_gone), TEST(test_bad_input),
	};

	prepare = use_fake;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
