/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a device was idle. Each moment of a gap in its work has one cause. With `begin` the begin of
 * the call that launched the work which ends the gap:
 *
 * before `begin`: nothing was queued
 *   sync      a thread of the process was in a synchronisation when the gap began: the host waited
 *             for the device, and was then late with the next launch. A blocking copy of less than
 *             TRANSFER_SMALL_BYTES is one: its wait is for the work before it, not for the bytes
 *   copy      inside a blocking copy call, or while a copy from or to this device ran on another
 *             one's engine
 *   host      else: the host was busy with its own code
 * from `begin` on:
 *   copy      as above
 *   launch    begun in the gap or at most IDLE_LAUNCH_NS before it: what a launch takes
 *   queued    begun longer before: it was queued, and the device had not begun it (dependencies,
 *             nodes of a graph, switching from one kernel to the next)
 * in any gap:
 *   profiler  at the edge of a window of records, before the first and after the last call that was
 *             recorded in it: attaching and detaching hides what was going on
 *   unknown   no call of the process, or not the launch of the work that ends the gap, was recorded
 *
 * A gap after which no work comes (in chosen steps, or at the end of a window) has its end as
 * `begin`. Calls do not say their device, so that those of all threads of the process count. Waits
 * for a collective cannot be told apart: while it waits, its kernel runs. Pure, any thread; n log n.
 */
#ifndef SUBJECTS_IDLE_H
#define SUBJECTS_IDLE_H

#include "subjects/numbers/intervals.h"
#include "subjects/shared/attribution.h"

#define IDLE_LAUNCH_NS 10000

enum idle_cause {
	IDLE_HOST,
	IDLE_LAUNCH,
	IDLE_SYNC,
	IDLE_COPY,
	IDLE_QUEUED,
	IDLE_PROFILER,
	IDLE_UNKNOWN,
	IDLE_CAUSES
};

const char *idle_cause_name(enum idle_cause cause);

struct coverage;

/* What the host and other devices were doing. */
struct idle_index {
	const struct run *run;
	/* Merged: synchronisations, blocking copies, copies of other devices, preparing of code. */
	struct span *host;
	size_t n_host;
	bool *has_calls; /* of each process */
	/* Of each window of records: begin of the first and end of the last call in it. */
	const struct coverage *coverage;
	struct idle_edge *edges;
};

/* Run and coverage must outlive the index; of the attribution only the calls of copies are used. */
int idle_index_init(struct idle_index *index, const struct attribution *at,
		    const struct coverage *coverage);
void idle_index_release(struct idle_index *index);

/* A part of the index, and where it was looked at last. */
struct idle_lane {
	const struct span *spans;
	size_t n, hint;
};
/* One device, whose gaps come in the order of time. */
struct idle_device {
	const struct idle_index *index;
	uint16_t shard;
	struct idle_lane sync, copy, peer, prepare;
};
struct idle_device idle_device(const struct idle_index *index, uint16_t shard, uint32_t device);

struct idle_gap {
	int64_t start_ns, end_ns;
	bool edge_before, edge_after; /* records begin or end here */
	bool has_next;		      /* work ends it */
	uint32_t call;		      /* that launched that work, or NO_CALL32 */
};

/* Adds the gap's time to causes[IDLE_CAUSES]. */
void idle_account(struct idle_device *device, const struct idle_gap *gap, int64_t *causes);
/* A call in the gap loaded code, or made a graph: what comes before the first launch of something
 * new, not between launches. */
bool idle_prepares(struct idle_device *device, const struct idle_gap *gap);

#endif
