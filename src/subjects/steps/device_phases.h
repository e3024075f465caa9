/* SPDX-License-Identifier: Apache-2.0
 *
 * The time of the devices in steps, by the phase in which their work was launched: what CUDA events
 * around the phases would show. The host's own phases say little of it, since it runs ahead.
 *
 * Each moment of a step, from its begin to the end of its last work, belongs to the work that runs
 * (of several the one that began first) or, when none runs, to the work that comes next. Looked at are
 * up to DEVICE_PHASE_STEPS steps, evenly spread. Pure, any thread.
 */
#ifndef SUBJECTS_DEVICE_PHASES_H
#define SUBJECTS_DEVICE_PHASES_H

#include "subjects/shared/coverage.h"
#include "subjects/steps/steps.h"

#define DEVICE_PHASE_STEPS 64

struct device_phases {
	const char *reason;	 /* why nothing is known; NULL: it is */
	size_t steps;		 /* looked at */
	int64_t ns[STEP_PHASES]; /* of all devices; [0]: launched outside all phases */
};

int device_phases_analyze(const struct run *run, const struct steps *steps,
			  const struct coverage *coverage, struct device_phases *ret_phases);

#endif
