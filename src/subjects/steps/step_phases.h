/* SPDX-License-Identifier: Apache-2.0
 *
 * Splits steps into phases by the ranges that name one; the rule is in steps.h.
 */
#ifndef SUBJECTS_STEP_PHASES_H
#define SUBJECTS_STEP_PHASES_H

#include "subjects/steps/steps.h"

/* rows: by shard, then start; fills phase_ns and phases_known of the recorded ones. */
int step_phases_fill(const struct run *run, struct step_row *rows, size_t n);

#endif
