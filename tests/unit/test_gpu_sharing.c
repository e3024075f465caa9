/* SPDX-License-Identifier: Apache-2.0
 *
 * Another CUPTI client in the process, from its first call to the gear rows of the run: the probe
 * goes before the other's call, says who it was, and comes back. The libraries are scripted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

#include "gears_child.h"
#include "second_client.h"

#define CLIENT "libsecond_client_fake.so"
#define OK(call) CHECK((call) == CUPTI_SUCCESS)
#define CLOCK_TOLERANCE_NS 200000

static const struct second_client *client;
extern const char __executable_start; /* the linker's */

static void load_client(void)
{
	void *library = dlopen(FAKE_CLIENT_PATH, RTLD_NOW | RTLD_LOCAL);

	CHECK(library);
	client = dlsym(library, "second_client");
	CHECK(client);
}

static void holder(void)
{
	cupti->hold_subscription("somebody's profiler");
	start_at(MOESCOPE_TRACE);
	CHECK(cupti->state().kinds == 0 && cupti->state().registered == 0);
	launch_some(0);
	cupti->hold_subscription(NULL);
	CHECK(runs_until(is_on));
	launch_some(0);
	moescope_stop();
	note_state();
}

static void test_holder(void **state)
{
	struct run *run = gears_of(holder);

	(void)state;
	assert_int_equal(run->kernel.n, 16);
	assert_int_equal(run->gear.n, 3);
	assert_gear(run, 0, GEAR_YIELDED, 0, "yields to somebody's profiler");
	assert_gear(run, 1, GEAR_ALWAYS, 1, "the other profiler has finished");
	assert_gear(run, 2, GEAR_NONE, 0, "the session ends");
	assert_non_null(strstr(fact_of(run, "GPU"), "yields to somebody's profiler"));
	assert_all_kept(run);
	run_free(run);
}

/* It records 16 kernels and fetches them; nothing of it is the probe's. */
static void client_session(bool registers)
{
	struct fake_record records[16];
	size_t before = client->received();

	OK(client->kineto_start(registers));
	CHECK(cupti->state().kinds == 2);
	for (uint32_t i = 0; i < 16; i++)
		records[i] = kernel_record("not_ours", 1000000 + i);
	cupti->hold(records, 16, 0);
	OK(client->kineto_stop());
	OK(client->kineto_fetch());
	CHECK(client->received() > before && client->unknown() == 0);
	CHECK(cupti->state().kinds == 0);
}

/* One moment on both clocks. */
static void note_clocks(int at)
{
	int64_t best = INT64_MAX;

	for (int i = 0; i < 20; i++) {
		int64_t before_ns = monotonic_ns();
		uint64_t theirs = client->clock();
		int64_t after_ns = monotonic_ns();

		if (after_ns - before_ns < best) {
			best = after_ns - before_ns;
			shared->theirs[at] = theirs;
			shared->ours_ns[at] = before_ns + best / 2;
		}
	}
}

/* A kernel of three million ticks: a millisecond. */
static void launch_by_their_clock(uint32_t correlation)
{
	struct fake_record record = kernel_record("some_kernel", correlation);

	record.kernel.start = shared->theirs[0] - 3000000;
	record.kernel.end = shared->theirs[0];
	cupti->deliver(0, &record, 1, 0);
}

static bool has_all_calls(const struct fake_state *s)
{
	return s->kinds == 8; /* they are switched on one after the other */
}

static void shares(void)
{
	load_client();
	start_at(MOESCOPE_TRACE);
	launch_some(0);
	OK(client->kineto_init());
	CHECK(cupti->state().kinds == 0);
	client_session(true);
	CHECK(runs_until(has_all_calls));
	note_clocks(0);
	launch_by_their_clock(next_kernel++);
	client_session(false); /* with the callbacks of the first time */
	CHECK(runs_until(is_on));
	launch_some(0);
	moescope_stop();
	/* Its subscription would be gone. */
	CHECK(cupti->state().finalized <= 1 && cupti->state().kinds == 0);
	note_state();
	client_session(false);
}

static void test_shares(void **state)
{
	struct run *run = gears_of(shares);
	size_t found = 0;

	(void)state;
	assert_all_kept(run);
	assert_int_equal(run->gear.n, 6);
	assert_gear(run, 0, GEAR_ALWAYS, 1, "no budget");
	for (size_t i = 1; i < 5; i += 2) {
		assert_gear(run, i, GEAR_YIELDED, 0, CLIENT);
		assert_gear(run, i + 1, GEAR_ALWAYS, 1, "the other profiler has finished");
	}
	assert_gear(run, 5, GEAR_NONE, 0, "the session ends");
	for (size_t i = 0; i < run->kernel.n; i++) {
		if (run->kernel.correlation[i] != 17)
			continue;
		found++;
		assert_true(llabs(run->kernel.start_ns[i] - (shared->ours_ns[0] - 1000000)) <
			    CLOCK_TOLERANCE_NS);
		assert_true(llabs(run->kernel.duration_ns[i] - 1000000) < 10000);
	}
	assert_int_equal(found, 1);
	run_free(run);
}

/* Like Triton Proton, which finalises CUPTI when it stops. */
static void finalizes(void)
{
	load_client();
	start_at(MOESCOPE_TRACE);
	launch_some(0);
	for (int i = 0; i < 2; i++) {
		OK(client->proton_start());
		CHECK(cupti->state().kinds == 1);
		OK(client->proton_stop());
		CHECK(runs_until(is_on));
		launch_some(0);
	}
	moescope_stop();
	note_state();
}

static void test_finalizes(void **state)
{
	struct run *run = gears_of(finalizes);

	(void)state;
	assert_all_kept(run);
	assert_int_equal(run->kernel.n, 48);
	assert_int_equal(count_gears(run, GEAR_YIELDED, CLIENT), 2);
	run_free(run);
}

/* In a program at a fixed address this makes its stub the address of free for everybody. */
static bool has_stub(void)
{
	void (*volatile function)(void *) = free;
	Dl_info info;

	return dladdr((void *)function, &info) && info.dli_fbase == (void *)&__executable_start;
}

/* It comes while nothing is recorded: the next window waits for it. */
static void comes_in_a_gap(void)
{
	CHECK(has_stub());
	load_client();
	start_dear(MOESCOPE_TRACE);
	while (cupti->state().flushed_off < 2 || cupti->state().kinds)
		launch_some(0);
	CHECK((cupti->state().finalized == 0) == (getenv("MOESCOPE_STAY_ATTACHED") != NULL));
	OK(client->kineto_init());
	OK(client->kineto_start(true));
	CHECK(nvml->wait_readings(nvml->readings() + 20)); /* there would have been windows */
	CHECK(cupti->state().kinds == 2);
	OK(client->kineto_stop());
	OK(client->flush());
	/* It keeps the subscription, and this program costs more than its budget. */
	CHECK(nvml->wait_readings(nvml->readings() + 30));
	CHECK(cupti->state().kinds == 0);
	launch_some(0);
	moescope_stop();
	note_state();
}

static void test_comes_in_a_gap(void **state)
{
	struct run *run = gears_of(comes_in_a_gap);
	bool told = false;

	(void)state;
	for (size_t i = 0; i < run->fact.n; i++)
		told |= strstr(run_string(run, run->fact.value[i]), "detached ") != NULL;
	assert_true(told == !getenv("MOESCOPE_STAY_ATTACHED"));
	assert_all_kept(run);
	assert_int_equal(count_gears(run, GEAR_YIELDED, CLIENT), 1);
	assert_int_equal(count_gears(run, GEAR_YIELDED, "holds the CUPTI subscription"), 1);
	run_free(run);
}

static void test_comes_in_a_gap_at_rest(void **state)
{
	setenv("MOESCOPE_STAY_ATTACHED", "1", 1);
	test_comes_in_a_gap(state);
	unsetenv("MOESCOPE_STAY_ATTACHED");
}

static _Atomic bool over;

static void *replay_until_over(void *arg)
{
	while (!over)
		cupti->launch_graph();
	return arg;
}

/* It comes while the probe may not detach, and only rests. */
static void comes_at_rest(void)
{
	pthread_t other;

	load_client();
	start_dear(MOESCOPE_TRACE);
	CHECK(pthread_create(&other, NULL, replay_until_over, NULL) == 0);
	/* Until two windows have been fetched: the last of one is left to the next where a thread was
	 * in a call. */
	for (;;) {
		while (cupti->state().kinds) {
			cupti->launch_graph();
			launch_some(11);
		}
		if (cupti->state().flushed_off >= 2)
			break;
		CHECK(runs_until(is_on));
	}
	OK(client->kineto_init());
	/* What the client itself switches off beside calls is its own risk. */
	over = true;
	pthread_join(other, NULL);
	client_session(true);
	launch_some(11);
	moescope_stop();
	CHECK(cupti->state().finalized == 0 && cupti->state().kinds == 0);
	note_state();
}

static void test_comes_at_rest(void **state)
{
	struct run *run = gears_of(comes_at_rest);

	(void)state;
	assert_all_kept(run);
	assert_int_equal(count_gears(run, GEAR_YIELDED, CLIENT), 1);
	run_free(run);
}

/* The allowance is used up when it comes: nothing is attached after it has gone. */
static void comes_at_the_end(void)
{
	setenv("MOESCOPE_DEVICE_MB", "14", 1);
	load_client();
	start_dear(MOESCOPE_TRACE);
	while (cupti->state().flushed_off < 1)
		launch_some(0);
	OK(client->proton_start());
	CHECK(cupti->state().kinds == 1);
	OK(client->proton_stop());
	CHECK(nvml->wait_readings(40));
	CHECK(cupti->state().kinds == 0);
	moescope_stop();
	note_state();
}

static void test_comes_at_the_end(void **state)
{
	struct run *run = gears_of(comes_at_the_end);

	(void)state;
	assert_all_kept(run);
	assert_gear(run, run->gear.n - 2, GEAR_YIELDED, 0, CLIENT);
	assert_gear(run, run->gear.n - 1, GEAR_COUNTS, 0, "device memory allowance is used up");
	run_free(run);
}

/* It comes and goes while records are not wanted. */
static void comes_in_a_pause(void)
{
	load_client();
	start_at(MOESCOPE_TRACE);
	launch_some(0);
	moescope_pause();
	CHECK(runs_until(is_off));
	OK(client->proton_start());
	CHECK(cupti->state().kinds == 1);
	OK(client->proton_stop());
	moescope_resume();
	CHECK(runs_until(is_on));
	launch_some(0);
	moescope_stop();
	note_state();
}

static void test_comes_in_a_pause(void **state)
{
	struct run *run = gears_of(comes_in_a_pause);

	(void)state;
	assert_all_kept(run);
	assert_int_equal(run->kernel.n, 32);
	assert_int_equal(count_gears(run, GEAR_YIELDED, CLIENT), 1);
	run_free(run);
}

/* It is there before the first window of a schedule, and goes on in it. */
static void comes_before_the_schedule(void)
{
	struct moescope_schedule schedule = {
		.struct_size = sizeof(schedule), .wait = 1, .active = 1, .repeat = 0
	};

	load_client();
	moescope_set_schedule(&schedule);
	start_at(MOESCOPE_TRACE);
	OK(client->kineto_start(true)); /* without a subscription, which would keep the probe out */
	for (uint32_t step = 0; step < 4; step++) {
		moescope_step_begin(step);
		CHECK(cupti->state().kinds == 2);
		moescope_step_end(1);
	}
	OK(client->kineto_stop());
	OK(client->flush());
	CHECK(cupti->state().kinds == 0 && client->unknown() == 0);
	for (uint32_t step = 4; cupti->state().kinds == 0; step++) {
		moescope_step_begin(step);
		CHECK(nvml->wait_readings(step)); /* in all: a pace */
		moescope_step_end(1);
	}
	launch_some(0);
	moescope_stop();
	note_state();
}

static void test_comes_before_the_schedule(void **state)
{
	struct run *run = gears_of(comes_before_the_schedule);

	(void)state;
	assert_all_kept(run);
	assert_gear(run, 0, GEAR_YIELDED, 0, CLIENT);
	assert_gear(run, 1, GEAR_ALWAYS, 1, "");
	run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_holder),
		TEST(test_shares),
		TEST(test_finalizes),
		TEST(test_comes_in_a_gap),
		TEST(test_comes_in_a_gap_at_rest),
		TEST(test_comes_at_rest),
		TEST(test_comes_at_the_end),
		TEST(test_comes_in_a_pause),
		TEST(test_comes_before_the_schedule),
	};

	return share_memory() ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
