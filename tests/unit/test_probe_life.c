/* SPDX-License-Identifier: Apache-2.0
 *
 * The C API's contract: older and newer callers, handlers of signals, clocks, what is handed out.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <time.h>

#include <cmocka.h>

#include "probe_child.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED
#endif

/* ---- structures of another size */

/* The structure up to a member, as a header that did not have that one yet would have it, and behind
 * its end what must not be read. */
#define UP_TO(type, member) offsetof(type, member)

static void older_caller(void)
{
	static const int32_t indices[] = { 0, 1, 2, 3 };
	struct moescope_options options = { .struct_size = UP_TO(struct moescope_options,
								 ring_bytes),
					    .level = MOESCOPE_FULL,
					    .ring_bytes = 77,
					    .flush_ms = 1 };
	struct moescope_schedule schedule = { .struct_size = UP_TO(struct moescope_schedule,
								   sample),
					      .skip_first = 1,
					      .sample = 1000 };
	struct moescope_routing routing = { .struct_size = UP_TO(struct moescope_routing, weights),
					    .layer = 3,
					    .experts = 4,
					    .k = 2,
					    .tokens = 2,
					    .indices = indices,
					    .weights = (const float *)8,
					    .scores = (const float *)8 };
	struct moescope_moe_layer layer = { .struct_size = UP_TO(struct moescope_moe_layer,
								 capacity_factor),
					    .layer = 3,
					    .experts = 4,
					    .k = 2,
					    .hidden = 64,
					    .capacity_factor = 2 };
	struct moescope_stats stats = { .struct_size = UP_TO(struct moescope_stats, write_errors),
					.write_errors = 4321,
					.drain_cpu_ns = 4321 };

	CHECK(moescope_schedule_records(&schedule, 0) == 0);
	CHECK(moescope_schedule_records(&schedule, 2) == 1);
	moescope_set_schedule(&schedule);
	CHECK(moescope_start_with("run.mscope", &options) == 0);
	moescope_step_begin(0);
	moescope_route(&routing); /* skipped by the schedule */
	moescope_step_begin(1);
	moescope_route(&routing);
	moescope_step_begin(2);
	moescope_route(&routing);
	moescope_step_end(0);
	moescope_moe_layer(&layer);
	moescope_stop();
	moescope_get_stats(&stats);
	CHECK(stats.recorded > 0 && stats.written_bytes > 0);
	CHECK(stats.struct_size == UP_TO(struct moescope_stats, write_errors));
	CHECK(stats.write_errors == 4321 && stats.drain_cpu_ns == 4321);
}

static void test_older_caller(void **state)
{
	struct run *run = run_of(older_caller);

	(void)state;
	assert_int_equal(run->routing.n, 2);
	assert_int_equal(run->routing.layer[0], 3);
	assert_int_equal(run->routing.tokens[0], 2);
	assert_int_equal(run->routing.weighted_tokens[0], 0);
	assert_int_equal(run->routed.n, 2); /* the level was taken */
	assert_int_equal(run->moe_layer.n, 1);
	assert_int_equal(run->moe_layer.hidden[0], 64);
	assert_true(run->moe_layer.capacity_factor[0] == 0);
	assert_int_equal(loss_total(&run->loss), 0);
	run_free(run);
}

static void newer_caller(void)
{
	struct {
		struct moescope_options options;
		char more[64];
	} options = { .options = { .struct_size = sizeof(options), .level = MOESCOPE_COUNTS } };
	struct {
		struct moescope_stats stats;
		char more[64];
	} stats = { .stats = { .struct_size = sizeof(stats) } };

	memset(options.more, 0xff, sizeof(options.more));
	memset(stats.more, 0x55, sizeof(stats.more));
	CHECK(moescope_start_with("run.mscope", &options.options) == 0);
	CHECK(!moescope_recording()); /* counts only */
	moescope_mark("a mark");
	moescope_stop();
	moescope_get_stats(&stats.stats);
	CHECK(stats.stats.recorded > 0 && stats.stats.struct_size == sizeof(stats));
	for (size_t i = 0; i < sizeof(stats.more); i++)
		CHECK(stats.more[i] == 0x55);
}

static void test_newer_caller(void **state)
{
	struct run *run = run_of(newer_caller);

	(void)state;
	assert_int_equal(run->mark.n, 1);
	run_free(run);
}

/* ---- what is handed out */

static void kept_run_dir(void)
{
	const char *first, *second;

	CHECK(moescope_start("run.mscope") == 0);
	first = moescope_run_dir();
	CHECK(first && strstr(first, "/run.mscope"));
	moescope_stop();
	CHECK(!moescope_run_dir());
	for (int i = 0; i < 100; i++) /* somebody else's memory, if it was freed */
		memset(malloc(strlen(first) + 1), 'x', strlen(first) + 1);
	CHECK(strstr(first, "/run.mscope"));
	CHECK(moescope_start("other.mscope") == 0);
	second = moescope_run_dir();
	moescope_stop();
	CHECK(strstr(first, "/run.mscope") && strstr(second, "/other.mscope"));
	CHECK(moescope_start("other.mscope") == 0);
	CHECK(moescope_run_dir() == second); /* one copy of each */
	moescope_stop();
}

static void test_run_dir_stays_valid(void **state)
{
	(void)state;
	assert_int_equal(in_child(kept_run_dir), 0);
}

/* ---- handlers of signals */

#if defined(__x86_64__) && !defined(SANITIZED)
#define SINGLE_STEP

static volatile sig_atomic_t trapped;
static void (*in_handler)(void);

static void trap(int number)
{
	int saved = errno;

	(void)number;
	trapped++;
	in_handler();
	errno = saved;
}

/* The trap flag: a SIGTRAP after every instruction. Below the red zone of the caller. */
static void step_through(void (*calls)(void))
{
	struct sigaction action = { .sa_handler = trap };

	CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
	__asm__ volatile("leaq -128(%%rsp), %%rsp\n\tpushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\t"
			 "leaq 128(%%rsp), %%rsp" ::
				 : "memory", "cc");
	calls();
	__asm__ volatile("leaq -128(%%rsp), %%rsp\n\tpushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq\n\t"
			 "leaq 128(%%rsp), %%rsp" ::
				 : "memory", "cc");
}

static moescope_name interrupted_name;

static void calls_to_step_through(void)
{
	moescope_range_begin(interrupted_name, 1, -1, MOESCOPE_FORWARD);
	moescope_op_begin(interrupted_name, -1, 2, 0);
	moescope_op_end(1, 2);
	moescope_range_end();
	moescope_range_push("a name that is new");
	moescope_range_pop();
	moescope_mark("interrupted");
	moescope_counter("a counter", 1);
	moescope_alloc(&in_handler, 100, -1, MOESCOPE_MEMORY_CACHE, interrupted_name);
	moescope_info("key", "value");
	route_once();
	moescope_step_begin(1);
	moescope_step_end(1);
}

static void mark_in_handler(void)
{
	moescope_mark("handler");
}

static void record_at_every_instruction(void)
{
	start_at(MOESCOPE_FULL);
	interrupted_name = moescope_intern("interrupted");
	moescope_intern("handler");
	in_handler = mark_in_handler;
	step_through(calls_to_step_through);
	CHECK(trapped > 1000);
	moescope_counter("trapped", trapped);
	moescope_stop();
}

static void assert_interrupted_rows(const struct run *run)
{
	assert_int_equal(run->range.n, 2);
	assert_site(run, run->range.site[0], "interrupted", 1, -1, MOESCOPE_FORWARD);
	assert_site(run, run->range.site[1], "a name that is new", -1, -1, 0);
	assert_int_equal(run->op.n, 1);
	assert_site(run, run->op.site[0], "interrupted", 1, 2, MOESCOPE_FORWARD);
	assert_int_equal(run->memory.n, 1);
	assert_int_equal(run->memory.bytes[0], 100);
	assert_int_equal(run->fact.n, 1);
	assert_int_equal(run->routing.n, 1);
	assert_int_equal(run->routing.tokens[0], 2);
	assert_int_equal(run->routed.n, 1);
	assert_int_equal(run->loss.dropped_names, 0);
	assert_int_equal(run->loss.corrupt_chunks, 0);
	assert_int_equal(run->loss.bad_references, 0);
}

static void test_record_at_every_instruction(void **state)
{
	struct run *run = run_of(record_at_every_instruction);
	size_t from_handler = 0;

	(void)state;
	assert_interrupted_rows(run);
	assert_int_equal(run->step.n, 1);
	assert_int_equal(run->counter.n, 2);
	for (size_t i = 0; i < run->mark.n; i++)
		from_handler += !strcmp(run_string(run, run->mark.text[i]), "handler");
	assert_int_equal(run->mark.n, from_handler + 1);
	/* Recorded or counted, every one of them, and some of each. */
	assert_true(from_handler > 0 && run->loss.dropped_in_signal > 0);
	assert_int_equal((double)(from_handler + run->loss.dropped_in_signal),
			 run->counter.value[1]);
	assert_int_equal(loss_total(&run->loss), run->loss.dropped_in_signal);
	run_free(run);
}

static void control_in_handler(void)
{
	struct moescope_stats stats = { .struct_size = sizeof(stats) };

	moescope_set_level(MOESCOPE_FULL);
	moescope_get_stats(&stats);
	moescope_resume();
	moescope_step_cancel();
	moescope_start("other.mscope");
}

static void control_at_every_instruction(void)
{
	start_at(MOESCOPE_FULL);
	interrupted_name = moescope_intern("interrupted");
	in_handler = control_in_handler;
	step_through(calls_to_step_through);
	moescope_stop();
	CHECK(!moescope_run_dir());
}

static void test_control_at_every_instruction(void **state)
{
	struct run *run = run_of(control_at_every_instruction);

	(void)state;
	assert_interrupted_rows(run);
	assert_true(run->loss.dropped_in_signal > 0);
	run_free(run);
}

static int stop_from;

static void stop_in_handler(void)
{
	if (trapped > stop_from)
		moescope_stop();
}

/* As a handler does that ends the process by exit. */
static void stop_at_every_instruction(void)
{
	in_handler = stop_in_handler;
	interrupted_name = moescope_intern("interrupted");
	for (stop_from = 0; stop_from < 400; stop_from += 7) {
		char path[32];

		snprintf(path, sizeof(path), "%d.mscope", stop_from);
		trapped = 0;
		CHECK(moescope_start(path) == 0);
		step_through(calls_to_step_through);
		moescope_stop();
		CHECK(!moescope_run_dir());
	}
}

static void test_stop_at_every_instruction(void **state)
{
	(void)state;
	assert_int_equal(in_child(stop_at_every_instruction), 0);
}

static pid_t parent;

/* fork holds the probe's locks, and malloc's, for a while. What the child does is not the matter. */
static void step_in_handler(void)
{
	if (getpid() != parent)
		return;
	moescope_step(1);
	moescope_mark("handler");
}

static void fork_once(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
}

static void fork_at_every_instruction(void)
{
	start_at(MOESCOPE_TRACE);
	moescope_intern("handler");
	parent = getpid();
	in_handler = step_in_handler;
	step_through(fork_once);
	CHECK(trapped > 100);
	moescope_stop();
}

static void test_fork_at_every_instruction(void **state)
{
	struct run *run = run_of(fork_at_every_instruction);

	(void)state;
	assert_true(run->mark.n > 0 && run->step.n > 0 && run->loss.dropped_in_signal > 0);
	run_free(run);
}
#endif

/* ---- clocks */

#if defined(__x86_64__) && !defined(SANITIZED) /* sanitizers read the counter themselves */
#define WITHOUT_COUNTER

static int64_t monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void without_counter(void)
{
	struct moescope_stats stats = { .struct_size = sizeof(stats) };
	int64_t begin = monotonic_ns(), end;

	every_call();
	CHECK(prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) == 0);
	every_call(); /* nothing is recorded, so no clock is read */
	start_at(MOESCOPE_TRACE);
	every_call();
	moescope_stop();
	moescope_get_stats(&stats);
	CHECK(stats.recorded > 0 && stats.dropped == 0);
	CHECK(prctl(PR_SET_TSC, PR_TSC_ENABLE, 0, 0, 0) == 0);
	end = monotonic_ns();
	CHECK(moescope_start("times.mscope") == 0);
	moescope_counter("begin", (double)begin);
	moescope_counter("end", (double)end);
	moescope_stop();
}

static void test_session_without_counter(void **state)
{
	struct run *run = run_of(without_counter), *times = load_run("times.mscope");

	(void)state;
	assert_level_rows(run, MOESCOPE_TRACE, 1);
	assert_int_equal(times->counter.n, 2);
	for (size_t i = 0; i < 2; i++) /* behind the one, before the other */
		assert_true(((double)run->mark.time_ns[0] < times->counter.value[i]) == (i == 1));
	run_free(run);
	run_free(times);
}
#endif

/* ---- large rings */

#define MANY_TOKENS 300000

static void full_with_large_rings(void)
{
	struct moescope_options options = { .struct_size = sizeof(options),
					    .level = MOESCOPE_FULL,
					    .ring_bytes = 32u << 20 };
	struct moescope_routing routing = {
		.struct_size = sizeof(routing), .experts = 8, .k = 2, .tokens = MANY_TOKENS
	};
	int32_t *indices = malloc(sizeof(*indices) * 2 * MANY_TOKENS);

	CHECK(indices);
	for (int32_t i = 0; i < 2 * MANY_TOKENS; i++)
		indices[i] = i % 8;
	routing.indices = indices;
	CHECK(moescope_start_with("run.mscope", &options) == 0);
	moescope_step_begin(0);
	moescope_route(&routing);
	moescope_step_end(0);
	moescope_stop();
	free(indices);
}

static void test_full_with_large_rings(void **state)
{
	struct run *run = run_of(full_with_large_rings);
	uint64_t slots = 0;

	(void)state;
	for (size_t i = 0; i < run->routed.n; i++)
		slots += run->routed.slots[i];
	assert_int_equal(slots, 2 * MANY_TOKENS);
	assert_int_equal(loss_total(&run->loss), 0);
	run_free(run);
}

/* ---- sizes of rings */

static uint32_t asked_bytes;

static void odd_rings(void)
{
	struct moescope_options options = { .struct_size = sizeof(options),
					    .ring_bytes = asked_bytes };

	CHECK(moescope_start_with("run.mscope", &options) == 0);
	moescope_mark("a mark");
	moescope_stop();
}

static void test_size_of_rings_is_told(void **state)
{
	static const struct {
		uint32_t bytes;
		const char *words;
	} cases[] = {
		{ 0, NULL },
		{ 64 << 10, NULL },
		{ 100000, NULL }, /* rounded up, as documented */
		{ 16 << 10, "64 KiB per thread: 16 KiB requested, 64 to 65536 allowed" },
		{ 128u << 20, "65536 KiB per thread: 131072 KiB requested, 64 to 65536 allowed" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *path = path_in(directory, "run.mscope");
		struct run *run;

		asked_bytes = cases[i].bytes;
		run = run_of(odd_rings);
		assert_int_equal(run->fact.n, cases[i].words != NULL);
		if (cases[i].words)
			assert_string_equal(run_string(run, run->fact.value[0]), cases[i].words);
		run_free(run);
		remove_directory(path); /* and frees its name */
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_older_caller),
		TEST(test_newer_caller),
		TEST(test_run_dir_stays_valid),
#if defined(SINGLE_STEP)
		TEST(test_record_at_every_instruction),
		TEST(test_control_at_every_instruction),
		TEST(test_stop_at_every_instruction),
		TEST(test_fork_at_every_instruction),
#endif
#if defined(WITHOUT_COUNTER)
		TEST(test_session_without_counter),
#endif
		TEST(test_full_with_large_rings),
		TEST(test_size_of_rings_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
