/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of an experiment's folder. docs/experiments.md describes them.
 */
#ifndef LAB_RESULTS_H
#define LAB_RESULTS_H

#include "base/text/json_write.h"
#include "lab/point.h"

/* Removes leftovers of an earlier attempt. */
int results_clear(const struct point *point, struct err *err);
/* command.sh: what is started, for starting it again by hand. */
int results_command(const struct point *point, const struct argv *argv,
		    const struct texts *environment, struct err *err);
/* All others; summary.json comes last, so a folder that has one is complete. */
int results_write(struct point *point, struct err *err);
/* summary.json */
int results_summary(const struct point *point, struct json *json);
/* Every parameter with its value, as in summary.json; omits a server's key. */
void results_config(const struct experiment *experiment, struct json *json);
/* The trace's tables and its memory peak. Failures are noted; the trace is still there. */
void results_trace(struct point *point);

#endif
