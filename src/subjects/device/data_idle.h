/* SPDX-License-Identifier: Apache-2.0
 *
 * How long devices had nothing to do while the program was loading data; see device_use.h for what
 * counts. Pure, any thread.
 */
#ifndef SUBJECTS_DATA_IDLE_H
#define SUBJECTS_DATA_IDLE_H

#include "subjects/device/timeline.h"

/* ret_idle_ns: one for each device of the timeline. */
int data_idle_measure(const struct run *run, const struct timeline *timeline, int64_t *ret_idle_ns);

#endif
