/* SPDX-License-Identifier: Apache-2.0
 *
 * NVTX calls of a program, in the run: the test is NVTX's half, hands the probe its function
 * tables as the header-only library does, and then calls what the probe has put there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <nvtx3/nvToolsExt.h>

#include "gpu_child.h"

/* One entry per function, and a table of pointers to them, as in NVTX itself. */
static NvtxFunctionPointer core_functions[NVTX_CBID_CORE_SIZE];
static NvtxFunctionPointer core2_functions[NVTX_CBID_CORE2_SIZE];
static NvtxFunctionPointer *core_table[NVTX_CBID_CORE_SIZE + 1];
static NvtxFunctionPointer *core2_table[NVTX_CBID_CORE2_SIZE + 1];

static int NVTX_API get_module(NvtxCallbackModule module, NvtxFunctionTable *ret_table,
			       unsigned int *ret_size)
{
	if (module == NVTX_CB_MODULE_CORE) {
		*ret_table = core_table;
		*ret_size = NVTX_CBID_CORE_SIZE;
	} else if (module == NVTX_CB_MODULE_CORE2) {
		*ret_table = core2_table;
		*ret_size = NVTX_CBID_CORE2_SIZE;
	} else {
		return 0;
	}
	return 1;
}

static const void *NVTX_API get_export_table(uint32_t id)
{
	static const NvtxExportTableCallbacks callbacks = {
		.struct_size = sizeof(callbacks),
		.GetModuleFunctionTable = get_module,
	};

	return id == NVTX_ETID_CALLBACKS ? &callbacks : NULL;
}

static const void *NVTX_API no_export_table(uint32_t id)
{
	(void)id;
	return NULL;
}

typedef int (*initialize_fn)(NvtxGetExportTableFunc_t);

static initialize_fn initialize_symbol(void)
{
	void *symbol = dlsym(RTLD_DEFAULT, "InitializeInjectionNvtx2");
	initialize_fn initialize;

	CHECK(symbol);
	memcpy(&initialize, &symbol, sizeof(initialize));
	return initialize;
}

static void inject(void)
{
	for (int i = 1; i < NVTX_CBID_CORE_SIZE; i++)
		core_table[i] = &core_functions[i];
	for (int i = 1; i < NVTX_CBID_CORE2_SIZE; i++)
		core2_table[i] = &core2_functions[i];
	CHECK(initialize_symbol()(get_export_table) == 1);
}

static void start(void)
{
	struct moescope_options options = { .struct_size = sizeof(options) };

	CHECK(moescope_start_with("run.mscope", &options) == 0);
	inject();
}

#define CALL(type, table, id) ((type)(table)[NVTX_CBID_##id])

static int push_a(const char *text)
{
	return CALL(int (*)(const char *), core_functions, CORE_RangePushA)(text);
}

static int push_w(const wchar_t *text)
{
	return CALL(int (*)(const wchar_t *), core_functions, CORE_RangePushW)(text);
}

static int push_ex(const nvtxEventAttributes_t *event)
{
	return CALL(int (*)(const nvtxEventAttributes_t *), core_functions,
		    CORE_RangePushEx)(event);
}

static int pop(void)
{
	return CALL(int (*)(void), core_functions, CORE_RangePop)();
}

static void mark_a(const char *text)
{
	CALL(void (*)(const char *), core_functions, CORE_MarkA)(text);
}

static nvtxDomainHandle_t domain_create(const char *name)
{
	return CALL(nvtxDomainHandle_t(*)(const char *), core2_functions,
		    CORE2_DomainCreateA)(name);
}

static nvtxStringHandle_t registered(nvtxDomainHandle_t domain, const char *text)
{
	return CALL(nvtxStringHandle_t(*)(nvtxDomainHandle_t, const char *), core2_functions,
		    CORE2_DomainRegisterStringA)(domain, text);
}

static int domain_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event)
{
	return CALL(int (*)(nvtxDomainHandle_t, const nvtxEventAttributes_t *), core2_functions,
		    CORE2_DomainRangePushEx)(domain, event);
}

static int domain_pop(nvtxDomainHandle_t domain)
{
	return CALL(int (*)(nvtxDomainHandle_t), core2_functions, CORE2_DomainRangePop)(domain);
}

static nvtxEventAttributes_t ascii(const char *text)
{
	return (nvtxEventAttributes_t){ .version = NVTX_VERSION,
					.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
					.messageType = NVTX_MESSAGE_TYPE_ASCII,
					.message.ascii = text };
}

/* The run has exactly these ranges, in the order of their ends. */
static void assert_ranges(const struct run *run, const char *const *names, const int *depths,
			  size_t n)
{
	assert_int_equal(run->range.n, n);
	for (size_t i = 0; i < n; i++) {
		struct site site = run_site(run, run->range.site[i]);

		assert_string_equal(run_string(run, site.name), names[i]);
		assert_int_equal(run->range.depth[i], depths[i]);
		assert_int_equal(run->range.unfinished[i], 0);
		assert_int_equal(site.layer, -1);
	}
}

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
	nvtxDomainHandle_t domain;
	nvtxRangeId_t first, second, third;

	start();
	mark_a("a mark");
	CALL(void (*)(const wchar_t *), core_functions, CORE_MarkW)(L"ein Ü");
	CALL(void (*)(const nvtxEventAttributes_t *), core_functions, CORE_MarkEx)(&event);
	domain = domain_create("d");
	CALL(void (*)(nvtxDomainHandle_t, const nvtxEventAttributes_t *), core2_functions,
	     CORE2_DomainMarkEx)
	(domain, &event);
	first = CALL(nvtxRangeId_t(*)(const char *), core_functions, CORE_RangeStartA)("load");
	second = CALL(nvtxRangeId_t(*)(const wchar_t *), core_functions, CORE_RangeStartW)(L"load");
	third = CALL(nvtxRangeId_t(*)(nvtxDomainHandle_t, const nvtxEventAttributes_t *),
		     core2_functions, CORE2_DomainRangeStartEx)(domain, &event);
	CHECK(first && second && third && first != second && second != third);
	CALL(void (*)(nvtxRangeId_t), core_functions, CORE_RangeEnd)(first);
	CALL(void (*)(nvtxDomainHandle_t, nvtxRangeId_t), core2_functions, CORE2_DomainRangeEnd)
	(domain, third);
	CALL(void (*)(nvtxRangeId_t), core_functions, CORE_RangeEnd)(second);
	CALL(void (*)(nvtxRangeId_t), core_functions, CORE_RangeEnd)(0); /* of no range */
	moescope_stop();
}

static void test_marks(void **state)
{
	static const char *const texts[] = {
		"a mark",
		"ein Ü",
		"by attributes",
		"d/by attributes",
		"begin load",
		"begin load",
		"begin d/by attributes",
		"end load",
		"end d/by attributes",
		"end load",
	};
	struct run *run = run_of(marks);

	(void)state;
	assert_marks(run, texts, sizeof(texts) / sizeof(texts[0]));
	assert_int_equal(loss_total(&run->loss), 0);
	run_free(run);
}

#define PAIRS 5000

/* Ranges that are started and ended for hours must not fill the table of names. */
static void many_starts(void)
{
	start();
	for (int i = 0; i < PAIRS; i++) {
		nvtxRangeId_t id = CALL(nvtxRangeId_t(*)(const char *), core_functions,
					CORE_RangeStartA)("r");

		CALL(void (*)(nvtxRangeId_t), core_functions, CORE_RangeEnd)(id);
	}
	moescope_stop();
}

static void test_many_starts(void **state)
{
	struct run *run = run_of(many_starts);
	uint32_t texts[2];

	(void)state;
	assert_int_equal(run->mark.n, 2 * PAIRS);
	texts[0] = run->mark.text[0];
	texts[1] = run->mark.text[1];
	for (size_t i = 0; i < run->mark.n; i++)
		assert_int_equal(run->mark.text[i], texts[i % 2]);
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
		CHECK(push_a("inner") == 1);
		CHECK(pop() == 1);
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
		TEST(test_push_and_pop), TEST(test_domains),	TEST(test_marks),
		TEST(test_many_starts),	 TEST(test_unbalanced), TEST(test_without_session),
		TEST(test_two_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
