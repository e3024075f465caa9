/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of the program into libraries, for the wrappers of src/calls, which are libraries of their own and know of
 * the probe only this. The names are exported but are no part of moescope.h: both come from one build.
 *
 * Threads: the program's, anywhere, also in signal handlers and with a lock of an allocator held. So nothing here
 * allocates, waits or takes a lock, but for moescope_calls_thread and moescope_calls_function. No state is kept
 * between the begin and the end of a call: it may never end (a cancelled thread, a jump out of a handler).
 *
 * A call that gets no row of its own is counted: no call is lost, whatever the thread.
 */
#ifndef PROBE_CORE_CALLS_H
#define PROBE_CORE_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "moescope.h"

/* Wrapped functions, of all libraries together. */
#define CALLS_FUNCTIONS 192
/* A function that found no place: its calls are not recorded. */
#define CALLS_NO_FUNCTION UINT32_MAX

/* What a call into a library of the device was about; see records.h. */
struct call_sizes {
	moescope_name type;
	uint64_t m, n, k, batch;
	uint64_t elements;
	int32_t peer;
	uint64_t communicator;
	uint32_t status;
};

/* When a library of wrappers is loaded. library NULL: the operating system. */
MOESCOPE_API uint32_t moescope_calls_function(const char *library, const char *name);
/* Whether calls of this thread are the program's, and there is a session. */
MOESCOPE_API bool moescope_calls_on(void);
/* Where this may allocate: gives the thread its buffer, so that its long calls get rows. */
MOESCOPE_API void moescope_calls_thread(void);
/* Likewise: the thread has another name. */
MOESCOPE_API void moescope_calls_renamed(void);
/* The thread's calls are not recorded from here on: it gives up the clock or system calls. */
MOESCOPE_API void moescope_calls_leave(void);
/* The time at which a call begins; 0: it is not recorded. */
MOESCOPE_API uint64_t moescope_calls_begin(void);
/* A call into the operating system has ended. bytes: that it has moved, or -1; fd: its descriptor, or -1. */
MOESCOPE_API void moescope_calls_end_os(uint32_t function, uint64_t start, int64_t bytes, int fd);
/* One that was too short to be timed. */
MOESCOPE_API void moescope_calls_count(uint32_t function);
/* A call into a library of the device has ended. */
MOESCOPE_API void moescope_calls_end(uint32_t function, uint64_t start,
				     const struct call_sizes *sizes);

/* ---- for the drain */

struct encoder;
struct tick_map;
/* A session starts: what was counted before does not belong to it. */
void calls_open(const struct tick_map *map);
/* Appends what was counted since it was last told; at most once a second, but for the last time. */
int calls_append(const struct tick_map *map, struct encoder *encoder, bool last);
/* What was appended is written. */
void calls_told(void);

#endif
