/* SPDX-License-Identifier: Apache-2.0
 *
 * A run with metrics of single launches.
 */
#ifndef TESTS_FAKE_COUNTERS_H
#define TESTS_FAKE_COUNTERS_H

#include "fake_run.h"

/* Three launches of two kernels in two processes: numbers, texts that are the same and texts that
 * differ, an attribute of the device, advice of a rule. */
struct run *fake_counters_run(void);

#endif
