/* SPDX-License-Identifier: Apache-2.0
 *
 * NVTX calls of the program, on its own threads: push and pop become ranges, marks become marks.
 * Ranges that start on one thread and may end on another are two marks, "begin NAME" and "end
 * NAME": they do not nest.
 * Names of other domains than the default one carry the domain's name in front.
 */
#include "probe/nvtx.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/gpu.h"
#include "probe/probe.h"

#define TEXT_MAX 512 /* longer names are cut */

struct domain {
	char name[64];
};

static __thread int depth; /* what nvtxRangePush returns */

/* UTF-8, whatever the program's locale is; cut at a whole character. */
static const char *narrow(const wchar_t *wide, char *to, size_t size)
{
	size_t n = 0;

	for (; wide && *wide && n + 4 < size; wide++) {
		uint32_t c = (uint32_t)*wide;

		if (c >= 0x110000 || (c >= 0xd800 && c < 0xe000))
			c = 0xfffd;
		if (c >= 0x10000)
			to[n++] = (char)(0xf0 | c >> 18);
		else if (c >= 0x800)
			to[n++] = (char)(0xe0 | c >> 12);
		else
			to[n++] = (char)(c >= 0x80 ? 0xc0 | c >> 6 : c);
		if (c >= 0x10000)
			to[n++] = (char)(0x80 | (c >> 12 & 0x3f));
		if (c >= 0x800)
			to[n++] = (char)(0x80 | (c >> 6 & 0x3f));
		if (c >= 0x80)
			to[n++] = (char)(0x80 | (c & 0x3f));
	}
	to[n] = 0;
	return to;
}

/* Registered strings are handed out as pointers to our own copy. */
static nvtxStringHandle_t register_text(nvtxDomainHandle_t domain, const char *text)
{
	(void)domain;
	return (nvtxStringHandle_t)strdup(text ? text : "");
}

static nvtxStringHandle_t NVTX_API register_string_a(nvtxDomainHandle_t domain, const char *text)
{
	return register_text(domain, text);
}

static nvtxStringHandle_t NVTX_API register_string_w(nvtxDomainHandle_t domain, const wchar_t *text)
{
	char plain[TEXT_MAX];

	return register_text(domain, narrow(text, plain, sizeof(plain)));
}

static const char *message(const nvtxEventAttributes_t *event, char *scratch, size_t size)
{
	if (!event)
		return "";
	switch (event->messageType) {
	case NVTX_MESSAGE_TYPE_ASCII:
		return event->message.ascii ? event->message.ascii : "";
	case NVTX_MESSAGE_TYPE_UNICODE:
		return narrow(event->message.unicode, scratch, size);
	case NVTX_MESSAGE_TYPE_REGISTERED:
		return event->message.registered ? (const char *)event->message.registered : "";
	default:
		return "";
	}
}

/* The name to record: with its domain, and never empty. */
static const char *full_name(nvtxDomainHandle_t domain, const char *text, char *scratch,
			     size_t size)
{
	const struct domain *in = (const struct domain *)domain;

	if (!*text)
		text = "(no name)";
	if (!in || !in->name[0])
		return text;
	snprintf(scratch, size, "%s/%.*s", in->name, (int)(size - sizeof(in->name) - 1), text);
	return scratch;
}

static int push(nvtxDomainHandle_t domain, const char *text)
{
	char name[TEXT_MAX];

	if (GATE_NOW(gate_load()))
		moescope_range_push(full_name(domain, text, name, sizeof(name)));
	return depth++;
}

static int pop(void)
{
	if (depth == 0) {
		/* What is open now, if anything, is not NVTX's to close. */
		struct ring *ring = GATE_NOW(gate_load()) ? probe_ring() : NULL;

		if (ring)
			ring_drop(ring, DROP_UNBALANCED);
		return -1;
	}
	if (GATE_NOW(gate_load()))
		moescope_range_pop();
	return --depth;
}

static uint32_t mark_name(nvtxDomainHandle_t domain, const char *prefix, const char *text)
{
	char name[TEXT_MAX], whole[TEXT_MAX + 16];

	snprintf(whole, sizeof(whole), "%s%s", prefix, full_name(domain, text, name, sizeof(name)));
	return moescope_intern(whole);
}

static void mark(uint32_t name)
{
	struct ring *ring = probe_ring();
	struct row_mark row = { .time_ns = (int64_t)clock_ticks(), .text = name };

	if (!ring)
		return;
	row.thread = atomic_load_explicit(&ring->control->thread, memory_order_relaxed);
	probe_push(RECORD_MARK, &row, sizeof(row), NULL, 0);
}

static void mark_text(nvtxDomainHandle_t domain, const char *text)
{
	if (GATE_NOW(gate_load()))
		mark(mark_name(domain, "", text));
}

/* An id carries the name of the mark for its end in its low half, so that ranges without number
 * need no table and no names of their own. */
static nvtxRangeId_t range_start(nvtxDomainHandle_t domain, const char *text)
{
	static _Atomic uint32_t next = 1;
	uint64_t number = atomic_fetch_add_explicit(&next, 1, memory_order_relaxed);

	if (!GATE_NOW(gate_load()))
		return number << 32;
	mark(mark_name(domain, "begin ", text));
	return number << 32 | mark_name(domain, "end ", text);
}

/* ---- the functions NVTX calls, one per entry of its tables */

static void NVTX_API mark_ex(const nvtxEventAttributes_t *event)
{
	char text[TEXT_MAX];

	mark_text(NULL, message(event, text, sizeof(text)));
}

static void NVTX_API mark_a(const char *text)
{
	mark_text(NULL, text ? text : "");
}

static void NVTX_API mark_w(const wchar_t *text)
{
	char plain[TEXT_MAX];

	mark_text(NULL, narrow(text, plain, sizeof(plain)));
}

static nvtxRangeId_t NVTX_API start_ex(const nvtxEventAttributes_t *event)
{
	char text[TEXT_MAX];

	return range_start(NULL, message(event, text, sizeof(text)));
}

static nvtxRangeId_t NVTX_API start_a(const char *text)
{
	return range_start(NULL, text ? text : "");
}

static nvtxRangeId_t NVTX_API start_w(const wchar_t *text)
{
	char plain[TEXT_MAX];

	return range_start(NULL, narrow(text, plain, sizeof(plain)));
}

static void NVTX_API range_end(nvtxRangeId_t id)
{
	if ((uint32_t)id && GATE_NOW(gate_load()))
		mark((uint32_t)id);
}

static int NVTX_API push_ex(const nvtxEventAttributes_t *event)
{
	char text[TEXT_MAX];

	return push(NULL, message(event, text, sizeof(text)));
}

static int NVTX_API push_a(const char *text)
{
	return push(NULL, text ? text : "");
}

static int NVTX_API push_w(const wchar_t *text)
{
	char plain[TEXT_MAX];

	return push(NULL, narrow(text, plain, sizeof(plain)));
}

static int NVTX_API pop_default(void)
{
	return pop();
}

static void NVTX_API domain_mark(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event)
{
	char text[TEXT_MAX];

	mark_text(domain, message(event, text, sizeof(text)));
}

static nvtxRangeId_t NVTX_API domain_start(nvtxDomainHandle_t domain,
					   const nvtxEventAttributes_t *event)
{
	char text[TEXT_MAX];

	return range_start(domain, message(event, text, sizeof(text)));
}

static void NVTX_API domain_end(nvtxDomainHandle_t domain, nvtxRangeId_t id)
{
	(void)domain;
	range_end(id);
}

static int NVTX_API domain_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event)
{
	char text[TEXT_MAX];

	return push(domain, message(event, text, sizeof(text)));
}

static int NVTX_API domain_pop(nvtxDomainHandle_t domain)
{
	(void)domain;
	return pop();
}

static nvtxDomainHandle_t NVTX_API domain_create_a(const char *name)
{
	struct domain *domain = calloc(1, sizeof(*domain));

	if (domain)
		snprintf(domain->name, sizeof(domain->name), "%.*s", (int)sizeof(domain->name) - 1,
			 name ? name : "");
	return (nvtxDomainHandle_t)domain;
}

static nvtxDomainHandle_t NVTX_API domain_create_w(const wchar_t *name)
{
	char plain[TEXT_MAX];

	return domain_create_a(narrow(name, plain, sizeof(plain)));
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
	ENTRY(CORE_MarkEx, mark_ex),	   ENTRY(CORE_MarkA, mark_a),
	ENTRY(CORE_MarkW, mark_w),	   ENTRY(CORE_RangeStartEx, start_ex),
	ENTRY(CORE_RangeStartA, start_a),  ENTRY(CORE_RangeStartW, start_w),
	ENTRY(CORE_RangeEnd, range_end),   ENTRY(CORE_RangePushEx, push_ex),
	ENTRY(CORE_RangePushA, push_a),	   ENTRY(CORE_RangePushW, push_w),
	ENTRY(CORE_RangePop, pop_default),
};

static const struct entry core2[] = {
	ENTRY(CORE2_DomainMarkEx, domain_mark),
	ENTRY(CORE2_DomainRangeStartEx, domain_start),
	ENTRY(CORE2_DomainRangeEnd, domain_end),
	ENTRY(CORE2_DomainRangePushEx, domain_push),
	ENTRY(CORE2_DomainRangePop, domain_pop),
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

int nvtx_install(NvtxGetExportTableFunc_t get_table)
{
	const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);

	if (!callbacks || callbacks->struct_size < sizeof(*callbacks))
		return 0;
	return install(callbacks, NVTX_CB_MODULE_CORE, core, sizeof(core) / sizeof(core[0])) &&
	       install(callbacks, NVTX_CB_MODULE_CORE2, core2, sizeof(core2) / sizeof(core2[0]));
}
