/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of steps: their statistics, phases, and one row each.
 */
#include <inttypes.h>
#include <string.h>

#include "base/text/format.h"
#include "moescope.h"
#include "subjects/pages/pages.h"
#include "subjects/shared/coverage.h"
#include "subjects/steps/device_phases.h"
#include "subjects/steps/slow_steps.h"
#include "subjects/steps/steps.h"

#define TOP_SLOW 3 /* of the report */

/* Who marked the steps, where it was not the program itself. */
static void steps_source_lines(const struct scene *scene, struct page *page)
{
	const struct steps *s = answer_steps(scene->answers);
	const char *found = scene->run->steps_found;
	size_t of_stage[STEP_MIXED + 1] = { 0 }, stages = 0;
	unsigned int source = s->n ? s->rows[0].source : STEP_TOLD;

	if (source == STEP_REPEATED && found) {
		page_line(page, 2, "est.: nobody marks steps; found by ");
		page_put_fitted(page, found, strlen(found));
	} else if (source == STEP_BY_NAME) {
		page_line(page, 2, "by the names of the engine's ranges");
	} else if (source == STEP_ON_DEVICE) {
		page_line(page, 2, "by the names of ranges on the device, with its times");
	}
	for (size_t i = 0; i < s->n; i++)
		of_stage[s->rows[i].stage <= STEP_MIXED ? s->rows[i].stage : 0]++;
	for (unsigned int stage = STEP_PREFILL; stage <= STEP_MIXED; stage++) {
		if (!of_stage[stage])
			continue;
		if (!stages++)
			page_line(page, 2, "%zu %s", of_stage[stage], step_stage_name(stage));
		else
			page_put(page, "  %zu %s", of_stage[stage], step_stage_name(stage));
	}
}

/* Order and marks of the phases; the rest is other. */
static const struct {
	unsigned int phase;
	const char *mark;
	char letter;
	enum tone tone;
} marks[] = {
	{ MOESCOPE_DATA, "░", 'D', TONE_WARNING },
	{ MOESCOPE_FORWARD, "█", 'F', TONE_GOOD },
	{ MOESCOPE_BACKWARD, "▓", 'B', TONE_COOL },
	{ MOESCOPE_RECOMPUTE, "▚", 'R', TONE_COOL },
	{ MOESCOPE_OPTIMIZER, "▒", 'O', TONE_PLAIN },
	{ MOESCOPE_PREFILL, "▙", 'P', TONE_GOOD },
	{ MOESCOPE_DECODE, "▞", 'd', TONE_COOL },
	{ MOESCOPE_EVALUATION, "▤", 'E', TONE_PLAIN },
	{ 0, "·", '.', TONE_FAINT },
};

#define N_MARKS (sizeof(marks) / sizeof(marks[0]))

struct stack steps_phases(const struct scene *scene, struct page *page)
{
	const struct steps *s = answer_steps(scene->answers);
	struct stack_part *parts = page_keep(page, N_MARKS * sizeof(*parts));

	for (size_t i = 0; parts && i < N_MARKS; i++) {
		unsigned int phase = marks[i].phase;

		parts[i] = (struct stack_part){ .pct = s->phase_pct[phase].v,
						.tone = marks[i].tone,
						.mark = marks[i].mark,
						.letter = marks[i].letter };
		if (!phase || s->phase_ns[phase] > 0)
			parts[i].name = phase ? phase_name(phase) : "other";
	}
	return (struct stack){ parts, parts ? N_MARKS : 0 };
}

static void phase_lines(const struct scene *scene, struct page *page)
{
	struct stack phases = steps_phases(scene, page);

	page_line(page, 2, "%s", "");
	page_stack(page, phases, 4);
	page_legend(page, 2, phases);
}

static unsigned int steps_section_form(const struct scene *scene)
{
	return steps_form(answer_steps(scene->answers));
}

static void steps_doubts(const struct steps *s, struct page *page)
{
	page_line(page, 2, "All finished steps count; %zu of them are outliers", s->n_outliers);
	if (s->outlier_limit_ns.known)
		page_put(page, " (over %s)", format_ns(s->outlier_limit_ns.v).text);
	page_put(page, ".");
	if (s->n_not_recorded)
		page_line(page, 2, "%zu steps were not recorded; only their time is known.",
			  s->n_not_recorded);
	if (s->n_set_up)
		page_line(page, 2,
			  "The set-up of the program is in the time of its first step, which is in "
			  "no statistic; moescope_start() where the loop begins leaves it out.");
	if (s->n_unfinished)
		page_line(page, 2, "%zu steps were cut by the end of the process.",
			  s->n_unfinished);
}

static void steps_page(const struct scene *scene, const struct grid *grid, struct page *page)
{
	const struct steps *s = answer_steps(scene->answers);

	if (!grid->n) {
		page_line(page, 2, "no steps in this run or window: %s",
			  run_is_foreign(scene->run)
				  ? "the imported file marks none, and no kernels repeat clearly "
				    "enough"
				  : "the program marks them with moescope_step()");
		return;
	}
	if (s->all.n)
		page_line(page, 2, "%zu steps  mean %s  p50 %s  p95 %s  p99 %s  cv %s",
			  s->n - s->n_unfinished, format_ns(s->all.mean).text,
			  format_ns(s->all.p50).text, format_ns(s->all.p95).text,
			  format_ns(s->all.p99).text, format_pct(100 * s->all.cv).text);
	steps_source_lines(scene, page);
	if (s->n_phased)
		phase_lines(scene, page);
	page_empty_line(page);
	page_table(page, grid, scene->limit, PAGE_MORE_ROWS);
	steps_doubts(s, page);
	slow_steps_page(scene, SLOW_STEPS, page);
}

/* The phases above are those of the host, which runs ahead of its devices. */
static void device_phases(const struct scene *scene, struct page *page)
{
	const struct device_phases *p = answer_device_phases(scene->answers);
	double all = 0;
	size_t n = 0;

	if (p->reason)
		return;
	for (unsigned int phase = 0; phase < STEP_PHASES; phase++)
		all += (double)p->ns[phase];
	page_words(page, 2, 4, "on the devices: ");
	page_put_in(page, TONE_PLAIN, "%s", "");
	for (unsigned int i = 1; i <= STEP_PHASES; i++) {
		unsigned int phase = i % STEP_PHASES; /* other comes last */
		double pct = 100.0 * (double)p->ns[phase] / all;

		if (p->ns[phase] > 0)
			page_put(page, "%s%s %.*f%%", n++ ? ", " : "",
				 phase ? phase_name(phase) : "other", pct < 9.95 ? 1 : 0, pct);
	}
}

void steps_report(const struct scene *scene, struct page *page)
{
	const struct steps *s = answer_steps(scene->answers);

	page_title(page, "Steps");
	if (!s->all.n) {
		page_line(page, 2, "n/a: no finished step in this run or window");
		return;
	}
	page_line(page, 2, "%zu step%s, mean %s, p50 %s, p95 %s, p99 %s, variation %s", s->all.n,
		  s->all.n == 1 ? "" : "s", format_ns(s->all.mean).text, format_ns(s->all.p50).text,
		  format_ns(s->all.p95).text, format_ns(s->all.p99).text,
		  format_pct(100 * s->all.cv).text);
	steps_source_lines(scene, page);
	if (s->tokens_per_s.known)
		page_line(page, 2, "%s tokens/s, %s tokens in all",
			  format_count(s->tokens_per_s.v).text, format_count(s->tokens.v).text);
	else
		page_line(page, 2, "tokens/s n/a: %s", s->tokens_per_s.reason);
	if (s->n_phased) {
		phase_lines(scene, page);
		device_phases(scene, page);
	} else {
		page_line(page, 2, "phases n/a: no range names a phase");
	}
	if (s->n_not_recorded)
		page_line(page, 2,
			  "%zu of %zu steps were not recorded in detail; their time counts",
			  s->n_not_recorded, s->n);
}

void slow_steps_report(const struct scene *scene, struct page *page)
{
	slow_steps_page(scene, TOP_SLOW, page);
}

const struct section section_steps = {
	.name = "steps",
	.sql = "step_times",
	.reads = READS(&subject_steps, &subject_slow_steps, &subject_device_phases,
		       &subject_coverage),
	.device = true,
	.subject = &subject_steps,
	.rows = &steps_fields,
	.form = steps_section_form,
	.total = &steps_total,
	.page = steps_page,
	.command = {
		.place = 10,
		.summary = "time, phases and tokens of each step",
		.description = "One row per step: its time, the share of each phase (forward, "
			       "backward, optimizer, data), its tokens and tokens per second.",
		.examples = EXAMPLES({ "moescope steps", "The newest run here." },
				     { "moescope steps a.mscope --sort time_ns --limit 5",
				       "The five longest steps." },
				     { "moescope steps a.mscope --steps 100:199 --csv",
				       "A hundred steps for a spreadsheet." }),
		.parameters = PARAMETERS(&ask_steps),
	},
};
