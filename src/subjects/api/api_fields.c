/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of calls into the CUDA runtime and driver; see fields.h.
 */
#include "subjects/api/api_calls.h"

#include "subjects/answers/answers.h"
#include "subjects/kernels/launches.h"
#include "subjects/shared/fields.h"

#define OF(member) MEMBER(struct api_row, member)

static struct cell name(const struct field_row *at)
{
	const struct api_row *row = at->item;

	return cell_text(row->name ? run_string(at->run, row->name) : "(no name)");
}

static struct cell library(const struct field_row *at)
{
	return cell_text(((const struct api_row *)at->item)->driver ? "driver" : "runtime");
}

static const char *no_status(const struct field_row *at)
{
	return ((const struct api_row *)at->item)->not_told ? NOT_IN_FILE : NULL;
}

static const struct field fields[] = {
	{ "name", "call", UNIT_TEXT, .read = name, .flexible = true },
	{ "library", NULL, UNIT_TEXT, .read = library },
	{ "count", "count", UNIT_INT, OF(count) },
	{ "time_ns", "time", UNIT_NS, OF(time_ns) },
	{ "share_pct", "share", UNIT_PCT, OF(share_pct) },
	{ "mean_ns", "mean", UNIT_NS, OF(summary.mean) },
	{ "p50_ns", NULL, UNIT_NS, OF(summary.p50) },
	{ "p95_ns", NULL, UNIT_NS, OF(summary.p95) },
	{ "p99_ns", NULL, UNIT_NS, OF(summary.p99) },
	{ "min_ns", NULL, UNIT_NS, OF(summary.min) },
	{ "max_ns", "max", UNIT_NS, OF(summary.max) },
	{ "errors", "errors", UNIT_INT, OF(errors), .absent = no_status },
	{ "launch_latency_ns", "to device", UNIT_NS, OF(latency_ns) },
	{ "launches", NULL, UNIT_INT, OF(launches) },
};

const struct field_set api_fields = {
	FIELDS(fields),
	.rows = { { ITEMS(struct api_calls, rows, n) } },
	.levels = 1,
};

#define OF_ALL(member) MEMBER(struct api_calls, member)
#define OF_LAUNCHES(member) MEMBER(struct launches, member), .from = launches

static const char *no_status_of_all(const struct field_row *at)
{
	return ((const struct api_calls *)at->item)->not_told ? NOT_IN_FILE : NULL;
}

static const void *launches(const struct field_row *at)
{
	return answer_launches(at->answers);
}

static const struct field total_fields[] = {
	{ "count", NULL, UNIT_INT, OF_ALL(count) },
	{ "names", NULL, UNIT_INT, OF_ALL(n) },
	{ "time_ns", NULL, UNIT_NS, OF_ALL(time_ns) },
	{ "errors", NULL, UNIT_INT, OF_ALL(errors), .absent = no_status_of_all },
	{ "launch_latency_ns", NULL, UNIT_NS, OF_ALL(latency_ns) },
	{ "launches", NULL, UNIT_INT, OF_ALL(launches) },
	{ "launch_overhead_ns", NULL, UNIT_NS, OF_LAUNCHES(overhead_ns) },
	{ "launch_bound_pct", NULL, UNIT_PCT, OF_LAUNCHES(bound_pct) },
};

const struct field_set api_total = { FIELDS(total_fields) };
