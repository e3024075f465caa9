/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a run for a monitoring system, in the OpenMetrics text format: the totals of every section
 * that the report of the run has, and of rows the fields that are worth following. How many series there are
 * does not depend on the length of the run, and is limited. In base units, as is the custom there: seconds
 * and ratios, not nanoseconds and percent. Any thread.
 */
#ifndef SURFACES_METRICS_H
#define SURFACES_METRICS_H

#include <stdio.h>

#include "base/err.h"
#include "tables/tables.h"

#define METRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* Of one kind that have series; moescope_rows_left_out counts the others. */
#define METRICS_ROWS 4096

/* What a run must be loaded with. */
struct run_want metrics_want(void);
/* With the last line, "# EOF"; run NULL: that alone. 0 or -errno. */
int metrics_print(const struct run *run, FILE *out, struct err *err);

#endif
