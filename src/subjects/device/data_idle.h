/* SPDX-License-Identifier: Apache-2.0
 *
 * How long devices had nothing to do while the program was loading data; see device_use.h for what
 * counts. Pure, any thread.
 */
#ifndef SUBJECTS_DATA_IDLE_H
#define SUBJECTS_DATA_IDLE_H

#include "subjects/device/timeline.h"

struct data_idle {
	int64_t ns;
	struct timeline_longest
		longest; /* the range of data in which the device was idle the longest */
};

/* ret_idle: one for each device of the timeline. */
int data_idle_measure(const struct run *run, const struct timeline *timeline,
		      struct data_idle *ret_idle);

#endif
