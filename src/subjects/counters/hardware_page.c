/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of counters over time: its fields and its page.
 */
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "subjects/counters/device_counters.h"
#include "subjects/pages/pages.h"
#include "subjects/shared/fields.h"

enum { HARDWARE_ALL = 1, HARDWARE_STEPS = 2 };

#define OF(member) MEMBER(struct device_counter_row, member)
#define STRING(member) MEMBER_AS(FIELD_STRING, struct device_counter_row, member)

static struct cell source(const struct field_row *at)
{
	return cell_text(((const struct device_counter_row *)at->item)->sampled ? "counters"
										: "nvml");
}

static const struct field fields[] = {
	{ "step", "step", UNIT_INT, OF(step), .meaning = "with --by-step: the step",
	  .titled = HARDWARE_STEPS },
	{ "device", "GPU", UNIT_INT, OF(device),
	  .meaning = "number of the GPU, as nvidia-smi counts" },
	{ "counter", "counter", UNIT_TEXT, STRING(counter), .none = "it has no name",
	  .flexible = true,
	  .meaning = "what was counted, with its unit: pct of the peak of that part of the chip" },
	{ "source", "by", UNIT_TEXT, READ(TEXT, source),
	  .meaning =
		  "who read it: counters (--counters, at its interval) or nvml (averages over 100 ms)" },
	{ "samples", "samples", UNIT_INT, OF(samples), .meaning = "samples of it" },
	{ "mean", "mean", UNIT_COUNT, OF(mean),
	  .meaning = "over the samples, in the unit of the counter" },
	{ "min", "min", UNIT_COUNT, OF(min) },
	{ "max", "max", UNIT_COUNT, OF(max) },
};

const struct field_set hardware_fields = {
	FIELDS(fields),
	.rows = { { ITEMS(struct device_counters, rows, n) } },
	.levels = 1,
	.meaning = "hardware counter of a GPU, over the run or a step",
};

static const struct field total_fields[] = {
	{ "samples", NULL, UNIT_INT, MEMBER(struct device_counters, samples),
	  .meaning = "values of all counters", .grows = true },
};

const struct field_set hardware_total = { FIELDS(total_fields) };

/* What the reader of the counters had to say: how often, and what is missing. */
static void tell_facts(const struct run *run, struct page *page)
{
	for (size_t i = 0; i < run->fact.n; i++) {
		const char *key = run_string(run, run->fact.key[i]);

		if (run->shards[run->fact.shard[i]].role == ROLE_COUNTERS &&
		    strncmp(key, "counters of", strlen("counters of")) != 0)
			page_words(page, 2, 4, "%s: %s", key, run_string(run, run->fact.value[i]));
	}
}

static void hardware_page(const struct scene *scene, const struct grid *grid, struct page *page)
{
	if (!grid->n) {
		page_line(page, 2,
			  "no counters were read in this run: moescope run --counters timeline");
		return;
	}
	page_table(page, grid, scene->limit, PAGE_MORE_ROWS);
	tell_facts(scene->run, page);
}

static unsigned int hardware_form(const struct scene *scene)
{
	return scene->question.by_step ? HARDWARE_STEPS : HARDWARE_ALL;
}

void hardware_report(const struct scene *scene, struct page *page)
{
	if (!answer_device_counters(scene->answers)->n)
		return;
	page_title(page, "Hardware counters of the GPUs, over time");
	page_table(page, page_section(page, &section_hardware, scene), 0, PAGE_MORE_ROWS);
}

static const struct question_parameter by_step = {
	.name = "by-step",
	.kind = ASK_FLAG,
	.help = "one row per step, GPU and counter",
	.offset = offsetof(struct question, by_step),
};

const struct section section_hardware = {
	.name = "hardware",
	.sql = "hardware_counters",
	.reads = READS(&subject_device_counters),
	.subject = &subject_device_counters,
	.rows = &hardware_fields,
	.total = &hardware_total,
	.form = hardware_form,
	.page = hardware_page,
	.command = {
		.place = 101,
		.summary = "hardware counters of the GPUs over time",
		.description = "One row per GPU and counter: the mean, smallest and largest of its samples, in "
			       "the unit that its name ends with. NVML reads some whenever a program that uses a GPU is "
			       "recorded; 'moescope run --counters timeline' samples more, more often. All are of the "
			       "whole GPU, whoever works on it.",
		.examples = EXAMPLES({ "moescope hardware", "The newest run here, all of it." },
				     { "moescope hardware a.mscope --by-step --csv",
				       "Each step, for a spreadsheet." },
				     { "moescope hardware a.mscope --steps 10:20",
				       "Only while these steps ran." }),
		.parameters = PARAMETERS(&by_step, &ask_steps),
	},
};
