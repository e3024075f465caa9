/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of host memory by stack.
 */
#include <stddef.h>
#include <string.h>

#include "base/text/format.h"
#include "subjects/heap/heap_use.h"
#include "subjects/pages/pages.h"

#define TOP_STACKS 6

static void tell_facts(const struct run *run, struct page *page)
{
	for (size_t i = 0; i < run->fact.n; i++)
		if (strcmp(run_string(run, run->fact.key[i]), "heap") == 0)
			page_words(page, 2, 4, "process %u: %s",
				   run->shards[run->fact.shard[i]].pid,
				   run_string(run, run->fact.value[i]));
}

static void heap_page(const struct scene *scene, const struct grid *grid, struct page *page)
{
	const struct heap_use *use = answer_heap_use(scene->answers);

	if (!grid->n) {
		page_words(
			page, 2, 4,
			scene->run->heap_sample.n
				? "no samples in these steps or ranges"
				: "no samples of allocations in this run: record it with 'moescope "
				  "run --heap'");
		tell_facts(scene->run, page);
		return;
	}
	page_table(page, grid, scene->limit, PAGE_MORE_ROWS);
	page_words(page, 2, 4,
		   "%s allocated, %s at the peak, %s at the end; estimates from %s samples",
		   format_bytes((double)use->all.allocated).text,
		   format_bytes((double)use->all.peak).text,
		   format_bytes((double)use->all.live).text,
		   format_count((double)use->samples).text);
	tell_facts(scene->run, page);
}

void heap_report(const struct scene *scene, struct page *page)
{
	if (!answer_heap_use(scene->answers)->n)
		return;
	page_title(page, "Host memory, by the stack that allocated it");
	page_table(page, page_section(page, &section_heap, scene), TOP_STACKS, ": moescope heap");
}

static const struct question_parameter by_function = {
	.name = "by-function",
	.kind = ASK_FLAG,
	.help = "one row per function",
	.offset = offsetof(struct question, by_function),
};

const struct section section_heap = {
	.name = "heap",
	.sql = "heap_summary",
	.reads = READS(&subject_heap_use),
	.subject = &subject_heap_use,
	.rows = &heap_fields,
	.total = &heap_total,
	.page = heap_page,
	.command = {
		.place = 57,
		.host = true,
		.summary = "which stacks allocate host memory, hold it or never free it",
		.description = "One row per stack that allocated host memory, innermost function first: memory "
			       "live at the end and at the peak, all memory allocated, and the rate of growth "
			       "if it grows steadily. Figures are estimates from samples ('moescope run "
			       "--heap').",
		.examples = EXAMPLES({ "moescope heap", "The newest run here, most live memory first." },
				     { "moescope heap a.mscope --sort growth_bytes_per_s",
				       "What grows steadily." },
				     { "moescope heap a.mscope --by-function --sort total_peak_bytes",
				       "Who is responsible for the peak." },
				     { "moescope heap a.mscope --steps 10:20 --range forward",
				       "What forward passes of these steps allocated." }),
		.parameters = PARAMETERS(&by_function, &ask_steps, &ask_range),
	},
};
