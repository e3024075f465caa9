/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of calls into libraries.
 */
#include <stddef.h>

#include "base/text/format.h"
#include "subjects/calls/library_calls.h"
#include "subjects/pages/pages.h"

#define TOP_CALLS 8

static void calls_page(const struct scene *scene, const struct grid *grid, struct page *page)
{
	const struct library_calls *calls = answer_library_calls(scene->answers);

	if (!grid->n) {
		page_words(
			page, 2, 4,
			"no calls into libraries in this run: record it with 'moescope run --calls osrt', or "
			"--calls all for cuBLAS, cuDNN and NCCL, too");
		return;
	}
	page_table(page, grid, scene->limit, PAGE_MORE_ROWS);
	page_line(page, 2, "%s of thread time in %s calls", format_ns((double)calls->time_ns).text,
		  format_count((double)calls->count).text);
	if (calls->recorded < calls->count)
		page_words(page, 2, 4,
			   "%s of them have records of their own; the others were shorter than "
			   "--calls-longer-than, and are in counts, times and bytes alone",
			   format_count((double)calls->recorded).text);
}

void calls_report(const struct scene *scene, struct page *page)
{
	if (!answer_library_calls(scene->answers)->n)
		return;
	page_title(page, "Calls into libraries, by time");
	page_table(page, page_section(page, &section_calls, scene), TOP_CALLS, ": moescope calls");
}

static unsigned int calls_form(const struct scene *scene)
{
	bool device = scene->run->library_call.n > 0;

	if (scene->question.by_shape)
		return device ? CALLS_DEVICE_BY_SIZE : CALLS_BY_SIZE;
	return device ? CALLS_DEVICE_BY_NAME : CALLS_BY_NAME;
}

static const struct question_parameter by_size = {
	.name = "by-size",
	.kind = ASK_FLAG,
	.help = "one row per size, and per kind of file",
	.offset = offsetof(struct question, by_shape),
};

const struct section section_calls = {
	.name = "calls",
	.sql = "call_summary",
	.reads = READS(&subject_library_calls, &subject_coverage),
	.device = true,
	.subject = &subject_library_calls,
	.rows = &calls_fields,
	.total = &calls_total,
	.form = calls_form,
	.page = calls_page,
	.command = {
		.place = 52,
		.host = true,
		.summary = "calls into the operating system, cuBLAS, cuDNN and NCCL",
		.description = "One row per function recorded by 'moescope run --calls' or imported from Nsight Systems: "
			       "number of calls, their time, bytes moved, and the time of the kernels launched "
			       "inside. Short calls into the operating system are counted without individual "
			       "records.",
		.examples = EXAMPLES({ "moescope calls", "The newest run here, by time." },
				     { "moescope calls a.mscope --by-size",
				       "Matrix products by size, reads by kind of file." },
				     { "moescope calls a.mscope --sort count", "The most frequent first." }),
		.parameters = PARAMETERS(&by_size),
	},
};
