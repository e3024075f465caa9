/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of sampled stacks.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/text/format.h"
#include "subjects/pages/pages.h"
#include "subjects/stacks/sampled_stacks.h"

#define TOP_FUNCTIONS 8

static void tell_facts(const struct run *run, struct page *page)
{
	for (size_t i = 0; i < run->fact.n; i++)
		if (strcmp(run_string(run, run->fact.key[i]), "stacks") == 0)
			page_words(page, 2, 4, "process %u: %s",
				   run->shards[run->fact.shard[i]].pid,
				   run_string(run, run->fact.value[i]));
}

/* "waiting: 2.00 s lock, 1.10 s gil", what lasted longest first. */
static void tell_causes(const struct stack_times *all, struct page *page)
{
	struct stack_times left = *all;
	char words[400] = "";
	size_t n = 0;
	unsigned int cause;

	while ((cause = stack_times_cause(&left)) < WAIT_CAUSE_LIMIT && n < sizeof(words)) {
		n += (size_t)snprintf(words + n, sizeof(words) - n, "%s%s %s", n ? ", " : "",
				      format_ns((double)left.wait_for_ns[cause]).text,
				      wait_cause_name(cause));
		left.wait_for_ns[cause] = 0;
	}
	if (n)
		page_words(page, 2, 4, "waiting: %s", words);
}

static void stacks_page(const struct scene *scene, const struct grid *grid, struct page *page)
{
	const struct sampled_stacks *stacks = answer_sampled_stacks(scene->answers);

	if (!grid->n && scene->run->stack_sample.n) {
		page_words(
			page, 2, 4,
			"no samples of threads in these steps or ranges: 'moescope steps' and 'moescope ops' "
			"list them; short ones may have none");
		return;
	}
	if (!grid->n) {
		page_words(
			page, 2, 4,
			"no stacks in this run: record it with 'moescope run --stacks'; a program "
			"that ends at once has none");
		tell_facts(scene->run, page);
		return;
	}
	page_table(page, grid, scene->limit, PAGE_MORE_ROWS);
	page_words(
		page, 2, 4,
		"%s on a processor, %s waiting for one, %s for anything else; %s samples of %zu thread%s",
		format_ns((double)stacks->all.cpu_ns).text,
		format_ns((double)stacks->all.ready_ns).text,
		format_ns((double)stacks->all.wait_ns).text,
		format_count((double)stacks->all.samples).text, stacks->threads,
		stacks->threads == 1 ? "" : "s");
	tell_causes(&stacks->all, page);
	tell_facts(scene->run, page);
}

static unsigned int stacks_form(const struct scene *scene)
{
	const struct question *question = &scene->question;

	return question->by_wait && !question->by_thread && !question->by_stack ? STACKS_CAUSES
										: STACKS_PLACES;
}

void stacks_report(const struct scene *scene, struct page *page)
{
	if (!answer_sampled_stacks(scene->answers)->n)
		return;
	page_title(page, "Threads, by function, without what it called");
	page_table(page, page_section(page, &section_stacks, scene), TOP_FUNCTIONS,
		   ": moescope stacks");
}

static const struct question_parameter by_thread = {
	.name = "by-thread",
	.kind = ASK_FLAG,
	.help = "one row per thread",
	.offset = offsetof(struct question, by_thread),
};
static const struct question_parameter by_wait = {
	.name = "by-wait",
	.kind = ASK_FLAG,
	.help = "one row per cause of waiting, such as lock or file",
	.offset = offsetof(struct question, by_wait),
};
static const struct question_parameter by_whole_stack = {
	.name = "by-stack",
	.kind = ASK_FLAG,
	.help = "one row per stack, outermost function first",
	.offset = offsetof(struct question, by_stack),
};

const struct section section_stacks = {
	.name = "stacks",
	.sql = "stack_summary",
	.reads = READS(&subject_sampled_stacks),
	.subject = &subject_sampled_stacks,
	.rows = &stacks_fields,
	.total = &stacks_total,
	.form = stacks_form,
	.page = stacks_page,
	.command = {
		.place = 55,
		.host = true,
		.summary = "where the program's threads spent their time, by function",
		.description = "One row per function: CPU time of threads in it, without and with its callees, "
			       "and the time they waited in it, sampled from outside ('moescope run --stacks'). "
			       "Waiting has a cause: a lock, Python's global lock (gil), a file and so on. "
			       "'moescope export --to folded-host' writes the whole stacks.",
		.examples = EXAMPLES({ "moescope stacks", "The newest run here, busiest functions first." },
				     { "moescope stacks a.mscope --sort wait_ns",
				       "Where its threads wait." },
				     { "moescope stacks a.mscope --by-thread",
				       "Which threads work and which wait." },
				     { "moescope stacks a.mscope --by-wait", "What they wait for." },
				     { "moescope stacks a.mscope --steps 10:20 --range forward",
				       "Only in the forward passes of these steps." }),
		.parameters = PARAMETERS(&by_thread, &by_whole_stack, &by_wait, &ask_steps, &ask_range),
	},
};
