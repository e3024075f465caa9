/* SPDX-License-Identifier: Apache-2.0
 *
 * NVTX calls of the program, on its own threads: push and pop become ranges, marks become marks,
 * start and end become spans, which may end on another thread. Names of ranges and marks in other
 * domains than the default are prefixed with the domain's name; spans and payloads have the domain
 * in a column.
 *
 * NVTX has one stack per thread and domain, the ring one per thread. This file keeps the thread's
 * list of open NVTX ranges with their domains: as long as a pop finds its own range on top, which
 * is always so with one domain, it costs one comparison; otherwise the range is removed from below.
 */
#include "probe/gpu/nvtx/nvtx.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "probe/core/labels.h"
#include "probe/gpu/nvtx/nvtx_text.h"
#include "probe/core/probe.h"
#include "probe/core/spans.h"

#define OPEN_MAX 128 /* more than the ring's stack holds, for unrecorded ones */

struct open_range {
	const struct nvtx_domain *domain;
	uint32_t place; /* in the ring's stack; 0: not recorded */
	uint32_t level; /* in its domain's stack: what push returns */
};

struct stack {
	struct open_range ranges[OPEN_MAX];
	uint32_t n;
	uint32_t beyond; /* open ones that do not fit in the list */
};

/* From the thread's first push to its end. Behind a pointer: a library loaded late has only a few
 * hundred bytes of thread-local storage, and fails to load if it wants more. */
static __thread struct stack *stack __attribute__((tls_model("initial-exec")));
static pthread_key_t stack_key;

struct event {
	const struct nvtx_domain *domain;	 /* NULL: the default one */
	const nvtxEventAttributes_t *attributes; /* NULL: only a message */
	struct nvtx_message message;
};

static struct event event_a(const char *text)
{
	return (struct event){ .message = { NVTX_MESSAGE_TYPE_ASCII, { .ascii = text } } };
}

static struct event event_w(const wchar_t *text)
{
	return (struct event){ .message = { NVTX_MESSAGE_TYPE_UNICODE, { .unicode = text } } };
}

static struct event event_ex(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes)
{
	struct event event = { .domain = (const struct nvtx_domain *)domain,
			       .attributes = attributes };

	if (attributes)
		event.message = (struct nvtx_message){ attributes->messageType,
						       attributes->message };
	return event;
}

/* The row's type, and the value widened to 64 bits. 0: nothing readable. */
static uint8_t payload_value(const nvtxEventAttributes_t *from, uint64_t *ret_bits)
{
	double real;

	switch (from->payloadType) {
	case NVTX_PAYLOAD_TYPE_UNSIGNED_INT64:
		*ret_bits = from->payload.ullValue;
		return 1;
	case NVTX_PAYLOAD_TYPE_UNSIGNED_INT32:
		*ret_bits = from->payload.uiValue;
		return 1;
	case NVTX_PAYLOAD_TYPE_INT64:
		*ret_bits = (uint64_t)from->payload.llValue;
		return 2;
	case NVTX_PAYLOAD_TYPE_INT32:
		*ret_bits = (uint64_t)(int64_t)from->payload.iValue;
		return 2;
	case NVTX_PAYLOAD_TYPE_DOUBLE:
		real = from->payload.dValue;
		break;
	case NVTX_PAYLOAD_TYPE_FLOAT:
		real = (double)from->payload.fValue;
		break;
	default:
		*ret_bits = 0;
		return 0;
	}
	memcpy(ret_bits, &real, sizeof(real));
	return 3;
}

/* What an event carries besides its name; few do. */
static void payload(const struct event *event, const char *text, uint64_t ticks)
{
	struct row_payload row = { .time_ns = (int64_t)ticks };
	const nvtxEventAttributes_t *from = event->attributes;
	struct ring *ring;

	if (!from || (!from->category && !from->payloadType) ||
	    GATE_NOW(gate_load()) < MOESCOPE_TRACE || !(ring = probe_ring()))
		return;
	row.thread = ring_thread(ring);
	row.name = moescope_intern(text);
	row.domain = event->domain ? event->domain->name_id : 0;
	row.category = from->category;
	row.type = payload_value(from, &row.bits);
	_Static_assert(sizeof(row) % 8 == 0, "rows keep the ring aligned");
	probe_push(RECORD_PAYLOAD, &row, sizeof(row), NULL, 0);
}

static bool have_stack(void)
{
	if (!stack) {
		stack = calloc(1, sizeof(*stack));
		if (stack)
			pthread_setspecific(stack_key, stack);
	}
	return stack != NULL;
}

static void free_stack(void *arg)
{
	free(arg);
	stack = NULL;
}

/* How many ranges of the domain are open on this thread. */
static uint32_t level_in(const struct nvtx_domain *domain)
{
	for (uint32_t i = stack->n; i-- > 0;)
		if (stack->ranges[i].domain == domain)
			return stack->ranges[i].level + 1;
	return 0;
}

static void drop(enum drop_reason reason)
{
	struct ring *ring = GATE_NOW(gate_load()) ? probe_ring() : NULL;

	if (ring)
		ring_drop(ring, reason);
}

static int push_range(const struct event *event)
{
	char text[NVTX_TEXT_MAX], name[NVTX_TEXT_MAX];
	uint32_t level, place = 0;

	if (!have_stack()) {
		drop(DROP_NO_MEMORY);
		return -1;
	}
	level = level_in(event->domain);
	if (stack->n == OPEN_MAX) {
		drop(DROP_TOO_DEEP);
		return (int)(level + stack->beyond++);
	}
	if (GATE_NOW(gate_load()) >= MOESCOPE_STEPS) {
		const char *plain = nvtx_text(&event->message, text);
		uint64_t start = 0;

		place = probe_range_open(
			moescope_intern(nvtx_full_name(event->domain, plain, name)), &start);
		if (start)
			payload(event, plain, start);
	}
	stack->ranges[stack->n++] = (struct open_range){ event->domain, place, level };
	return (int)level;
}

/* Closes the i-th open range; those above it move down. */
static int close_at(uint32_t i)
{
	struct open_range range = stack->ranges[i];

	stack->n--;
	for (uint32_t j = i; j < stack->n; j++)
		stack->ranges[j] = stack->ranges[j + 1];
	if (range.place && probe_range_close(range.place))
		for (uint32_t j = i; j < stack->n; j++)
			if (stack->ranges[j].place >> 16 == range.place >> 16 &&
			    (stack->ranges[j].place & 0xffff) != PLACE_TOO_DEEP)
				stack->ranges[j].place--;
	return (int)range.level;
}

static int pop(const struct nvtx_domain *domain)
{
	if (stack && stack->beyond) {
		stack->beyond--;
		return (int)(level_in(domain) + stack->beyond);
	}
	for (uint32_t i = stack ? stack->n : 0; i-- > 0;)
		if (stack->ranges[i].domain == domain)
			return close_at(i);
	/* What is open now, if anything, is not this domain's to close. */
	drop(DROP_UNBALANCED);
	return -1;
}

static void mark(const struct event *event)
{
	char text[NVTX_TEXT_MAX], name[NVTX_TEXT_MAX];
	struct row_mark row = { 0 };
	struct ring *ring;
	const char *plain;

	if (!GATE_NOW(gate_load()) || !(ring = probe_ring()))
		return;
	plain = nvtx_text(&event->message, text);
	row.text = moescope_intern(nvtx_full_name(event->domain, plain, name));
	row.time_ns = (int64_t)clock_ticks();
	row.thread = ring_thread(ring);
	probe_push(RECORD_MARK, &row, sizeof(row), NULL, 0);
	payload(event, plain, (uint64_t)row.time_ns);
}

static nvtxRangeId_t range_start(const struct event *event)
{
	char text[NVTX_TEXT_MAX];
	const char *plain;
	uint64_t now, id;

	if (GATE_NOW(gate_load()) < MOESCOPE_TRACE || !probe_ring())
		return span_unrecorded();
	plain = nvtx_text(&event->message, text);
	now = clock_ticks();
	id = span_start(moescope_intern(plain), event->domain ? event->domain->name_id : 0, now);
	payload(event, plain, now);
	return id;
}

static void name_category(const struct nvtx_domain *domain, uint32_t category, const char *name)
{
	if (name && *name)
		labels_name_category(category, domain ? domain->name : "", name);
}

static void name_thread(uint32_t thread, const char *name)
{
	if (name && *name)
		labels_name_thread(thread, moescope_intern(name));
}

/* ---- the functions NVTX calls, one per entry of its tables */

static void NVTX_API mark_ex(const nvtxEventAttributes_t *attributes)
{
	struct event event = event_ex(NULL, attributes);

	mark(&event);
}

static void NVTX_API mark_a(const char *text)
{
	struct event event = event_a(text);

	mark(&event);
}

static void NVTX_API mark_w(const wchar_t *text)
{
	struct event event = event_w(text);

	mark(&event);
}

static nvtxRangeId_t NVTX_API start_ex(const nvtxEventAttributes_t *attributes)
{
	struct event event = event_ex(NULL, attributes);

	return range_start(&event);
}

static nvtxRangeId_t NVTX_API start_a(const char *text)
{
	struct event event = event_a(text);

	return range_start(&event);
}

static nvtxRangeId_t NVTX_API start_w(const wchar_t *text)
{
	struct event event = event_w(text);

	return range_start(&event);
}

static void NVTX_API range_end(nvtxRangeId_t id)
{
	span_end(id);
}

static int NVTX_API push_ex(const nvtxEventAttributes_t *attributes)
{
	struct event event = event_ex(NULL, attributes);

	return push_range(&event);
}

static int NVTX_API push_a(const char *text)
{
	struct event event = event_a(text);

	return push_range(&event);
}

static int NVTX_API push_w(const wchar_t *text)
{
	struct event event = event_w(text);

	return push_range(&event);
}

static int NVTX_API pop_default(void)
{
	return pop(NULL);
}

static void NVTX_API name_category_a(uint32_t category, const char *name)
{
	name_category(NULL, category, name);
}

static void NVTX_API name_category_w(uint32_t category, const wchar_t *name)
{
	char plain[NVTX_TEXT_MAX];

	name_category(NULL, category, nvtx_narrow(name, plain, sizeof(plain)));
}

static void NVTX_API name_thread_a(uint32_t thread, const char *name)
{
	name_thread(thread, name);
}

static void NVTX_API name_thread_w(uint32_t thread, const wchar_t *name)
{
	char plain[NVTX_TEXT_MAX];

	name_thread(thread, nvtx_narrow(name, plain, sizeof(plain)));
}

static void NVTX_API domain_mark(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes)
{
	struct event event = event_ex(domain, attributes);

	mark(&event);
}

static nvtxRangeId_t NVTX_API domain_start(nvtxDomainHandle_t domain,
					   const nvtxEventAttributes_t *attributes)
{
	struct event event = event_ex(domain, attributes);

	return range_start(&event);
}

static void NVTX_API domain_end(nvtxDomainHandle_t domain, nvtxRangeId_t id)
{
	(void)domain;
	span_end(id);
}

static int NVTX_API domain_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *attributes)
{
	struct event event = event_ex(domain, attributes);

	return push_range(&event);
}

static int NVTX_API domain_pop(nvtxDomainHandle_t domain)
{
	return pop((const struct nvtx_domain *)domain);
}

static void NVTX_API domain_name_category_a(nvtxDomainHandle_t domain, uint32_t category,
					    const char *name)
{
	name_category((const struct nvtx_domain *)domain, category, name);
}

static void NVTX_API domain_name_category_w(nvtxDomainHandle_t domain, uint32_t category,
					    const wchar_t *name)
{
	char plain[NVTX_TEXT_MAX];

	name_category((const struct nvtx_domain *)domain, category,
		      nvtx_narrow(name, plain, sizeof(plain)));
}

static nvtxStringHandle_t NVTX_API register_string_a(nvtxDomainHandle_t domain, const char *text)
{
	(void)domain;
	return nvtx_register(text);
}

static nvtxStringHandle_t NVTX_API register_string_w(nvtxDomainHandle_t domain, const wchar_t *text)
{
	char plain[NVTX_TEXT_MAX];

	(void)domain;
	return nvtx_register(nvtx_narrow(text, plain, sizeof(plain)));
}

static nvtxDomainHandle_t NVTX_API domain_create_a(const char *name)
{
	return (nvtxDomainHandle_t)nvtx_domain_named(name ? name : "");
}

static nvtxDomainHandle_t NVTX_API domain_create_w(const wchar_t *name)
{
	char plain[NVTX_TEXT_MAX];

	return domain_create_a(nvtx_narrow(name, plain, sizeof(plain)));
}

struct entry {
	unsigned int id;
	NvtxFunctionPointer function;
};

#define ENTRY(id, function)                                                                        \
	{                                                                                          \
		NVTX_CBID_##id, (NvtxFunctionPointer)(function)                                    \
	}

static const struct entry core[] = {
	ENTRY(CORE_MarkEx, mark_ex),
	ENTRY(CORE_MarkA, mark_a),
	ENTRY(CORE_MarkW, mark_w),
	ENTRY(CORE_RangeStartEx, start_ex),
	ENTRY(CORE_RangeStartA, start_a),
	ENTRY(CORE_RangeStartW, start_w),
	ENTRY(CORE_RangeEnd, range_end),
	ENTRY(CORE_RangePushEx, push_ex),
	ENTRY(CORE_RangePushA, push_a),
	ENTRY(CORE_RangePushW, push_w),
	ENTRY(CORE_RangePop, pop_default),
	ENTRY(CORE_NameCategoryA, name_category_a),
	ENTRY(CORE_NameCategoryW, name_category_w),
	ENTRY(CORE_NameOsThreadA, name_thread_a),
	ENTRY(CORE_NameOsThreadW, name_thread_w),
};

static const struct entry core2[] = {
	ENTRY(CORE2_DomainMarkEx, domain_mark),
	ENTRY(CORE2_DomainRangeStartEx, domain_start),
	ENTRY(CORE2_DomainRangeEnd, domain_end),
	ENTRY(CORE2_DomainRangePushEx, domain_push),
	ENTRY(CORE2_DomainRangePop, domain_pop),
	ENTRY(CORE2_DomainNameCategoryA, domain_name_category_a),
	ENTRY(CORE2_DomainNameCategoryW, domain_name_category_w),
	ENTRY(CORE2_DomainRegisterStringA, register_string_a),
	ENTRY(CORE2_DomainRegisterStringW, register_string_w),
	ENTRY(CORE2_DomainCreateA, domain_create_a),
	ENTRY(CORE2_DomainCreateW, domain_create_w),
};

static bool install(const NvtxExportTableCallbacks *callbacks, NvtxCallbackModule module,
		    const struct entry *entries, size_t n)
{
	NvtxFunctionTable table = NULL;
	unsigned int size = 0;

	if (!callbacks->GetModuleFunctionTable(module, &table, &size) || !table)
		return false;
	for (size_t i = 0; i < n; i++)
		if (entries[i].id < size && table[entries[i].id])
			*table[entries[i].id] = entries[i].function;
	return true;
}

static void make_stack_key(void)
{
	pthread_key_create(&stack_key, free_stack);
}

int nvtx_install(NvtxGetExportTableFunc_t get_table)
{
	const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (!callbacks || callbacks->struct_size < sizeof(*callbacks))
		return 0;
	pthread_once(&once, make_stack_key);
	return install(callbacks, NVTX_CB_MODULE_CORE, core, sizeof(core) / sizeof(core[0])) &&
	       install(callbacks, NVTX_CB_MODULE_CORE2, core2, sizeof(core2) / sizeof(core2[0]));
}
