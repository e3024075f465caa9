/* SPDX-License-Identifier: Apache-2.0
 *
 * Some steps of a run, evenly spread, as a run of their own (run_slice.h): for analyses that look
 * closely and whose result is a mean. Steps count that are finished, recorded and, with device
 * records, wholly covered. Pure, any thread.
 */
#ifndef SUBJECTS_STEP_SAMPLE_H
#define SUBJECTS_STEP_SAMPLE_H

#include "subjects/shared/coverage.h"
#include "subjects/shared/run_slice.h"
#include "subjects/steps/steps.h"

/* Up to `most` steps of all ranks; run_slice_release() it. *ret_n: how many. */
int step_sample_init(struct run *slice, const struct run *run, const struct steps *steps,
		     const struct coverage *coverage, size_t most, size_t *ret_n);

#endif
