/* SPDX-License-Identifier: Apache-2.0
 *
 * NVTX push, pop and mark of a program in the run: domains, texts of every kind, names.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "nvtx_child.h"

static void assert_marks(const struct run *run, const char *const *texts, size_t n)
{
	assert_int_equal(run->mark.n, n);
	for (size_t i = 0; i < n; i++)
		assert_string_equal(run_string(run, run->mark.text[i]), texts[i]);
}

static void push_and_pop(void)
{
	nvtxEventAttributes_t event = ascii("ex");

	start();
	CHECK(push_a("a") == 0);
	CHECK(push_w(L"wide é€") == 1);
	CHECK(push_ex(&event) == 2);
	CHECK(pop() == 2);
	CHECK(pop() == 1);
	CHECK(push_a("") == 1);
	CHECK(pop() == 1);
	CHECK(push_a(NULL) == 1);
	CHECK(pop() == 1);
	event.messageType = NVTX_MESSAGE_TYPE_UNICODE;
	event.message.unicode = L"wide in ex";
	CHECK(push_ex(&event) == 1);
	CHECK(pop() == 1);
	CHECK(push_ex(NULL) == 1);
	CHECK(pop() == 1);
	CHECK(pop() == 0);
	moescope_stop();
}

static void test_push_and_pop(void **state)
{
	static const char *const names[] = { "ex",	   "wide é€",	"(no name)", "(no name)",
					     "wide in ex", "(no name)", "a" };
	static const int depths[] = { 2, 1, 1, 1, 1, 1, 0 };
	struct run *run = run_of(push_and_pop);

	(void)state;
	assert_ranges(run, names, depths, 7);
	assert_int_equal(loss_total(&run->loss), 0);
	run_free(run);
}

static void domains(void)
{
	nvtxEventAttributes_t event = ascii("forward");
	nvtxDomainHandle_t domain, wide;
	char longer[1000];

	start();
	domain = domain_create("torch");
	wide = CALL(nvtxDomainHandle_t(*)(const wchar_t *), core2_functions,
		    CORE2_DomainCreateW)(L"breit");
	CHECK(domain && wide);
	domain_push(domain, &event);
	event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
	event.message.registered = registered(domain, "linear");
	domain_push(domain, &event);
	domain_pop(domain);
	domain_pop(domain);
	event.message.registered = CALL(nvtxStringHandle_t(*)(nvtxDomainHandle_t, const wchar_t *),
					core2_functions,
					CORE2_DomainRegisterStringW)(wide, L"größe");
	domain_push(wide, &event);
	domain_pop(wide);
	memset(longer, 'x', sizeof(longer));
	longer[sizeof(longer) - 1] = 0;
	event = ascii(longer);
	domain_push(domain, &event); /* cut, not overflown */
	domain_pop(domain);
	moescope_stop();
}

static void test_domains(void **state)
{
	static const char *const names[] = { "torch/linear", "torch/forward", "breit/größe" };
	struct run *run = run_of(domains);
	const char *cut;

	(void)state;
	assert_int_equal(run->range.n, 4);
	for (size_t i = 0; i < 3; i++)
		assert_string_equal(run_string(run, run_site(run, run->range.site[i]).name),
				    names[i]);
	cut = run_string(run, run_site(run, run->range.site[3]).name);
	assert_in_range(strlen(cut), 400, 511);
	assert_memory_equal(cut, "torch/xxx", 9);
	assert_int_equal(loss_total(&run->loss), 0);
	run_free(run);
}

static void marks(void)
{
	nvtxEventAttributes_t event = ascii("by attributes");

	start();
	mark_a("a mark");
	CALL(void (*)(const wchar_t *), core_functions, CORE_MarkW)(L"ein Ü");
	mark_ex(&event);
	domain_mark(domain_create("d"), &event);
	moescope_stop();
}

static void test_marks(void **state)
{
	static const char *const texts[] = { "a mark", "ein Ü", "by attributes",
					     "d/by attributes" };
	struct run *run = run_of(marks);

	(void)state;
	assert_marks(run, texts, sizeof(texts) / sizeof(texts[0]));
	assert_int_equal(run->payload.n, 0);
	assert_int_equal(loss_total(&run->loss), 0);
	run_free(run);
}

/* Two domains whose ranges overlap without nesting, on top of a range of the program's own. */
static void interleaved(void)
{
	nvtxEventAttributes_t a = ascii("a"), b = ascii("b"), inner = ascii("inner");
	nvtxDomainHandle_t one, two;

	start();
	one = domain_create("one");
	two = domain_create("two");
	moescope_range_push("own");
	CHECK(domain_push(one, &a) == 0);
	CHECK(domain_push(two, &b) == 0);
	CHECK(push_a("default") == 0);
	CHECK(domain_push(two, &inner) == 1);
	CHECK(domain_pop(one) == 0);
	CHECK(domain_pop(one) < 0); /* what is open is of others */
	CHECK(domain_push(one, &inner) == 0);
	CHECK(pop() == 0);
	CHECK(domain_pop(two) == 1);
	CHECK(domain_pop(two) == 0);
	CHECK(domain_pop(one) == 0);
	moescope_range_pop();
	moescope_stop();
}

static size_t range_named(const struct run *run, const char *name)
{
	for (size_t i = 0; i < run->range.n; i++)
		if (!strcmp(run_string(run, run_site(run, run->range.site[i]).name), name))
			return i;
	fail_msg("no range %s", name);
	return 0;
}

/* Whether x began before y and ended inside it. */
static bool overlaps(const struct run *run, const char *x, const char *y)
{
	const struct table_range *range = &run->range;
	size_t i = range_named(run, x), j = range_named(run, y);
	int64_t end_i = range->start_ns[i] + range->duration_ns[i];

	return range->start_ns[i] < range->start_ns[j] && range->start_ns[j] < end_i &&
	       end_i < range->start_ns[j] + range->duration_ns[j];
}

static void test_interleaved(void **state)
{
	static const char *const names[] = { "one/a", "default",   "two/inner",
					     "two/b", "one/inner", "own" };
	static const int depths[] = { 1, 2, 2, 1, 1, 0 };
	struct run *run = run_of(interleaved);

	(void)state;
	assert_ranges(run, names, depths, 6);
	assert_true(overlaps(run, "one/a", "two/b"));
	assert_true(overlaps(run, "one/a", "default"));
	assert_true(overlaps(run, "default", "one/inner"));
	assert_true(overlaps(run, "two/b", "one/inner"));
	assert_int_equal(run->loss.dropped_unbalanced, 1);
	assert_int_equal(loss_total(&run->loss), 1);
	run_free(run);
}

/* A range of the program's own that is open when an NVTX range below it ends. */
static void under_our_own(void)
{
	start();
	push_a("nvtx");
	moescope_range_push("own");
	CHECK(pop() == 0);
	moescope_range_pop();
	moescope_stop();
}

static void test_under_our_own(void **state)
{
	static const char *const names[] = { "nvtx", "own" };
	static const int depths[] = { 0, 0 };
	struct run *run = run_of(under_our_own);

	(void)state;
	assert_ranges(run, names, depths, 2);
	assert_true(overlaps(run, "nvtx", "own"));
	assert_int_equal(loss_total(&run->loss), 0);
	run_free(run);
}

#define DEEP 200
#define RING_DEPTH 64

static void too_deep(void)
{
	nvtxEventAttributes_t event = ascii("other");
	nvtxDomainHandle_t domain;

	start();
	domain = domain_create("d");
	domain_push(domain, &event);
	for (int i = 0; i < DEEP; i++)
		CHECK(push_a("deep") == i);
	for (int i = DEEP; i-- > 0;)
		CHECK(pop() == i);
	CHECK(domain_pop(domain) == 0);
	CHECK(push_a("after") == 0);
	CHECK(pop() == 0);
	moescope_stop();
}

static void test_too_deep(void **state)
{
	struct run *run = run_of(too_deep);

	(void)state;
	assert_int_equal(run->range.n, RING_DEPTH + 1);
	assert_int_equal(run->range.depth[range_named(run, "after")], 0);
	assert_int_equal(run->range.depth[range_named(run, "d/other")], 0);
	assert_int_equal(run->loss.dropped_too_deep, DEEP + 1 - RING_DEPTH);
	assert_int_equal(loss_total(&run->loss), DEEP + 1 - RING_DEPTH);
	run_free(run);
}

/* A pause between push and pop: the range has no true time, what follows is right. */
static void pause_inside(void)
{
	start();
	push_a("cut");
	moescope_pause();
	push_a("unseen");
	moescope_resume();
	push_a("seen");
	CHECK(pop() == 2);
	CHECK(pop() == 1);
	CHECK(pop() == 0);
	push_a("after");
	CHECK(pop() == 0);
	moescope_stop();
}

static void test_pause_inside(void **state)
{
	static const char *const names[] = { "seen", "after" };
	static const int depths[] = { 0, 0 };
	struct run *run = run_of(pause_inside);

	(void)state;
	assert_ranges(run, names, depths, 2);
	assert_int_equal(run->loss.dropped_unbalanced, 1); /* "cut" */
	assert_int_equal(loss_total(&run->loss), 1);
	run_free(run);
}

static void wide(void)
{
	static const wchar_t lone[] = { 'x', 0xd83d, 'y', 0xdc00, 0x110000, 0 };
	static const wchar_t pair[] = { 0xd83d, 0xde00, 0 };

	start();
	push_w(L"\x7f\x80\x7ff\x800\xffff\x10000\x10ffff");
	pop();
	push_w(lone);
	pop();
	push_w(pair);
	pop();
	moescope_stop();
}

static void test_wide(void **state)
{
	static const char *const names[] = {
		"\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf",
		"x\xef\xbf\xbdy\xef\xbf\xbd\xef\xbf\xbd", "\xf0\x9f\x98\x80"
	};
	static const int depths[] = { 0, 0, 0 };
	struct run *run = run_of(wide);

	(void)state;
	assert_ranges(run, names, depths, 3);
	run_free(run);
}

/* A text of many bytes a character is cut between two of them. */
static void long_texts(void)
{
	nvtxEventAttributes_t event;
	nvtxDomainHandle_t domain;
	wchar_t long_wide[600];
	char longer[900];

	for (int i = 0; i < 599; i++)
		long_wide[i] = 0x20ac;
	long_wide[599] = 0;
	for (int i = 0; i < 299; i++)
		memcpy(longer + 3 * i, "€", 4);
	start();
	domain = domain_create(longer);
	CHECK(domain == domain_create(longer));
	event = ascii(longer);
	domain_push(domain, &event);
	domain_pop(domain);
	push_w(long_wide);
	pop();
	moescope_stop();
}

static void test_long_texts(void **state)
{
	struct run *run = run_of(long_texts);

	(void)state;
	assert_int_equal(run->range.n, 2);
	for (size_t i = 0; i < 2; i++) {
		const char *name = run_string(run, run_site(run, run->range.site[i]).name);
		size_t euros = 0, n = strlen(name);

		assert_in_range(n, 500, 511);
		while (*name) {
			if (*name == '/') {
				assert_int_equal(euros, 21); /* the domain's name */
				name++;
			}
			assert_memory_equal(name, "€", 3);
			name += 3;
			euros++;
		}
	}
	run_free(run);
}

static _Atomic bool named;

static void *named_thread(void *arg)
{
	_Atomic uint32_t *tid = arg;

	pthread_setname_np(pthread_self(), "system name");
	*tid = (uint32_t)gettid();
	while (!named)
		sched_yield();
	moescope_mark("works");
	return NULL;
}

static void name_thread(uint32_t thread, const char *name)
{
	CALL(void (*)(uint32_t, const char *), core_functions, CORE_NameOsThreadA)(thread, name);
}

static void labels(void)
{
	static _Atomic uint32_t tid;
	nvtxDomainHandle_t domain;
	pthread_t thread;

	inject();
	/* Before any session: for the one to come. */
	CALL(void (*)(uint32_t, const char *), core_functions, CORE_NameCategoryA)(3, "copies");
	CALL(void (*)(uint32_t, const wchar_t *), core_functions, CORE_NameOsThreadW)
	((uint32_t)gettid(), L"Häuptling");
	start();
	domain = domain_create("d");
	CALL(void (*)(nvtxDomainHandle_t, uint32_t, const wchar_t *), core2_functions,
	     CORE2_DomainNameCategoryW)
	(domain, 3, L"größer");
	/* A thread that has recorded nothing yet. */
	CHECK(pthread_create(&thread, NULL, named_thread, &tid) == 0);
	while (!tid)
		sched_yield();
	name_thread(tid, "worker");
	named = true;
	pthread_join(thread, NULL);
	moescope_counter("worker", tid);
	moescope_counter("main", gettid());
	moescope_stop();
}

/* The last name that the run has for a thread. */
static const char *name_of_thread(const struct run *run, uint32_t thread)
{
	const char *name = "";

	for (size_t i = 0; i < run->thread.n; i++)
		if (run->thread.thread[i] == thread)
			name = run_string(run, run->thread.name[i]);
	return name;
}

static void test_labels(void **state)
{
	struct run *run = run_of(labels);

	(void)state;
	assert_int_equal(run->counter.n, 2);
	assert_string_equal(name_of_thread(run, (uint32_t)run->counter.value[0]), "worker");
	assert_string_equal(name_of_thread(run, (uint32_t)run->counter.value[1]), "Häuptling");
	assert_string_equal(fact_of(run, "NVTX category 3"), "copies");
	assert_string_equal(fact_of(run, "NVTX category d/3"), "größer");
	assert_int_equal(loss_total(&run->loss), 0);
	run_free(run);
}

static void unbalanced(void)
{
	start();
	CHECK(pop() < 0);
	moescope_range_push("of the program's own");
	CHECK(pop() < 0); /* closes nothing that NVTX has not opened */
	CHECK(push_a("inner") == 0);
	CHECK(pop() == 0);
	CHECK(pop() < 0);
	moescope_range_pop();
	moescope_stop();
}

static void test_unbalanced(void **state)
{
	static const char *const names[] = { "inner", "of the program's own" };
	static const int depths[] = { 1, 0 };
	struct run *run = run_of(unbalanced);

	(void)state;
	assert_ranges(run, names, depths, 2);
	assert_int_equal(run->loss.dropped_unbalanced, 3);
	assert_int_equal(loss_total(&run->loss), 3);
	run_free(run);
}

static void without_session(void)
{
	struct moescope_options options = { .struct_size = sizeof(options) };

	inject();
	CHECK(push_a("before") == 0);
	mark_a("before");
	CHECK(pop() == 0);
	CHECK(moescope_start_with("run.mscope", &options) == 0);
	push_a("inside");
	pop();
	moescope_stop();
	push_a("after");
	pop();
	CHECK(initialize_symbol()(no_export_table) == 0);
}

static void test_without_session(void **state)
{
	static const char *const names[] = { "inside" };
	static const int depths[] = { 0 };
	struct run *run = run_of(without_session);

	(void)state;
	assert_ranges(run, names, depths, 1);
	assert_int_equal(run->mark.n, 0);
	run_free(run);
}

#define LOOPS 3000

static void *push_loop(void *arg)
{
	nvtxDomainHandle_t domain = domain_create(arg);
	nvtxEventAttributes_t event = ascii("step");

	event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
	event.message.registered = registered(domain, "step");
	for (int i = 0; i < LOOPS; i++) {
		CHECK(domain_push(domain, &event) == 0);
		CHECK(push_a("inner") == 0);
		CHECK(pop() == 0);
		CHECK(domain_pop(domain) == 0);
	}
	return NULL;
}

static void two_threads(void)
{
	pthread_t threads[2];
	char one[] = "one", two[] = "two";

	start();
	CHECK(pthread_create(&threads[0], NULL, push_loop, one) == 0);
	CHECK(pthread_create(&threads[1], NULL, push_loop, two) == 0);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	moescope_stop();
}

static void test_two_threads(void **state)
{
	struct run *run = run_of(two_threads);
	size_t one = 0, two = 0, inner = 0;

	(void)state;
	for (size_t i = 0; i < run->range.n; i++) {
		const char *name = run_string(run, run_site(run, run->range.site[i]).name);

		one += !strcmp(name, "one/step") && run->range.depth[i] == 0;
		two += !strcmp(name, "two/step") && run->range.depth[i] == 0;
		inner += !strcmp(name, "inner") && run->range.depth[i] == 1;
	}
	assert_int_equal(run->range.n, 4 * LOOPS);
	assert_int_equal(one, LOOPS);
	assert_int_equal(two, LOOPS);
	assert_int_equal(inner, 2 * LOOPS);
	assert_int_equal(loss_total(&run->loss), 0);
	run_free(run);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_push_and_pop), TEST(test_domains),	   TEST(test_marks),
		TEST(test_interleaved),	 TEST(test_under_our_own), TEST(test_too_deep),
		TEST(test_pause_inside), TEST(test_wide),	   TEST(test_long_texts),
		TEST(test_labels),	 TEST(test_unbalanced),	   TEST(test_without_session),
		TEST(test_two_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
