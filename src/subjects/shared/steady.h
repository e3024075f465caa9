/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of a run that verdicts are about: the work, without starting up and ending.
 *
 * steps    of a process, from the first steady one to the last. The steps before it are longer than
 *          STEADY_RATIO medians, one and all, and longer than nine in ten of the later ones: they
 *          load, compile and fill caches
 * devices  without steps: the window of timeline.h, cut at long gaps. What lies before (after) a gap
 *          goes when it has at most STEADY_KERNELS of the time of kernels, and kernels take less than
 *          half of the share of the time that they take in the rest. Less than STEADY_CUT of the
 *          window, or than STEADY_CUT_NS, is not worth cutting: no program starts so fast
 * prepare  what is left of it without steps is also without the long gaps in which code was loaded or
 *          a graph made, up to STEADY_PREPARES of them: more are a habit of the program. In runs that
 *          were recorded from the begin of the program (imports may begin anywhere), also without
 *          those of STEADY_FIRST_NS or more after which the device soon (within STEADY_SOON_NS, and
 *          sooner than the gap is long) ran a kernel that it never ran before: compiling, tuning and
 *          loading are in no call that is recorded. What lies between two such gaps, is shorter than
 *          either and less than half full of kernels goes with them: tuning, a first try
 *
 * When less than STEADY_CUT of the time and less than STEADY_LEFT_NS is left, that is no steady part.
 *
 * Pure, any thread.
 */
#ifndef SUBJECTS_STEADY_H
#define SUBJECTS_STEADY_H

#include "subjects/device/timeline.h"
#include "subjects/shared/selection.h"

#define STEADY_RATIO 1.5
#define STEADY_LATER_PCT 90
#define STEADY_STEPS 4 /* of fewer none is usual */
#define STEADY_KERNELS 0.05
#define STEADY_CUT 0.10
#define STEADY_CUT_NS 50000000
#define STEADY_PREPARES 8
#define STEADY_LEFT_NS 10000000
#define STEADY_FIRST_NS 2000000
#define STEADY_SOON_NS 20000000

/* ret_starting: for each row of run->step. Unfinished steps and those outside the selection are not
 * looked at. */
int steady_steps(const struct run *run, const struct selection *sel, bool *ret_starting);
/* The steady part of a device's window without steps, by time. windows: room for one more than it has
 * long gaps. */
int steady_windows(const struct run *run, const struct timeline_device *d,
		   struct timeline_window *windows, size_t *ret_n);

#endif
