/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a step was slow: the slowest outliers (steps.h), each against usual steps. Pure, any thread.
 *
 * usual    up to SLOW_USUAL finished, recorded steps that are no outliers, nearest to the median;
 *          where there are device records, such that these cover them wholly
 * extra    time of the step less the mean time of the usual ones
 * device   the extra time by what the device did: kernels, copies without kernels beside them, idle
 *          by cause (idle.h); each is the step's less the mean of the usual ones. They add up to the
 *          extra time. Several devices of the process: means over them.
 * phases   the extra time by phase (steps.h), likewise; what is in no phase is "other"
 *
 * Of a long run only these steps are looked at.
 */
#ifndef SUBJECTS_SLOW_STEPS_H
#define SUBJECTS_SLOW_STEPS_H

#include "subjects/device/idle.h"
#include "subjects/shared/coverage.h"
#include "subjects/steps/steps.h"

#define SLOW_STEPS 10
#define SLOW_USUAL 16
#define SLOW_KERNELS 3
#define SLOW_DEVICE_PARTS (2 + IDLE_CAUSES)

/* One part of the extra time; below zero: it was shorter than usual. */
struct slow_part {
	const char *name; /* static */
	double extra_ns;
};

struct slow_kernel {
	char *name; /* owned, short */
	double extra_ns;
};

struct slow_step {
	size_t row; /* into steps.rows */
	double extra_ns;
	struct value device_known, phases_known;			 /* v: 1 */
	struct slow_part device[SLOW_DEVICE_PARTS], phases[STEP_PHASES]; /* largest first */
	size_t n_device, n_phases;
	struct slow_kernel kernels[SLOW_KERNELS]; /* that grew most */
	size_t n_kernels;
	struct value gap_ns, gap_at_ns; /* the longest gap of a device, from the step's begin */
	struct value clock_mhz;		/* mean SM clock in the step */
	struct value allocation_ns;	/* in calls that allocate or free memory of the driver */
	uint64_t allocation_calls;
};

struct slow_steps {
	struct slow_step *steps; /* by extra time, largest first */
	size_t n;
	size_t outliers; /* of which these are the slowest */
	size_t usual;	 /* steps they are compared with */
	struct value usual_ns, usual_clock_mhz, usual_tokens, usual_allocation_ns;
};

int slow_steps_analyze(const struct run *run, const struct steps *steps,
		       const struct coverage *coverage, struct slow_steps *ret_slow);
void slow_steps_release(struct slow_steps *slow);

#endif
