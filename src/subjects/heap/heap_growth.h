/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether live memory grows steadily. What is looked at is the time of a process between its start-up (the first
 * quarter) and its end (the last twentieth), in which programs take everything down. A stack grows if what it
 * has kept of that time was allocated in all parts of it, if the whole has become more by half of that at
 * least, which a cache that gives up old entries has not, and if it is more than chance. Pure, any thread.
 */
#ifndef SUBJECTS_HEAP_GROWTH_H
#define SUBJECTS_HEAP_GROWTH_H

#include <stdint.h>

#include "subjects/numbers/value.h"

#define GROWTH_PARTS 8

/* The time that is looked at. */
struct growth_window {
	int64_t from_ns, to_ns;
};

/* Of a process with allocations from `first` to `last`; empty if that is too short. */
struct growth_window growth_window(int64_t first_ns, int64_t last_ns);

struct growth {
	double risen; /* live bytes at the end of the window, less those at its begin */
	double kept[GROWTH_PARTS];  /* bytes that were allocated in a part and lived at the end */
	double squares;		    /* of these samples */
	int64_t samples, window_ns; /* how many these are; the longest window */
};

/* A sample: allocated at `time_ns`, or freed then (sign -1) after held_ns. */
void growth_add(struct growth *g, const struct growth_window *window, int64_t time_ns,
		int64_t held_ns, uint64_t bytes, int sign);

/* Bytes that it has grown by; absent: it does not grow. */
struct value growth_of(const struct growth *g);

#endif
