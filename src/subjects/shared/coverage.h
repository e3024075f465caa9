/* SPDX-License-Identifier: Apache-2.0
 *
 * For how much of a run device records were collected. The governor of a process says so in its
 * gear records; a process without them that has device records was covered wholly.
 *
 * watched   from a process's first gear other than none to its end, or to a last gear none: before
 *           it the process had no device to watch
 * window    a longest stretch of time in which records were collected
 * coverage  length of the windows / watched time, over all processes that have either
 * covered   a finished step that lies wholly inside a window
 * sampled   something of the watched time was not collected: counts and sums are then those of
 *           the windows, and are never scaled up
 *
 * Pure, any thread. Gear records are few: one a change.
 */
#ifndef SUBJECTS_COVERAGE_H
#define SUBJECTS_COVERAGE_H

#include "subjects/numbers/intervals.h"
#include "subjects/numbers/value.h"
#include "tables/tables.h"

enum gear { GEAR_NONE, GEAR_COUNTS, GEAR_WINDOWS, GEAR_ALWAYS, GEAR_YIELDED };

const char *gear_name(unsigned int gear); /* "none" "counts" …; "?" */

struct level_change {
	int64_t time_ns;
	uint32_t why; /* string id */
	uint16_t shard;
	uint8_t gear;
	bool attached;
	bool gear_changed; /* else records were only switched on or off within the gear */
	struct value cost_pct;
};

/* Another client of the device's activity records had them. */
struct yielded {
	int64_t start_ns, end_ns;
	uint32_t why;
	uint16_t shard;
};

struct coverage {
	struct span *windows; /* merged; the lane is the process, device and group are 0 */
	size_t n_windows;
	struct span *watched; /* likewise, one a process */
	size_t n_watched;
	int64_t covered_ns, watched_ns;
	bool sampled;
	struct value coverage_pct;
	size_t steps_covered, steps;  /* of the watched processes */
	struct level_change *changes; /* by process, then time */
	size_t n_changes;
	struct yielded *yields; /* likewise */
	size_t n_yields;
	/* Cost while collecting, by the governor's own measurement, times the share of the time
	 * in which it was collecting. */
	struct value governed_pct;
	struct value device_bytes; /* the most device memory that collecting has taken */
};

int coverage_analyze(const struct run *run, struct coverage *ret_coverage);
void coverage_release(struct coverage *coverage);

/* The window of the process that holds all of [start, end]; NULL: none does. */
const struct span *coverage_window(const struct coverage *coverage, uint16_t shard,
				   int64_t start_ns, int64_t end_ns);
/* Row `step` of run->step is finished and nothing of it was missed: it lies in a window, or its
 * process had no device to watch. */
bool coverage_has_step(const struct coverage *coverage, const struct run *run, size_t step);

#endif
