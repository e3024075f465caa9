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

static const struct field fields[] = {
	{ "kernel", NULL, UNIT_TEXT, STRING(kernel), .none = UNNAMED },
	{ "short_name", "kernel", UNIT_TEXT, TEXT(short_name), .flexible = true },
	{ "metric", "metric", UNIT_TEXT, STRING(metric), .none = UNNAMED, .flexible = true },
	{ "unit", "unit", UNIT_TEXT, STRING(unit), .none = "it has none" },
	{ "launches", "launches", UNIT_INT, OF(launches) },
	{ "mean", "mean", UNIT_COUNT, OF(mean) },
	{ "min", "min", UNIT_COUNT, OF(min) },
	{ "max", "max", UNIT_COUNT, OF(max) },
	{ "text", NULL, UNIT_TEXT, .read = text },
	{ "section", NULL, UNIT_TEXT, STRING(section), .none = "the file has no sections" },
};

const struct field_set counters_fields = {
	FIELDS(fields),
	.rows = { { ITEMS(struct launch_metrics, rows, n) } },
	.levels = 1,
};

#define OF_ALL(member) MEMBER(struct launch_metrics, member)

static const struct field total_fields[] = {
	{ "kernels", NULL, UNIT_INT, OF_ALL(kernels) },
	{ "launches", NULL, UNIT_INT, OF_ALL(launches) },
	{ "values", NULL, UNIT_INT, OF_ALL(values) },
};

const struct field_set counters_total = { FIELDS(total_fields) };
