/* SPDX-License-Identifier: Apache-2.0
 *
 * The report: every subject. For people trouble first, verdicts, then the figures.
 */
#include <errno.h>
#include <stdlib.h>

#include "documents/document.h"
#include "subjects/answers/subject.h"
#include "subjects/comm/comm.h"
#include "subjects/device/device_fields.h"
#include "subjects/host/host.h"
#include "subjects/inference/inference.h"
#include "subjects/overhead/overhead.h"
#include "subjects/spans/named_spans.h"
#include "subjects/calls/library_calls.h"
#include "subjects/heap/heap_use.h"
#include "subjects/stacks/sampled_stacks.h"
#include "verdicts/verdicts_page.h"

size_t report_ask(const struct run *run, const struct question *question, struct asked *ret_asked)
{
	(void)run;
	*ret_asked = (struct asked){ *question, { section_report.name, section_report.reads } };
	ret_asked->question.routed_tokens = true;
	ret_asked->question.no_launches = true;
	return 1;
}

int report_make(const struct scene *scenes, size_t n, void **ret_own)
{
	struct verdicts *verdicts = calloc(1, sizeof(*verdicts));
	int r = verdicts ? verdicts_analyze(scenes->run, scenes->answers, verdicts) : -ENOMEM;

	(void)n;
	if (r < 0) {
		free(verdicts);
		return r;
	}
	*ret_own = verdicts;
	return 0;
}

void report_release(void *own)
{
	verdicts_release(own);
	free(own);
}

static void doubts(const struct scene *scene, struct page *page)
{
	size_t before = page->n, titled;

	page_title(page, "Before you trust the figures");
	titled = page->n;
	trouble_page(scene, page);
	/* No title without trouble. */
	if (page->n == titled)
		page->n = before;
}

static void last_words(const struct scene *scene, struct page *page)
{
	(void)scene;
	page_empty_line(page);
	page_line(
		page, 0,
		"Units are decimal: 1 MB is 10^6 bytes. 'moescope explain NAME' defines a number.");
}

static void report_page(const struct scene *scene, const void *own, struct page *page)
{
	static page_function *const before[] = { run_page, facts_page, doubts };
	static page_function *const after[] = {
		steps_report,	   slow_steps_report,	 ops_report,	   stacks_report,
		heap_report,	   calls_report,	 host_report,	   spans_report,
		devices_report,	   kernels_report,	 transfers_report, comm_report,
		counters_report,   kernel_limits_report, stalls_report,	   hardware_report,
		efficiency_report, moe_report,		 routing_report,   memory_report,
		inference_report,  overhead_report,	 last_words,
	};

	for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++)
		before[i](scene, page);
	verdicts_page(scene, own, page);
	for (size_t i = 0; i < sizeof(after) / sizeof(after[0]); i++)
		after[i](scene, page);
}

const char *no_device(const struct scene *scene)
{
	return scene_has_device(scene->run) ? NULL : "no device records in this run";
}

/* Collectives may be of hosts alone. */
static const char *no_collectives(const struct scene *scene)
{
	return answer_comm(scene->answers)->n ? NULL : no_device(scene);
}

static const char *no_stacks(const struct scene *scene)
{
	return answer_sampled_stacks(scene->answers)->n ? NULL : "no stacks in this run";
}

static const char *no_heap(const struct scene *scene)
{
	return answer_heap_use(scene->answers)->n ? NULL : "no samples of allocations in this run";
}

static const char *no_calls(const struct scene *scene)
{
	return answer_library_calls(scene->answers)->n ? NULL
						       : "no calls into libraries in this run";
}

static const char *no_host(const struct scene *scene)
{
	return answer_host(scene->answers)->missing;
}

static const struct document_part parts[] = {
	{ .fields = &verdicts_fields, .own = true },
	{ .section = &section_ops },
	{ .section = &section_steps },
	{ .section = &section_routing },
	{ .section = &section_memory },
	{ .section = &section_efficiency },
	{ .section = &section_stacks, .absent = no_stacks },
	{ .section = &section_heap, .absent = no_heap },
	{ .section = &section_calls, .absent = no_calls },
	{ .section = &section_host, .absent = no_host },
	{ .section = &section_kernels, .absent = no_device },
	{ .section = &section_api, .absent = no_device },
	{ .section = &section_transfers, .absent = no_device },
	{ .section = &section_comm, .absent = no_collectives },
	{ .section = &section_moe, .absent = no_device },
	{ .fields = &inference_total,
	  .key = "inference",
	  .subject = &subject_inference,
	  .rows = &section_requests,
	  .rows_by = "ttft_ns" },
	{ .fields = &device_fields },
	{ .fields = &named_spans_fields },
	{ .fields = &overhead_fields },
	{ 0 },
};

bool report_judges(const struct section *section, const struct scene *scene, bool *ret_lacks)
{
	for (const struct document_part *part = parts; document_has(part); part++)
		if (part->section == section && part->absent) {
			*ret_lacks = part->absent(scene) != NULL;
			return true;
		}
	return false;
}

static const struct document report = {
	.meaning = "everything",
	.kinds = WANT_ALL,
	.ask = report_ask,
	.make = report_make,
	.release = report_release,
	.page = report_page,
	.parts = parts,
	.not_csv = "the report is not one table; ask for kernels, ops, api, steps, routing, "
		   "transfers, memory or efficiency as CSV",
	.not_sorted = "the report cannot be sorted; ask for kernels, ops, api, steps, routing, "
		      "transfers, memory or efficiency",
};

/* It reads every subject: its sections and the rules of its verdicts declare what each of them does. */
const struct section section_report = {
	.name = "report",
	.reads = subjects_all,
	.document = &report,
};
