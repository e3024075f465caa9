/* SPDX-License-Identifier: Apache-2.0
 *
 * A few stretches of a long run as a run of their own, for analyses that look closely at some
 * steps: they then cost what those steps hold, and not what the run holds. Pure, any thread.
 *
 * Kernels, copies, sets, calls, synchronisations, ranges, operations and samples are kept when they
 * touch a stretch of their process, calls also when they begin up to `calls_before_ns` before it:
 * what launched the first work of a step. Steps are kept when they lie in a stretch. Dictionaries,
 * gears, graph nodes and devices are the run's own, all other kinds are empty.
 */
#ifndef SUBJECTS_RUN_SLICE_H
#define SUBJECTS_RUN_SLICE_H

#include "tables/tables.h"

struct stretch {
	int64_t start_ns, end_ns;
	uint16_t shard;
};

/* stretches: of one process disjoint; in any order. Sorts them. */
int run_slice_init(struct run *slice, const struct run *run, struct stretch *stretches, size_t n,
		   int64_t calls_before_ns);
/* How long before a step its work may have been launched: the time that a full queue of the driver's
 * (1024 launches) takes to fill, at the mean rate of calls. */
int64_t run_slice_calls_before(const struct run *run);
void run_slice_release(struct run *slice);

#endif
