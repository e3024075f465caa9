/* SPDX-License-Identifier: Apache-2.0
 *
 * What the profiler costs: measured on against off in the same run, and its own CPU time.
 *
 * on against off: steps of the overhead check alternate in blocks on, off, off, on; each
 * neighbouring pair gives a difference, so that slow drift cancels. The estimate is the median
 * difference over the median time of the off steps; the 95% interval is a bootstrap over pairs
 * with a fixed seed. Positive: recording made steps longer.
 *
 * accounts: CPU time that the profiler knows it has spent, over the time of the processes. That of
 * its own thread runs beside the program; that of device records (CUPTI's overhead, translating,
 * holding calls, attaching and detaching) partly in its threads. An account is not a slowdown: it
 * leaves out what it cannot see, such as kernels that take longer, and counts what did not delay
 * anything. Where there is a measurement of on against off, that is the better evidence.
 */
#ifndef SUBJECTS_OVERHEAD_H
#define SUBJECTS_OVERHEAD_H

#include "subjects/numbers/value.h"
#include "tables/tables.h"

#define OVERHEAD_PAIRS_MIN 8

struct overhead {
	size_t pairs;
	struct value measured_pct, low_pct, high_pct; /* on against off, 95% interval */
	struct value off_median_ns, on_median_ns;
	struct value own_cpu_pct; /* CPU time of the profiler's thread over the time of the run */
	struct value own_cpu_ns;
	uint64_t records, bytes;	 /* taken and written, by the profiler's own count */
	struct value device_account_pct; /* of device records: the sum of these, over the time */
	uint64_t cupti_ns, translate_ns, held_ns, switch_ns;
	uint64_t device_kernels, device_calls; /* seen meanwhile */
};

int overhead_analyze(const struct run *run, struct overhead *ret_overhead);

/* Its fields; see overhead_fields.c. */
struct field_set;
extern const struct field_set overhead_fields; /* "overhead" */

#endif
