/* SPDX-License-Identifier: Apache-2.0
 *
 * Splits steps into phases by the ranges that name one; the rule is in steps.h.
 */
#ifndef ANALYZE_STEP_PHASES_H
#define ANALYZE_STEP_PHASES_H

#include "analyze/steps.h"

/* rows: by shard, then start; fills phase_ns and phases_known of the recorded ones. */
int step_phases_fill(const struct run *run, struct step_row *rows, size_t n);

#endif
