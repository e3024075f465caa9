/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples of a program's allocations on their way into shards: a thread of ours reads the files that
 * libmoescope-heap.so fills in each process of the program (trace/heap_file.h), and names addresses while the
 * process lives. A file has no name any more once it is open.
 */
#ifndef HOST_HEAP_H
#define HOST_HEAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct heap;

/* run: path of the run directory. Where a process has too many samples, it gets fewer. 0 or -errno. */
int heap_start(struct heap **ret_heap, const char *run, struct err *err);

struct heap_end {
	size_t processes; /* that had the library */
	uint64_t samples;
};
/* Ends it, whether or not the processes have ended, and closes the shards. 0, or -errno with the first trouble
 * there was. NULL is fine. */
int heap_stop(struct heap *heap, struct heap_end *ret_end, struct err *err);

#endif
