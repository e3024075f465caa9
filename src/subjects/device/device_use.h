/* SPDX-License-Identifier: Apache-2.0
 *
 * How the devices spent the time of the steps, for the rules: what of it can be won back.
 *
 * The window is the steady part of the run (steady.h): from the first usual step to the last one, so
 * that loading a model is not taken for starvation; without steps, of the window of timeline.h. With
 * chosen steps it is all of them. Only what records cover counts, less what attaching and detaching
 * hide. Several devices are added up: shares are means over them.
 *
 * data_idle   time in which a device had nothing to do while a thread that launches work was in a
 *             range of phase data. A thread launches work when it made at least a tenth of the
 *             calls of its process.
 * The idle time of the host is told apart without overlap: launches (the cause launch, and short
 * gaps of the cause host), then data, then synchronisation and the rest of the host.
 */
#ifndef SUBJECTS_DEVICE_USE_H
#define SUBJECTS_DEVICE_USE_H

#include "subjects/device/timeline.h"

struct device_clock {
	uint64_t samples; /* with a clock, in the window, the device not idle */
	double mean_mhz;
	double max_mhz; /* what the device can do; the largest sample where it does not tell */
	/* Of the samples with reasons: held down by the power limit, by temperature, by either. */
	struct value power_pct, thermal_pct, limited_pct;
};

struct device_use {
	size_t devices; /* 0: nothing is known */
	bool of_steps;	/* the window is that of the steps */
	bool cut;	/* without steps: the window is not all of the time */
	bool no_steady; /* next to nothing is left of it without start-up and end */
	double window_ns, busy_ns, kernel_ns;
	double launch_ns, host_ns, data_ns, sync_ns; /* idle, disjoint */
	double copy_wait_ns;			     /* idle, waiting on a copy */
	double queued_ns, unknown_ns; /* idle: launched and not begun; not known why */
	double copy_alone_ns;	      /* busy with copies only */
	uint64_t short_gaps;
	/* What was left out: start-up and end (of all windows), and preparing of code between them. */
	double aside_ns, prepare_ns;
	double step_ns;	       /* mean of the steps in the window; 0: none */
	size_t starting_steps; /* left out */
	size_t others;	       /* processes that used the devices, too, by the driver's list */
	/* Copies in the window. */
	uint64_t copies, small_copies, copy_bytes;
	int64_t copy_ns, pageable_ns;
	/* Where each cause of idleness, a wait for data and a copy took the longest; end_ns 0: nowhere. */
	struct span longest_idle[IDLE_CAUSES], longest_data, longest_copy;
	struct device_clock clock;
	struct value dram_pct, tensor_pct; /* means of the samples in the window */
};

/* timeline: of the whole run or of the selection; of the attribution, calls at least. */
int device_use_analyze(const struct attribution *at, const struct device_lanes *lanes,
		       const struct selection *sel, const struct timeline *timeline,
		       struct device_use *ret_use);

#endif
