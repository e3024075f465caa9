/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of steps; see steps_fields.h.
 */
#include "subjects/steps/steps_fields.h"

#include "moescope.h"
#include "subjects/findings.h"

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
	const struct coverage *coverage = &at->f->coverage;
	const struct step_row *row = at->item;

	return coverage->watched_ns > 0 ? cell_bool(coverage_has_step(coverage, at->run, row->row))
					: cell_value(coverage->coverage_pct);
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
};
/* clang-format on */

const struct field_set steps_fields = {
	FIELDS(fields),
	.rows = { { ITEMS(struct steps, rows, n) } },
	.levels = 1,
};
