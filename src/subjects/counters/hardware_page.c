/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of counters over time: its fields and its page.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/text/format.h"
#include "subjects/counters/device_counters.h"
#include "subjects/pages/pages.h"
#include "subjects/shared/fields.h"

enum { HARDWARE_ALL = 1, HARDWARE_STEPS = 2 };

#define OF(member) MEMBER(struct device_counter_row, member)
#define STRING(member) MEMBER_AS(FIELD_STRING, struct device_counter_row, member)

static struct cell reader(bool sampled)
{
	return cell_text(sampled ? "counters" : "nvml");
}

static struct cell source(const struct field_row *at)
{
	return reader(((const struct device_counter_row *)at->item)->sampled);
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

#define OF_TRAFFIC(member) MEMBER(struct device_traffic, member)

static struct cell traffic_source(const struct field_row *at)
{
	return reader(((const struct device_traffic *)at->item)->sampled);
}

static const struct field traffic_fields[] = {
	{ "device", NULL, UNIT_INT, OF_TRAFFIC(device), .meaning = "number of the GPU" },
	{ "source", NULL, UNIT_TEXT, READ(TEXT, traffic_source), .meaning = "as in the rows" },
	{ "steps", NULL, UNIT_INT, OF_TRAFFIC(steps), .metric = NO_METRIC,
	  .meaning = "steps that have samples" },
	{ "tokens", NULL, UNIT_INT, OF_TRAFFIC(tokens), .metric = NO_METRIC,
	  .meaning = "of these steps" },
	{ "dram_bytes_per_s", NULL, UNIT_BYTES, OF_TRAFFIC(dram_bytes_per_s), .metric = NO_METRIC,
	  .meaning = "est.: mean share of the memory's bandwidth in the steps * its rate" },
	{ "dram_bytes_per_token", NULL, UNIT_BYTES, OF_TRAFFIC(dram_bytes_per_token),
	  .meaning = "est.: dram_bytes_per_s * time of the steps / tokens" },
};

static const struct field_group traffic = {
	FIELD_LIST,
	FIELD_LINE_EACH,
	FIELDS(traffic_fields),
	.items = { ITEMS(struct device_counters, traffic, n_traffic) },
	PART("device_traffic", "What moved through the memory of a GPU while steps ran."),
};

static const struct field total_fields[] = {
	{ "samples", NULL, UNIT_INT, MEMBER(struct device_counters, samples),
	  .meaning = "values of all counters", .grows = true },
	{ "traffic", .of = &traffic, .meaning = "of the memory of each GPU that has its counters" },
};

const struct field_set hardware_total = { FIELDS(total_fields) };

static bool has_reader(const struct run *run)
{
	for (size_t i = 0; i < run->n_shards; i++)
		if (run->shards[i].role == ROLE_COUNTERS)
			return true;
	return false;
}

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

static void tell_traffic(const struct device_counters *counters, struct page *page)
{
	for (size_t i = 0; i < counters->n_traffic; i++) {
		const struct device_traffic *row = &counters->traffic[i];
		char tokens[64] = "";

		if (!row->dram_bytes_per_s.known)
			continue;
		if (row->dram_bytes_per_token.known)
			snprintf(tokens, sizeof(tokens), ", %s for a token",
				 format_bytes(row->dram_bytes_per_token.v).text);
		page_words(page, 2, 4,
			   "GPU %" PRIu32 " in steps: DRAM %s/s%s (est.: share of its rate)",
			   row->device, format_bytes(row->dram_bytes_per_s.v).text, tokens);
	}
}

static void hardware_page(const struct scene *scene, const struct grid *grid, struct page *page)
{
	if (!grid->n) {
		page_line(
			page, 2,
			has_reader(scene->run)
				? "no sample of a counter is in this run, or in these steps"
				: "no counters were read in this run: moescope run --counters timeline");
		tell_facts(scene->run, page);
		return;
	}
	page_table(page, grid, scene->limit, PAGE_MORE_ROWS);
	tell_traffic(answer_device_counters(scene->answers), page);
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
	tell_traffic(answer_device_counters(scene->answers), page);
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
		.description = "One row per GPU and counter: the mean, smallest and largest of its samples; the name "
			       "ends with the unit. Every recording of a GPU program has some from NVML; 'moescope run "
			       "--counters timeline' samples more of them, more often. All cover the whole GPU, whoever "
			       "uses it.",
		.examples = EXAMPLES({ "moescope hardware", "The newest run here, all of it." },
				     { "moescope hardware a.mscope --by-step --csv",
				       "Each step, for a spreadsheet." },
				     { "moescope hardware a.mscope --steps 10:20",
				       "Only while these steps ran." }),
		.parameters = PARAMETERS(&by_step, &ask_steps),
	},
};
