/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges that may end on a different thread than they began on: open ones are in a table of fixed
 * size, finished ones are records in the ring of the thread that ended them.
 *
 * Threads: any of the program's, concurrently. No lock: a slot belongs to whoever has exchanged its
 * id. A kill loses open spans, not finished ones.
 */
#ifndef PROBE_CORE_SPANS_H
#define PROBE_CORE_SPANS_H

#include <stdint.h>

#define SPANS_OPEN 4095 /* at once; more are counted as dropped */

/* Begins a span at start_ticks. Returns its id, never 0. */
uint64_t span_start(uint32_t name, uint32_t domain, uint64_t start_ticks);
/* An id for a span that is not recorded. */
uint64_t span_unrecorded(void);
/* Records the span, even if recording has been paused since it began. */
void span_end(uint64_t id);

/* Before the session's last flush, without its lock: writes the open spans as unfinished. Returns
 * their number. */
uint32_t spans_finish(void);
/* In a forked child: the open spans are the parent's. */
void spans_after_fork(void);

#endif
