/* SPDX-License-Identifier: Apache-2.0
 *
 * How busy the devices were. One row a device of a process: processes number their devices
 * themselves, and see only their own work.
 *
 * busy     length of the union of its kernels, copies and sets
 * window   from the first to the last of them; with chosen steps, from the begin of the first
 *          to the end of the last; of that, only what lies in windows of records (coverage.h)
 * idle     window - busy, each moment with one cause (idle.h)
 * overlap  length of (kernels and copies at once) / length of copies
 * short    gaps of at most TIMELINE_SHORT_GAP_NS: what one launch after the other costs, where
 *          kernels are shorter than the code that launches them
 * long     gaps of at least 1/TIMELINE_LONG_GAPS of the window: what tells start-up and tear-down
 *          from the work between them
 * Untimed records are in none of these.
 */
#ifndef SUBJECTS_TIMELINE_H
#define SUBJECTS_TIMELINE_H

#include "subjects/device/idle.h"
#include "subjects/numbers/intervals.h"
#include "subjects/numbers/value.h"
#include "subjects/shared/lanes.h"
#include "subjects/shared/selection.h"

#define TIMELINE_SHORT_GAP_NS 50000
#define TIMELINE_LONG_GAPS 256

struct timeline_gap {
	int64_t start_ns, end_ns;
	int64_t kernels_before_ns; /* time of kernels before it, in the window */
	bool prepares;		   /* code was loaded or a graph made in it */
};

/* The gap in which a cause took the longest; ns 0: none. */
struct timeline_longest {
	int64_t ns, start_ns, end_ns;
};

struct timeline_device {
	uint16_t shard;
	uint32_t rank, device;
	bool governed;		  /* the process has a governor, and so windows of records */
	int64_t start_ns, end_ns; /* the ends of the window */
	struct span *watched;	  /* what of it was asked for and covered, by time */
	size_t n_watched;
	int64_t window_ns; /* the length of that */
	int64_t idle_by_cause[IDLE_CAUSES];
	/* The host's time in short gaps is the launches' here. */
	struct timeline_longest longest[IDLE_CAUSES];
	int64_t busy_ns, idle_ns, kernel_ns, copy_ns, set_ns, overlap_ns;
	uint64_t short_gaps;
	int64_t short_host_ns; /* of idle_by_cause[IDLE_HOST], what lies in short gaps */
	double busy_pct;
	struct value overlap_pct;
	struct timeline_gap *long_gaps; /* by time; NULL: none */
	size_t n_long_gaps;
};

struct timeline {
	struct timeline_device *devices; /* by process, then device */
	size_t n;
	uint64_t untimed;
};

/* A part of the time of one device. */
struct timeline_window {
	int64_t start_ns, end_ns;
	uint32_t device;
	uint16_t shard;
};

/* Layers and phases of the selection do not apply: a device is busy or not. */
int timeline_analyze(const struct run *run, const struct selection *sel,
		     struct timeline *ret_timeline);
/* With what is there already; of the attribution, calls at least. */
int timeline_analyze_at(const struct attribution *at, const struct device_lanes *lanes,
			const struct selection *sel, struct timeline *ret_timeline);
/* Of these windows alone, those of a device one after the other by time; devices without one are left
 * out. */
int timeline_analyze_in(const struct attribution *at, const struct device_lanes *lanes,
			const struct timeline_window *windows, size_t n,
			struct timeline *ret_timeline);
void timeline_release(struct timeline *timeline);

#endif
