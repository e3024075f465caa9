/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory over time as rows of live, reserved and peak bytes: the replayed allocations of each
 * device (memory.h), and beside them what PyTorch's allocator said of itself, where the program
 * recorded that as the counters "torch allocated_bytes" and "torch reserved_bytes". A process
 * without allocation records has the counters alone. Pure, any thread.
 */
#ifndef SUBJECTS_MEMORY_HISTORY_H
#define SUBJECTS_MEMORY_HISTORY_H

#include "subjects/memory/memory.h"

struct memory_moment {
	int64_t realtime_ns; /* since 1970 */
	uint32_t rank;
	struct value device; /* -1: the host */
	double allocated_bytes;
	double peak_bytes; /* the most of them so far */
	struct value reserved_bytes;
};

struct memory_history {
	struct memory_moment *rows; /* by process, device, time */
	size_t n, capacity;
};

int memory_history_make(const struct run *run, const struct memory *memory,
			struct memory_history *ret_history);
void memory_history_release(struct memory_history *history);

#endif
