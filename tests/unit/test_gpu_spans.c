/* SPDX-License-Identifier: Apache-2.0
 *
 * NVTX start and end, which may be on two threads, and what events carry besides their names.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "nvtx_child.h"

static void spans(void)
{
	nvtxEventAttributes_t event = ascii("by attributes");
	nvtxDomainHandle_t domain;
	nvtxRangeId_t ids[5];

	start();
	domain = domain_create("d");
	ids[0] = start_a("load");
	ids[1] = CALL(nvtxRangeId_t(*)(const wchar_t *), core_functions,
		      CORE_RangeStartW)(L"größe");
	ids[2] = domain_start(domain, &event);
	ids[3] = start_ex(&event);
	ids[4] = start_a(NULL);
	for (int i = 0; i < 5; i++)
		for (int j = 0; j < i; j++)
			CHECK(ids[i] && ids[i] != ids[j]);
	range_end(ids[0]);
	domain_end(domain, ids[2]);
	range_end(ids[1]);
	range_end(ids[4]);
	range_end(ids[3]);
	range_end(0); /* of no range */
	moescope_stop();
}

static void test_spans(void **state)
{
	static const struct want_span want[] = { { "load", "", 0 },
						 { "by attributes", "d", 0 },
						 { "größe", "", 0 },
						 { "(no name)", "", 0 },
						 { "by attributes", "", 0 } };
	struct run *run = run_of(spans);

	(void)state;
	assert_spans(run, want, 5);
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(run->span.end_thread[i], run->span.thread[i]);
	/* The first began first, and the second inside it. */
	assert_true(run->span.start_ns[0] <= run->span.start_ns[2] &&
		    run->span.start_ns[2] <= run->span.start_ns[0] + run->span.duration_ns[0]);
	assert_int_equal(run->mark.n, 0);
	assert_int_equal(run->range.n, 0);
	assert_int_equal(loss_total(&run->loss), 0);
	run_free(run);
}

static void ends_wrongly(void)
{
	nvtxRangeId_t id;

	start();
	id = start_a("once");
	range_end(id);
	range_end(id);
	range_end(id + 4096 * 77); /* nobody has handed this one out */
	moescope_stop();
}

static void test_ends_wrongly(void **state)
{
	static const struct want_span want[] = { { "once", "", 0 } };
	struct run *run = run_of(ends_wrongly);

	(void)state;
	assert_spans(run, want, 1);
	assert_int_equal(run->loss.dropped_unbalanced, 2);
	assert_int_equal(loss_total(&run->loss), 2);
	run_free(run);
}

static void *end_elsewhere(void *arg)
{
	range_end(*(nvtxRangeId_t *)arg);
	moescope_counter("ended by", gettid());
	return NULL;
}

static void across_threads(void)
{
	pthread_t thread;
	nvtxRangeId_t id;

	start();
	id = start_a("request");
	moescope_counter("begun by", gettid());
	CHECK(pthread_create(&thread, NULL, end_elsewhere, &id) == 0);
	pthread_join(thread, NULL);
	moescope_stop();
}

static void test_across_threads(void **state)
{
	static const struct want_span want[] = { { "request", "", 0 } };
	struct run *run = run_of(across_threads);
	uint32_t began = 0, ended = 0;

	(void)state;
	assert_spans(run, want, 1);
	for (size_t i = 0; i < run->counter.n; i++) {
		bool first = !strcmp(run_string(run, run->counter.name[i]), "begun by");

		*(first ? &began : &ended) = (uint32_t)run->counter.value[i];
	}
	assert_true(began && ended && began != ended);
	assert_int_equal(run->span.thread[0], began);
	assert_int_equal(run->span.end_thread[0], ended);
	assert_int_equal(loss_total(&run->loss), 0);
	run_free(run);
}

static void left_open(void)
{
	nvtxRangeId_t first, second;

	start();
	first = start_a("never ends");
	range_end(start_a("ends"));
	moescope_stop();
	/* Its end in the next session is of nothing there, and no loss of it. */
	start_in("second.mscope", MOESCOPE_TRACE);
	range_end(first);
	second = start_a("second");
	moescope_pause();
	range_end(start_a("paused"));
	range_end(second); /* it began recorded: its time is true */
	moescope_stop();
}

static void test_left_open(void **state)
{
	static const struct want_span want[] = { { "ends", "", 0 }, { "never ends", "", 1 } };
	static const struct want_span second[] = { { "second", "", 0 } };
	struct run *run = run_of(left_open);

	(void)state;
	assert_spans(run, want, 2);
	assert_int_equal(run->span.end_thread[1], 0);
	assert_true(run->span.duration_ns[1] > 0);
	assert_int_equal(run->loss.unfinished, 1);
	assert_int_equal(loss_total(&run->loss), 1);
	run_free(run);
	run = load_run("second.mscope");
	assert_spans(run, second, 1);
	assert_int_equal(loss_total(&run->loss), 0);
	run_free(run);
}

static void killed(void)
{
	start();
	start_a("open");
	for (int i = 0; i < 100; i++)
		range_end(start_a("finished"));
	raise(SIGKILL);
}

static void test_killed(void **state)
{
	struct run *run;

	(void)state;
	assert_int_equal(in_child(killed), -SIGKILL);
	run = load_run("run.mscope");
	assert_int_equal(run->span.n, 100);
	for (size_t i = 0; i < 100; i++)
		assert_string_equal(run_string(run, run->span.name[i]), "finished");
	run_free(run);
}

#define TOO_MANY 5000
#define AT_ONCE 4095

static void overflow(void)
{
	static nvtxRangeId_t ids[TOO_MANY];

	start();
	for (int i = 0; i < TOO_MANY; i++)
		ids[i] = start_a("open");
	for (int i = 0; i < TOO_MANY; i++)
		range_end(ids[i]);
	/* There is room again. */
	range_end(start_a("after"));
	moescope_stop();
}

static void test_overflow(void **state)
{
	struct run *run = run_of(overflow);

	(void)state;
	assert_int_equal(run->span.n, AT_ONCE + 1);
	assert_string_equal(run_string(run, run->span.name[AT_ONCE]), "after");
	assert_int_equal(run->loss.dropped_too_deep, TOO_MANY - AT_ONCE);
	assert_int_equal(loss_total(&run->loss), TOO_MANY - AT_ONCE);
	run_free(run);
}

#define PAIRS 5000

static void *span_loop(void *arg)
{
	nvtxRangeId_t open[8] = { 0 };

	(void)arg;
	for (int i = 0; i < PAIRS; i++) {
		range_end(open[i % 8]);
		open[i % 8] = start_a("r");
	}
	for (int i = 0; i < 8; i++)
		range_end(open[i]);
	return NULL;
}

/* Spans that are started and ended for hours must not fill any table. */
static void many_spans(void)
{
	pthread_t threads[4];

	start();
	for (int i = 0; i < 4; i++)
		CHECK(pthread_create(&threads[i], NULL, span_loop, NULL) == 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	moescope_stop();
}

static void test_many_spans(void **state)
{
	struct run *run = run_of(many_spans);

	(void)state;
	assert_int_equal(run->span.n, 4 * PAIRS);
	for (size_t i = 0; i < run->span.n; i++) {
		assert_int_equal(run->span.name[i], run->span.name[0]);
		assert_int_equal(run->span.thread[i], run->span.end_thread[i]);
	}
	assert_int_equal(loss_total(&run->loss), 0);
	run_free(run);
}

static void payloads(void)
{
	nvtxEventAttributes_t event = ascii("u64");
	nvtxDomainHandle_t domain;

	start();
	domain = domain_create("d");
	event.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
	event.payload.ullValue = UINT64_MAX;
	push_ex(&event);
	pop();
	event = ascii("i64");
	event.payloadType = NVTX_PAYLOAD_TYPE_INT64;
	event.payload.llValue = INT64_MIN;
	event.category = 7;
	domain_push(domain, &event);
	domain_pop(domain);
	event = ascii("double");
	event.payloadType = NVTX_PAYLOAD_TYPE_DOUBLE;
	event.payload.dValue = -0.1;
	mark_ex(&event);
	event = ascii("u32");
	event.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT32;
	event.payload.ullValue = UINT64_MAX; /* the upper half is not its */
	domain_mark(domain, &event);
	event = ascii("i32");
	event.payloadType = NVTX_PAYLOAD_TYPE_INT32;
	event.payload.iValue = -5;
	range_end(start_ex(&event));
	event = ascii("float");
	event.payloadType = NVTX_PAYLOAD_TYPE_FLOAT;
	event.payload.fValue = 1.5f;
	domain_end(domain, domain_start(domain, &event));
	event = ascii("category alone");
	event.category = 3;
	mark_ex(&event);
	event = ascii("of a schema");
	event.payloadType = 0x7dbd0009;
	event.payload.ullValue = 1234;
	mark_ex(&event);
	event = ascii("nothing");
	mark_ex(&event);
	moescope_stop();
}

static uint64_t bits_of(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static void test_payloads(void **state)
{
	const struct {
		const char *name, *domain;
		uint32_t category;
		uint8_t type;
		uint64_t bits;
	} want[] = {
		{ "u64", "", 0, 1, UINT64_MAX },       { "i64", "d", 7, 2, (uint64_t)INT64_MIN },
		{ "double", "", 0, 3, bits_of(-0.1) }, { "u32", "d", 0, 1, UINT32_MAX },
		{ "i32", "", 0, 2, (uint64_t)-5 },     { "float", "d", 0, 3, bits_of(1.5) },
		{ "category alone", "", 3, 0, 0 },     { "of a schema", "", 0, 0, 0 },
	};
	struct run *run = run_of(payloads);

	(void)state;
	assert_int_equal(run->payload.n, 8);
	for (size_t i = 0; i < 8; i++) {
		assert_string_equal(run_string(run, run->payload.name[i]), want[i].name);
		assert_string_equal(run_string(run, run->payload.domain[i]), want[i].domain);
		assert_int_equal(run->payload.category[i], want[i].category);
		assert_int_equal(run->payload.type[i], want[i].type);
		assert_true(run->payload.bits[i] == want[i].bits);
		assert_int_equal(run->payload.thread[i], run->span.thread[0]);
	}
	/* At the beginning of what carries it. */
	assert_int_equal(run->payload.time_ns[0], run->range.start_ns[0]);
	assert_int_equal(run->payload.time_ns[2], run->mark.time_ns[0]);
	assert_int_equal(run->payload.time_ns[4], run->span.start_ns[0]);
	assert_int_equal(run->range.n, 2);
	assert_int_equal(run->mark.n, 5);
	assert_int_equal(run->span.n, 2);
	assert_int_equal(loss_total(&run->loss), 0);
	run_free(run);
}

/* A child takes no part in what its parent has open, and can have a run of its own. */
static void forks(void)
{
	struct moescope_options options = { .struct_size = sizeof(options) };
	nvtxRangeId_t id;
	int status;
	pid_t pid;

	start();
	push_a("parent");
	id = start_a("parent's span");
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		range_end(id);
		CHECK(moescope_start_with("child.mscope", &options) == 0);
		CHECK(push_a("child") == 1);
		CHECK(pop() == 1);
		CHECK(pop() == 0);
		range_end(start_a("child's span"));
		moescope_stop();
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	range_end(id);
	pop();
	moescope_stop();
}

static void test_forks(void **state)
{
	static const char *const parent[] = { "parent" }, *const child[] = { "child" };
	static const struct want_span parents[] = { { "parent's span", "", 0 } };
	static const struct want_span childs[] = { { "child's span", "", 0 } };
	static const int depths[] = { 0 };
	struct run *run;

	(void)state;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
	skip(); /* one wants no threads after a fork, the other's allocator may be locked there */
#endif
	run = run_of(forks);
	assert_ranges(run, parent, depths, 1);
	assert_spans(run, parents, 1);
	assert_int_equal(loss_total(&run->loss), 0);
	run_free(run);
	run = load_run("child.mscope");
	assert_ranges(run, child, depths, 1);
	assert_spans(run, childs, 1);
	assert_int_equal(loss_total(&run->loss), 0);
	run_free(run);
}

/* Below `trace` ranges nest unseen and nothing of spans and payloads is kept; marks are. */
static void at_level_steps(void)
{
	nvtxEventAttributes_t event = ascii("e");

	start_at(MOESCOPE_STEPS);
	inject();
	event.category = 1;
	push_ex(&event);
	range_end(start_ex(&event));
	mark_ex(&event);
	pop();
	moescope_stop();
}

static void test_at_level_steps(void **state)
{
	struct run *run = run_of(at_level_steps);

	(void)state;
	assert_int_equal(run->range.n + run->span.n + run->payload.n, 0);
	assert_int_equal(run->mark.n, 1);
	assert_int_equal(loss_total(&run->loss), 0);
	run_free(run);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_spans),	   TEST(test_ends_wrongly), TEST(test_across_threads),
		TEST(test_left_open),	   TEST(test_killed),	    TEST(test_overflow),
		TEST(test_many_spans),	   TEST(test_payloads),	    TEST(test_forks),
		TEST(test_at_level_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
