/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters of single launches and samples of their instructions, for the library that takes them (src/exact), which is
 * one of its own and knows of the probe only this. Exported, but no part of moescope.h: both come from one build.
 */
#ifndef PROBE_GPU_LAUNCH_METRICS_H
#define PROBE_GPU_LAUNCH_METRICS_H

#include <stddef.h>

#include "moescope.h"
#include "trace/records.h"

/* On the thread that launches, before it does: records that it is about to. Also if nothing will be recorded of it then:
 * a thread that comes later gets no buffer if recording is paused. */
MOESCOPE_API void moescope_launch_begins(const struct row_launch *launch, uint32_t profile);
/* Records rows of one launch; their field `launch` is set here. One caller at a time. Waits for the drain if the ring is
 * full. */
MOESCOPE_API void moescope_launch_metrics(const struct row_launch *launch, struct row_metric *rows,
					  size_t n);
/* How far counting is, for whoever looks at the buffer file from outside: a few stores. One caller at a time. */
MOESCOPE_API void moescope_launches_counted(uint64_t counted, uint64_t wanted, uint32_t groups_seen,
					    uint32_t groups);
/* Records rows of samples, unless recording is paused. Any thread. */
MOESCOPE_API void moescope_pc_samples(const struct row_pc_sample *rows, size_t n);
/* Runs the function on a thread of ours, which no signal of the program reaches. 0 or -errno. One at a time. */
MOESCOPE_API int moescope_own_thread(void (*function)(void));

#endif
