/* SPDX-License-Identifier: Apache-2.0
 *
 * Device records as sessions, schedules and pauses want them, what a session keeps of them, and
 * how it ends. The scripted CUPTI ends the test when a real program would end.
 */
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gears_child.h"

/* One kernel with this correlation. */
static void launch(uint32_t correlation)
{
	struct fake_record record = kernel_record("some_kernel", correlation);

	cupti->deliver(0, &record, 1, 0);
}

static bool has_kernel(const struct run *run, uint32_t correlation)
{
	for (size_t i = 0; i < run->kernel.n; i++)
		if (run->kernel.correlation[i] == correlation)
			return true;
	return false;
}

static void scheduled(void)
{
	struct moescope_schedule schedule = {
		.struct_size = sizeof(schedule), .wait = 2, .warmup = 1, .active = 2, .repeat = 2
	};

	moescope_set_schedule(&schedule);
	start_at(MOESCOPE_TRACE);
	CHECK(cupti->state().kinds == 0);
	for (uint32_t step = 0; step < 14; step++) {
		bool wanted = step < 10 && step % 5 >= 2;

		moescope_step_begin(step);
		/* On when the step begins; off soon after the last that wants it. */
		enough = step / 5 < 2 ? step / 5 : 2;
		CHECK(wanted ? cupti->state().kinds != 0 : runs_until(is_finalized_enough));
		launch(step + 1);
		moescope_step_end(1);
	}
	moescope_stop();
	CHECK(cupti->state().finalized == 2);
}

static void test_schedule(void **state)
{
	struct run *run = gears_of(scheduled);

	(void)state;
	assert_int_equal(run->kernel.n, 6);
	for (uint32_t step = 0; step < 14; step++)
		assert_int_equal(has_kernel(run, step + 1), step < 10 && step % 5 >= 2);
	assert_int_equal(run->gear.n, 4);
	for (size_t i = 0; i < 4; i += 2) {
		assert_gear(run, i, GEAR_ALWAYS, 1, "the schedule starts");
		assert_gear(run, i + 1, GEAR_NONE, 0, "outside the schedule");
	}
	assert_non_null(strstr(fact_of(run, "GPU"), "when the schedule asks"));
	assert_int_equal(loss_total(&run->loss), 0);
	run_free(run);
}

static void pauses(void)
{
	start_at(MOESCOPE_TRACE);
	launch(1);
	moescope_pause();
	CHECK(runs_until(is_off));
	enough = 1;
	CHECK(runs_until(is_finalized_enough));
	launch(2);
	moescope_resume();
	CHECK(cupti->state().kinds != 0);
	launch(3);
	/* Again and again, faster than it can go. */
	for (uint32_t i = 0; i < 20; i++) {
		moescope_pause();
		if (i % 2) /* it is on its way */
			CHECK(runs_until(is_off));
		moescope_resume();
		CHECK(cupti->state().kinds != 0);
		launch(4 + i);
	}
	moescope_stop();
}

static void test_pauses(void **state)
{
	struct run *run = gears_of(pauses);

	(void)state;
	assert_int_equal(run->kernel.n, 22);
	assert_false(has_kernel(run, 2));
	assert_gear(run, 0, GEAR_ALWAYS, 1, "no budget");
	assert_gear(run, 1, GEAR_NONE, 0, "paused");
	assert_gear(run, 2, GEAR_ALWAYS, 1, "a pause ends");
	assert_gear(run, run->gear.n - 1, GEAR_NONE, 0, "the session ends");
	for (size_t i = 1; i < run->gear.n; i++)
		assert_int_equal(run->gear.attached[i], i % 2 == 0);
	assert_int_equal(loss_total(&run->loss), 0);
	run_free(run);
}

static void replay_until(unsigned int finalized)
{
	const struct timespec moment = { .tv_nsec = 1000000 };

	for (int i = 0; i < 20000 && cupti->state().finalized < finalized; i++) {
		cupti->launch_graph();
		nanosleep(&moment, NULL);
	}
	CHECK(cupti->state().finalized == finalized);
}

static sem_t inside_call, graph_launched;

static void *calls_for_a_while(void *arg)
{
	const struct timespec moment = { .tv_nsec = 1000000 };

	/* Beside a call the launch itself is no moment to detach. */
	cupti->enter(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel);
	sem_post(&inside_call);
	sem_wait(&graph_launched);
	cupti->leave(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel);
	for (int i = 0; i < 800; i++) {
		call_once();
		nanosleep(&moment, NULL);
	}
	return arg;
}

/* Records are on until the moment at which it is detached, and the row says when that was. */
static void leaves_slowly(void)
{
	start_at(MOESCOPE_TRACE);
	moescope_pause();
	CHECK(cupti->wait_flushes(cupti->state().flushes + 3)); /* it is leaving */
	CHECK(cupti->state().kinds != 0);
	shared->ours_ns[0] = monotonic_ns();
	enough = 1;
	CHECK(runs_until(is_finalized_enough));
	shared->ours_ns[1] = monotonic_ns();
	moescope_stop();
}

static void test_window_ends_with_records(void **state)
{
	struct run *run = gears_of(leaves_slowly);

	(void)state;
	assert_int_equal(run->gear.n, 2);
	assert_gear(run, 1, GEAR_NONE, 0, "paused");
	assert_in_range(run->gear.time_ns[1], shared->ours_ns[0], shared->ours_ns[1]);
	run_free(run);
}

/* The first graph comes while it is leaving: from then on only that thread may detach. */
static void first_graph_while_leaving(void)
{
	pthread_t other;

	start_at(MOESCOPE_TRACE);
	launch(1);
	moescope_pause();
	CHECK(cupti->wait_flushes(cupti->state().flushes + 3));
	CHECK(sem_init(&inside_call, 0, 0) == 0 && sem_init(&graph_launched, 0, 0) == 0);
	CHECK(pthread_create(&other, NULL, calls_for_a_while, NULL) == 0);
	sem_wait(&inside_call);
	cupti->make_node(1, 11, 0);
	cupti->launch_graph();
	sem_post(&graph_launched);
	pthread_join(other, NULL);
	CHECK(cupti->state().finalized == 0 && cupti->state().kinds != 0);
	replay_until(1);
	moescope_stop();
	start_in("second.mscope", MOESCOPE_TRACE);
	cupti->launch_graph();
	launch(1);
	moescope_stop();
	replay_until(2);
}

static void test_first_graph_while_leaving(void **state)
{
	struct run *run = gears_of(first_graph_while_leaving);

	(void)state;
	assert_int_equal(run->kernel.n, 1);
	run_free(run);
	run = load_gears("second.mscope");
	assert_int_equal(run->kernel.n, 1);
	run_free(run);
}

/* As after hundreds of joins. */
static void leaves_much_behind(void)
{
	start_at(MOESCOPE_TRACE);
	launch(1);
	cupti->finalize_unmaps((size_t)5 << 30);
	moescope_stop();
	enough = 1;
	CHECK(runs_until(is_finalized_enough));
	start_in("second.mscope", MOESCOPE_TRACE);
	CHECK(cupti->state().kinds == 0);
	moescope_stop();
}

static void test_leaves_much_behind(void **state)
{
	struct run *run = gears_of(leaves_much_behind);

	(void)state;
	assert_int_equal(run->kernel.n, 1);
	run_free(run);
	run = load_gears("second.mscope");
	assert_int_equal(run->kernel.n, 0);
	assert_string_equal(fact_of(run, "GPU"),
			    "GPU records off: CUPTI holds 5.4 GB of host memory that earlier "
			    "sessions in this process left behind");
	run_free(run);
}

static void *stop(void *arg)
{
	moescope_stop();
	return arg;
}

static void stops(void)
{
	pthread_t other;

	/* Without graphs, at the end of any call a while after. */
	start_in("1.mscope", MOESCOPE_TRACE);
	launch(1);
	CHECK(pthread_create(&other, NULL, stop, NULL) == 0);
	pthread_join(other, NULL);
	CHECK(cupti->state().finalized == 0);
	enough = 1;
	CHECK(runs_until(is_finalized_enough));
	CHECK(cupti->state().finalized_in_callback == 1 && cupti->state().kinds == 0);
	/* With graphs, stopped by another thread: by theirs, when it comes. */
	start_in("2.mscope", MOESCOPE_TRACE);
	cupti->make_node(1, 11, 0);
	cupti->launch_graph();
	launch(1);
	CHECK(pthread_create(&other, NULL, stop, NULL) == 0);
	pthread_join(other, NULL);
	CHECK(cupti->state().finalized == 1);
	replay_until(2);
	CHECK(cupti->state().finalized_in_callback == 2 && cupti->state().kinds == 0);
	/* A session that begins before it has gone takes it over. */
	start_in("3.mscope", MOESCOPE_TRACE);
	cupti->launch_graph();
	launch(1);
	CHECK(pthread_create(&other, NULL, stop, NULL) == 0);
	pthread_join(other, NULL);
	start_at(MOESCOPE_TRACE);
	cupti->launch_graph();
	launch(1);
	CHECK(cupti->state().finalized == 2);
	/* All calls are followed since, so that their own thread can do it at once. */
	moescope_stop();
	replay_until(3);
	CHECK(cupti->state().kinds == 0);
}

static void test_stops(void **state)
{
	static const char *const names[] = { "1.mscope", "2.mscope", "3.mscope", "run.mscope" };

	(void)state;
	assert_int_equal(in_child(stops), 0);
	for (int i = 0; i < 4; i++) {
		struct run *run = load_gears(names[i]);

		assert_int_equal(run->kernel.n, 1);
		assert_int_equal(run->gear.n, 2);
		assert_gear(run, 1, GEAR_NONE, 0, "the session ends");
		assert_int_equal(loss_total(&run->loss), 0);
		run_free(run);
	}
}

/* Registered before the session and so run after its end. */
static void at_the_end(void)
{
	struct fake_state s = cupti->state();

	/* Nothing is switched off beside threads that may be in calls. */
	_exit(s.finalized == 0 && is_on(&s) && s.forced_flushes == 1 ? 7 : 1);
}

static void exits(void)
{
	CHECK(atexit(at_the_end) == 0);
	start_at(MOESCOPE_TRACE);
	launch(1);
	exit(0);
}

/* Detaching was left to a later call; those that come while the process ends are too late. */
static void calls_at_the_end(void)
{
	const struct timespec moment = { .tv_nsec = 700000000 }; /* longer than calls are given */

	nanosleep(&moment, NULL);
	call_once();
	_exit(cupti->state().finalized == 0 ? 7 : 1);
}

static void exits_after_stop(void)
{
	CHECK(atexit(calls_at_the_end) == 0);
	start_at(MOESCOPE_TRACE);
	launch(1);
	moescope_stop();
	exit(0);
}

static void test_exit_after_stop(void **state)
{
	(void)state;
	assert_int_equal(in_child(exits_after_stop), 7);
}

static void test_exit_leaves_cupti(void **state)
{
	struct run *run;

	(void)state;
	assert_int_equal(in_child(exits), 7);
	run = load_gears("run.mscope");
	assert_int_equal(run->kernel.n, 1);
	assert_gear(run, 1, GEAR_NONE, 0, "the session ends");
	run_free(run);
}

/* After a fork of a program with threads ThreadSanitizer knows none, and AddressSanitizer's
 * allocator may have been locked by one of them, for ever. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define CHILD_HAS_THREADS false
#else
#define CHILD_HAS_THREADS true
#endif

/* The child of a program that is being recorded has a session of its own, and comes to its end. */
static void forks_into_session(void)
{
	start_dear(MOESCOPE_TRACE);
	for (uint32_t i = 0; i < 10; i++) {
		char name[32];
		int status;
		pid_t pid;

		launch_some(0);
		pid = fork();
		CHECK(pid >= 0);
		if (pid == 0) {
			struct fake_state before = cupti->state();

			alarm(100);
			CHECK(!moescope_recording());
			cupti->launch_graph(); /* its callbacks are not the child's */
			CHECK(cupti->state().flushes == before.flushes);
			snprintf(name, sizeof(name), "child%u.mscope", i);
			if (CHILD_HAS_THREADS) {
				start_in(name, MOESCOPE_TRACE);
				moescope_mark("from the child");
				moescope_stop();
			}
			CHECK(cupti->state().registered == before.registered);
			_exit(5);
		}
		CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
		CHECK(WEXITSTATUS(status) == 5);
	}
	moescope_stop();
	note_state();
}

static void test_forks_into_session(void **state)
{
	struct run *run = gears_of(forks_into_session);

	(void)state;
	assert_all_kept(run);
	run_free(run);
	if (!CHILD_HAS_THREADS)
		return;
	run = load_gears("child9.mscope");
	assert_int_equal(run->mark.n, 1);
	assert_int_equal(run->kernel.n, 0);
	assert_non_null(strstr(fact_of(run, "GPU"), "does not work after a fork"));
	run_free(run);
}

static void filtered(void)
{
	struct fake_record records[30];

	setenv("MOESCOPE_KERNEL", "^moe_(gate|up)", 1);
	start_at(MOESCOPE_TRACE);
	for (uint32_t i = 0; i < 30; i++)
		records[i] = kernel_record(i % 3 == 0	? "moe_gate"
					   : i % 3 == 1 ? "moe_up_proj"
							: "not_moe_gate",
					   i + 1);
	cupti->deliver(0, records, 30, 0);
	moescope_stop();
	start_in("second.mscope", MOESCOPE_TRACE);
	cupti->deliver(0, records, 3, 0);
	moescope_stop();
}

static void test_kernel_filter(void **state)
{
	struct run *run = gears_of(filtered);
	uint64_t counted = 0;

	(void)state;
	assert_int_equal(run->kernel.n, 20);
	for (size_t i = 0; i < run->kernel.n; i++)
		assert_true(run->kernel.correlation[i] % 3 != 0);
	assert_string_equal(fact_of(run, "kernels"),
			    "10 do not match --kernel and were not recorded");
	for (size_t i = 0; i < run->device_cost.n; i++)
		counted += run->device_cost.kernels[i];
	assert_int_equal(counted, 30); /* what was collected has its cost */
	run_free(run);
	run = load_gears("second.mscope");
	assert_int_equal(run->kernel.n, 2);
	assert_string_equal(fact_of(run, "kernels"),
			    "1 do not match --kernel and were not recorded");
	run_free(run);
}

static struct fake_record overhead_record(CUpti_ActivityOverheadKind kind, uint64_t ns)
{
	uint64_t now = cupti->now();

	return (struct fake_record){ .overhead = { .kind = CUPTI_ACTIVITY_KIND_OVERHEAD,
						   .overheadKind = kind,
						   .start = now - ns,
						   .end = now } };
}

static void overheads(void)
{
	struct fake_record records[] = {
		overhead_record(CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH, 1000),
		overhead_record(CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION, 20000),
		overhead_record(CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE, 300000),
		overhead_record(CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST, 4000000),
		/* The program's own. */
		overhead_record(CUPTI_ACTIVITY_OVERHEAD_DRIVER_COMPILER, 50000000),
		overhead_record(CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING, 600000000),
		/* An end before its beginning says nothing. */
		overhead_record(CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE, 1),
		{ .call = { .kind = CUPTI_ACTIVITY_KIND_RUNTIME,
			    .cbid = CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000,
			    .start = cupti->now() - 10,
			    .end = cupti->now() },
		  .uninvited = true },
	};

	records[6].overhead.end = records[6].overhead.start - 1;
	start_at(MOESCOPE_FULL);
	cupti->deliver(0, records, 8, 0);
	launch(1);
	CHECK(cupti->wait_flushes(3)); /* a row in between */
	cupti->deliver(0, records, 1, 0);
	moescope_stop();
}

static void test_overheads(void **state)
{
	struct run *run = gears_of(overheads);
	uint64_t cupti_ns = 0, kernels = 0, calls = 0, translate_ns = 0, switch_ns = 0;

	(void)state;
	for (size_t i = 0; i < run->device_cost.n; i++) {
		cupti_ns += run->device_cost.cupti_ns[i];
		kernels += run->device_cost.kernels[i];
		calls += run->device_cost.calls[i];
		translate_ns += run->device_cost.translate_ns[i];
		switch_ns += run->device_cost.switch_ns[i];
		assert_int_equal(run->device_cost.held_ns[i], 0);
	}
	assert_true(run->device_cost.n >= 2);
	assert_int_equal(cupti_ns, 4321000 + 1000);
	assert_int_equal(kernels, 1);
	assert_int_equal(calls, 1);
	assert_true(translate_ns > 0 && switch_ns > 0);
	run_free(run);
}

static struct fake_record pool_record(CUpti_ActivityMemoryPoolOperationType type)
{
	return (struct fake_record){ .pool = { .kind = CUPTI_ACTIVITY_KIND_MEMORY_POOL,
					       .memoryPoolOperationType = type,
					       .deviceId = 3,
					       .address = 0x7f1100000000ull + type,
					       .size = 5000000000ull + type,
					       .utilizedSize = 4000000000ull,
					       .releaseThreshold = 3000000000ull,
					       .timestamp = cupti->now() } };
}

static void pools_at(enum moescope_level level)
{
	start_at(level);
	shared->ours_ns[0] = monotonic_ns();
	for (int type = CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_CREATED;
	     type <= CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_TRIMMED; type++) {
		struct fake_record record =
			pool_record((CUpti_ActivityMemoryPoolOperationType)type);

		cupti->deliver(0, &record, 1, 0);
	}
	shared->ours_ns[1] = monotonic_ns();
	moescope_stop();
}

static void pools_at_full(void)
{
	pools_at(MOESCOPE_FULL);
}

static void pools_at_trace(void)
{
	pools_at(MOESCOPE_TRACE);
}

static void test_pools(void **state)
{
	struct run *run = gears_of(pools_at_full);

	assert_int_equal(run->pool.n, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(run->pool.event[i], i);
		assert_int_equal(run->pool.address[i], 0x7f1100000001ull + i);
		assert_int_equal(run->pool.device[i], 3);
		assert_int_equal(run->pool.bytes[i], 5000000001ull + i);
		assert_int_equal(run->pool.used_bytes[i], 4000000000ull);
		assert_int_equal(run->pool.release_bytes[i], 3000000000ull);
		assert_in_range(run->pool.time_ns[i], shared->ours_ns[0] - 1000000,
				shared->ours_ns[1] + 1000000);
	}
	run_free(run);
	tear_down(state);
	set_up(state);
	run = gears_of(pools_at_trace);
	assert_int_equal(run->pool.n, 0);
	run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_schedule),
		TEST(test_pauses),
		TEST(test_window_ends_with_records),
		TEST(test_first_graph_while_leaving),
		TEST(test_leaves_much_behind),
		TEST(test_stops),
		TEST(test_exit_leaves_cupti),
		TEST(test_exit_after_stop),
		TEST(test_forks_into_session),
		TEST(test_kernel_filter),
		TEST(test_overheads),
		TEST(test_pools),
	};

	unsetenv("MOESCOPE_STAY_ATTACHED"); /* the tests of resting set it */
	return share_memory() ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
