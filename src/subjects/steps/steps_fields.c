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
	{ "start_ns", "start", UNIT_NS, MEMBER_AS(FIELD_TIME, struct step_row, start_ns) },
	{ "time_ns", "time", UNIT_NS, OF(duration_ns) },
	PHASE("forward_ns", "forward", MOESCOPE_FORWARD),
	PHASE("backward_ns", "backward", MOESCOPE_BACKWARD),
	PHASE("optimizer_ns", "optim.", MOESCOPE_OPTIMIZER),
	PHASE("data_ns", "data", MOESCOPE_DATA),
	{ "stage", "stage", UNIT_TEXT, .read = stage, .titled = STEPS_OF_ENGINE, .optional = true },
	{ "batch", "batch", UNIT_INT, OF(batch), .titled = STEPS_OF_ENGINE, .optional = true,
	  .none = NOT_NAMED },
	{ "tokens", "tokens", UNIT_COUNT, OF(tokens), .titled = STEPS_OF_ENGINE },
	{ "tokens_per_s", "tokens/s", UNIT_COUNT, OF(tokens_per_s) },
	{ "recorded", NULL, UNIT_INT, OF(recorded) },
	{ "unfinished", NULL, UNIT_INT, OF(unfinished) },
	{ "outlier", NULL, UNIT_INT, OF(outlier) },
	{ "source", NULL, UNIT_TEXT, .read = source },
	{ "probe", NULL, UNIT_INT, OF(probe) },
	{ "device_covered", NULL, UNIT_INT, .read = device_covered },
	{ "phases", .offset = offsetof(struct step_row, phase_ns), .of = &phases,
	  .absent = no_row_phases },
};
/* clang-format on */

const struct field_set steps_fields = {
	FIELDS(fields),
	.rows = { { ITEMS(struct steps, rows, n) } },
	.levels = 1,
};

#define OF_SUMMARY(member) MEMBER(struct stats_summary, member)

static const struct field summary_fields[] = {
	{ "count", NULL, UNIT_INT, OF_SUMMARY(n) },
	{ "mean_ns", NULL, UNIT_NS, OF_SUMMARY(mean) },
	{ "p50_ns", NULL, UNIT_NS, OF_SUMMARY(p50) },
	{ "p95_ns", NULL, UNIT_NS, OF_SUMMARY(p95) },
	{ "p99_ns", NULL, UNIT_NS, OF_SUMMARY(p99) },
	{ "min_ns", NULL, UNIT_NS, OF_SUMMARY(min) },
	{ "max_ns", NULL, UNIT_NS, OF_SUMMARY(max) },
	{ "cv", NULL, UNIT_RATIO, OF_SUMMARY(cv) },
};

static const struct field_group summary = { FIELD_OBJECT, FIELD_ON_ONE_LINE,
					    FIELDS(summary_fields) };

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
	{ "name", NULL, UNIT_TEXT, MEMBER(struct slow_part, name) },
	{ "extra_ns", NULL, UNIT_NS, MEMBER(struct slow_part, extra_ns) },
};

static const struct field slow_kernel_fields[] = {
	{ "name", NULL, UNIT_TEXT, MEMBER(struct slow_kernel, name) },
	{ "extra_ns", NULL, UNIT_NS, MEMBER(struct slow_kernel, extra_ns) },
};

static const struct field_group slow_device = {
	FIELD_LIST,
	FIELD_ON_ONE_LINE,
	FIELDS(slow_part_fields),
	.items = { ITEMS_INSIDE(struct slow_step, device, n_device) },
};

static const struct field_group slow_phases = {
	FIELD_LIST,
	FIELD_ON_ONE_LINE,
	FIELDS(slow_part_fields),
	.items = { ITEMS_INSIDE(struct slow_step, phases, n_phases) },
};

static const struct field_group slow_kernels = {
	FIELD_LIST,
	FIELD_ON_ONE_LINE,
	FIELDS(slow_kernel_fields),
	.items = { ITEMS_INSIDE(struct slow_step, kernels, n_kernels) },
};

static const struct field slow_fields[] = {
	{ "step", NULL, UNIT_INT, OF_SLOW_ROW(step) },
	{ "rank", NULL, UNIT_INT, OF_SLOW_ROW(rank) },
	{ "time_ns", NULL, UNIT_NS, OF_SLOW_ROW(duration_ns) },
	{ "extra_ns", NULL, UNIT_NS, OF_SLOW(extra_ns) },
	{ "device", .of = &slow_device, .absent = no_slow_device },
	{ "kernels", .of = &slow_kernels },
	{ "phases", .of = &slow_phases, .absent = no_slow_phases },
	{ "gap_ns", NULL, UNIT_NS, OF_SLOW(gap_ns) },
	{ "gap_at_ns", NULL, UNIT_NS, OF_SLOW(gap_at_ns) },
	{ "clock_sm_mhz", NULL, UNIT_RATIO, OF_SLOW(clock_mhz) },
	{ "allocation_calls", NULL, UNIT_INT, OF_SLOW(allocation_calls) },
	{ "allocation_ns", NULL, UNIT_NS, OF_SLOW(allocation_ns) },
	{ "tokens", NULL, UNIT_COUNT, OF_SLOW_ROW(tokens) },
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
};

#define OF_USUAL(member) MEMBER(struct slow_steps, member)

static const struct field usual_fields[] = {
	{ "steps", NULL, UNIT_INT, OF_USUAL(usual) },
	{ "time_ns", NULL, UNIT_NS, OF_USUAL(usual_ns) },
	{ "clock_sm_mhz", NULL, UNIT_RATIO, OF_USUAL(usual_clock_mhz) },
	{ "allocation_ns", NULL, UNIT_NS, OF_USUAL(usual_allocation_ns) },
	{ "tokens", NULL, UNIT_COUNT, OF_USUAL(usual_tokens) },
};

static const struct field_group usual = { FIELD_OBJECT, FIELD_SPREAD_OUT, FIELDS(usual_fields) };

#define OF_ALL(member) MEMBER(struct steps, member)

static const struct field total_fields[] = {
	{ "time", .offset = offsetof(struct steps, all), .of = &summary, .absent = no_summary },
	{ "time_recorded", .offset = offsetof(struct steps, recorded), .of = &summary,
	  .absent = no_summary },
	{ "steps", NULL, UNIT_INT, OF_ALL(n) },
	{ "unfinished", NULL, UNIT_INT, OF_ALL(n_unfinished) },
	{ "with_set_up", NULL, UNIT_INT, OF_ALL(n_set_up) },
	{ "not_recorded", NULL, UNIT_INT, OF_ALL(n_not_recorded) },
	{ "outliers", NULL, UNIT_INT, OF_ALL(n_outliers) },
	{ "outlier_limit_ns", NULL, UNIT_NS, OF_ALL(outlier_limit_ns) },
	{ "tokens", NULL, UNIT_COUNT, OF_ALL(tokens) },
	{ "tokens_per_s", NULL, UNIT_COUNT, OF_ALL(tokens_per_s) },
	{ "phases", .offset = offsetof(struct steps, phase_ns), .of = &phases,
	  .absent = no_total_phases },
	{ "device_phases", .from = device_phases, .of = &phases, .absent = no_device_phases },
	{ "warmup_policy", NULL, UNIT_TEXT, .read = warmup_policy },
	{ "warmup_mean_ns", NULL, UNIT_NS, OF_ALL(warmup_mean_ns) },
	{ "warmup_ratio", NULL, UNIT_RATIO, OF_ALL(warmup_ratio) },
	{ "source", NULL, UNIT_TEXT, .read = total_source },
	{ "found_by", NULL, UNIT_TEXT, .read = found_by },
	{ "slow", .from = slow_steps, .of = &slow },
	{ "usual", .from = slow_steps, .of = &usual },
};

const struct field_set steps_total = { FIELDS(total_fields) };
