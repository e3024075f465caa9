/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of the metrics that a kernel profiler measured; see fields.h.
 */
#include "subjects/counters/launch_metrics.h"

#include "subjects/shared/fields.h"

#define OF(member) MEMBER(struct launch_metric_row, member)
#define TEXT(member) MEMBER_AS(FIELD_TEXT_INSIDE, struct launch_metric_row, member)
#define STRING(member) MEMBER_AS(FIELD_STRING, struct launch_metric_row, member)

#define UNNAMED "the file does not name it"

static struct cell text(const struct field_row *at)
{
	const struct launch_metric_row *row = at->item;

	return row->text ? cell_text(run_string(at->run, row->text)) : cell_absent(row->no_text);
}

static struct cell kernel_name(const struct field_row *at)
{
	const struct launch_metric_row *row = at->item;

	return row->kernel ? cell_text(row->name) : cell_absent(UNNAMED);
}

static struct cell doubt(const struct field_row *at)
{
	const struct launch_metric_row *row = at->item;

	return row->doubt[0] ? cell_text(row->doubt) : cell_absent(row->no_doubt);
}

static const struct field fields[] = {
	{ "kernel", NULL, UNIT_TEXT, MAY_READ(TEXT, kernel_name),
	  .meaning = "name of the kernel, demangled" },
	{ "short_name", "kernel", UNIT_TEXT, TEXT(short_name), .flexible = true,
	  .meaning = "its function alone, cut to 24 characters" },
	{ "metric", "metric", UNIT_TEXT, STRING(metric), .none = UNNAMED, .flexible = true,
	  .meaning = "name of the metric; 'rule NAME': advice of Nsight Compute" },
	{ "unit", "unit", UNIT_TEXT, STRING(unit), .none = "it has none",
	  .meaning = "of mean, min and max; of a rule its kind" },
	{ "launches", "launches", UNIT_INT, OF(launches), .meaning = "that have a value" },
	{ "mean", "mean", UNIT_COUNT, OF(mean),
	  .meaning = "over the launches with a numeric value" },
	{ "min", "min", UNIT_COUNT, OF(min) },
	{ "max", "max", UNIT_COUNT, OF(max) },
	{ "text", NULL, UNIT_TEXT, MAY_READ(TEXT, text),
	  .meaning = "a value that is not a number, when all launches have the same" },
	{ "section", NULL, UNIT_TEXT, STRING(section), .none = "it has none",
	  .meaning =
		  "of Nsight Compute's details page; of run --replay in how many passes it was counted" },
	{ "doubt", NULL, UNIT_TEXT, MAY_READ(TEXT, doubt),
	  .meaning = "what says that the passes of replayed launches do not fit together" },
};

const struct field_set counters_fields = {
	FIELDS(fields),
	.rows = { { ITEMS(struct launch_metrics, rows, n) } },
	.levels = 1,
	.meaning = "metric of a kernel, over its launches",
};

#define OF_ALL(member) MEMBER(struct launch_metrics, member)

static const struct field total_fields[] = {
	{ "kernels", NULL, UNIT_INT, OF_ALL(kernels), .meaning = "names of kernels" },
	{ "launches", NULL, UNIT_INT, OF_ALL(launches), .meaning = "launches that were profiled" },
	{ "values", NULL, UNIT_INT, OF_ALL(values), .meaning = "figures of single launches" },
};

const struct field_set counters_total = { FIELDS(total_fields) };
