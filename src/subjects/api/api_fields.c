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
	{ "name", "call", UNIT_TEXT, READ(TEXT, name), .flexible = true,
	  .meaning = "of the function" },
	{ "library", NULL, UNIT_TEXT, READ(TEXT, library), .meaning = "runtime or driver" },
	{ "count", "count", UNIT_INT, OF(count), .meaning = "calls" },
	{ "time_ns", "time", UNIT_NS, OF(time_ns), .meaning = "thread time", .metric = NO_METRIC },
	{ "share_pct", "share", UNIT_PCT, OF(share_pct), .metric = NO_METRIC },
	{ "mean_ns", "mean", UNIT_NS, OF(summary.mean), .metric = NO_METRIC },
	{ "p50_ns", NULL, UNIT_NS, OF(summary.p50), .metric = NO_METRIC },
	{ "p95_ns", NULL, UNIT_NS, OF(summary.p95), .metric = NO_METRIC },
	{ "p99_ns", NULL, UNIT_NS, OF(summary.p99), .metric = NO_METRIC },
	{ "min_ns", NULL, UNIT_NS, OF(summary.min), .metric = NO_METRIC },
	{ "max_ns", "max", UNIT_NS, OF(summary.max), .metric = NO_METRIC },
	{ "errors", "errors", UNIT_INT, OF(errors), .absent = no_status },
	{ "launch_latency_ns", "to device", UNIT_NS, OF(latency_ns) },
	{ "launches", NULL, UNIT_INT, OF(launches), .meaning = "calls that the median is over" },
};

const struct field_set api_fields = {
	FIELDS(fields),
	.rows = { { ITEMS(struct api_calls, rows, n) } },
	.levels = 1,
	.meaning = "call into the CUDA runtime or driver",
};

#define OF_ALL(member) MEMBER(struct api_calls, member)
#define OF_LAUNCHES(member) MEMBER(struct launches, member), .from = api_launches

static const char *no_status_of_all(const struct field_row *at)
{
	return ((const struct api_calls *)at->item)->not_told ? NOT_IN_FILE : NULL;
}

static const void *api_launches(const struct field_row *at)
{
	return answer_launches(at->answers);
}

static const struct field total_fields[] = {
	{ "count", NULL, UNIT_INT, OF_ALL(count), .meaning = "calls", .grows = true },
	{ "names", NULL, UNIT_INT, OF_ALL(n), .meaning = "rows" },
	{ "time_ns", NULL, UNIT_NS, OF_ALL(time_ns), .meaning = "thread time in them",
	  .metric = NO_METRIC, .grows = true },
	{ "errors", NULL, UNIT_INT, OF_ALL(errors), .absent = no_status_of_all, .grows = true },
	{ "launch_latency_ns", NULL, UNIT_NS, OF_ALL(latency_ns) },
	{ "launches", NULL, UNIT_INT, OF_ALL(launches),
	  .meaning = "calls that the median is over" },
	{ "launch_overhead_ns", NULL, UNIT_NS, OF_LAUNCHES(overhead_ns),
	  .meaning = "median duration of a launch call, shared by its kernels" },
	{ "launch_bound_pct", NULL, UNIT_PCT, OF_LAUNCHES(bound_pct) },
};

const struct field_set api_total = { FIELDS(total_fields) };
