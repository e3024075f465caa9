/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPU probe's beginning and end: what is off and why, every way for a process to end, fork,
 * a second session, a disk that is full. The libraries are the scripted ones of tests/fake.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "gpu_child.h"

/* What makes collection impossible, and what the run says of it. */
struct trouble {
	const char *library; /* NULL: the usual one */
	enum fake_call call;
	CUptiResult result;
	CUpti_ActivityKind kind;
	const char *says, *remedy;
};

static const struct trouble troubles[] = {
	{ .library = "/nonexistent/libcupti.so",
	  .says = "MOESCOPE_CUPTI is not a usable libcupti",
	  .remedy = "unset it: '/nonexistent/libcupti.so'" },
	{ .library = FAKE_CUPTI_OLD_PATH,
	  .says = "MOESCOPE_CUPTI is not a usable libcupti",
	  .remedy = "unset it" },
	{ .call = FAKE_ENABLE,
	  .result = CUPTI_ERROR_INSUFFICIENT_PRIVILEGES,
	  .says = "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES",
	  .remedy = "NVreg_RestrictProfilingToAdminUsers=0" },
	/* Half way: what was enabled before must not stay so. */
	{ .call = FAKE_ENABLE,
	  .result = CUPTI_ERROR_INSUFFICIENT_PRIVILEGES,
	  .kind = CUPTI_ACTIVITY_KIND_MEMSET,
	  .says = "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES",
	  .remedy = "NVreg_RestrictProfilingToAdminUsers=0" },
	{ .call = FAKE_REGISTER,
	  .result = CUPTI_ERROR_NOT_INITIALIZED,
	  .says = "CUPTI_ERROR_NOT_INITIALIZED",
	  .remedy = "MOESCOPE_CUPTI" },
	{ .call = FAKE_REGISTER,
	  .result = CUPTI_ERROR_UNKNOWN,
	  .says = "unknown error",
	  .remedy = "MOESCOPE_CUPTI" },
};
static const struct trouble *trouble;

static void in_trouble(void)
{
	if (trouble->library)
		setenv("MOESCOPE_CUPTI", trouble->library, 1);
	cupti->refuse(trouble->call, trouble->result, trouble->kind);
	start_at(MOESCOPE_FULL);
	CHECK(cupti->state().kinds == 0);
	moescope_mark("the program works on");
	CHECK(nvml->wait_readings(1));
	moescope_stop();
}

static void test_trouble(void **state)
{
	for (size_t i = 0; i < sizeof(troubles) / sizeof(troubles[0]); i++) {
		struct run *run;
		const char *fact;

		trouble = &troubles[i];
		run = run_of(in_trouble);
		fact = fact_of(run, "GPU");
		assert_non_null(fact);
		assert_ptr_equal(strstr(fact, "GPU collection off"), fact);
		if (!strstr(fact, trouble->says) || !strstr(fact, trouble->remedy))
			fail_msg("\"%s\" lacks \"%s\" or \"%s\"", fact, trouble->says,
				 trouble->remedy);
		assert_int_equal(run->mark.n, 1);
		assert_true(run->sample.n > 0);
		assert_int_equal(run->kernel.n, 0);
		assert_int_equal(loss_total(&run->loss), 0);
		run_free(run);
		tear_down(state);
		set_up(state);
	}
}

/* The program goes on, and at the end of one of its calls all is off. */
static void until_off(void)
{
	while (cupti->state().kinds)
		cupti->call(CUPTI_CB_DOMAIN_RUNTIME_API,
			    CUPTI_RUNTIME_TRACE_CBID_cudaEventRecord_v3020);
}

/* Threads of ours need no descriptors: a program may have used up its own. */
static void no_descriptor(void)
{
	struct moescope_options options = { .struct_size = sizeof(options) };
	struct rlimit limit, none;

	CHECK(moescope_start_with("run.mscope", &options) == 0);
	CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	none = limit;
	none.rlim_cur = 0;
	CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
	driver_injects();
	CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	CHECK(cupti->state().registered == 1);
	deliver_kernels(0, 1, 10);
	moescope_stop();
}

static void test_no_descriptor(void **state)
{
	struct run *run = run_of(no_descriptor);

	(void)state;
	assert_int_equal(run->kernel.n, 10);
	assert_int_equal(loss_total(&run->loss), 0);
	run_free(run);
}

static void flush_fails(void)
{
	start_at(MOESCOPE_TRACE);
	cupti->refuse(FAKE_FLUSH_ALL, CUPTI_ERROR_UNKNOWN, CUPTI_ACTIVITY_KIND_INVALID);
	cupti->refuse(FAKE_TIMESTAMP, CUPTI_ERROR_UNKNOWN, CUPTI_ACTIVITY_KIND_INVALID);
	CHECK(cupti->wait_flushes(1));
	deliver_kernels(0, 1, 10);
	moescope_stop();
}

static void test_flush_fails(void **state)
{
	struct run *run = run_of(flush_fails);

	(void)state;
	assert_kernels(run, 10);
	assert_int_equal(run->kernel.duration_ns[0], 100);
	run_free(run);
}

/* Ten kernels that CUPTI has delivered and ten that it still holds. */
static void deliver_and_hold(void)
{
	struct fake_record records[10];

	deliver_kernels(0, 1, 10);
	for (uint32_t i = 0; i < 10; i++)
		records[i] = kernel_record("some_kernel", 11 + i);
	cupti->hold(records, 10, 0);
}

static int returns(void)
{
	use_fakes();
	driver_injects();
	deliver_and_hold();
	return 0;
}

static void exec_returns(void)
{
	CHECK(mkdir("run.mscope", 0755) == 0);
	setenv("MOESCOPE_RUN", "run.mscope", 1);
	execl("/proc/self/exe", "test_gpu_life", "returns", NULL);
	CHECK(!"exec");
}

static void exits(void)
{
	start_at(MOESCOPE_TRACE);
	deliver_and_hold();
	exit(0);
}

static void exits_at_once(void)
{
	start_at(MOESCOPE_TRACE);
	deliver_kernels(0, 1, 10);
	_exit(0);
}

static void is_killed(void)
{
	start_at(MOESCOPE_TRACE);
	deliver_kernels(0, 1, 10);
	raise(SIGKILL);
}

static void test_exits(void **state)
{
	static const struct {
		void (*scenario)(void);
		int status;
		size_t kernels;
		enum shard_state shard;
	} ways[] = {
		{ exec_returns, 0, 20, SHARD_CLOSED },
		{ exits, 0, 20, SHARD_CLOSED },
		{ exits_at_once, 0, 10, SHARD_CRASHED },
		{ is_killed, -SIGKILL, 10, SHARD_CRASHED },
	};

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		struct run *run;

		assert_int_equal(in_child(ways[i].scenario), ways[i].status);
		run = load_run("run.mscope");
		assert_kernels(run, ways[i].kernels);
		assert_int_equal(run->shards[0].state, ways[i].shard);
		assert_int_equal(loss_total(&run->loss), 0);
		run_free(run);
		tear_down(state);
		set_up(state);
	}
}

static struct fake_state at_fork;

/* Buffers of threads that a fork leaves behind are no leak. */
static void end_before_leak_check(void)
{
	if (SANITIZED)
		_exit(5);
}

/* Runs in the child after the probe's own handlers. */
static void nothing_was_called(void)
{
	struct fake_state now = cupti->state();

	CHECK(now.flushes == at_fork.flushes && now.kinds == at_fork.kinds);
}

static void forks(void)
{
	int status;
	pid_t pid;

	CHECK(atexit(end_before_leak_check) == 0);
	CHECK(atexit(nothing_was_called) == 0);
	start_at(MOESCOPE_TRACE);
	deliver_kernels(0, 1, 10);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		at_fork = cupti->state();
		CHECK(!moescope_recording());
		moescope_mark("unrecorded");
		moescope_stop();
		exit(5);
	}
	deliver_kernels(0, 11, 10);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 5);
	deliver_kernels(0, 21, 10);
	moescope_stop();
}

static void test_fork(void **state)
{
	struct run *run = run_of(forks);

	(void)state;
	assert_int_equal(run->n_shards, 1);
	assert_kernels(run, 30);
	assert_int_equal(run->mark.n, 0);
	assert_int_equal(run->shards[0].state, SHARD_CLOSED);
	assert_int_equal(run->loss.dropped_in_child, 1);
	assert_int_equal(loss_total(&run->loss), 1);
	run_free(run);
}

static _Atomic bool enough;
static _Atomic uint32_t rounds; /* of 100 kernels, delivered */

static void *deliver_until_enough(void *arg)
{
	while (!enough) {
		deliver_kernels((unsigned int)(uintptr_t)arg, 1 + rounds * 100, 100);
		rounds++;
	}
	return NULL;
}

#define FORKS 20

/* Whatever CUPTI's thread is in the middle of, the children come to their end. */
static void forks_under_load(void)
{
	pthread_t thread;

	CHECK(atexit(end_before_leak_check) == 0);
	start_at(MOESCOPE_TRACE);
	CHECK(pthread_create(&thread, NULL, deliver_until_enough, NULL) == 0);
	for (int i = 0; i < FORKS; i++) {
		uint32_t from = rounds;
		pid_t pid = fork();
		int status;

		CHECK(pid >= 0);
		if (pid == 0) {
			alarm(100);
			CHECK(!moescope_recording());
			moescope_mark("unrecorded");
			exit(5);
		}
		CHECK(waitpid(pid, &status, 0) == pid);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
		while (rounds == from)
			sched_yield();
	}
	enough = true;
	pthread_join(thread, NULL);
	CHECK(rounds >= FORKS);
	moescope_counter("rounds", rounds);
	moescope_stop();
}

/* The GPU thread does not keep the process alive. (A thread of CUPTI's does, as one of CUDA's does
 * without the profiler.) */
static void main_thread_ends(void)
{
	start_at(MOESCOPE_TRACE);
	moescope_mark("main");
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
	assert_int_equal(run->mark.n, 1);
	assert_true(run->sample.n > 0); /* that thread's */
	assert_int_equal(run->shards[0].state, SHARD_CLOSED);
	run_free(run);
}

static void test_forks_under_load(void **state)
{
	struct run *run = run_of(forks_under_load);

	(void)state;
	assert_int_equal(run->n_shards, 1);
	assert_int_equal(run->counter.n, 1);
	assert_kernels(run, (size_t)run->counter.value[0] * 100);
	assert_int_equal(run->mark.n, 0);
	assert_int_equal(run->loss.dropped_in_child, FORKS);
	assert_int_equal(loss_total(&run->loss), FORKS);
	run_free(run);
}

static _Atomic uint32_t *acknowledged; /* kernels, seen by the test too */
static uint32_t kill_at;

static void *kill_in_time(void *arg)
{
	(void)arg;
	while (*acknowledged < kill_at)
		sched_yield();
	raise(SIGKILL);
	return NULL;
}

static void killed_under_load(void)
{
	pthread_t thread;

	start_at(MOESCOPE_TRACE);
	CHECK(pthread_create(&thread, NULL, kill_in_time, NULL) == 0);
	for (;;) {
		deliver_kernels(0, 1 + *acknowledged, 64);
		*acknowledged += 64;
	}
}

#define KILLS 10

static void test_killed_under_load(void **state)
{
	acknowledged = mmap(NULL, sizeof(*acknowledged), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(acknowledged, MAP_FAILED);
	for (uint32_t i = 0; i < KILLS; i++) {
		struct run *run;

		*acknowledged = 0;
		kill_at = 64 + i * i * 3000;
		assert_int_equal(in_child(killed_under_load), -SIGKILL);
		run = load_run("run.mscope");
		assert_true(run->kernel.n >= *acknowledged);
		assert_kernels(run, run->kernel.n);
		assert_int_equal(loss_total(&run->loss), 0);
		run_free(run);
		tear_down(state);
		set_up(state);
	}
	munmap(acknowledged, sizeof(*acknowledged));
}

static void starts_again(void)
{
	start_in("first.mscope", MOESCOPE_FULL);
	deliver_kernels(0, 1, 10);
	cupti->drop(3);
	cupti->deliver_empty();
	moescope_stop();
	start_at(MOESCOPE_TRACE);
	CHECK(cupti->state().kinds != 0);
	deliver_kernels(0, 1, 20);
	moescope_stop();
	/* Nothing stays switched on: that would slow the program down. */
	until_off();
}

static void test_starts_again(void **state)
{
	struct run *run = run_of(starts_again);

	(void)state;
	assert_kernels(run, 20);
	assert_int_equal(loss_total(&run->loss), 0); /* the first session's are its own */
	run_free(run);
	run = load_run("first.mscope");
	assert_kernels(run, 10);
	assert_int_equal(run->loss.dropped_device, 3);
	run_free(run);
}

#define SESSIONS 5

/* Sessions come and go under CUPTI's threads, which never stop delivering. */
static void starts_under_load(void)
{
	pthread_t threads[2];
	char name[32];

	start_in("first.mscope", MOESCOPE_TRACE);
	for (uintptr_t i = 0; i < 2; i++)
		CHECK(pthread_create(&threads[i], NULL, deliver_until_enough, (void *)i) == 0);
	for (int i = 0; i < SESSIONS; i++) {
		uint32_t from;

		moescope_stop();
		snprintf(name, sizeof(name), "%d.mscope", i);
		start_in(name, MOESCOPE_TRACE);
		for (from = rounds; rounds < from + 4;)
			sched_yield();
	}
	enough = true;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	moescope_stop();
}

static void test_starts_under_load(void **state)
{
	(void)state;
	assert_int_equal(in_child(starts_under_load), 0);
	for (int i = 0; i < SESSIONS; i++) {
		char name[32];
		struct run *run;

		snprintf(name, sizeof(name), "%d.mscope", i);
		run = load_run(name);
		assert_true(run->kernel.n >= 100);
		for (size_t k = 0; k < run->kernel.n; k++)
			assert_string_equal(
				run_string(run, run_launch(run, run->kernel.launch[k]).name),
				"some_kernel");
		assert_int_equal(run->loss.bad_references, 0);
		run_free(run);
	}
}

#define MANY 300000u /* more than the buffer of a delivering thread holds */

/* The shard cannot grow: the program must not wait for room that will not come. */
static void disk_is_full(void)
{
	struct rlimit limit;
	time_t started = time(NULL);

	start_at(MOESCOPE_TRACE);
	deliver_kernels(0, 1, 10);
	signal(SIGXFSZ, SIG_IGN);
	CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
	limit.rlim_cur = SHARD_HEADER_BYTES; /* its counters still can be written */
	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	deliver_kernels(0, 11, MANY - 10);
	moescope_stop();
	CHECK(time(NULL) < started + 60);
}

static void test_disk_is_full(void **state)
{
	struct run *run = run_of(disk_is_full);

	(void)state;
	assert_true(run->loss.dropped_ring_full > 0);
	assert_true(run->kernel.n > 100000);
	assert_int_equal(run->kernel.n + run->loss.dropped_ring_full, MANY);
	assert_true(run->loss.write_errors > 0);
	run_free(run);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(test_trouble),
		TEST(test_main_thread_ends),
		TEST(test_no_descriptor),
		TEST(test_flush_fails),
		TEST(test_exits),
		TEST(test_fork),
		TEST(test_forks_under_load),
		TEST(test_killed_under_load),
		TEST(test_starts_again),
		TEST(test_starts_under_load),
		TEST(test_disk_is_full),
	};

	if (argc > 1 && !strcmp(argv[1], "returns"))
		return returns();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
