/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of steps; see fields.h.
 */
#include "subjects/steps/steps.h"

#include "moescope.h"
#include "subjects/answers/answers.h"
#include "subjects/shared/coverage.h"
#include "subjects/shared/fields.h"
#include "subjects/steps/device_phases.h"
#include "subjects/steps/slow_steps.h"

#define OF(member) MEMBER(struct step_row, member)

#define NOT_NAMED "no range names it"

enum steps_form steps_form(const struct steps *steps)
{
	for (size_t i = 0; i < steps->n; i++)
		if (steps->rows[i].batch)
			return STEPS_OF_ENGINE;
	return STEPS_OF_TRAINING;
}

static const char *no_phases(const struct field_row *at)
{
	return ((const struct step_row *)at->item)->phases_known
		       ? NULL
		       : "no range in this step names a phase";
}

static struct cell stage(const struct field_row *at)
{
	const struct step_row *row = at->item;

	return row->stage ? cell_text(step_stage_name(row->stage)) : cell_absent(NOT_NAMED);
}

static struct cell source(const struct field_row *at)
{
	return cell_text(step_source_name(((const struct step_row *)at->item)->source));
}

static struct cell device_covered(const struct field_row *at)
{
	const struct coverage *coverage = answer_coverage(at->answers);
	const struct step_row *row = at->item;

	return coverage->watched_ns > 0 ? cell_bool(coverage_has_step(coverage, at->run, row->row))
					: cell_value(coverage->coverage_pct);
}

/* The time of the phases, other last. */
static const void *phase_at(const struct field_row *in, size_t i)
{
	const int64_t *ns = (const int64_t *)in->item + (i + 1) % STEP_PHASES;

	return *ns || i + 1 == STEP_PHASES ? ns : NULL;
}

static size_t phase_count(const struct field_row *in)
{
	(void)in;
	return STEP_PHASES;
}

static const char *phase_key(const struct field_row *at, char *room, size_t size)
{
	(void)room;
	(void)size;
	return at->index + 1 == STEP_PHASES ? "other" : phase_name((unsigned int)at->index + 1);
}

static const struct field phase_field = { .unit = UNIT_NS, .type = FIELD_I64 };

static const struct field_group phases = {
	FIELD_MAP,
	.fields = &phase_field,
	.items = { .item = phase_at, .count = phase_count },
	.name = phase_key,
	PART("phases", "Nanoseconds by phase; other is the time outside all phases."),
	.n_names = STEP_PHASES,
};

static const char *no_row_phases(const struct field_row *at)
{
	return ((const struct step_row *)at->item)->recorded ? no_phases(at)
							     : "the step was not recorded";
}

#define PHASE(name, title, phase)                                                                  \
	{                                                                                          \
		name, title, UNIT_NS, OF(phase_ns[phase]),                                         \
			.titled = STEPS_OF_TRAINING, .optional = true, .absent = no_phases,        \
			.none = "no range in this step names this phase"                           \
	}

/* clang-format off */
static const struct field fields[] = {
	{ "step", "step", UNIT_INT, OF(step) },
	{ "rank", "rank", UNIT_INT, OF(rank) },
	{ "start_ns", "start", UNIT_NS, MEMBER_AS(FIELD_TIME, struct step_row, start_ns),
	  .meaning = "when it began, since the start of the run" },
	{ "time_ns", "time", UNIT_NS, OF(duration_ns), .meaning = "duration" },
	PHASE("forward_ns", "forward", MOESCOPE_FORWARD),
	PHASE("backward_ns", "backward", MOESCOPE_BACKWARD),
	PHASE("optimizer_ns", "optim.", MOESCOPE_OPTIMIZER),
	PHASE("data_ns", "data", MOESCOPE_DATA),
	{ "stage", "stage", UNIT_TEXT, MAY_READ(TEXT, stage), .titled = STEPS_OF_ENGINE, .optional = true,
	  .meaning = "of an inference engine's step: prefill, decode or mixed; absent if unknown" },
	{ "batch", "batch", UNIT_INT, OF(batch), .titled = STEPS_OF_ENGINE, .optional = true,
	  .none = NOT_NAMED,
	  .meaning = "requests of an inference engine's step; absent if unknown" },
	{ "tokens", "tokens", UNIT_COUNT, OF(tokens), .titled = STEPS_OF_ENGINE,
	  .meaning = "given by the program" },
	{ "tokens_per_s", "tokens/s", UNIT_COUNT, OF(tokens_per_s),
	  .meaning = "tokens / duration" },
	{ "recorded", NULL, UNIT_INT, OF(recorded), .meaning = "recording was on" },
	{ "unfinished", NULL, UNIT_INT, OF(unfinished) },
	{ "outlier", NULL, UNIT_INT, OF(outlier),
	  .meaning = "much longer than the others; the limit is in the total" },
	{ "source", NULL, UNIT_TEXT, READ(TEXT, source),
	  .meaning = "who marked it: program, range (the name of a range), device_range (the "
		     "same, with times of the device) or repetition (nobody; est.)" },
	{ "probe", NULL, UNIT_INT, OF(probe),
	  .meaning = "of the overhead check: 0 none, 1 recording on, 2 off" },
	{ "device_covered", NULL, UNIT_INT, MAY_READ(BOOL, device_covered),
	  .meaning = "device records cover all of it" },
	{ "phases", .offset = offsetof(struct step_row, phase_ns), .of = &phases,
	  .absent = no_row_phases, .meaning = "time by phase" },
};
/* clang-format on */

const struct field_set steps_fields = {
	FIELDS(fields),
	.rows = { { ITEMS(struct steps, rows, n) } },
	.levels = 1,
	.meaning = "step of a rank",
};

#define OF_SUMMARY(member) MEMBER(struct stats_summary, member)

static const struct field summary_fields[] = {
	{ "count", NULL, UNIT_INT, OF_SUMMARY(n), .meaning = "finished steps" },
	{ "mean_ns", NULL, UNIT_NS, OF_SUMMARY(mean), .metric = "step_time" },
	{ "p50_ns", NULL, UNIT_NS, OF_SUMMARY(p50), .metric = "step_time" },
	{ "p95_ns", NULL, UNIT_NS, OF_SUMMARY(p95), .metric = "step_time" },
	{ "p99_ns", NULL, UNIT_NS, OF_SUMMARY(p99), .metric = "step_time" },
	{ "min_ns", NULL, UNIT_NS, OF_SUMMARY(min), .metric = "step_time" },
	{ "max_ns", NULL, UNIT_NS, OF_SUMMARY(max), .metric = "step_time" },
	{ "cv", NULL, UNIT_RATIO, OF_SUMMARY(cv), .meaning = "population standard deviation / mean",
	  .metric = "step_cv" },
};

static const struct field_group summary = { FIELD_OBJECT, FIELD_ON_ONE_LINE, FIELDS(summary_fields),
					    PART("step_times", "Statistics of step times.") };

static const char *no_summary(const struct field_row *at)
{
	const char *member = (const char *)at->item + at->field->offset;
	const struct stats_summary *of = (const void *)member;

	return of->n ? NULL : "no such step is finished";
}

static const char *no_total_phases(const struct field_row *at)
{
	return ((const struct steps *)at->item)->n_phased ? NULL : "no range names a phase";
}

static const char *no_device_phases(const struct field_row *at)
{
	return answer_device_phases(at->answers)->reason;
}

static const void *device_phases(const struct field_row *at)
{
	return answer_device_phases(at->answers)->ns;
}

static struct cell warmup_policy(const struct field_row *at)
{
	(void)at;
	return cell_text("all finished steps count; none is left out as warm-up");
}

static struct cell total_source(const struct field_row *at)
{
	const struct steps *steps = at->item;

	return cell_text(steps->n ? step_source_name(steps->rows[0].source) : "none");
}

static struct cell found_by(const struct field_row *at)
{
	if (at->run->steps_found)
		return cell_text(at->run->steps_found);
	return cell_absent(((const struct steps *)at->item)->n ? "steps are marked"
							       : "there are none");
}

#define OF_SLOW(member) MEMBER(struct slow_step, member)
#define OF_SLOW_ROW(member) MEMBER(struct step_row, member), .from = slow_row

static const void *slow_row(const struct field_row *at)
{
	return &answer_steps(at->answers)->rows[((const struct slow_step *)at->item)->row];
}

static const char *no_slow_device(const struct field_row *at)
{
	return field_unknown(((const struct slow_step *)at->item)->device_known);
}

static const char *no_slow_phases(const struct field_row *at)
{
	return field_unknown(((const struct slow_step *)at->item)->phases_known);
}

static const struct field slow_part_fields[] = {
	{ "name", NULL, UNIT_TEXT, MEMBER(struct slow_part, name), .meaning = "what took longer" },
	{ "extra_ns", NULL, UNIT_NS, MEMBER(struct slow_part, extra_ns),
	  .meaning = "more than usual; below zero: less", .metric = "slow_step" },
};

static const struct field slow_kernel_fields[] = {
	{ "name", NULL, UNIT_TEXT, MEMBER(struct slow_kernel, name),
	  .meaning = "what took longer" },
	{ "extra_ns", NULL, UNIT_NS, MEMBER(struct slow_kernel, extra_ns),
	  .meaning = "more than usual; below zero: less", .metric = "slow_step" },
};

#define SLOW_PART PART("slow_part", "A part of the extra time of a slow step.")

static const struct field_group slow_device = {
	FIELD_LIST,
	FIELD_ON_ONE_LINE,
	FIELDS(slow_part_fields),
	.items = { ITEMS_INSIDE(struct slow_step, device, n_device) },
	SLOW_PART,
};

static const struct field_group slow_phases = {
	FIELD_LIST,
	FIELD_ON_ONE_LINE,
	FIELDS(slow_part_fields),
	.items = { ITEMS_INSIDE(struct slow_step, phases, n_phases) },
	SLOW_PART,
};

static const struct field_group slow_kernels = {
	FIELD_LIST,
	FIELD_ON_ONE_LINE,
	FIELDS(slow_kernel_fields),
	.items = { ITEMS_INSIDE(struct slow_step, kernels, n_kernels) },
	SLOW_PART,
};

static const struct field slow_fields[] = {
	{ "step", NULL, UNIT_INT, OF_SLOW_ROW(step) },
	{ "rank", NULL, UNIT_INT, OF_SLOW_ROW(rank) },
	{ "time_ns", NULL, UNIT_NS, OF_SLOW_ROW(duration_ns), .meaning = "duration" },
	{ "extra_ns", NULL, UNIT_NS, OF_SLOW(extra_ns),
	  .meaning = "duration - mean of the usual steps", .metric = "slow_step" },
	{ "device", .of = &slow_device, .absent = no_slow_device,
	  .meaning = "the extra time by what the device did: kernels, copies, idle by cause; "
		     "largest first" },
	{ "kernels", .of = &slow_kernels, .meaning = "that grew most, by their short names" },
	{ "phases", .of = &slow_phases, .absent = no_slow_phases,
	  .meaning = "the extra time by phase, largest first", .metric = "slow_step" },
	{ "gap_ns", NULL, UNIT_NS, OF_SLOW(gap_ns), .meaning = "the longest gap of a device" },
	{ "gap_at_ns", NULL, UNIT_NS, OF_SLOW(gap_at_ns),
	  .meaning = "its begin, from the step's begin" },
	{ "clock_sm_mhz", NULL, UNIT_RATIO, OF_SLOW(clock_mhz),
	  .meaning = "mean clock of the multiprocessors" },
	{ "allocation_calls", NULL, UNIT_INT, OF_SLOW(allocation_calls),
	  .meaning = "calls that allocate or free memory of the driver" },
	{ "allocation_ns", NULL, UNIT_NS, OF_SLOW(allocation_ns), .meaning = "time in them" },
	{ "tokens", NULL, UNIT_COUNT, OF_SLOW_ROW(tokens), .meaning = "given by the program" },
};

static const void *slow_steps(const struct field_row *at)
{
	return answer_slow_steps(at->answers);
}

static const struct field_group slow = {
	FIELD_LIST,
	FIELD_SPREAD_OUT,
	FIELDS(slow_fields),
	.items = { ITEMS(struct slow_steps, steps, n) },
	PART("slow_step", "Why a step was slow: it against usual ones."),
};

#define OF_USUAL(member) MEMBER(struct slow_steps, member)

static const struct field usual_fields[] = {
	{ "steps", NULL, UNIT_INT, OF_USUAL(usual), .meaning = "their number" },
	{ "time_ns", NULL, UNIT_NS, OF_USUAL(usual_ns), .meaning = "mean duration" },
	{ "clock_sm_mhz", NULL, UNIT_RATIO, OF_USUAL(usual_clock_mhz),
	  .meaning = "mean clock of the multiprocessors" },
	{ "allocation_ns", NULL, UNIT_NS, OF_USUAL(usual_allocation_ns),
	  .meaning = "mean time in calls that allocate or free memory of the driver" },
	{ "tokens", NULL, UNIT_COUNT, OF_USUAL(usual_tokens), .meaning = "mean number of tokens" },
};

static const struct field_group usual = { FIELD_OBJECT, FIELD_SPREAD_OUT, FIELDS(usual_fields),
					  PART("usual_steps",
					       "The steps that slow ones are held against.") };

#define OF_ALL(member) MEMBER(struct steps, member)

static const struct field total_fields[] = {
	{ "time", .offset = offsetof(struct steps, all), .of = &summary, .absent = no_summary,
	  .meaning = "of every finished step" },
	{ "time_recorded", .offset = offsetof(struct steps, recorded), .of = &summary,
	  .absent = no_summary, .meaning = "of those with recording on" },
	{ "steps", NULL, UNIT_INT, OF_ALL(n), .meaning = "rows" },
	{ "unfinished", NULL, UNIT_INT, OF_ALL(n_unfinished) },
	{ "with_set_up", NULL, UNIT_INT, OF_ALL(n_set_up),
	  .meaning = "first steps that began when the library was loaded: the set-up of the "
		     "program is in their time, which is in no statistic" },
	{ "not_recorded", NULL, UNIT_INT, OF_ALL(n_not_recorded),
	  .meaning = "paused or outside the schedule; only their time is known" },
	{ "outliers", NULL, UNIT_INT, OF_ALL(n_outliers),
	  .meaning = "more than 3 scaled median absolute deviations and 10% above the median" },
	{ "outlier_limit_ns", NULL, UNIT_NS, OF_ALL(outlier_limit_ns), .meaning = "the limit" },
	{ "tokens", NULL, UNIT_COUNT, OF_ALL(tokens), .meaning = "over the steps that gave them" },
	{ "tokens_per_s", NULL, UNIT_COUNT, OF_ALL(tokens_per_s) },
	{ "phases", .offset = offsetof(struct steps, phase_ns), .of = &phases,
	  .absent = no_total_phases, .meaning = "summed over the steps that have some" },
	{ "device_phases", .from = device_phases, .of = &phases, .absent = no_device_phases },
	{ "warmup_policy", NULL, UNIT_TEXT, READ(TEXT, warmup_policy),
	  .meaning = "what is left out as warm-up" },
	{ "warmup_mean_ns", NULL, UNIT_NS, OF_ALL(warmup_mean_ns),
	  .meaning = "mean of the first five steps of each process" },
	{ "warmup_ratio", NULL, UNIT_RATIO, OF_ALL(warmup_ratio),
	  .meaning = "that / median of the rest" },
	{ "source", NULL, UNIT_TEXT, READ(TEXT, total_source),
	  .meaning = "who marked the steps: program, range, device_range or repetition; none: "
		     "there are none" },
	{ "found_by", NULL, UNIT_TEXT, MAY_READ(TEXT, found_by),
	  .meaning = "of steps that were found by repetition (est.): the kernel that begins them" },
	{ "slow", .from = slow_steps, .of = &slow,
	  .meaning = "the slowest outliers, most extra time first" },
	{ "usual", .from = slow_steps, .of = &usual, .meaning = "what they are held against" },
};

const struct field_set steps_total = { FIELDS(total_fields), .meaning = "All steps together." };
