/* SPDX-License-Identifier: Apache-2.0
 *
 * Attaching and detaching in a program: windows, CUDA graphs, schedules, pauses, the end of a
 * session. The scripted CUPTI ends the test when a sequence of calls would end a real program.
 */
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

#include "gears_child.h"

static void budget_off(void)
{
	start_at(MOESCOPE_TRACE);
	for (int i = 0; i < 100; i++)
		launch_some(0);
	CHECK(cupti->wait_flushes(3));
	CHECK(cupti->state().finalized == 0 && cupti->state().kinds != 0);
	CHECK(cupti->state().device_buffers == 16); /* of 4 MiB: half the allowance */
	CHECK(cupti->state().system_thread_ids);
	moescope_stop();
	note_state();
	enough = 1;
	CHECK(runs_until(is_finalized_enough));
	CHECK(cupti->state().kinds == 0 && cupti->state().finalized_with_records == 0);
}

static void test_budget_off(void **state)
{
	struct run *run = gears_of(budget_off);

	(void)state;
	assert_int_equal(run->kernel.n, 1600);
	assert_all_kept(run);
	assert_int_equal(run->gear.n, 2);
	assert_gear(run, 0, GEAR_ALWAYS, 1, "no budget");
	assert_int_equal(run->gear.device_bytes[0], 14 << 20);
	assert_gear(run, 1, GEAR_NONE, 0, "the session ends");
	run_free(run);
}

/* CUPTI's worker finds a new buffer complete, because nothing is in it yet, while a thread of the
 * program writes its first record there. */
static void handed_over_early(void)
{
	setenv("MOESCOPE_BUDGET", "off", 1);
	start_at(MOESCOPE_TRACE);
	cupti->write_records_late();
	for (int i = 0; i < 100; i++) {
		cupti->deliver_empty();
		launch_some(0);
	}
	moescope_stop();
	note_state();
}

static void test_handed_over_early(void **state)
{
	struct run *run = gears_of(handed_over_early);

	(void)state;
	assert_int_equal(run->kernel.n, 1600);
	assert_all_kept(run);
	run_free(run);
}

#define WINDOWS 4

/* If the user wants it, CUPTI is never detached. */
static void rests(void)
{
	setenv("MOESCOPE_STAY_ATTACHED", "1", 1);
	start_dear(MOESCOPE_TRACE);
	while (cupti->state().flushed_off < WINDOWS)
		launch_some(0);
	CHECK(cupti->state().subscribed == 1);
	moescope_stop();
	note_state();
	CHECK(cupti->state().finalized == 0 && cupti->state().kinds == 0);
	/* It is free for others. */
	CHECK(cupti->state().unsubscribed == 1);
	for (int i = 0; i < 100; i++)
		call_once();
	CHECK(cupti->state().finalized == 0);
}

static void test_rests(void **state)
{
	struct run *run = without_idle_moments(gears_of(rests));

	(void)state;
	assert_all_kept(run);
	assert_windows(run);
	assert_true(shared->state.not_enabled > 0);
	assert_gear(run, 1, GEAR_WINDOWS, 0, "more than the budget");
	assert_true(fact_tells(run, "CUPTI", "stays attached where nothing is recorded"));
	run_free(run);
}

static void eager_windows(void)
{
	start_dear(MOESCOPE_TRACE);
	for (enough = WINDOWS; cupti->state().finalized < WINDOWS;)
		launch_some(0);
	CHECK(cupti->state().finalized_in_callback == cupti->state().finalized);
	moescope_stop();
	note_state();
	shared->threads[0] = (uint32_t)thread_id();
}

/* Calls are there in every window: CUPTI gives none of its own once it was finalised. */
static void assert_calls(const struct run *run)
{
	size_t windows = 0;

	for (size_t g = 0; g < run->gear.n; g++) {
		size_t n = 0;

		for (size_t i = 0; run->gear.attached[g] && i < run->api.n; i++)
			n += run->api.start_ns[i] >= run->gear.time_ns[g] &&
			     (g + 1 == run->gear.n ||
			      run->api.start_ns[i] < run->gear.time_ns[g + 1]);
		windows += n > 0;
	}
	assert_true(windows >= WINDOWS);
	for (size_t i = 0; i < run->api.n; i++) {
		assert_string_equal(run_string(run, run->api.name[i]), "cuLaunchKernel");
		assert_int_equal(run->api.thread[i], shared->threads[0]);
		assert_true(run->api.correlation[i] >= 1000000 && run->api.duration_ns[i] > 0);
		assert_int_equal(run->api.driver[i], 1);
		assert_int_equal(run->api.status[i], 0);
	}
}

static void test_eager_windows(void **state)
{
	struct run *run = without_idle_moments(gears_of(eager_windows));

	(void)state;
	assert_all_kept(run);
	assert_windows(run);
	assert_calls(run);
	assert_true(shared->state.not_enabled > 0);
	assert_gear(run, 0, GEAR_ALWAYS, 1, "recording starts");
	assert_gear(run, 1, GEAR_WINDOWS, 0, "more than the budget");
	assert_true(run->gear.cost_pct[1] > 25);
	for (size_t i = 2; i + 1 < 2 * WINDOWS; i += 2) {
		assert_gear(run, i, GEAR_WINDOWS, 1, "window");
		/* It ends, or there are windows again. */
		assert_gear(run, i + 1, GEAR_WINDOWS, 0, "window");
		assert_int_equal(run->gear.device_bytes[i], (14 << 20) + i / 2 * 614400);
	}
	run_free(run);
}

/* A budget that the program keeps: nothing changes. */
static void cheap(void)
{
	setenv("MOESCOPE_BUDGET", "90", 1);
	start_at(MOESCOPE_TRACE);
	for (unsigned int i = 1; i < 8; i++) {
		launch_some(0);
		CHECK(cupti->wait_flushes(i));
	}
	CHECK(cupti->state().finalized == 0);
	moescope_stop();
	note_state();
}

static void test_cheap(void **state)
{
	struct run *run = gears_of(cheap);

	(void)state;
	assert_all_kept(run);
	assert_int_equal(run->gear.n, 2);
	assert_gear(run, 0, GEAR_ALWAYS, 1, "recording starts");
	run_free(run);
}

/* One thread that launches a graph, and perhaps waits for it, until it was detached often enough. */
static void replay(bool waits, unsigned int times)
{
	cupti->make_node(1, 11, 0);
	for (enough = times; cupti->state().finalized < times;) {
		cupti->launch_graph();
		launch_some(11);
		if (waits)
			cupti->wait_device();
	}
}

static void graphs_with_waits(void)
{
	struct fake_state s;

	start_dear(MOESCOPE_TRACE);
	replay(true, WINDOWS);
	s = cupti->state();
	CHECK(s.finalized_in_callback == s.finalized && s.finalized_by == thread_id());
	CHECK(s.finalized_with_records == 0);
	CHECK(s.finalized_in_wait > 0); /* where nothing is cut off */
	moescope_stop();
	note_state();
}

static void graphs_without_waits(void)
{
	start_dear(MOESCOPE_TRACE);
	replay(false, 2);
	CHECK(cupti->state().finalized_in_callback == 2 && cupti->state().finalized_in_wait == 0);
	moescope_stop();
	note_state();
}

static void test_graphs(void **state)
{
	struct run *run = gears_of(graphs_with_waits);

	assert_all_kept(run);
	assert_windows(run);
	/* The stop may be faster than the row of the last. */
	assert_true(count_window_ends(run) >= WINDOWS - 1);
	run_free(run);
	tear_down(state);
	set_up(state);
	run = gears_of(graphs_without_waits);
	assert_all_kept(run);
	assert_true(run->device_cost.n > 0);
	run_free(run);
}

static _Atomic bool over;

static void *replay_until_over(void *arg)
{
	while (!over)
		cupti->launch_graph();
	return arg;
}

/* An eager thread beside the one with the graphs: its calls are no place to detach. */
static void *wait_until_over(void *arg)
{
	while (!over) {
		cupti->wait_device();
		cupti->call(CUPTI_CB_DOMAIN_RUNTIME_API,
			    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000);
	}
	return arg;
}

/* The graphs' thread does not come: it stays attached, whatever the others do, and records go on
 * being delivered. */
static void graph_thread_is_away(void)
{
	struct fake_record records[16];
	unsigned int flushes;
	pthread_t other;

	start_dear(MOESCOPE_TRACE);
	cupti->make_node(1, 11, 0);
	cupti->launch_graph();
	CHECK(pthread_create(&other, NULL, wait_until_over, NULL) == 0);
	while (cupti->state().flushes < 4) /* the second look has been */
		launch_some(11);
	for (uint32_t round = 0; round < 400; round++) {
		for (int i = 0; i < 16; i++)
			records[i] = kernel_record("some_kernel", next_kernel++);
		cupti->hold(records, 16, 0);
	}
	flushes = cupti->state().flushes;
	CHECK(cupti->wait_flushes(flushes + 10));
	over = true;
	pthread_join(other, NULL);
	CHECK(cupti->state().finalized == 0 && cupti->state().kinds != 0);
	enough = 1;
	while (cupti->state().finalized == 0)
		cupti->wait_device();
	moescope_stop();
	note_state();
}

static void test_graph_thread_is_away(void **state)
{
	struct run *run = gears_of(graph_thread_is_away);

	(void)state;
	assert_all_kept(run);
	run_free(run);
}

static void several_graph_threads(void)
{
	pthread_t other;

	start_dear(MOESCOPE_TRACE);
	CHECK(pthread_create(&other, NULL, replay_until_over, NULL) == 0);
	while (cupti->state().registered < 4) { /* three windows have ended */
		cupti->launch_graph();
		launch_some(11);
	}
	over = true;
	pthread_join(other, NULL);
	CHECK(cupti->state().finalized == 0);
	moescope_stop();
	note_state();
	CHECK(runs_until(is_off));
	CHECK(cupti->state().finalized == 0);
}

static void test_several_graph_threads(void **state)
{
	struct run *run = gears_of(several_graph_threads);

	(void)state;
	assert_all_kept(run);
	assert_windows(run);
	assert_true(count_window_ends(run) >= 3);
	run_free(run);
}

static const char *unproved_driver;

static void unproved(void)
{
	char line[256];

	driver = unproved_driver;
	snprintf(line, sizeof(line), "cupti %u driver 580.95.05 " DEAR,
		 (unsigned int)CUPTI_API_VERSION + 1000);
	prove(line);
	if (driver)
		cupti->set_version(CUPTI_API_VERSION + 1000);
	setenv("MOESCOPE_BUDGET", "0.001", 1);
	start_at(MOESCOPE_TRACE);
	cupti->make_node(1, 11, 0);
	while (cupti->state().flushes < 8) {
		cupti->launch_graph();
		launch_some(11);
		cupti->wait_device();
	}
	/* Nor is it when nothing is wanted. */
	moescope_pause();
	CHECK(cupti->wait_flushes(cupti->state().flushes + 2));
	CHECK(cupti->state().finalized == 0 && cupti->state().kinds != 0);
	launch_some(11);
	moescope_resume();
	CHECK(cupti->state().kinds != 0);
	launch_some(11);
	moescope_stop(); /* on the thread of the graphs */
	note_state();
}

static void test_unproved(void **state)
{
	static const char *const drivers[] = { "575.10", NULL };

	for (int i = 0; i < 2; i++) {
		struct run *run;

		unproved_driver = drivers[i];
		run = gears_of(unproved);
		assert_all_kept(run);
		assert_int_equal(run->gear.n, 3);
		assert_gear(run, 0, GEAR_ALWAYS, 1, "recording starts");
		assert_gear(run, 1, GEAR_ALWAYS, 1, "run moescope doctor --stress");
		assert_gear(run, 2, GEAR_NONE, 0, "the session ends");
		run_free(run);
		tear_down(state);
		set_up(state);
	}
}

/* Without graphs there is nothing to prove. */
static void unproved_eager(void)
{
	driver = NULL;
	cupti->set_version(7);
	setenv("MOESCOPE_BUDGET", "0.001", 1);
	start_at(MOESCOPE_TRACE);
	for (enough = 1; cupti->state().finalized < 1;)
		launch_some(0);
	moescope_stop();
	note_state();
}

static void test_unproved_eager(void **state)
{
	struct run *run = gears_of(unproved_eager);

	(void)state;
	assert_all_kept(run);
	assert_int_equal(run->gear.n, 2);
	assert_gear(run, 1, GEAR_WINDOWS, 0, "more than the budget");
	run_free(run);
}

/* Another thread is making a node when the graphs' thread could detach. */
static void *make_node(void *arg)
{
	cupti->make_node(2, 21, 0);
	return arg;
}

static void callback_under_way(void)
{
	pthread_t other;

	start_dear(MOESCOPE_TRACE);
	cupti->make_node(1, 11, 0);
	cupti->hold_nodes(true);
	CHECK(pthread_create(&other, NULL, make_node, NULL) == 0);
	CHECK(cupti->wait_held_node());
	while (cupti->state().flushes < 20) { /* it has been leaving for a while */
		cupti->launch_graph();
		launch_some(11);
		cupti->wait_device();
	}
	CHECK(cupti->state().finalized == 0);
	cupti->hold_nodes(false);
	pthread_join(other, NULL);
	while (cupti->state().finalized == 0)
		cupti->wait_device();
	moescope_stop();
	note_state();
}

static void test_callback_under_way(void **state)
{
	struct run *run = gears_of(callback_under_way);

	(void)state;
	assert_all_kept(run);
	assert_int_equal(run->graph_node.n, 2);
	run_free(run);
}

/* The end of a call was missed: the thread's next call shows that it is not inside that one. */
static void missed_end(void)
{
	cupti->lose_ends(1);
	start_dear(MOESCOPE_TRACE);
	for (enough = 1; cupti->state().finalized == 0;)
		launch_some(0);
	CHECK(cupti->state().subscribed_at_first_finalize == 1);
	moescope_stop();
	note_state();
}

static void test_missed_end(void **state)
{
	struct run *run = gears_of(missed_end);

	(void)state;
	assert_all_kept(run);
	assert_gear(run, 1, GEAR_WINDOWS, 0, "more than the budget");
	run_free(run);
}

/* A thread that never leaves its call: recording goes on, and the run says why. Its end is the
 * moment. */
static void *long_call(void *arg)
{
	cupti->enter(CUPTI_CB_DOMAIN_RUNTIME_API,
		     CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020);
	while (!over)
		sched_yield();
	cupti->leave(CUPTI_CB_DOMAIN_RUNTIME_API,
		     CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020);
	return arg;
}

static void no_moment(void)
{
	int64_t until_ns;
	pthread_t other;

	start_dear(MOESCOPE_TRACE);
	CHECK(pthread_create(&other, NULL, long_call, NULL) == 0);
	until_ns = monotonic_ns() + INT64_C(3000000000);
	for (unsigned int calls = 0; monotonic_ns() < until_ns || calls < 3000; calls++)
		launch_some(0);
	CHECK(cupti->state().finalized == 0 && cupti->state().kinds != 0);
	over = true;
	pthread_join(other, NULL);
	for (enough = 1; cupti->state().finalized == 0;)
		launch_some(0);
	moescope_stop();
	note_state();
}

static void test_no_moment(void **state)
{
	struct run *run = gears_of(no_moment);

	(void)state;
	assert_all_kept(run);
	assert_gear(run, 0, GEAR_ALWAYS, 1, "recording starts");
	assert_gear(run, 1, GEAR_WINDOWS, 0, "more than the budget");
	assert_true(fact_tells(run, "CUPTI", "recording continues"));
	run_free(run);
}

static _Atomic bool inside_old_call;
static sem_t called, detached;

/* A call that began while nothing was attached, such as the loading of a large module: no callback
 * tells of it, but the thread is known, and it runs. */
static void *old_call(void *arg)
{
	call_once();
	sem_post(&called);
	sem_wait(&detached);
	cupti->enter(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuModuleLoadData);
	inside_old_call = true;
	while (!over)
		;
	cupti->leave(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuModuleLoadData);
	return arg;
}

static void call_from_before(void)
{
	unsigned int finalized;
	int64_t since_ns;
	pthread_t other;

	start_dear(MOESCOPE_TRACE);
	CHECK(sem_init(&called, 0, 0) == 0 && sem_init(&detached, 0, 0) == 0);
	CHECK(pthread_create(&other, NULL, old_call, NULL) == 0);
	sem_wait(&called);
	while (cupti->state().finalized == 0)
		launch_some(0);
	sem_post(&detached);
	while (!inside_old_call)
		launch_some(0);
	CHECK(runs_until(is_on)); /* the next window */
	finalized = cupti->state().finalized;
	since_ns = monotonic_ns();
	do
		launch_some(0);
	while (monotonic_ns() < since_ns + 700000000);
	/* It is not waited for for ever, should this machine have been asleep. */
	CHECK(cupti->state().finalized == finalized || monotonic_ns() > since_ns + 1500000000);
	over = true;
	pthread_join(other, NULL);
	while (cupti->state().finalized == finalized)
		launch_some(0);
	moescope_stop();
	note_state();
}

static void test_call_from_before(void **state)
{
	struct run *run = gears_of(call_from_before);

	(void)state;
	assert_all_kept(run);
	run_free(run);
}

static sem_t begin_call, has_begun;

static void *call_while_disabling(void *arg)
{
	call_once();
	sem_wait(&begin_call);
	cupti->enter(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel);
	sem_post(&has_begun);
	while (!over)
		sched_yield();
	cupti->leave(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel);
	return arg;
}

static void let_begin(void)
{
	sem_post(&begin_call);
	sem_wait(&has_begun);
}

/* A call begins on another thread while records are being switched off: nothing is flushed and CUPTI
 * stays, until that call has ended. */
static void begins_while_disabling(void)
{
	pthread_t other;

	setenv("MOESCOPE_SHIFTS", "2", 1);
	start_at(MOESCOPE_TRACE);
	CHECK(sem_init(&begin_call, 0, 0) == 0 && sem_init(&has_begun, 0, 0) == 0);
	CHECK(pthread_create(&other, NULL, call_while_disabling, NULL) == 0);
	cupti->at_next_disable(let_begin);
	CHECK(runs_until(is_off));
	for (int i = 0; i < 100; i++)
		call_once();
	CHECK(cupti->state().finalized == 0);
	over = true;
	pthread_join(other, NULL);
	enough = 1;
	CHECK(runs_until(is_finalized_enough));
	moescope_stop();
	note_state();
}

static void test_begins_while_disabling(void **state)
{
	struct run *run = gears_of(begins_while_disabling);

	(void)state;
	assert_all_kept(run);
	run_free(run);
}

/* The thread that detaches is kept from the processor on its way out of CUPTI: the next window does
 * not begin before it is out. */
static void *call_until_detached(void *arg)
{
	for (enough = 1; cupti->state().finalized < enough;)
		call_once();
	return arg;
}

static void slow_to_leave(void)
{
	const struct timespec moment = { .tv_nsec = 1000000 };
	int64_t since_ns;
	pthread_t other;
	int ends[2];

	setenv("MOESCOPE_SHIFTS", "2", 1);
	CHECK(pipe(ends) == 0);
	cupti->hold_leaver(ends[0]);
	start_at(MOESCOPE_TRACE);
	CHECK(pthread_create(&other, NULL, call_until_detached, NULL) == 0);
	while (cupti->state().finalized < 1)
		nanosleep(&moment, NULL);
	for (since_ns = monotonic_ns(); monotonic_ns() < since_ns + 500000000;)
		nanosleep(&moment, NULL);
	/* It is not waited for for ever, should this machine have been asleep. */
	CHECK(cupti->state().subscribed == 1 || monotonic_ns() > since_ns + 1500000000);
	CHECK(write(ends[1], "", 1) == 1);
	pthread_join(other, NULL);
	CHECK(runs_until(is_on));
	enough = 2;
	CHECK(runs_until(is_finalized_enough));
	moescope_stop();
	note_state();
}

static void test_slow_to_leave(void **state)
{
	struct run *run;

	(void)state;
#ifdef __SANITIZE_THREAD__
	skip(); /* it makes a fork of the vfork that holds the thread up */
#endif
	run = gears_of(slow_to_leave);
	assert_int_equal(shared->state.subscribed, 2);
	assert_int_equal(run->gear.n, 4);
	run_free(run);
}

/* A thread that is about to call back, and gets no processor while another detaches: CUPTI must not
 * be finalised, since that frees what the thread goes on with. Once it is out, windows come again. */
static _Atomic bool call_now;

static void *call_when_told(void *arg)
{
	const struct timespec moment = { .tv_nsec = 1000000 };

	call_once(); /* so that it is known */
	sem_post(&called);
	while (!call_now)
		nanosleep(&moment, NULL);
	call_once();
	return arg;
}

static bool is_held_up(const struct fake_state *s)
{
	return s->held_up == 1;
}

static bool has_tried_to_leave(const struct fake_state *s)
{
	return s->flushed_off > 0;
}

static void about_to_call(void)
{
	pthread_t other;
	int ends[2];

	setenv("MOESCOPE_SHIFTS", "2", 1);
	CHECK(pipe(ends) == 0);
	start_at(MOESCOPE_TRACE);
	CHECK(sem_init(&called, 0, 0) == 0);
	CHECK(pthread_create(&other, NULL, call_when_told, NULL) == 0);
	sem_wait(&called);
	CHECK(runs_until(is_on));
	cupti->hold_comer(ends[0]);
	call_now = true;
	CHECK(cupti->wait_state(is_held_up));
	CHECK(runs_until(has_tried_to_leave));
	CHECK(cupti->state().kinds == 0 && cupti->state().finalized == 0);
	for (int i = 0; i < 20; i++)
		call_once();
	CHECK(cupti->state().finalized == 0 && cupti->state().subscribed == 1);
	CHECK(write(ends[1], "", 1) == 1);
	pthread_join(other, NULL);
	CHECK(runs_until(is_on));
	/* The same subscription: to end it beside calls is the end of the program. */
	CHECK(cupti->state().subscribed == 1);
	enough = 1;
	CHECK(runs_until(is_finalized_enough));
	moescope_stop();
	note_state();
}

static void test_about_to_call(void **state)
{
	struct run *run;

	(void)state;
#ifdef __SANITIZE_THREAD__
	skip(); /* it makes a fork of the vfork that holds the thread up */
#endif
	run = gears_of(about_to_call);
	assert_true(fact_tells(run, "CUPTI", "stayed in a CUDA call, or was not scheduled"));
	run_free(run);
}

/* Threads that make calls without a pause while records are switched on and off: the scripted CUPTI
 * ends the program when they go off beside a call that is under way. */
static void *call_until_over(void *arg)
{
	while (!over)
		call_once();
	return arg;
}

static void busy_threads(void)
{
	pthread_t others[3];

	setenv("MOESCOPE_SHIFTS", "40", 1);
	start_at(MOESCOPE_TRACE);
	for (int i = 0; i < 3; i++)
		CHECK(pthread_create(&others[i], NULL, call_until_over, NULL) == 0);
	/* On a busy machine not every window ends with CUPTI finalised. */
	while (cupti->state().registered < 40 || cupti->state().kinds)
		launch_some(0);
	over = true;
	for (int i = 0; i < 3; i++)
		pthread_join(others[i], NULL);
	moescope_stop();
	note_state();
}

static void test_busy_threads(void **state)
{
	struct run *run = gears_of(busy_threads);

	(void)state;
	/* Calls without a pause fill the rings when other programs have the cores. */
	assert_kept_but(run, run->loss.dropped_ring_full);
	assert_int_equal(run->gear.n, 80);
	if (shared->state.finalized < 40)
		assert_true(
			fact_tells(run, "CUPTI", "stayed in a CUDA call, or was not scheduled"));
	run_free(run);
}

#define SHIFTS 50

static void shifts(void)
{
	setenv("MOESCOPE_SHIFTS", "50", 1);
	start_at(MOESCOPE_TRACE);
	replay(true, SHIFTS);
	/* And no more. */
	for (int i = 0; i < 1000; i++)
		cupti->launch_graph();
	CHECK(cupti->state().finalized == SHIFTS && cupti->state().kinds == 0);
	moescope_stop();
	note_state();
}

static void test_shifts(void **state)
{
	struct run *run = gears_of(shifts);

	(void)state;
	assert_all_kept(run);
	assert_int_equal(run->gear.n, 2 * SHIFTS);
	for (size_t i = 1; i + 1 < run->gear.n; i++)
		assert_gear(run, i, GEAR_WINDOWS, i % 2 == 0, "testing the transitions");
	assert_int_equal(run->gear.attached[2 * SHIFTS - 1], 0);
	run_free(run);
}

static void allowance(void)
{
	setenv("MOESCOPE_DEVICE_MB", "15", 1); /* the first attaching, and one window more */
	start_dear(MOESCOPE_TRACE);
	CHECK(cupti->state().device_buffers == 4);
	for (enough = 2; cupti->state().finalized < 2;)
		launch_some(0);
	/* Nothing brings records back. */
	moescope_pause();
	moescope_resume();
	CHECK(cupti->state().kinds == 0);
	CHECK(nvml->wait_readings(10));
	CHECK(cupti->state().kinds == 0 && cupti->state().finalized == 2);
	launch_some(0);
	moescope_stop();
	note_state();
}

static void test_allowance(void **state)
{
	struct run *run = without_idle_moments(gears_of(allowance));

	(void)state;
	assert_all_kept(run);
	assert_int_equal(run->gear.n, 4);
	assert_gear(run, 3, GEAR_COUNTS, 0, "device memory allowance is used up");
	for (size_t i = 0; i < run->gear.n; i++)
		assert_true(run->gear.device_bytes[i] <= 15 << 20);
	run_free(run);
}

static void *make_other_node(void *arg)
{
	shared->threads[1] = (uint32_t)thread_id();
	cupti->make_node(6, 600, 500);
	return arg;
}

static void graph_nodes(void)
{
	pthread_t other;

	start_at(MOESCOPE_TRACE);
	shared->threads[0] = (uint32_t)thread_id();
	shared->ours_ns[0] = monotonic_ns();
	cupti->make_node(5, 500, 0);
	CHECK(pthread_create(&other, NULL, make_other_node, NULL) == 0);
	pthread_join(other, NULL);
	shared->ours_ns[1] = monotonic_ns();
	moescope_stop();
}

/* Made while attached and never launched: nobody waits for it for ever. */
static void unused_graph(void)
{
	start_dear(MOESCOPE_TRACE);
	cupti->make_node(1, 11, 0);
	for (enough = 1; cupti->state().finalized < 1;)
		launch_some(0);
	CHECK(cupti->state().finalized_in_callback == 1);
	moescope_stop();
	note_state();
}

static void test_unused_graph(void **state)
{
	struct run *run = gears_of(unused_graph);

	(void)state;
	assert_all_kept(run);
	assert_gear(run, 1, GEAR_WINDOWS, 0, "more than the budget");
	run_free(run);
}

static void test_graph_nodes(void **state)
{
	struct run *run = gears_of(graph_nodes);
	size_t first = run->graph_node.n == 2 && run->graph_node.node[0] == 600;

	(void)state;
	assert_int_equal(run->graph_node.n, 2);
	for (size_t i = 0; i < 2; i++) {
		size_t at = i ^ first;

		assert_int_equal(run->graph_node.thread[at], shared->threads[i]);
		assert_int_equal(run->graph_node.graph[at], i ? 6 : 5);
		assert_int_equal(run->graph_node.node[at], i ? 600 : 500);
		assert_int_equal(run->graph_node.source[at], i ? 500 : 0);
		assert_in_range(run->graph_node.time_ns[at], shared->ours_ns[0],
				shared->ours_ns[1]);
	}
	run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_budget_off),
		TEST(test_handed_over_early),
		TEST(test_rests),
		TEST(test_eager_windows),
		TEST(test_cheap),
		TEST(test_graphs),
		TEST(test_graph_thread_is_away),
		TEST(test_several_graph_threads),
		TEST(test_unproved),
		TEST(test_unproved_eager),
		TEST(test_callback_under_way),
		TEST(test_missed_end),
		TEST(test_no_moment),
		TEST(test_call_from_before),
		TEST(test_begins_while_disabling),
		TEST(test_slow_to_leave),
		TEST(test_about_to_call),
		TEST(test_busy_threads),
		TEST(test_shifts),
		TEST(test_allowance),
		TEST(test_unused_graph),
		TEST(test_graph_nodes),
	};

	unsetenv("MOESCOPE_STAY_ATTACHED"); /* the tests of resting set it */
	return share_memory() ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
