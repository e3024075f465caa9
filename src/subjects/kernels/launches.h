/* SPDX-License-Identifier: Apache-2.0
 *
 * What launching the kernels cost, by kernel name. Over the timed kernels whose launch call was
 * recorded:
 *
 * latency   device start - call start, of the first kernel of each call: the others of a graph
 *           wait for it, not for the host
 * overhead  duration of the call, shared equally by the kernels that it launched
 * bound     kernels whose overhead is longer than their time on the device
 *
 * Pure, any thread; n log n. Apart from kernels.h, because it looks up the call of every kernel.
 */
#ifndef SUBJECTS_LAUNCHES_H
#define SUBJECTS_LAUNCHES_H

#include "subjects/numbers/value.h"
#include "subjects/shared/selection.h"

struct launch_row {
	uint32_t name;			      /* string id of the kernel */
	uint64_t count;			      /* timed kernels with their call */
	uint64_t bound;			      /* of them */
	uint64_t calls;			      /* whose first kernel is one of them */
	double call_ns;			      /* sum of their overheads */
	int64_t time_ns;		      /* sum of their device times */
	struct value latency_ns, overhead_ns; /* medians */
};

struct launches {
	struct launch_row *rows; /* by name id, ascending */
	size_t n;
	uint64_t count, bound, calls;
	uint64_t without_call; /* timed kernels that are in none of the rows */
	double call_ns;
	int64_t time_ns;
	struct value latency_ns, overhead_ns; /* medians over all */
	struct value bound_pct;		      /* 100 * bound / count */
};

struct attribution;
/* With what is there already. */
int launches_analyze_at(const struct attribution *at, const struct selection *sel,
			struct launches *ret_launches);
int launches_analyze(const struct run *run, const struct selection *sel,
		     struct launches *ret_launches);
/* What stands for them where they were not asked for. */
struct launches launches_absent(const char *reason);
void launches_release(struct launches *launches);
/* The row of a kernel name; NULL: none of its kernels counts. */
const struct launch_row *launches_find(const struct launches *launches, uint32_t name);

#endif
