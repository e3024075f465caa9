/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of NVTX: the test is NVTX's half, hands the probe its function tables as the
 * header-only library does, and then calls what the probe has put there. Include after cmocka.h,
 * once per program.
 */
#ifndef FAKE_NVTX_CHILD_H
#define FAKE_NVTX_CHILD_H

#include <nvtx3/nvToolsExt.h>

#include "gpu_child.h"

/* One entry per function, and a table of pointers to them, as in NVTX itself. */
static NvtxFunctionPointer core_functions[NVTX_CBID_CORE_SIZE];
static NvtxFunctionPointer core2_functions[NVTX_CBID_CORE2_SIZE];
static NvtxFunctionPointer *core_table[NVTX_CBID_CORE_SIZE + 1];
static NvtxFunctionPointer *core2_table[NVTX_CBID_CORE2_SIZE + 1];

static inline int NVTX_API get_module(NvtxCallbackModule module, NvtxFunctionTable *ret_table,
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

static inline const void *NVTX_API get_export_table(uint32_t id)
{
	static const NvtxExportTableCallbacks callbacks = {
		.struct_size = sizeof(callbacks),
		.GetModuleFunctionTable = get_module,
	};

	return id == NVTX_ETID_CALLBACKS ? &callbacks : NULL;
}

static inline const void *NVTX_API no_export_table(uint32_t id)
{
	(void)id;
	return NULL;
}

typedef int (*initialize_fn)(NvtxGetExportTableFunc_t);

static inline initialize_fn initialize_symbol(void)
{
	void *symbol = dlsym(RTLD_DEFAULT, "InitializeInjectionNvtx2");
	initialize_fn initialize;

	CHECK(symbol);
	memcpy(&initialize, &symbol, sizeof(initialize));
	return initialize;
}

static inline void inject(void)
{
	for (int i = 1; i < NVTX_CBID_CORE_SIZE; i++)
		core_table[i] = &core_functions[i];
	for (int i = 1; i < NVTX_CBID_CORE2_SIZE; i++)
		core2_table[i] = &core2_functions[i];
	CHECK(initialize_symbol()(get_export_table) == 1);
}

static inline void start(void)
{
	struct moescope_options options = { .struct_size = sizeof(options) };

	CHECK(moescope_start_with("run.mscope", &options) == 0);
	inject();
}

#define CALL(type, table, id) ((type)(table)[NVTX_CBID_##id])

static inline int push_a(const char *text)
{
	return CALL(int (*)(const char *), core_functions, CORE_RangePushA)(text);
}

static inline int push_w(const wchar_t *text)
{
	return CALL(int (*)(const wchar_t *), core_functions, CORE_RangePushW)(text);
}

static inline int push_ex(const nvtxEventAttributes_t *event)
{
	return CALL(int (*)(const nvtxEventAttributes_t *), core_functions,
		    CORE_RangePushEx)(event);
}

static inline int pop(void)
{
	return CALL(int (*)(void), core_functions, CORE_RangePop)();
}

static inline void mark_a(const char *text)
{
	CALL(void (*)(const char *), core_functions, CORE_MarkA)(text);
}

static inline nvtxDomainHandle_t domain_create(const char *name)
{
	return CALL(nvtxDomainHandle_t(*)(const char *), core2_functions,
		    CORE2_DomainCreateA)(name);
}

static inline nvtxStringHandle_t registered(nvtxDomainHandle_t domain, const char *text)
{
	return CALL(nvtxStringHandle_t(*)(nvtxDomainHandle_t, const char *), core2_functions,
		    CORE2_DomainRegisterStringA)(domain, text);
}

static inline int domain_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event)
{
	return CALL(int (*)(nvtxDomainHandle_t, const nvtxEventAttributes_t *), core2_functions,
		    CORE2_DomainRangePushEx)(domain, event);
}

static inline int domain_pop(nvtxDomainHandle_t domain)
{
	return CALL(int (*)(nvtxDomainHandle_t), core2_functions, CORE2_DomainRangePop)(domain);
}

static inline nvtxRangeId_t start_a(const char *text)
{
	return CALL(nvtxRangeId_t(*)(const char *), core_functions, CORE_RangeStartA)(text);
}

static inline nvtxRangeId_t start_ex(const nvtxEventAttributes_t *event)
{
	return CALL(nvtxRangeId_t(*)(const nvtxEventAttributes_t *), core_functions,
		    CORE_RangeStartEx)(event);
}

static inline nvtxRangeId_t domain_start(nvtxDomainHandle_t domain,
					 const nvtxEventAttributes_t *event)
{
	return CALL(nvtxRangeId_t(*)(nvtxDomainHandle_t, const nvtxEventAttributes_t *),
		    core2_functions, CORE2_DomainRangeStartEx)(domain, event);
}

static inline void range_end(nvtxRangeId_t id)
{
	CALL(void (*)(nvtxRangeId_t), core_functions, CORE_RangeEnd)(id);
}

static inline void domain_end(nvtxDomainHandle_t domain, nvtxRangeId_t id)
{
	CALL(void (*)(nvtxDomainHandle_t, nvtxRangeId_t), core2_functions, CORE2_DomainRangeEnd)
	(domain, id);
}

static inline void mark_ex(const nvtxEventAttributes_t *event)
{
	CALL(void (*)(const nvtxEventAttributes_t *), core_functions, CORE_MarkEx)(event);
}

static inline void domain_mark(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event)
{
	CALL(void (*)(nvtxDomainHandle_t, const nvtxEventAttributes_t *), core2_functions,
	     CORE2_DomainMarkEx)
	(domain, event);
}

static inline nvtxEventAttributes_t ascii(const char *text)
{
	return (nvtxEventAttributes_t){ .version = NVTX_VERSION,
					.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
					.messageType = NVTX_MESSAGE_TYPE_ASCII,
					.message.ascii = text };
}

/* The run has exactly these ranges, in the order of their ends. */
static inline void assert_ranges(const struct run *run, const char *const *names, const int *depths,
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

struct want_span {
	const char *name, *domain;
	int unfinished;
};

/* The run has exactly these spans, in the order of their ends. */
static inline void assert_spans(const struct run *run, const struct want_span *want, size_t n)
{
	assert_int_equal(run->span.n, n);
	for (size_t i = 0; i < n; i++) {
		assert_string_equal(run_string(run, run->span.name[i]), want[i].name);
		assert_string_equal(run_string(run, run->span.domain[i]), want[i].domain);
		assert_int_equal(run->span.unfinished[i], want[i].unfinished);
		assert_true(run->span.duration_ns[i] >= 0 && run->span.thread[i]);
	}
}

#endif
