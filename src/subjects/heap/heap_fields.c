/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of host memory by stack; see fields.h.
 */
#include "subjects/heap/heap_use.h"

#include "subjects/shared/fields.h"

#define OF(member) MEMBER(struct heap_row, member)

static const struct field fields[] = {
	{ "name", "where", UNIT_TEXT, OF(text), .flexible = true,
	  .meaning = "stack that allocated it, innermost function first; or function" },
	{ "samples", NULL, UNIT_INT, OF(samples), .meaning = "allocations that were sampled" },
	{ "live_bytes", "at end", UNIT_BYTES, OF(self.live),
	  .meaning = "allocated and not freed until the end", .metric = NO_METRIC },
	{ "live_pct", NULL, UNIT_PCT, OF(live_pct), .meaning = "of all that lives at the end",
	  .metric = NO_METRIC },
	{ "peak_bytes", "at peak", UNIT_BYTES, OF(self.peak),
	  .meaning = "live when the program had most", .metric = NO_METRIC },
	{ "allocated_bytes", "allocated", UNIT_BYTES, OF(self.allocated),
	  .meaning = "all that was allocated, freed or not", .metric = NO_METRIC },
	{ "allocated_pct", NULL, UNIT_PCT, OF(allocated_pct), .meaning = "of all allocated bytes",
	  .metric = NO_METRIC },
	{ "error_pct", NULL, UNIT_PCT, OF(error_pct),
	  .meaning = "of allocated_bytes, by chance: one standard deviation", .metric = NO_METRIC },
	{ "allocations", NULL, UNIT_COUNT, OF(allocations), .meaning = "how many, an estimate",
	  .metric = NO_METRIC },
	{ "growth_bytes_per_s", "grows per s", UNIT_BYTES, OF(growth),
	  .meaning = "by which its live memory grows all the time", .metric = NO_METRIC },
	{ "grown_bytes", NULL, UNIT_BYTES, OF(grown),
	  .meaning = "by which it has grown, without the start and the end of the program",
	  .metric = NO_METRIC },
	{ "total_live_bytes", NULL, UNIT_BYTES, OF(total.live),
	  .meaning = "live at the end, with what it called", .metric = NO_METRIC },
	{ "total_peak_bytes", NULL, UNIT_BYTES, OF(total.peak),
	  .meaning = "live when the program had most, with what it called", .metric = NO_METRIC },
	{ "total_allocated_bytes", NULL, UNIT_BYTES, OF(total.allocated),
	  .meaning = "allocated, with what it called", .metric = NO_METRIC },
};

const struct field_set heap_fields = {
	FIELDS(fields),
	.rows = { { ITEMS(struct heap_use, rows, n) } },
	.levels = 1,
	.meaning = "stack or function that allocated host memory, by samples",
};

#define OF_ALL(member) MEMBER(struct heap_use, member)

static const struct field total_fields[] = {
	{ "samples", NULL, UNIT_INT, OF_ALL(samples), .meaning = "allocations that were sampled",
	  .grows = true },
	{ "processes", NULL, UNIT_INT, OF_ALL(processes), .meaning = "that were sampled" },
	{ "live_bytes", NULL, UNIT_BYTES, OF_ALL(all.live),
	  .meaning = "allocated and not freed until the end", .metric = NO_METRIC },
	{ "peak_bytes", NULL, UNIT_BYTES, OF_ALL(all.peak), .meaning = "the most that was live",
	  .metric = NO_METRIC },
	{ "peak_ns", NULL, UNIT_NS, MEMBER_AS(FIELD_TIME, struct heap_use, peak_ns),
	  .meaning = "when that was, since the begin of the run", .metric = NO_METRIC },
	{ "allocated_bytes", NULL, UNIT_BYTES, OF_ALL(all.allocated),
	  .meaning = "all that was allocated, freed or not", .metric = NO_METRIC, .grows = true },
};

const struct field_set heap_total = { FIELDS(total_fields) };
