/* SPDX-License-Identifier: Apache-2.0
 *
 * What `run --counters SET|METRIC,...` counts of each kernel, decided before the program starts.
 */
#ifndef COUNTERS_EXACT_PLAN_H
#define COUNTERS_EXACT_PLAN_H

#include <stdbool.h>

#include "base/err.h"

/* Whether each word is a set or could be a metric; asks no GPU. 0, or -EINVAL with a sentence. */
int exact_plan_check(const char *words, struct err *err);

/* words: names of sets and of metrics, with commas. A line for each group that one pass counts, "group A,B,C", and one for
 * what a launch of them takes, "in a row 1.20 ms"; with replay also for groups that need several passes, with their number,
 * "group 19 D,E"; and one for each metric that is left out, "left out NAME: " and why. 0, or -errno with a sentence, when a
 * word is neither or nothing is left. */
int exact_plan_print(const char *chip_name, const char *words, bool replay, struct err *err);

#endif
